"""Plot learning curves, regret and partition sizes, one line per agent, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.agents.training.history import History
from zooming.analysis.intervals import t_quantile
from zooming.analysis.optimal import Optimal
from zooming.analysis.regret import (
    RETURN_TOLERANCE,
    Regret,
    best_return,
    optimum_error,
    zero_below_error,
)
from zooming.errors import ConfigurationError
from zooming.plots.style import BAND, GRAY, drawing, line, set_integer_ticks
from zooming.validation import Floats, Ints, check_choice

N_BINS = 40  # of episodes, over which returns are averaged
SCALES = ("log", "linear")


@dataclass(frozen=True)
class Runs:
    """The runs of one agent on one problem, one row per seed.

    Parameters
    ----------
    episode : array [n]
        The episodes of the columns, counted from 1: all episodes, or the checkpoints of a study.
    total_return : array [n_seeds, n]
        The sum of the returns up to each episode.
    n_balls : array [n_seeds, n]
        The number of active balls, summed over the steps.
    nbytes : array [n_seeds]
        The memory of the agent after the last episode.
    optimum : float, optional
        The optimal return. Regret needs it.
    error : float
        The error of the optimum.

    Examples
    --------
    >>> runs = Runs.of_returns([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], optimum=3.0)
    >>> runs.total_return[:, -1].tolist(), runs.regret[:, -1].tolist()
    ([6.0, 6.0], [3.0, 3.0])
    """

    episode: Ints
    total_return: Floats
    n_balls: Ints
    nbytes: Ints  # at the end, one per seed
    optimum: float | None = None
    error: float = 0.0

    @classmethod
    def of_histories(
        cls, histories: Sequence[History], optimum: float | Optimal | None = None
    ) -> Runs:
        """Return the runs in several histories, one per seed.

        Parameters
        ----------
        histories : sequence of History
            One per seed and all of the same length, as `zooming.learn_many` returns them.
        optimum : float or Optimal, optional
            The optimal return.
        """
        if isinstance(histories, History) or not all(
            isinstance(history, History) for history in histories
        ):
            raise ConfigurationError(
                "histories must be a list of History, one per seed of one agent, as "
                "zooming.learn_many returns it"
            )
        if not histories or not all(len(history) == len(histories[0]) > 0 for history in histories):
            raise ConfigurationError(
                "histories must hold at least one History, and all must have the same number of "
                "episodes, at least one"
            )
        return cls(
            np.arange(1, len(histories[0]) + 1),
            np.array([np.cumsum(history.returns) for history in histories]),
            np.array([history.n_balls for history in histories]),
            np.array([getattr(history.agent, "nbytes", 0) for history in histories]),
            None if optimum is None else best_return(optimum),
            0.0 if optimum is None else optimum_error(optimum),
        )

    @classmethod
    def of_returns(cls, returns: ArrayLike, optimum: float | None = None) -> Runs:
        """Return the runs in an array of returns. Numbers of balls and bytes are 0.

        Parameters
        ----------
        returns : array [n_seeds, n_episodes]
            Finite returns.
        optimum : float, optional
            The optimal return.
        """
        values = np.atleast_2d(np.asarray(returns, np.float64))
        if values.ndim != 2 or not values.size or not np.isfinite(values).all():
            raise ConfigurationError(
                f"returns of shape {values.shape}: give finite numbers [n_seeds, n_episodes], at "
                "least one of each"
            )
        nothing = np.zeros(values.shape, np.int64)
        episode = np.arange(1, values.shape[1] + 1)
        return cls(episode, np.cumsum(values, axis=1), nothing, nothing[:, 0], optimum)

    @property
    def n_seeds(self) -> int:
        """The number of runs."""
        return len(self.total_return)

    @property
    def regret(self) -> Floats:
        """Realized cumulative regret [n_seeds, n]; 0 where it is within the optimum's error."""
        optimum, error = self._solved()
        return zero_below_error(optimum * self.episode - self.total_return, self.episode, error)

    def regrets(self) -> list[Regret]:
        """Return one `zooming.Regret` per seed.

        The regret between two checkpoints of a study is spread evenly over the episodes.
        """
        optimum, error = self._solved()
        every, known = np.arange(self.episode[-1] + 1), np.concatenate([[0], self.episode])
        return [
            Regret(np.diff(np.interp(every, known, [0.0, *row])), error=error)
            for row in optimum * self.episode - self.total_return
        ]

    def _solved(self) -> tuple[float, float]:
        """Return the optimum and its error, or raise ConfigurationError if it is not known."""
        if self.optimum is None:
            raise ConfigurationError(
                "regret needs the optimum: give optimum=, for example zooming.solve(env).return_"
            )
        return self.optimum, max(self.error, RETURN_TOLERANCE * abs(self.optimum))


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


def bin_returns(runs: Runs, n_bins: int) -> tuple[Floats, Floats, Ints]:
    """Return for each bin its middle episode, the mean return of each run, and its size."""
    edges = bin_edges(runs.episode, n_bins)
    start = np.concatenate([[0], runs.episode])
    total = np.concatenate([np.zeros((runs.n_seeds, 1)), runs.total_return], axis=1)
    widths = np.diff(start[edges])
    middle = (start[edges[:-1]] + start[edges[1:]] + 1) / 2  # episodes count from 1
    return middle, np.diff(total[:, edges], axis=1) / widths, widths


def bin_edges(episode: Ints, n_bins: int) -> Ints:
    """Return the columns at which bins begin and end. A bin has at least K / n_bins episodes."""
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
    """Draw the legend, if a line has a label. With several seeds, it explains the bands."""
    if not ax.get_legend_handles_labels()[1]:
        return
    seeds = f"{n_seeds[0]}" if len(set(n_seeds)) == 1 else f"{min(n_seeds)} to {max(n_seeds)}"
    title = f"mean and 95 % band, {seeds} seeds" if max(n_seeds) > 1 else None
    legend = ax.legend(loc=where, title=title, alignment="left")
    legend.get_title().set_color(GRAY)


def learning_curves(
    groups: Mapping[str, Group] | Group, ax: Any = None, *, optimum: float | Optimal | None = None
) -> Any:
    """Draw the mean return of each agent over the episodes, with a 95 % band over its seeds.

    It is the method `plot` of a history, too.

    Parameters
    ----------
    optimum : float or Optimal, optional
        The optimal return, drawn as a horizontal line. By default that of the first `Runs` that
        has one.

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
            middle, means, width = bin_returns(runs, N_BINS)
            widths += width.tolist()
            draw_band(ax, middle, means, label or None, i)
        if best is not None:
            height, dots = best_return(best), (0, (1, 1))
            label = f"optimum {height:.4g}"
            ax.axhline(height, color=GRAY, linestyle=dots, linewidth=1.2, label=label)
        label_episodes(ax, named, widths)
        ax.set_ylabel("return")
        draw_legend(ax, [runs.n_seeds for runs in named.values()], "lower right")
    return ax


def regret(
    groups: Mapping[str, Runs | Sequence[Regret]] | Sequence[Regret] | Runs,
    ax: Any = None,
    *,
    scale: str = "log",
) -> Any:
    """Draw the cumulative regret of each agent: the mean over its seeds, with a 95 % band.

    Regret within the error of the optimum counts as 0.

    Parameters
    ----------
    groups : dict of runs, or runs
        The runs of each agent, by label: `Runs`, or one `Regret` per seed. The runs of a single
        agent need no label.
    scale : {"log", "linear"}
        The scale of both axes.

    Raises
    ------
    ConfigurationError
        If `scale` is unknown, or regrets of one agent differ in length or have fewer than two
        episodes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> runs = Runs.of_returns([[1.0, 2.0, 2.5]], optimum=3.0)
    >>> ax = regret({"A": runs}, Figure().subplots())
    >>> ax.lines[0].get_ydata().tolist(), ax.get_legend_handles_labels()[1]
    ([2.0, 3.0, 3.5], ['A'])
    """
    check_choice("scale", scale, SCALES)
    named = {label: _regrets(group) for label, group in label_groups(groups, Regret).items()}
    with drawing(ax) as ax:
        least, lowest, last = math.inf, 0.0, 1
        for i, (label, regrets) in enumerate(named.items()):
            n = len(regrets[0].per_episode)
            even = np.geomspace(1, n, 200) if scale == "log" else np.linspace(1, n, 200)
            k = np.unique(even.astype(np.int64))
            curves = np.array([one.cumulative[k - 1] for one in regrets])
            mean, last = curves.mean(axis=0), max(last, n)
            draw_band(ax, k, curves, label or None, i)
            least = min(least, float(mean[mean > 0].min(initial=math.inf)))
            lowest = min(lowest, float(mean.min()))
        ax.set(xlabel="episodes K", ylabel="realized regret R(K)")
        if scale == "log" and math.isfinite(least):
            ax.set(xscale="log", yscale="log")
            ax.set_ylim(bottom=least / 2)  # noise may make early regret or a band negative
        else:
            ax.set_xlim(0, last)
            if lowest == 0:  # realized regret may be negative if rewards are random
                ax.set_ylim(0, None if math.isfinite(least) else 1)
            ax.yaxis.set_major_formatter("{x:,.0f}")
            set_integer_ticks(ax.xaxis)
        draw_legend(ax, [len(regrets) for regrets in named.values()], "best")
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


def _regrets(group: Runs | Sequence[Regret]) -> Sequence[Regret]:
    """Return the regrets of one agent, without the exact values of policies."""
    if isinstance(group, Runs):
        regrets = group.regrets()
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
    return [Regret(one.per_episode, error=one.error) for one in regrets]
