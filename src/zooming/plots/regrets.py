"""Plot regret and partition sizes of agents, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zooming.agents.training.history import History
from zooming.analysis.regret import Regret, regret_exponent
from zooming.errors import ConfigurationError
from zooming.plots.curve_data import Runs
from zooming.plots.curves import (
    Group,
    as_runs,
    draw_band,
    draw_legend,
    label_groups,
    make_room,
)
from zooming.plots.look import drawing, format_number, set_integer_ticks

SCALES = ("log", "linear")


def regret(
    groups: Mapping[str, Runs | Sequence[Regret]] | Sequence[Regret] | Runs,
    ax: Any = None,
    *,
    expected: bool = False,
    scale: str = "log",
    exponent: bool = True,
    bound: Callable[[int], float] | None = None,
) -> Any:
    """Draw the cumulative regret of each agent: the mean over its seeds, with a 95 % band.

    Regret within the error of the optimum counts as 0.

    Parameters
    ----------
    groups : dict of runs, or runs
        The runs of each agent, by label: `Runs`, or one `Regret` per seed. The runs of a single
        agent need no label.
    expected : bool
        Whether to draw expected regret, from the exact values of policies at checkpoints. By
        default regret is realized: it compares returns with the optimum.
    scale : {"log", "linear"}
        The scale of both axes.
    exponent : bool
        Whether the label shows how fast the regret grows from episode K/10 on. The exponent is
        that of `zooming.regret_exponent` and needs at least two runs.
    bound : function of K, optional
        A regret bound, such as
        `functools.partial(zooming.theory.regret_bound, horizon, dimension=2)`. The legend shows its
        value after all episodes. It is not drawn as a line, which would be far above all others.

    Raises
    ------
    ConfigurationError
        If `scale` is unknown, regrets of one agent differ in length or have fewer than two
        episodes, or `expected` is set and the policies have no exact values.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> runs = Runs.of_returns([[1.0, 2.0, 2.5]], optimum=3.0)
    >>> ax = regret({"A": runs}, Figure().subplots(), bound=lambda n_episodes: 2.0 * n_episodes)
    >>> ax.lines[0].get_ydata().tolist(), ax.get_legend_handles_labels()[1]
    ([2.0, 3.0, 3.5], ['A', 'bound: 6'])
    """
    if scale not in SCALES:
        raise ConfigurationError(f"scale={scale!r}: choose one of {', '.join(SCALES)}")
    named = {
        label: _regrets(group, expected) for label, group in label_groups(groups, Regret).items()
    }
    with drawing(ax) as ax:
        least, lowest, last = math.inf, 0.0, 1
        for i, (label, regrets) in enumerate(named.items()):
            n = len(regrets[0].per_episode)
            even = np.geomspace(1, n, 200) if scale == "log" else np.linspace(1, n, 200)
            k = regrets[0].checkpoints if expected else np.unique(even.astype(np.int64))
            curves = np.array(
                [one.exact_cumulative if expected else one.cumulative[k - 1] for one in regrets]
            )
            mean, last = curves.mean(axis=0), max(last, n)
            draw_band(
                ax,
                k,
                curves,
                _add_growth(label, regrets, not mean.any()) if exponent else label or None,
                i,
            )
            least, lowest = (
                min(least, float(mean[mean > 0].min(initial=math.inf))),
                min(lowest, float(mean.min())),
            )
        if bound is not None:
            ax.plot([], [], linestyle="none", label=f"bound: {format_number(bound(last))}")
        ax.set(xlabel="episodes K", ylabel=f"{'expected' if expected else 'realized'} regret R(K)")
        if scale == "log" and math.isfinite(least):
            ax.set(xscale="log", yscale="log")
            ax.set_ylim(bottom=least / 2)  # noise may make early regret or a band negative
        else:
            ax.set_xlim(0, last)
            if lowest == 0:  # realized regret may be negative if rewards are random
                ax.set_ylim(0, None if math.isfinite(least) else 1)
            ax.yaxis.set_major_formatter("{x:,.0f}")
            set_integer_ticks(ax.xaxis)
        draw_legend(ax, [len(regrets) for regrets in named.values()], "upper left")
        if ax.get_yscale() == "log":
            make_room(ax)
    return ax


def partition_sizes(groups: Mapping[str, Group] | Group, ax: Any = None) -> Any:
    """Draw the number of active balls of each agent, summed over the steps, over the episodes.

    Lines are means over the seeds, bands their 95 % intervals.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import gymnasium as gym, zooming
    >>> history = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", horizon=2), seed=0).learn(3)
    >>> partition_sizes(history, Figure().subplots()).lines[0].get_ydata().tolist()
    [8.0, 8.0, 8.0]
    """
    named = {label: as_runs(group) for label, group in label_groups(groups, History).items()}
    with drawing(ax) as ax:
        for i, (label, runs) in enumerate(named.items()):
            draw_band(ax, runs.episode, runs.n_balls.astype(np.float64), label or None, i)
        set_integer_ticks(ax.xaxis)
        set_integer_ticks(ax.yaxis)
        ax.set_xlim(0, max(int(runs.episode[-1]) for runs in named.values()))
        ax.set_ylim(bottom=0)
        ax.set(xlabel="episode", ylabel="active balls, all steps together")
        draw_legend(ax, [runs.n_seeds for runs in named.values()], "best")
    return ax


def _regrets(group: Runs | Sequence[Regret], expected: bool) -> Sequence[Regret]:
    """Return the regrets of one agent: with exact values if `expected`, without them if not."""
    if isinstance(group, Runs):
        regrets = group.regrets(expected=expected)
    else:
        regrets = list(group) if isinstance(group, Iterable) else [group]
    if not all(isinstance(one, Regret) for one in regrets):
        raise ConfigurationError(
            "a regret needs the optimum: give history.regret(zooming.solve(env)) of each run, or "
            "plots.Runs.of_histories(histories, optimum=...)"
        )
    if not regrets or not all(
        len(one.per_episode) == len(regrets[0].per_episode) > 1 for one in regrets
    ):
        raise ConfigurationError(
            "regrets must hold at least one Regret, and all must have the same number of "
            "episodes, at least two"
        )
    if not expected:
        return [Regret(one.per_episode, error=one.error) for one in regrets]
    if not all(
        len(one.checkpoints) and np.array_equal(one.checkpoints, regrets[0].checkpoints)
        for one in regrets
    ):
        raise ConfigurationError(
            "expected regret needs exact values at the same episodes of every run: learn(..., "
            "checkpoints=...)"
        )
    return regrets


def _add_growth(label: str, regrets: Sequence[Regret], is_zero: bool) -> str | None:
    """Return the label of a curve, with its growth rate if the rate can be estimated."""
    try:
        growth = regret_exponent(regrets)
        rate = f"$K^{{{growth.mean:.2f} \\pm {(growth.high - growth.low) / 2:.2f}}}$"
    except ConfigurationError:  # one run, too few episodes, or a regret of 0 or below
        rate = "0" if is_zero else ""
    if label and rate:
        return f"{label.replace('$', chr(92) + '$')}: {rate}"
    return label or rate or None
