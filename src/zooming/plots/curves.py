"""Plot learning curves and distances to the optimum, one line per agent, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zooming.agents.history import History
from zooming.analysis.optimal import Optimal
from zooming.analysis.regret import best_return, optimum_error
from zooming.errors import ConfigurationError
from zooming.plots.bands import draw_band, draw_legend, draw_level, label_episodes
from zooming.plots.groups import Group, as_runs, bin_returns, check_valued, label_groups
from zooming.plots.look import (
    drawing,
)

N_BINS = 40


def learning_curves(
    groups: Mapping[str, Group] | Group,
    ax: Any = None,
    *,
    optimum: float | Optimal | None = None,
    n_bins: int = N_BINS,
) -> Any:
    """Draw the mean return of each agent over the episodes, with a 95 % band over its seeds.

    Parameters
    ----------
    groups : dict of runs, or runs
        The runs of each agent, by label: histories of several seeds, returns of shape
        [n_seeds, n_episodes], or `Runs`. The runs of a single agent need no label.
    ax : Axes, optional
        The Axes to draw on. By default a new one.
    optimum : float or Optimal, optional
        The optimal return, drawn as a horizontal line. By default that of the first `Runs` that
        has one.
    n_bins : int
        The number of bins of episodes over which returns are averaged.

    Returns
    -------
    Axes

    Raises
    ------
    ConfigurationError
        If there are no runs, `n_bins` is below 1, or runs of one agent differ in length.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> returns = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]  # two seeds, three episodes
    >>> ax = learning_curves({"A": returns}, Figure().subplots(), optimum=3.0)
    >>> ax.lines[0].get_ydata().tolist(), ax.get_legend_handles_labels()[1]
    ([2.0, 2.0, 2.0], ['A', 'optimum 3'])
    """
    named = {label: as_runs(group) for label, group in label_groups(groups, History).items()}
    best = (
        next((runs.optimum for runs in named.values() if runs.optimum is not None), None)
        if optimum is None
        else optimum
    )
    with drawing(ax) as ax:
        widths: list[int] = []
        for i, (label, runs) in enumerate(named.items()):
            middle, means, width = bin_returns(runs, n_bins)
            widths += width.tolist()
            draw_band(ax, middle, means, label or None, i)
        if best is not None:
            draw_level(ax, best_return(best), "optimum")
        label_episodes(ax, named, widths)
        ax.set_ylabel("return")
        draw_legend(ax, [runs.n_seeds for runs in named.values()], "lower right")
    return ax


def plot_history(history: History, ax: Any = None, **options: Any) -> Any:
    """Draw the learning curve of one run. It is the method `plot` of a history.

    Parameters
    ----------
    history : History
        The result of `learn`, with at least one episode.
    ax : Axes, optional
        The matplotlib Axes to draw on. By default a new one.
    **options
        `optimum` and `n_bins` of `plots.learning_curves`.
    """
    return learning_curves([history], ax, **options)


def distance_to_optimum(
    groups: Mapping[str, Group] | Group,
    ax: Any = None,
    *,
    optimum: float | Optimal | None = None,
    expected: bool = False,
    n_bins: int = N_BINS,
) -> Any:
    """Draw the distance of each agent's mean return to the optimum, on a logarithmic axis.

    Bands are 95 % intervals over the seeds. A distance within the error of the optimum is not
    drawn.

    Parameters
    ----------
    groups : dict of runs, or runs
        The runs of each agent, by label: histories of several seeds, returns of shape
        [n_seeds, n_episodes], or `Runs`. The runs of a single agent need no label.
    ax : Axes, optional
        The Axes to draw on. By default a new one.
    optimum : float or Optimal, optional
        The optimal return. By default that of each `Runs`.
    expected : bool
        Whether to draw the exact values of the policies at their checkpoints instead of returns.
    n_bins : int
        The number of bins of episodes over which returns are averaged.

    Returns
    -------
    Axes

    Raises
    ------
    ConfigurationError
        If the optimum is not known, or `expected` is set and the policies have no exact values.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = distance_to_optimum([[1.0, 2.0], [1.5, 2.5]], Figure().subplots(), optimum=3.0)
    >>> ax.lines[0].get_ydata().tolist(), ax.get_yscale()
    ([1.75, 0.75], 'log')
    """
    named = {label: as_runs(group) for label, group in label_groups(groups, History).items()}
    with drawing(ax) as ax:
        widths, means, n_seeds = list[int](), list[float](), list[int]()
        for i, (label, runs) in enumerate(named.items()):
            best, error = (
                (runs.optimum, runs.error)
                if optimum is None
                else (best_return(optimum), optimum_error(optimum))
            )
            if best is None:
                raise ConfigurationError(
                    "a distance to the optimum needs the optimum: give optimum=, for example "
                    "zooming.solve(env)"
                )
            if expected:
                check_valued(runs)
                x, values = runs.checkpoints.astype(np.float64), runs.policy_values
            else:
                x, values, width = bin_returns(runs, n_bins)
                widths += width.tolist()
            mean = best - values.mean(axis=0)
            is_known = mean > max(error, optimum_error(best))
            draw_band(ax, x, np.where(is_known, best - values, np.nan), label or None, i)
            means += mean[is_known].tolist()
            n_seeds.append(len(values))
        if means:
            ax.set_yscale("log")
            ax.set_ylim(0.7 * min(means), 1.5 * max(means))  # a band may reach 0
            ax.yaxis.set_major_formatter("{x:g}")
        label_episodes(ax, named, [] if expected else widths)
        ax.set_ylabel("optimum - value of the policy" if expected else "optimum - return")
        draw_legend(ax, n_seeds, "best")
    return ax
