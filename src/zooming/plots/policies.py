"""Plot policies: the learned action as lines over one state axis, or as maps over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.agents.base.agent import Agent
from zooming.analysis.optimal import Optimal
from zooming.errors import ConfigurationError
from zooming.partitions.view import Cut, View, most_visited, view_of
from zooming.plots.partitions import add_colorbar, axis_label, set_ticks, wrap
from zooming.plots.style import GRAY, LINES, drawing, panels
from zooming.validation import Floats, short_repr

Limits = Mapping[str, tuple[float, float]]
MOST_STEPS = {1: 6, 2: 3}  # steps drawn by default over one state axis, over two
MOST_ROWS = 4  # action axes drawn by default
N_POINTS = {1: 201, 2: 41}  # along a continuous axis
MOST_VALUES = {1: 200, 2: 60}  # integers shown along an axis
EVERY = 50  # each optimal action takes a search, so that so many of a line are drawn


def policy(
    agent: Agent,
    ax: Any = None,
    *,
    steps: Sequence[int] | None = None,
    optimal: Optimal | None = None,
    axes: Sequence[int | str] | None = None,
    at: Any = None,
    limits: Limits | None = None,
    n: int | None = None,
) -> Any:
    """Draw the learned action over the states.

    With one state axis, each step is a line. With several state axes, the plot is a map over two
    of them, colored by the action, with one panel per step and action axis. The title says where
    the other state axes are cut.

    Parameters
    ----------
    agent : Agent
        The agent whose greedy policy is drawn.
    ax : Axes or several, optional
        The Axes to draw on: one for each panel, or one that is divided. By default new ones.
    steps : sequence of int, optional
        The steps to draw. By default at most six as lines, or three as maps, evenly spaced.
    optimal : Optimal, optional
        The result of `zooming.solve`. Lines have its actions, too, dashed and in the color of the
        step.
    axes : sequence of axes, optional
        Names or numbers of the axes to draw: ("state[1]", "action[0]") for lines, ("state[0]",
        "state[2]") for maps. Without an action axis, the first four are drawn.
    at : dict, optional
        Where to cut some of the other state axes: {axis: value}. By default at the center of the
        most visited ball of each step.
    limits : dict, optional
        The smallest and largest state to draw on an axis: {axis: (low, high)}.
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
    if not isinstance(agent, Agent):
        raise ConfigurationError(
            f"plots.policy draws the policy of an agent, for example zooming.Auto(env), and "
            f"{short_repr(agent)} is none"
        )
    view, n_state = view_of(agent.axes), agent.axes.n_state
    states = view.part(slice(0, n_state))
    across, actions = _choose_axes(view, n_state, axes)
    n_across = len(across)
    if steps is None:
        chosen = some_steps(agent.horizon, MOST_STEPS[n_across])
    else:
        chosen = [agent.problem.check_step(step) for step in steps]
    if not chosen:
        raise ConfigurationError("steps is empty: give the steps to draw, for example steps=[0]")
    ends = [_axis_limits(states, i, limits) for i in across]
    n, most = n or N_POINTS[n_across], MOST_VALUES[n_across]
    places = [_values(states, i, end, n, most) for i, end in zip(across, ends, strict=True)]
    cuts = [states.cut(across, at, _default_state(agent, step, states)) for step in chosen]
    drawn = [_play(agent, step, cut, places) for step, cut in zip(chosen, cuts, strict=True)]
    picture = _Picture(view, n_state, across, actions, places, ends, drawn, agent.horizon)
    found = picture.lines(ax, optimal) if n_across == 1 else picture.maps(ax)
    return found[0, 0] if found.size == 1 else found


def some_steps(horizon: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced steps to show. The first and the last are among them.

    >>> some_steps(3, 5), some_steps(40, 5)
    ([0, 1, 2], [0, 10, 20, 29, 39])
    """
    return [round(step) for step in np.linspace(0, horizon - 1, min(horizon, most)).tolist()]


def _choose_axes(
    view: View, n_state: int, axes: Sequence[int | str] | None
) -> tuple[list[int], list[int]]:
    """Return the state axes to draw (one or two) and the action axes to draw."""
    usual = view.part(slice(n_state, None)).first("action", MOST_ROWS)
    actions = [n_state + i for i in usual]
    if axes is None:
        return view.part(slice(0, n_state)).first("state", 2), actions
    found = [view.index(axis, "axes") for axis in axes]
    across, up = [i for i in found if i < n_state], [i for i in found if i >= n_state]
    if not 1 <= len(across) <= 2 or len({*found}) < len(found):
        raise ConfigurationError(
            f"axes={tuple(axes)}: name one or two different state axes; to draw only some of the "
            "action axes, name these too"
        )
    return across, up or actions


def _axis_limits(states: View, i: int, limits: Limits | None) -> tuple[float, float]:
    """Return the smallest and the largest value to draw on a state axis."""
    left, right = float(states.low[i]), float(states.high[i])
    given = {states.index(axis, "limits"): pair for axis, pair in (limits or {}).items()}
    left, right = given.get(i, (left, right))
    if not -np.inf < left <= right < np.inf or (left == right and not states.is_whole[i]):
        raise ConfigurationError(
            f"{states.names[i]} from {left} to {right}: give limits={{{states.names[i]!r}: (low, "
            f"high)}}"
        )
    return left, right


def _values(states: View, i: int, ends: tuple[float, float], n: int, most: int) -> Floats:
    """Return the values to draw on a state axis: n evenly spaced, or at most `most` integers."""
    if not states.is_whole[i]:
        return np.linspace(*ends, n)
    values = np.arange(np.ceil(ends[0]), np.floor(ends[1]) + 1)
    if len(values) <= most:
        return values
    return np.unique(np.rint(np.linspace(values[0], values[-1], most)))


def _default_state(agent: Any, step: int, states: View) -> Floats:
    """Return the state of the most visited ball, or the middle of the space without balls."""
    found = None
    if hasattr(agent, "balls"):
        balls = agent.balls(step)
        found = most_visited(balls.state, balls.n_visits, balls.depth)
    elif type(agent).partition is not Agent.partition:
        found = agent.partition(step).center()[: len(states.names)]
    if found is None:
        return states.middle()
    return states.values(np.clip(found, states.low, states.high))


@dataclass(frozen=True)
class _Shown:
    """The greedy actions of one step in all states of a plot."""

    step: int
    cut: Cut
    states: Floats
    actions: Floats


def _play(agent: Agent, step: int, cut: Cut, places: list[Floats]) -> _Shown:
    """Ask for the actions in all combinations of `places`, the first axis slowest."""
    states = np.tile(cut.point, (int(np.prod([len(place) for place in places])), 1))
    grid = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1)
    states[:, list(cut.drawn)] = grid.reshape(len(states), -1)
    space = agent.axes
    played = agent.predict(space.states.shaped(states), state=np.full(len(states), step))[0]
    return _Shown(step, cut, states, space.actions.batch(played, "action")[0])


@dataclass(frozen=True)
class _Picture:
    """The policy of several steps, with everything needed to draw it."""

    view: View
    n_state: int
    across: list[int]
    action_axes: list[int]  # numbered in the view
    places: list[Floats]
    ends: list[tuple[float, float]]
    drawn: list[_Shown]
    horizon: int

    def lines(self, ax: Any, optimal: Optimal | None) -> Any:
        """Draw the actions over one state axis, one panel per action axis."""
        n_rows = len(self.action_axes)
        rows = panels(ax, n_rows, 1, (5 - 1.2, 3.3 if n_rows == 1 else 2.4))
        for row, action in zip(rows[:, 0], self.action_axes, strict=True):
            with drawing(row, boxed=True) as one:
                self._lines(one, action, optimal)
        cuts = {str(drawn.cut) for drawn in self.drawn}
        where = f" at {self.drawn[0].cut}" if len(cuts) == 1 and cuts != {""} else ""
        rows[0, 0].set_title("\n".join(wrap(f"policy{where}{self._part}")))
        return rows

    @property
    def _part(self) -> str:
        """Text for the title on how many of the steps are drawn. It is empty if all are."""
        n = len(self.drawn)
        return f", {n} of {self.horizon} steps" if n < self.horizon else ""

    def _lines(self, ax: Any, action: int, optimal: Optimal | None) -> None:
        import matplotlib as mpl

        i, column = self.across[0], action - self.n_state
        is_whole = self.view.is_whole[i]
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.75, len(self.drawn)))
        cuts = {str(drawn.cut) for drawn in self.drawn}
        for k, (drawn, shade) in enumerate(zip(self.drawn, shades, strict=True)):
            name = f"step {drawn.step}" + (f", {drawn.cut}" if len(cuts) > 1 else "")
            look = {"color": shade, "linestyle": LINES[k % len(LINES)]}
            if optimal is not None:
                n = 1 if is_whole else max(1, len(drawn.states) // EVERY)
                few = drawn.states[::n]
                best = [np.atleast_1d(optimal.action(drawn.step, state))[column] for state in few]
                dashed = {"color": shade, "linewidth": 0.9, "linestyle": "--"}
                ax.plot(few[:, i], best, label=f"_optimal {drawn.step}", **dashed)
                look["linestyle"] = "-"  # dashed lines are the optimum
            look["drawstyle"] = "steps-mid" if is_whole else "default"
            ax.plot(drawn.states[:, i], drawn.actions[:, column], label=name, **look)
        low, high = self._span(action)
        margin = 0.02 * (high - low)  # keeps a line at the border visible
        ax.set(xlim=self._reach()[0], ylim=(low - margin, high + margin))
        ax.set(xlabel=axis_label(self.view.names, i), ylabel=axis_label(self.view.names, action))
        set_ticks(ax.xaxis, self.view, i)
        set_ticks(ax.yaxis, self.view, action)
        if optimal is not None:
            ax.plot([], [], color=GRAY, linewidth=0.9, linestyle="--", label="optimal")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))  # outside: lines may be anywhere

    def _span(self, action: int) -> tuple[float, float]:
        """Return the range of an action axis, with played actions in place of infinite ends."""
        low, high = float(self.view.low[action]), float(self.view.high[action])
        played = np.concatenate([drawn.actions[:, action - self.n_state] for drawn in self.drawn])
        low = low if np.isfinite(low) else float(played.min())
        high = high if np.isfinite(high) else float(played.max())
        half = 0.5 if self.view.is_whole[action] or low == high else 0.0
        return low - half, high + half

    def _reach(self) -> list[tuple[float, float]]:
        """Return the drawn ranges of the state axes. Discrete axes extend by half a value."""
        half = [0.5 * self.view.is_whole[i] for i in self.across]
        return [(low - by, high + by) for (low, high), by in zip(self.ends, half, strict=True)]

    def maps(self, ax: Any) -> Any:
        """Draw the actions over two state axes, one panel per step and action axis."""
        rows = panels(ax, len(self.action_axes), len(self.drawn))
        names = self.view.names
        for r, action in enumerate(self.action_axes):
            low, high = self._span(action)
            for k, drawn in enumerate(self.drawn):
                with drawing(rows[r, k], boxed=True) as one:
                    mesh = self._map(one, drawn, action, vmin=low, vmax=high)
                    if r == len(rows) - 1:
                        one.set_xlabel(axis_label(names, self.across[0]))
                    if k == 0:
                        one.set_ylabel(axis_label(names, self.across[1]))
                    if r == 0:
                        one.set_title("\n".join([f"step {drawn.step}", *wrap(drawn.cut.caption)]))
            add_colorbar(mesh, list(rows[r]), axis_label(names, action))
        if ax is None:  # the caller's figure may have its own title
            rows[0, 0].figure.suptitle(f"policy{self._part}", fontsize=10)
        return rows

    def _map(self, ax: Any, drawn: _Shown, action: int, **look: Any) -> Any:
        x, y = (
            np.concatenate([end[:1], (place[1:] + place[:-1]) / 2, end[1:]])
            for place, end in zip(self.places, self._reach(), strict=True)
        )
        values = drawn.actions[:, action - self.n_state].reshape(len(x) - 1, len(y) - 1)
        mesh = ax.pcolormesh(x, y, values.T, rasterized=True, **look)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        set_ticks(ax.xaxis, self.view, self.across[0])
        set_ticks(ax.yaxis, self.view, self.across[1])
        return mesh
