"""Metrics for `zooming.MetricQ`: distances on the states and on the actions, their product, and covering oracles.

Finite sets: `Graph` (shortest paths), `Strings` (edit distance), `Matrix` (any distances), `Points` (a function of yours),
`Discrete` (all values 1 apart). Boxes: `L1`, `L2`, `LInf`. Both sides together: `Product`, or `Pairs` for a distance that is no
product. Oracles: `Greedy`, `Packing`.
"""

from zooming.metrics.covering import Balls
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
    Side,
    Strings,
)
from zooming.metrics.oracles import Greedy, Oracle, Packing, packing
from zooming.metrics.pairs import Pairs, Product
from zooming.metrics.space import Space

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
    "Packing",
    "Pairs",
    "Points",
    "Product",
    "Side",
    "Space",
    "Strings",
    "Greedy",
    "packing",
]
