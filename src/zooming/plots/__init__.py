"""Plots of partitions, policies, learning curves and regret, drawn with matplotlib.

Each function takes data and an optional Axes and returns the Axes. All plots share one style:
colors that color-blind readers can tell apart, and one line style or marker per agent, so that
plots stay readable in black and white. The style is set on the Axes. Matplotlib's global settings
do not change.
"""

from zooming.plots.ball_pictures import balls
from zooming.plots.curve_data import Runs
from zooming.plots.curves import distance_to_optimum, learning_curves
from zooming.plots.look import COLORS, drawing
from zooming.plots.partitions import partition
from zooming.plots.policies import policy
from zooming.plots.regrets import memory_against_regret, partition_sizes, regret
from zooming.plots.rule_pictures import rules

__all__ = [
    "partition",
    "balls",
    "policy",
    "rules",
    "learning_curves",
    "distance_to_optimum",
    "regret",
    "partition_sizes",
    "memory_against_regret",
    "Runs",
    "drawing",
    "COLORS",
]
