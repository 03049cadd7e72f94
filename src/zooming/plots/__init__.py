"""Pictures: each function takes data and a matplotlib Axes (or makes one) and returns the Axes.

One look for all: colors that color-blind readers can tell apart, and a line style or a marker of its own for every agent, so
that a black-and-white print reads the same. The look is set on the Axes; matplotlib's global settings are never touched.
"""

from zooming.plots import rendering
from zooming.plots.balls import balls
from zooming.plots.curves import distance_to_optimum, learning_curves, memory_against_regret, partition_sizes, regret
from zooming.plots.look import COLORS, drawing
from zooming.plots.partitions import partition, partition_over_optimum
from zooming.plots.policies import policy
from zooming.plots.runs import Runs, read_study

__all__ = [
    "partition",
    "partition_over_optimum",
    "balls",
    "policy",
    "learning_curves",
    "distance_to_optimum",
    "regret",
    "partition_sizes",
    "memory_against_regret",
    "Runs",
    "read_study",
    "drawing",
    "COLORS",
    "rendering",
]
