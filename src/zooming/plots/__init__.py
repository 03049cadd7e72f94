"""Plots of partitions, policies, learning curves and regret, drawn with matplotlib.

Each function takes data and an optional Axes `ax`, by default a new one, and returns the Axes.
Curves take `groups`, the runs of each agent by label: histories of several seeds, returns of shape
[n_seeds, n_episodes], or `Runs`. The runs of a single agent need no label. Data that cannot be
drawn raise a ConfigurationError. All plots share one style:
colors that color-blind readers can tell apart, and one line style or marker per agent, so that
plots stay readable in black and white. The style is set on the Axes. Matplotlib's global settings
do not change.
"""

from zooming.plots.curves import Runs, learning_curves, partition_sizes, regret
from zooming.plots.partitions import partition
from zooming.plots.policies import policy
from zooming.plots.style import COLORS, drawing

__all__ = [
    "partition",
    "policy",
    "learning_curves",
    "regret",
    "partition_sizes",
    "Runs",
    "drawing",
    "COLORS",
]
