"""The balls of an agent.

`boxes` has the table, `view` the arrays that a user sees, `splits` the split rules, and `cuts` the
planes that plots draw.
"""
