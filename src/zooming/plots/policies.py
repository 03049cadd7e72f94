"""Plots of policies: the learned action as lines over one state axis, or as maps over two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.analysis.solve import Optimal
from zooming.errors import ConfigurationError
from zooming.partitions.cuts import Cut, View, most_visited, view_of
from zooming.partitions.view import some_steps
from zooming.plots.look import COLORS, GRAY, LINES, drawing, panels
from zooming.plots.partitions import (
    ValueNames,
    add_colorbar,
    axis_label,
    names_of_values,
    set_ticks,
    wrap,
)

Floats = NDArray[np.float64]
Limits = tuple[float, float] | Mapping[str, tuple[float, float]]
MOST_STEPS_DRAWN = 6  # lines in one plot
MOST_MAPS = 3  # steps of a policy drawn as maps
MOST_ROWS = 4  # action axes drawn by default
FEW_VISITS = 10  # actions of balls with fewer visits are drawn pale
FAINT = 0.25  # opacity
N_LINE, N_MAP, N_OPTIMAL = 201, 41, 15  # points along a continuous axis
MOST_DASHES = 24  # values of a discrete axis drawn as dashes; more are drawn as a staircase
MOST_VALUES = {1: 200, 2: 60}  # integers shown along an axis of lines, of maps


def policy(
    agent: Agent,
    ax: Any = None,
    *,
    steps: Sequence[int] | None = None,
    optimal: Optimal | None = None,
    axes: Sequence[int | str] | None = None,
    at: Any = None,
    limits: Limits | None = None,
    value_names: ValueNames | None = None,
    info: Callable[[Any], Mapping[str, Any]] | None = None,
    n: int | None = None,
) -> Any:
    """Draw the learned action over the states.

    With one state axis, each step is a line, or a row of dashes if the axis is discrete. With
    several state axes, the plot is a map over two of them, colored by the action, with one panel
    per step and action axis. The title says where the other state axes are cut. Colors are pale
    where the ball of the action has fewer than ten visits.

    Parameters
    ----------
    agent : Agent
        The agent whose greedy policy is drawn.
    ax : Axes or several, optional
        The Axes to draw on: one for each panel, or one that is divided. By default new ones.
    steps : sequence of int, optional
        The steps to draw. By default at most six as lines, or three as maps, evenly spaced.
    optimal : Optimal, optional
        The result of `zooming.solve`. If given, its actions are drawn too: as dashed lines or
        circles in the color of the step, or as a second row of maps.
    axes : sequence of axes, optional
        Names of the axes to draw: ("state[1]", "action[0]") for lines, ("state[0]", "state[2]")
        for maps. Without an action axis, the first four are drawn. Two numbers stand for a state
        axis and an action axis, each counted from 0.
    at : dict or state, optional
        Where to cut the other state axes: {axis: value} for some of them, or one state. By default
        at the center of the most visited ball of each step.
    limits : pair of floats or dict, optional
        The smallest and largest state to draw, or {axis: (low, high)}.
    value_names : dict, optional
        {axis: names} with a label for each value of a discrete axis.
    info : function of an observation, optional
        Returns the environment's `info` for an observation, which states the feasible actions.
    n : int, optional
        The number of points along a continuous state axis. By default 201 for lines, 41 for maps.

    Returns
    -------
    Axes or array of Axes
        An array [rows, columns] if there are several panels.

    Raises
    ------
    ConfigurationError
        If `steps` is empty, an axis is unknown, or an unbounded axis is drawn without `limits`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> from matplotlib.figure import Figure
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", horizon=2), seed=0)
    >>> ax = policy(agent, Figure().subplots(), n=5)
    >>> ax.get_title(), ax.lines[0].get_xdata().tolist()
    ('policy', [0.0, 0.25, 0.5, 0.75, 1.0])
    """
    space, view = agent.axes, view_of(agent.axes)
    across, actions = _choose_axes(view, space.n_state, axes)
    most_steps = MOST_STEPS_DRAWN if len(across) == 1 else MOST_MAPS
    chosen = (
        some_steps(agent.horizon, most_steps)
        if steps is None
        else [agent.problem.check_step(step) for step in steps]
    )
    if not chosen:
        raise ConfigurationError("steps is empty: give the steps to draw, for example steps=[0]")
    own_names = agent.value_names() if hasattr(agent, "value_names") else {}  # of a metric's points
    names = {**own_names, **(value_names or {})}
    states = view.part(slice(0, space.n_state))
    ends = [_axis_limits(states, i, limits) for i in across]
    n = n or (N_LINE if len(across) == 1 else N_MAP)
    most = MOST_VALUES[len(across)]
    places = [_axis_values(states, i, end, n, most) for i, end in zip(across, ends, strict=True)]
    cuts = [states.cut(across, at, _default_state(agent, step, states)) for step in chosen]
    drawn = [_Drawn(agent, step, cut, places, info) for step, cut in zip(chosen, cuts, strict=True)]
    picture = _Picture(
        view, space.n_state, across, actions, drawn, ends, names, optimal, agent.horizon
    )
    found = picture.lines(ax) if len(across) == 1 else picture.maps(ax)
    return found[0, 0] if found.size == 1 else found


@dataclass
class _Drawn:
    """The greedy actions of one step in all the states of a plot."""

    agent: Agent
    step: int
    cut: Cut
    places: list[Floats]
    info: Callable[[Any], Mapping[str, Any]] | None

    def __post_init__(self) -> None:
        space = self.agent.axes
        self.states = grid(self.cut, self.places)
        one_each = [space.states.shaped(state) for state in self.states]
        infos = None if self.info is None else [self.info(observation) for observation in one_each]
        steps = np.full(len(self.states), self.step)
        played = self.agent.predict(space.states.shaped(self.states), state=steps, info=infos)[0]
        self.actions = space.actions.batch(played, "action")[0]
        self.is_pale = np.zeros(len(self.states), bool)
        if type(self.agent).visits is not Agent.visits:
            pairs = zip(one_each, self.actions, strict=True)
            self.is_pale[:] = [
                self.agent.visits(self.step, x, space.actions.shaped(a)) < FEW_VISITS
                for x, a in pairs
            ]

    def best(self, optimal: Optimal, states: Floats) -> Floats:
        """Return the optimal actions [n, n_action] in some states."""
        return np.array(
            [np.atleast_1d(optimal.action(self.step, state)) for state in states], np.float64
        )


@dataclass
class _Picture:
    """The policy of several steps with everything that is needed to draw it."""

    view: View
    n_state: int
    across: list[int]
    action_axes: list[int]  # numbered in the view
    drawn: list[_Drawn]
    ends: list[tuple[float, float]]
    value_names: ValueNames
    optimal: Optimal | None
    horizon: int

    @property
    def part(self) -> str:
        """Return how many of the steps are drawn, for the title; empty if all are."""
        return (
            f", {len(self.drawn)} of {self.horizon} steps" if len(self.drawn) < self.horizon else ""
        )

    # --- over one state axis ----------------------------------------------------------------------

    def lines(self, ax: Any) -> Any:
        rows = panels(
            ax, len(self.action_axes), 1, (5 - 1.2, 3.3 if len(self.action_axes) == 1 else 2.4)
        )
        for row, action in zip(rows[:, 0], self.action_axes, strict=True):
            with drawing(row, boxed=True) as one:
                self._lines(one, action)
        first = self.drawn[0].cut
        are_same = all(str(drawn.cut) == str(first) for drawn in self.drawn)
        where = f" at {first}" if are_same and str(first) else ""
        rows[0, 0].set_title("\n".join(wrap("policy" + where + self.part)))
        return rows

    def _lines(self, ax: Any, action: int) -> None:
        import matplotlib as mpl

        i, (left, right) = self.across[0], self.ends[0]
        is_whole, column = self.view.is_whole[i], action - self.n_state
        has_dashes = is_whole and len(self.drawn[0].states) <= MOST_DASHES
        shades = mpl.colormaps["viridis"](
            np.linspace(0.0, 0.75, len(self.drawn))
        )  # steps have an order
        cuts = {str(drawn.cut) for drawn in self.drawn}
        for k, (drawn, shade) in enumerate(zip(self.drawn, shades, strict=True)):
            name = f"step {drawn.step}" + (f", {drawn.cut}" if len(cuts) > 1 else "")
            x, played = drawn.states[:, i], drawn.actions[:, column]
            few = (
                drawn.states if is_whole else drawn.states[:: max(1, len(x) // 50)]
            )  # each optimal action takes a search
            best = None if self.optimal is None else drawn.best(self.optimal, few)[:, column]
            if has_dashes:
                _dashes(
                    ax, x, played, drawn.is_pale, best, shade, name, k, len(self.drawn), drawn.step
                )
                continue
            if best is not None:
                ax.plot(
                    few[:, i],
                    best,
                    color=shade,
                    linewidth=0.9,
                    linestyle="--",
                    label=f"_optimal {drawn.step}",
                )
            # Dashed lines are reserved for the optimum, if it is drawn.
            look = {"color": shade, "linestyle": LINES[k % len(LINES)] if best is None else "-"}
            look["drawstyle"] = "steps-mid" if is_whole else "default"
            pale = drawn.is_pale
            near = (
                pale | np.roll(pale, 1) | np.roll(pale, -1)
            )  # so that the pale part joins the other
            ax.plot(x, np.where(near, played, np.nan), alpha=FAINT, **look)
            ax.plot(x, np.where(pale, np.nan, played), label=name, **look)
        beyond = 0.5 if is_whole else 0.0
        low, high = self._span(action)
        margin = 0.02 * (high - low)  # keeps a line at the border visible
        ax.set(xlim=(left - beyond, right + beyond), ylim=(low - margin, high + margin))
        ax.set(xlabel=axis_label(self.view.names, i), ylabel=axis_label(self.view.names, action))
        set_ticks(ax.xaxis, self.view, i, self.value_names)
        set_ticks(ax.yaxis, self.view, action, self.value_names)
        if has_dashes:
            for border in np.arange(left + 0.5, right):
                ax.axvline(border, color="0.9", linewidth=0.6, zorder=0)
        handles = ax.get_legend_handles_labels()[0]
        if self.optimal is not None:
            look = (
                {"marker": "o", "markerfacecolor": "none", "linestyle": "none"}
                if has_dashes
                else {"linestyle": "--"}
            )
            handles += ax.plot([], [], color=GRAY, linewidth=0.9, label="optimal", **look)
        if any(drawn.is_pale.any() for drawn in self.drawn):
            handles += ax.plot([], [], color=GRAY, alpha=FAINT, label=f"under {FEW_VISITS} visits")
        ax.legend(
            handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5)
        )  # outside: lines may be anywhere

    def _span(self, action: int) -> tuple[float, float]:
        """Return the range of an action axis; of the actions drawn if the axis is unbounded."""
        low, high = float(self.view.low[action]), float(self.view.high[action])
        played = np.concatenate([drawn.actions[:, action - self.n_state] for drawn in self.drawn])
        low, high = (
            (low if np.isfinite(low) else played.min()),
            (high if np.isfinite(high) else played.max()),
        )
        half = 0.5 if self.view.is_whole[action] or low == high else 0.0
        return low - half, high + half

    # --- over two state axes ----------------------------------------------------------------------

    def maps(self, ax: Any) -> Any:
        kinds = ("learned",) if self.optimal is None else ("learned", "optimal")
        rows = [(action, kind) for action in self.action_axes for kind in kinds]
        found = panels(ax, len(rows), len(self.drawn))
        is_pale = any(drawn.is_pale.any() for drawn in self.drawn)
        for r, (action, kind) in enumerate(rows):
            norm, cmap, ticks = self._colors(action)
            for k, drawn in enumerate(self.drawn):
                with drawing(found[r, k], boxed=True) as one:
                    mesh = self._map(one, drawn, action, kind, norm=norm, cmap=cmap)
                    one.set_xlabel(
                        axis_label(self.view.names, self.across[0]) if r == len(rows) - 1 else ""
                    )
                    one.set_ylabel(axis_label(self.view.names, self.across[1]) if k == 0 else "")
                    if r == 0 or kind == "optimal" or len(kinds) == 2:
                        head = f"{'optimal, ' if kind == 'optimal' else ''}step {drawn.step}"
                        one.set_title(
                            "\n".join([head, *wrap(drawn.cut.caption)] if r == 0 else [head])
                        )
            bar = add_colorbar(mesh, list(found[r]), axis_label(self.view.names, action))
            if ticks is not None:
                bar.set_ticks(ticks[0], labels=ticks[1])
        pale = f"pale: under {FEW_VISITS} visits"
        if ax is None:
            found[0, 0].figure.suptitle(
                f"policy{self.part}{f'; {pale}' if is_pale else ''}", fontsize=10
            )
        elif is_pale:  # the caller's figure may have its own title
            below = found[-1, len(self.drawn) // 2]
            below.set_xlabel(f"{below.get_xlabel()}\n{pale}")
        return found

    def _map(self, ax: Any, drawn: _Drawn, action: int, kind: str, **look: Any) -> Any:
        from matplotlib.colors import ListedColormap

        places, column = drawn.places, action - self.n_state
        if kind == "optimal":
            assert self.optimal is not None
            places = [
                _axis_values(drawn.cut.view, i, end, N_OPTIMAL, N_OPTIMAL)
                for i, end in zip(self.across, self.ends, strict=True)
            ]
            values = drawn.best(self.optimal, grid(drawn.cut, places))[:, column]
        else:
            values = drawn.actions[:, column]
        x, y = (_borders(place, end) for place, end in zip(places, self._reach(), strict=True))
        shape = len(places[0]), len(places[1])
        mesh = ax.pcolormesh(x, y, values.reshape(shape).T, rasterized=True, **look)
        if kind != "optimal" and drawn.is_pale.any():
            veil = np.ma.masked_where(~drawn.is_pale, np.ones(drawn.is_pale.shape)).reshape(shape).T
            ax.pcolormesh(
                x, y, veil, cmap=ListedColormap(["white"]), alpha=1 - 1.6 * FAINT, rasterized=True
            )
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        set_ticks(ax.xaxis, self.view, self.across[0], self.value_names)
        set_ticks(ax.yaxis, self.view, self.across[1], self.value_names)
        return mesh

    def _reach(self) -> list[tuple[float, float]]:
        """Return the drawn ranges of the two axes; discrete ones extend by half a value."""
        half = [0.5 * self.view.is_whole[i] for i in self.across]
        return [(low - by, high + by) for (low, high), by in zip(self.ends, half, strict=True)]

    def _colors(self, action: int) -> tuple[Any, Any, tuple[list[float], list[str]] | None]:
        """Return norm and colormap of an action axis, and (ticks, labels) if it has few values."""
        import matplotlib as mpl
        from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize

        low, high = self._span(action)
        n = round(high - low)
        if not self.view.is_whole[action] or n > MOST_ROWS * 4:
            return Normalize(low, high), "viridis", None
        colors = (
            COLORS[:n] if n <= len(COLORS) else mpl.colormaps["viridis"](np.linspace(0.0, 1.0, n))
        )
        values = [low + 0.5 + k for k in range(n)]
        names = names_of_values(self.view, action, self.value_names)
        labels = [
            f"{value:.0f}" if names is None else str(names[k]) for k, value in enumerate(values)
        ]
        return (
            BoundaryNorm(low + np.arange(n + 1), n),
            ListedColormap(list(colors)),
            (values, labels),
        )


def grid(cut: Cut, places: list[Floats]) -> Floats:
    """Return all combinations of `places` along the drawn axes [n, n_axes], first axis slowest."""
    points = np.tile(cut.point, (int(np.prod([len(place) for place in places])), 1))
    points[:, list(cut.drawn)] = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1).reshape(
        len(points), -1
    )
    return points


def _choose_axes(
    view: View, n_state: int, axes: Sequence[int | str] | None
) -> tuple[list[int], list[int]]:
    """Return the state axes to draw, one or two, and the action axes."""
    states, actions = view.part(slice(0, n_state)), view.part(slice(n_state, None))
    if axes is None:
        return states.first("state", 2), [n_state + i for i in actions.first("action", MOST_ROWS)]
    if len(axes) == 2 and all(isinstance(axis, (int, np.integer)) for axis in axes):
        state, action = int(axes[0]), int(axes[1])
        if not (0 <= state < n_state and 0 <= action < len(actions.names)):
            raise ConfigurationError(
                f"axes={axes}: give a state axis from 0 to {n_state - 1} and an action axis from "
                f"0 to {len(actions.names) - 1}"
            )
        return [state], [n_state + action]
    found = [view.index(axis, "axes") for axis in axes]
    across, up = [i for i in found if i < n_state], [i for i in found if i >= n_state]
    if not 1 <= len(across) <= 2 or len({*found}) < len(found):
        raise ConfigurationError(
            f"axes={tuple(axes)}: name one or two different state axes, and action axes if not "
            "all shall be drawn"
        )
    return across, up or [n_state + i for i in actions.first("action", MOST_ROWS)]


def _axis_limits(states: View, i: int, limits: Limits | None) -> tuple[float, float]:
    """Return the smallest and largest value of a state axis to draw."""
    left, right = float(states.low[i]), float(states.high[i])
    if isinstance(limits, Mapping):
        given = {states.index(axis, "limits"): pair for axis, pair in limits.items()}
        left, right = given.get(i, (left, right))
    elif limits is not None:
        left, right = limits
    if not -np.inf < left <= right < np.inf or (left == right and not states.is_whole[i]):
        raise ConfigurationError(
            f"{states.names[i]} from {left} to {right}: give limits={{{states.names[i]!r}: (low, "
            f"high)}}"
        )
    return left, right


def _axis_values(states: View, i: int, ends: tuple[float, float], n: int, most: int) -> Floats:
    """Return the values of a state axis to draw: n evenly spaced, or at most `most` integers."""
    if states.is_whole[i]:
        values = np.arange(np.ceil(ends[0]), np.floor(ends[1]) + 1)
        return (
            values
            if len(values) <= most
            else np.unique(np.rint(np.linspace(values[0], values[-1], most)))
        )
    return np.linspace(*ends, n)


def _borders(places: Floats, ends: tuple[float, float]) -> Floats:
    """Return cell borders: halfway between the places, and at the ends."""
    return np.concatenate([[ends[0]], (places[1:] + places[:-1]) / 2, [ends[1]]])


def _default_state(agent: Any, step: int, states: View) -> Floats:
    """Return the state of the most visited ball, or the middle if the agent has no balls."""
    found = None
    if hasattr(agent, "balls"):
        balls = agent.balls(step)
        found = most_visited(balls.state, balls.n_visits, balls.depth)
    elif type(agent).partition is not Agent.partition:
        found = agent.partition(step).center()[: len(states.names)]
    return (
        states.middle() if found is None else states.values(np.clip(found, states.low, states.high))
    )


def _dashes(
    ax: Any, x: Floats, played: Floats, is_pale: NDArray[np.bool_], best: Floats | None,
    shade: Any, name: str, k: int,
    n: int, step: int,
) -> None:  # fmt: skip
    """Draw a dash for each value of a discrete axis, with the n steps side by side."""
    width = 0.84 / n
    left = x - 0.42 + k * width
    for shown, look in ((is_pale, {"alpha": FAINT}), (~is_pale, {"label": name})):
        heights = np.where(shown, played, np.nan)
        ax.hlines(
            heights, left + 0.06 * width, left + 0.94 * width, color=shade, linewidth=3, **look
        )
    if best is not None:
        marks = {"marker": "o", "markerfacecolor": "none", "markersize": 5, "linestyle": "none"}
        ax.plot(left + width / 2, best, color=shade, label=f"_optimal {step}", **marks)
