"""Plot learning curves and distances to the optimum, one line per agent, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.agents.training.history import History
from zooming.analysis.intervals import t_quantile
from zooming.analysis.optimal import Optimal
from zooming.analysis.regret import best_return, optimum_error
from zooming.errors import ConfigurationError
from zooming.plots.curve_data import NOT_VALUED, Runs
from zooming.plots.look import BAND, GRAY, drawing, line, set_integer_ticks
from zooming.validation import Floats

Group = Runs | Sequence[History] | ArrayLike


def label_groups(groups: Any, kind: type) -> dict[str, Any]:
    """Return {label: runs of one agent}. If `groups` is not a dict, the label is empty.

    A single object of type `kind` becomes a list of one.
    """
    named = dict(groups) if isinstance(groups, Mapping) else {"": groups}
    if not named:
        raise ConfigurationError("give the runs of at least one agent")
    return {label: [one] if isinstance(one, kind) else one for label, one in named.items()}


def as_runs(group: Group) -> Runs:
    """Convert the histories or returns of one agent to `Runs`. Return `Runs` unchanged."""
    if isinstance(group, Runs):
        return group
    if isinstance(group, Sequence) and any(isinstance(one, History) for one in group):
        return Runs.of_histories([one for one in group if isinstance(one, History)])
    # Not a history: an array, or an error there.
    return Runs.of_returns(group)  # type: ignore[arg-type]


def check_valued(runs: Runs) -> None:
    """Raise ConfigurationError if the policies of these runs have no exact values."""
    if not runs.policy_values.size:
        raise ConfigurationError(NOT_VALUED)


def bin_returns(runs: Runs, n_bins: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return for each bin its middle episode, the mean return of each run, and its size."""
    edges = bin_edges(runs.episode, n_bins)
    start = np.concatenate([[0], runs.episode])
    total = np.concatenate([np.zeros((runs.n_seeds, 1)), runs.total_return], axis=1)
    widths = np.diff(start[edges])
    middle = (start[edges[:-1]] + start[edges[1:]] + 1) / 2  # episodes count from 1
    return middle, np.diff(total[:, edges], axis=1) / widths, widths


def bin_edges(episode: NDArray[np.int64], n_bins: int) -> NDArray[np.int64]:
    """Return the columns at which bins begin and end. A bin has at least K / n_bins episodes."""
    if n_bins < 1:
        raise ConfigurationError(f"n_bins={n_bins}: give at least one bin")
    width, last = max(1, math.ceil(episode[-1] / n_bins)), 0
    edges = [0]
    while (column := int(np.searchsorted(episode, last + width))) < len(episode):
        edges.append(column + 1)
        last = int(episode[column])
    edges[max(1, len(edges) - 1) :] = [len(episode)]
    return np.array(edges)


def half_interval(samples: Floats) -> Floats | float:
    """Return half the width of the 95 % interval of the mean over the first axis; 0 for one run."""
    n = len(samples)
    if n < 2:
        return 0.0
    half: Floats = t_quantile(0.975, n - 1) * samples.std(axis=0, ddof=1) / math.sqrt(n)
    return half


def draw_band(ax: Any, x: NDArray[Any], samples: Floats, label: str | None, i: int) -> None:
    """Draw the mean of the samples [n_seeds, n] of agent number i, with its 95 % band."""
    mean, half = samples.mean(axis=0), half_interval(samples)
    style = line(i)
    ax.plot(x, mean, label=label, marker="o" if len(x) == 1 else None, **style)
    if len(samples) > 1:
        ax.fill_between(x, mean - half, mean + half, color=style["color"], alpha=BAND, linewidth=0)


def draw_level(ax: Any, height: float, name: str) -> None:
    """Draw a horizontal line. The legend shows its name and height."""
    ax.axhline(
        height, color=GRAY, linestyle=(0, (1, 1)), linewidth=1.2, label=f"{name} {height:.4g}"
    )


def label_episodes(ax: Any, named: Mapping[str, Runs], widths: Sequence[int]) -> None:
    """Set up the episode axis. Its label says how many episodes each point averages."""
    set_integer_ticks(ax.xaxis)
    ax.set_xlim(0, max(int(runs.episode[-1]) for runs in named.values()))
    if max(widths, default=1) == 1:
        ax.set_xlabel("episode")
        return
    about = "" if max(widths) == min(widths) else "about "
    ax.set_xlabel(f"episode (means over {about}{int(np.median(widths)):,} episodes)")


def draw_legend(ax: Any, n_seeds: list[int], where: str) -> None:
    """Draw the legend, if a line has a label.

    With several seeds, its title explains the 95 % bands. A plot without bands calls
    `ax.legend` instead.
    """
    if not ax.get_legend_handles_labels()[1]:
        return
    seeds = f"{n_seeds[0]}" if len(set(n_seeds)) == 1 else f"{min(n_seeds)} to {max(n_seeds)}"
    title = f"mean and 95 % band, {seeds} seeds" if max(n_seeds) > 1 else None
    legend = ax.legend(loc=where, title=title, alignment="left")
    legend.get_title().set_color(GRAY)


def make_room(ax: Any) -> None:
    """Raise the upper limit of a logarithmic axis so that the legend lies above all lines."""
    legend = ax.get_legend()
    if legend is None:
        return
    points = ax.get_window_extent().height / ax.figure.dpi * 72
    share = min(
        0.5, 1.45 * legend.get_texts()[0].get_fontsize() * (len(legend.get_texts()) + 1.5) / points
    )
    bottom, top = (math.log10(limit) for limit in ax.get_ylim())
    ax.set_ylim(10**bottom, 10 ** (bottom + (top - bottom) / (1 - share)))


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
    optimum : float or Optimal, optional
        The optimal return, drawn as a horizontal line. By default that of the first `Runs` that
        has one.
    n_bins : int
        The number of bins of episodes over which returns are averaged.

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
    """Draw the learning curve of one run. It is the method `plot` of a history."""
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
    expected : bool
        Whether to draw the exact values of the policies at their checkpoints instead of returns.

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
