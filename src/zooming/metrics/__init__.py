"""Metrics for `zooming.MetricQ`: distances on the states and on the actions, their product, and covering oracles.

Finite sets: `Graph` (shortest paths), `Strings` (edit distance), `Matrix` (any distances), `Points` (a function of yours),
`Discrete` (all values 1 apart). Boxes: `L1`, `L2`, `LInf`. Both sides together: `Product`.
"""

from zooming.metrics.covering import Balls, Greedy, Oracle, Space
from zooming.metrics.distances import (
    L1,
    L2,
    Discrete,
    Finite,
    Graph,
    LInf,
    Matrix,
    Metric,
    Norm,
    Points,
    Product,
    Side,
    Strings,
)

__all__ = [
    "Balls",
    "Discrete",
    "Finite",
    "Graph",
    "L1",
    "L2",
    "LInf",
    "Matrix",
    "Metric",
    "Norm",
    "Oracle",
    "Points",
    "Product",
    "Side",
    "Space",
    "Strings",
    "Greedy",
]
