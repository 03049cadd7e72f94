"""The balls of an agent.

`table` is the interface of a ball table. `boxes` and `balls` implement it. `faults` validates boxes
from a file, `view` has the arrays that a user sees, and `cuts` the planes that plots draw.
"""
