"""Policies: the learned action over the states, as lines over one state axis, or as maps over two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.analysis.solve import Optimal
from zooming.errors import SpaceError
from zooming.partitions.cuts import Cut, View, most_visited, view_of
from zooming.partitions.view import some_steps
from zooming.plots.look import COLORS, GRAY, LINES, drawing, panels
from zooming.plots.partitions import ValueNames, add_colorbar, label, names_of_values, tick, wrapped

Floats = NDArray[np.float64]
Limits = tuple[float, float] | Mapping[str, tuple[float, float]]
MOST_STEPS = 6  # lines of a policy that a reader can tell apart
MOST_MAPS = 3  # steps of a policy that is drawn as maps
MOST_ROWS = 4  # action axes that are drawn without being asked for
FEW_VISITS = 10  # of a ball: what is played there is hardly learned yet
FAINT = 0.25  # opacity
N_LINE, N_MAP, N_OPTIMAL = 201, 41, 15  # points along an axis that is an interval
MOST_DASHES = 24  # values of a discrete axis that have a dash for each step; more are a line of steps
MOST_VALUES = {1: 200, 2: 60}  # whole numbers along an axis of lines, of maps; of more, so many are shown


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
    """The learned action over the states, for some of the `steps`; pale where its ball has fewer than ten visits.

    Over one state axis it is a line for each step (at most six by default, evenly chosen), or a dash for each value of a
    discrete axis. With more state axes it is a map over the first two that matter, colored by the action, with a panel for
    each step (at most three by default) and each action axis. With `optimal` the best actions are there too, dashed and in the
    color of their step, or as a second row of maps.

    `axes` chooses what is drawn, by name: ("state[1]", "action[0]") for lines, ("state[0]", "state[2]") for a map, with the
    names of action axes for some of these; or by two numbers, a state and an action axis, both counted from 0. Other state
    axes are cut, and the title says where: in the center of the step's most visited ball, or where `at` says, {axis: value}
    or one state. `limits` are the least and the largest state to draw, {axis: (low, high)} for maps. `value_names` {axis:
    names} label the values of discrete axes. `info(observation)` gives what the environment says of feasible actions there.

    Returns the Axes, or an array of them [rows, columns] if there are several panels. One Axes that is given is divided.
    """
    space, view = agent.axes, view_of(agent.axes)
    across, actions = _chosen(view, space.n_state, axes)
    most_steps = MOST_STEPS if len(across) == 1 else MOST_MAPS
    chosen = some_steps(agent.horizon, most_steps) if steps is None else [agent._check_step(step) for step in steps]
    if not chosen:
        raise SpaceError("steps is empty: give the steps to draw, for example steps=[0]")
    own_names = agent.value_names() if hasattr(agent, "value_names") else {}  # of a metric's points
    names = {**own_names, **(value_names or {})}
    states = view.part(slice(0, space.n_state))
    ends = [_ends(states, i, limits) for i in across]
    n = n or (N_LINE if len(across) == 1 else N_MAP)
    most = MOST_VALUES[len(across)]
    places = [_places(states, i, end, n, most) for i, end in zip(across, ends, strict=True)]
    cuts = [states.cut(across, at, _where(agent, step, states)) for step in chosen]
    drawn = [_Drawn(agent, step, cut, places, info) for step, cut in zip(chosen, cuts, strict=True)]
    picture = _Picture(view, space.n_state, across, actions, drawn, ends, names, optimal, agent.horizon)
    found = picture.lines(ax) if len(across) == 1 else picture.maps(ax)
    return found[0, 0] if found.size == 1 else found


@dataclass
class _Drawn:
    """What is played at one step, at all the places of a picture."""

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
            self.is_pale[:] = [self.agent.visits(self.step, x, space.actions.shaped(a)) < FEW_VISITS for x, a in pairs]

    def best(self, optimal: Optimal, states: Floats) -> Floats:
        """Return the optimal actions [n, n_action] in some states."""
        return np.array([np.atleast_1d(optimal.action(self.step, state)) for state in states], np.float64)


@dataclass
class _Picture:
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
        return f", {len(self.drawn)} of {self.horizon} steps" if len(self.drawn) < self.horizon else ""

    # --- over one state axis -------------------------------------------------------------------------------------------

    def lines(self, ax: Any) -> Any:
        rows = panels(ax, len(self.action_axes), 1, (5 - 1.2, 3.3 if len(self.action_axes) == 1 else 2.4))
        for row, action in zip(rows[:, 0], self.action_axes, strict=True):
            with drawing(row, boxed=True) as one:
                self._lines(one, action)
        first = self.drawn[0].cut
        are_same = all(str(drawn.cut) == str(first) for drawn in self.drawn)
        where = f" at {first}" if are_same and str(first) else ""
        rows[0, 0].set_title("\n".join(wrapped("policy" + where + self.part)))
        return rows

    def _lines(self, ax: Any, action: int) -> None:
        import matplotlib as mpl

        i, (left, right) = self.across[0], self.ends[0]
        is_whole, column = self.view.is_whole[i], action - self.n_state
        has_dashes = is_whole and len(self.drawn[0].states) <= MOST_DASHES
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.75, len(self.drawn)))  # steps have an order
        cuts = {str(drawn.cut) for drawn in self.drawn}
        for k, (drawn, shade) in enumerate(zip(self.drawn, shades, strict=True)):
            name = f"step {drawn.step}" + (f", {drawn.cut}" if len(cuts) > 1 else "")
            x, played = drawn.states[:, i], drawn.actions[:, column]
            few = drawn.states if is_whole else drawn.states[:: max(1, len(x) // 50)]  # each takes a search
            best = None if self.optimal is None else drawn.best(self.optimal, few)[:, column]
            if has_dashes:
                _dashes(ax, x, played, drawn.is_pale, best, shade, name, k, len(self.drawn), drawn.step)
                continue
            if best is not None:
                ax.plot(few[:, i], best, color=shade, linewidth=0.9, linestyle="--", label=f"_optimal {drawn.step}")
            # Dashes are the optimum's, if it is there.
            look = {"color": shade, "linestyle": LINES[k % len(LINES)] if best is None else "-"}
            look["drawstyle"] = "steps-mid" if is_whole else "default"
            pale = drawn.is_pale
            near = pale | np.roll(pale, 1) | np.roll(pale, -1)  # so that the faint part joins the other
            ax.plot(x, np.where(near, played, np.nan), alpha=FAINT, **look)
            ax.plot(x, np.where(pale, np.nan, played), label=name, **look)
        beyond = 0.5 if is_whole else 0.0
        low, high = self._span(action)
        margin = 0.02 * (high - low)  # a line at the border is a line too
        ax.set(xlim=(left - beyond, right + beyond), ylim=(low - margin, high + margin))
        ax.set(xlabel=label(self.view.names, i), ylabel=label(self.view.names, action))
        tick(ax.xaxis, self.view, i, self.value_names)
        tick(ax.yaxis, self.view, action, self.value_names)
        if has_dashes:
            for border in np.arange(left + 0.5, right):
                ax.axvline(border, color="0.9", linewidth=0.6, zorder=0)
        handles = ax.get_legend_handles_labels()[0]
        if self.optimal is not None:
            look = {"marker": "o", "markerfacecolor": "none", "linestyle": "none"} if has_dashes else {"linestyle": "--"}
            handles += ax.plot([], [], color=GRAY, linewidth=0.9, label="optimal", **look)
        if any(drawn.is_pale.any() for drawn in self.drawn):
            handles += ax.plot([], [], color=GRAY, alpha=FAINT, label=f"under {FEW_VISITS} visits")
        ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the lines, which may be anywhere

    def _span(self, action: int) -> tuple[float, float]:
        """Return the ends of an action axis; of one without, those of what is played."""
        low, high = float(self.view.low[action]), float(self.view.high[action])
        played = np.concatenate([drawn.actions[:, action - self.n_state] for drawn in self.drawn])
        low, high = (low if np.isfinite(low) else played.min()), (high if np.isfinite(high) else played.max())
        half = 0.5 if self.view.is_whole[action] or low == high else 0.0
        return low - half, high + half

    # --- over two state axes -------------------------------------------------------------------------------------------

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
                    one.set_xlabel(label(self.view.names, self.across[0]) if r == len(rows) - 1 else "")
                    one.set_ylabel(label(self.view.names, self.across[1]) if k == 0 else "")
                    if r == 0 or kind == "optimal" or len(kinds) == 2:
                        head = f"{'optimal, ' if kind == 'optimal' else ''}step {drawn.step}"
                        one.set_title("\n".join([head, *wrapped(drawn.cut.caption)] if r == 0 else [head]))
            bar = add_colorbar(mesh, list(found[r]), label(self.view.names, action))
            if ticks is not None:
                bar.set_ticks(ticks[0], labels=ticks[1])
        pale = f"pale: under {FEW_VISITS} visits"
        if ax is None:
            found[0, 0].figure.suptitle(f"policy{self.part}{f'; {pale}' if is_pale else ''}", fontsize=10)
        elif is_pale:  # the figure may have a title of its own
            below = found[-1, len(self.drawn) // 2]
            below.set_xlabel(f"{below.get_xlabel()}\n{pale}")
        return found

    def _map(self, ax: Any, drawn: _Drawn, action: int, kind: str, **look: Any) -> Any:
        from matplotlib.colors import ListedColormap

        places, column = drawn.places, action - self.n_state
        if kind == "optimal":
            assert self.optimal is not None
            places = [
                _places(drawn.cut.view, i, end, N_OPTIMAL, N_OPTIMAL) for i, end in zip(self.across, self.ends, strict=True)
            ]
            values = drawn.best(self.optimal, grid(drawn.cut, places))[:, column]
        else:
            values = drawn.actions[:, column]
        x, y = (_borders(place, end) for place, end in zip(places, self._reach(), strict=True))
        shape = len(places[0]), len(places[1])
        mesh = ax.pcolormesh(x, y, values.reshape(shape).T, rasterized=True, **look)
        if kind != "optimal" and drawn.is_pale.any():
            veil = np.ma.masked_where(~drawn.is_pale, np.ones(drawn.is_pale.shape)).reshape(shape).T
            ax.pcolormesh(x, y, veil, cmap=ListedColormap(["white"]), alpha=1 - 1.6 * FAINT, rasterized=True)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        tick(ax.xaxis, self.view, self.across[0], self.value_names)
        tick(ax.yaxis, self.view, self.across[1], self.value_names)
        return mesh

    def _reach(self) -> list[tuple[float, float]]:
        """Return the ends of the two axes as drawn: half a value beyond the last of a whole axis."""
        half = [0.5 * self.view.is_whole[i] for i in self.across]
        return [(low - by, high + by) for (low, high), by in zip(self.ends, half, strict=True)]

    def _colors(self, action: int) -> tuple[Any, Any, tuple[list[float], list[str]] | None]:
        """Return the norm and the colormap of an action axis, and ticks with labels if its values are few."""
        import matplotlib as mpl
        from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize

        low, high = self._span(action)
        n = round(high - low)
        if not self.view.is_whole[action] or n > MOST_ROWS * 4:
            return Normalize(low, high), "viridis", None
        colors = COLORS[:n] if n <= len(COLORS) else mpl.colormaps["viridis"](np.linspace(0.0, 1.0, n))
        values = [low + 0.5 + k for k in range(n)]
        names = names_of_values(self.view, action, self.value_names)
        labels = [f"{value:.0f}" if names is None else str(names[k]) for k, value in enumerate(values)]
        return BoundaryNorm(low + np.arange(n + 1), n), ListedColormap(list(colors)), (values, labels)


def grid(cut: Cut, places: list[Floats]) -> Floats:
    """Return the points [n, n_axes] at all combinations of the places along the drawn axes; the first varies slowest."""
    points = np.tile(cut.point, (int(np.prod([len(place) for place in places])), 1))
    points[:, list(cut.drawn)] = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1).reshape(len(points), -1)
    return points


def _chosen(view: View, n_state: int, axes: Sequence[int | str] | None) -> tuple[list[int], list[int]]:
    """Return the state axes to draw, one or two, and the action axes."""
    states, actions = view.part(slice(0, n_state)), view.part(slice(n_state, None))
    if axes is None:
        return states.first("state", 2), [n_state + i for i in actions.first("action", MOST_ROWS)]
    if len(axes) == 2 and all(isinstance(axis, (int, np.integer)) for axis in axes):
        state, action = int(axes[0]), int(axes[1])
        if not (0 <= state < n_state and 0 <= action < len(actions.names)):
            raise SpaceError(
                f"axes={axes}: give a state axis from 0 to {n_state - 1} and an action axis from 0 to {len(actions.names) - 1}"
            )
        return [state], [n_state + action]
    found = [view.index(axis, "axes") for axis in axes]
    across, up = [i for i in found if i < n_state], [i for i in found if i >= n_state]
    if not 1 <= len(across) <= 2 or len({*found}) < len(found):
        raise SpaceError(f"axes={tuple(axes)}: name one or two different state axes, and action axes if not all shall be drawn")
    return across, up or [n_state + i for i in actions.first("action", MOST_ROWS)]


def _ends(states: View, i: int, limits: Limits | None) -> tuple[float, float]:
    """Return the first and the last value to draw of a state axis."""
    left, right = float(states.low[i]), float(states.high[i])
    if isinstance(limits, Mapping):
        given = {states.index(axis, "limits"): pair for axis, pair in limits.items()}
        left, right = given.get(i, (left, right))
    elif limits is not None:
        left, right = limits
    if not -np.inf < left <= right < np.inf or (left == right and not states.is_whole[i]):
        raise SpaceError(f"{states.names[i]} from {left} to {right}: give limits={{{states.names[i]!r}: (low, high)}}")
    return left, right


def _places(states: View, i: int, ends: tuple[float, float], n: int, most: int) -> Floats:
    """Return the values to draw of a state axis: n evenly spread, or all whole ones, at most `most`."""
    if states.is_whole[i]:
        values = np.arange(np.ceil(ends[0]), np.floor(ends[1]) + 1)
        return values if len(values) <= most else np.unique(np.rint(np.linspace(values[0], values[-1], most)))
    return np.linspace(*ends, n)


def _borders(places: Floats, ends: tuple[float, float]) -> Floats:
    """Return the borders of cells around places: halfway between them, and the ends of the picture."""
    return np.concatenate([[ends[0]], (places[1:] + places[:-1]) / 2, [ends[1]]])


def _where(agent: Any, step: int, states: View) -> Floats:
    """Return the state that is cut through: that of the most visited ball; of an agent without balls, the middle."""
    found = None
    if hasattr(agent, "balls"):
        balls = agent.balls(step)
        found = most_visited(balls.state, balls.n_visits, balls.depth)
    elif type(agent).partition is not Agent.partition:
        found = agent.partition(step).center()[: len(states.names)]
    return states.middle() if found is None else states.values(np.clip(found, states.low, states.high))


def _dashes(
    ax: Any, x: Floats, played: Floats, is_pale: NDArray[np.bool_], best: Floats | None, shade: Any, name: str, k: int,
    n: int, step: int,
) -> None:  # fmt: skip
    """Draw a dash for each value of a discrete axis, those of n steps side by side."""
    width = 0.84 / n
    left = x - 0.42 + k * width
    for shown, look in ((is_pale, {"alpha": FAINT}), (~is_pale, {"label": name})):
        heights = np.where(shown, played, np.nan)
        ax.hlines(heights, left + 0.06 * width, left + 0.94 * width, color=shade, linewidth=3, **look)
    if best is not None:
        marks = {"marker": "o", "markerfacecolor": "none", "markersize": 5, "linestyle": "none"}
        ax.plot(left + width / 2, best, color=shade, label=f"_optimal {step}", **marks)
