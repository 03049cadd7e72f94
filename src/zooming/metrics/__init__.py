"""Metrics for `zooming.MetricQ`: distances of states, actions and pairs, and covering oracles.

Finite sets: `Graph` (shortest paths), `Matrix` (a distance matrix), `Points` (your own function),
`Discrete` (any two values are at distance 1). Boxes: `L1`, `L2`, `LInf`. Pairs of a state and an
action: `Product`, or `Pairs` for a metric that is not a product. Oracles: `Greedy`, `Packing`.
"""

from zooming.metrics.sides import KINDS, L1, L2, Discrete, Graph, LInf, Matrix, Metric, Norm, Points
from zooming.metrics.space import Balls, Greedy, Oracle, Packing, Pairs, Product, Space, packing

__all__ = [
    "KINDS", "Balls", "Discrete", "Graph", "Greedy", "L1", "L2", "LInf", "Matrix", "Metric",
    "Norm", "Oracle", "Packing", "Pairs", "Points", "Product", "Space", "packing",
]  # fmt: skip
