"""The metrics of states or actions by name, for files and for the command line."""

from __future__ import annotations

from typing import Any

from zooming.metrics.finite import Discrete, Graph, Matrix, Points
from zooming.metrics.norms import L1, L2, LInf

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Matrix, Points, Graph, Discrete, L1, L2, LInf)
}
