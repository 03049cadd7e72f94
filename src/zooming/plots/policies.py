"""Plot policies: the learned action as lines over one state axis, or as maps over two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.base.status import spread_visits
from zooming.analysis.optimal import Optimal
from zooming.errors import ConfigurationError
from zooming.kernels.boxes.layout import LOW, WIDTH
from zooming.kernels.plans.layout import WEIGHT
from zooming.partitions.view import Cut, View, most_visited, view_of
from zooming.plots.look import COLORS, GRAY, LINES, drawing, panels
from zooming.plots.partitions import add_colorbar, axis_label, set_ticks, wrap
from zooming.validation import Floats, short_repr

Limits = tuple[float, float] | Mapping[str, tuple[float, float]]
MOST_STEPS_DRAWN = 6  # lines in one plot
MOST_MAPS = 3  # steps of a policy drawn as maps
MOST_ROWS = 4  # action axes drawn by default
N_LINE, N_MAP, N_OPTIMAL = 201, 41, 15  # points along a continuous axis
MOST_VALUES = {1: 200, 2: 60}  # integers shown along an axis of lines, of maps


def grid(cut: Cut, places: list[Floats]) -> Floats:
    """Return all combinations of `places` along the drawn axes [n, n_axes], first axis slowest."""
    points = np.tile(cut.point, (int(np.prod([len(place) for place in places])), 1))
    points[:, list(cut.drawn)] = np.stack(np.meshgrid(*places, indexing="ij"), axis=-1).reshape(
        len(points), -1
    )
    return points


def choose_axes(
    view: View, n_state: int, axes: Sequence[int | str] | None
) -> tuple[list[int], list[int]]:
    """Return the state axes to draw (one or two) and the action axes to draw."""
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
            f"axes={tuple(axes)}: name one or two different state axes; to draw only some of the "
            "action axes, name these too"
        )
    return across, up or [n_state + i for i in actions.first("action", MOST_ROWS)]


def some_steps(horizon: int, most: int) -> list[int]:
    """Return at most `most` evenly spaced steps to show. The first and the last are among them.

    >>> some_steps(3, 5), some_steps(40, 5)
    ([0, 1, 2], [0, 10, 20, 29, 39])
    """
    return [round(step) for step in np.linspace(0, horizon - 1, min(horizon, most)).tolist()]


def axis_limits(states: View, i: int, limits: Limits | None) -> tuple[float, float]:
    """Return the smallest and the largest value to draw on a state axis."""
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


def axis_values(states: View, i: int, ends: tuple[float, float], n: int, most: int) -> Floats:
    """Return the values to draw on a state axis: n evenly spaced, or at most `most` integers."""
    if states.is_whole[i]:
        values = np.arange(np.ceil(ends[0]), np.floor(ends[1]) + 1)
        return (
            values
            if len(values) <= most
            else np.unique(np.rint(np.linspace(values[0], values[-1], most)))
        )
    return np.linspace(*ends, n)


def cell_borders(places: Floats, ends: tuple[float, float]) -> Floats:
    """Return cell borders: halfway between the places, and at the ends."""
    return np.concatenate([[ends[0]], (places[1:] + places[:-1]) / 2, [ends[1]]])


def default_state(agent: Any, step: int, states: View) -> Floats:
    """Return the state of the most visited ball, or the middle of the space without balls."""
    found = None
    if hasattr(agent, "balls"):
        balls = agent.balls(step)
        found = most_visited(balls.state, balls.n_visits, balls.depth)
    elif type(agent).partition is not Agent.partition:
        found = agent.partition(step).center()[: len(states.names)]
    return (
        states.middle() if found is None else states.values(np.clip(found, states.low, states.high))
    )


NEAR = 0.05  # a visit is near a state if it is at most this share of each drawn axis away
AT_ONCE = 20_000  # boxes that are compared with all drawn states at once: about 100 MB
UNSEEN = "no visits nearby"
SHADE = "0.92"  # gray

Boxes = tuple[Floats, Floats, Floats]  # low corners, high corners, visits


def have_visits(
    agent: Any, step: int, cut: Cut, places: list[Floats], ends: list[tuple[float, float]]
) -> NDArray[np.bool_] | None:
    """Return for each drawn state whether the agent has visited a state near it at a step.

    The states are all combinations of `places`, first axis slowest. On a discrete axis, only the
    value itself is near. None if the agent does not know where it has been, or was nowhere.
    """
    found = _sampled_states(agent, step)
    low, high, visits = _visited_boxes(agent, step, cut) if found is None else found
    if not visits.sum() > 0:
        return None
    near: Any = 0.0
    for first in range(0, len(visits), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        near = near + _visits_near(low[part], high[part], visits[part], cut, places, ends)
    return np.asarray(near.ravel() > 1.0 - 1e-9)


def _visits_near(
    low: Floats,
    high: Floats,
    visits: Floats,
    cut: Cut,
    places: list[Floats],
    ends: list[tuple[float, float]],
) -> Floats:
    """Return how many visits of some boxes are near each drawn state."""
    shares = []
    for i, along, (left, right) in zip(cut.drawn, places, ends, strict=True):
        reach = 0.5 if cut.view.is_whole[i] else NEAR * (right - left)
        begin, end = along[:, None] - reach, along[:, None] + reach
        inside = np.minimum(end, high[:, i]) - np.maximum(begin, low[:, i])
        width = high[:, i] - low[:, i]
        share = np.maximum(inside, 0.0) / np.where(width > 0, width, 1.0)
        shares.append(np.where(width > 0, share, inside >= 0))  # a sample has no width
    near = shares[0] * visits
    return np.asarray(near.sum(axis=1) if len(shares) == 1 else near @ shares[1].T)


def _sampled_states(agent: Any, step: int) -> Boxes | None:
    """Return the states of a planner's samples of a step as boxes without width.

    None if neither the agent nor one of its `agents` keeps samples.
    """
    for keeper in (agent, *getattr(agent, "agents", ())):
        table: Any = getattr(keeper, "table", None)
        if not hasattr(table, "samples"):
            continue
        axes = keeper.axes
        own, n = slice(0, axes.n_state), table.n_samples
        is_own = table.samples.steps[:n] == step
        unit = (table.samples.places[:n][is_own, own] + 0.5) / np.asarray(table.units)[own]
        scaled = axes.table[own, LOW] + unit * axes.table[own, WIDTH]
        states = np.asarray(axes.from_unit_cube(scaled, 0), np.float64)
        return states, states, table.samples.numbers[:n][is_own, WEIGHT].astype(np.float64)
    return None


def _visited_boxes(agent: Any, step: int, cut: Cut) -> Boxes:
    """Return the balls of a step as boxes of states, with their visits.

    Balls that do not contain the fixed values of the axes that are not drawn have 0 visits. A visit
    is spread evenly over the ball that was visited, also if it was split later.
    """
    try:
        balls = agent.partition(step)
    except (AttributeError, NotImplementedError, ConfigurationError):
        return np.empty((0, len(cut.point))), np.empty((0, len(cut.point))), np.empty(0)
    first, last = balls.window()
    low, high = np.maximum(balls.low, first), np.minimum(balls.high, last)
    visits = spread_visits(agent, step, balls, (high - low).prod(axis=1))
    others = [i for i in range(len(cut.point)) if i not in cut.drawn]
    at = cut.point[others]
    is_cut = (balls.low[:, others] <= at) & (at <= balls.high[:, others])
    return low, high, visits * is_cut.all(axis=1)


def shade_unseen(ax: Any, borders: Floats, is_seen: NDArray[np.bool_]) -> None:
    """Shade the parts of a state axis without visits nearby. The first part has a label.

    `borders` are those of the drawn states: one more than `is_seen` has entries.
    """
    turns = np.flatnonzero(np.diff(np.concatenate([[True], is_seen, [True]])))
    for k, (begin, end) in enumerate(turns.reshape(-1, 2).tolist()):
        label = UNSEEN if k == 0 else "_"
        ax.axvspan(borders[begin], borders[end], color=SHADE, linewidth=0, zorder=-1, label=label)


@dataclass
class Shown:
    """The greedy actions of one step in all states of a plot."""

    agent: Agent
    step: int
    cut: Cut
    places: list[Floats]
    ends: list[tuple[float, float]]

    def __post_init__(self) -> None:
        space = self.agent.axes
        self.states = grid(self.cut, self.places)
        steps = np.full(len(self.states), self.step)
        played = self.agent.predict(space.states.shaped(self.states), state=steps)[0]
        self.actions = space.actions.batch(played, "action")[0]
        seen = have_visits(self.agent, self.step, self.cut, self.places, self.ends)
        self.is_seen = np.ones(len(self.states), bool) if seen is None else seen

    def best(self, optimal: Optimal, states: Floats) -> Floats:
        """Return the optimal actions [n, n_action] in some states."""
        return np.array(
            [np.atleast_1d(optimal.action(self.step, state)) for state in states], np.float64
        )


@dataclass
class Picture:
    """The policy of several steps, with everything needed to draw it."""

    view: View
    n_state: int
    across: list[int]
    action_axes: list[int]  # numbered in the view
    drawn: list[Shown]
    ends: list[tuple[float, float]]
    optimal: Optimal | None
    horizon: int

    @property
    def part(self) -> str:
        """Text for the title on how many of the steps are drawn. It is empty if all are."""
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
            ax.plot(x, played, label=name, **look)
        beyond = 0.5 if is_whole else 0.0
        reach = left - beyond, right + beyond
        is_seen = np.any([drawn.is_seen for drawn in self.drawn], axis=0)
        shade_unseen(ax, cell_borders(self.drawn[0].places[0], reach), is_seen)
        low, high = self._span(action)
        margin = 0.02 * (high - low)  # keeps a line at the border visible
        ax.set(xlim=reach, ylim=(low - margin, high + margin))
        ax.set(xlabel=axis_label(self.view.names, i), ylabel=axis_label(self.view.names, action))
        set_ticks(ax.xaxis, self.view, i)
        set_ticks(ax.yaxis, self.view, action)
        shown = ax.get_legend_handles_labels()
        handles = [one for one, label in zip(*shown, strict=True) if label != UNSEEN]
        if self.optimal is not None:
            handles += ax.plot([], [], color=GRAY, linewidth=0.9, linestyle="--", label="optimal")
        handles += [one for one, label in zip(*shown, strict=True) if label == UNSEEN]
        ax.legend(
            handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5)
        )  # outside: lines may be anywhere

    def _span(self, action: int) -> tuple[float, float]:
        """Return the range of an action axis.

        An infinite end is replaced by the smallest or the largest drawn action.
        """
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
        note = "" if all(drawn.is_seen.all() for drawn in self.drawn) else f"gray: {UNSEEN}"
        if ax is None:
            text = "; ".join(filter(None, [f"policy{self.part}", note]))
            found[0, 0].figure.suptitle(text, fontsize=10)
        elif note:  # the caller's figure may have its own title
            below = found[-1, len(self.drawn) // 2]
            below.set_xlabel(f"{below.get_xlabel()}\n{note}")
        return found

    def _map(self, ax: Any, drawn: Shown, action: int, kind: str, **look: Any) -> Any:
        from matplotlib.colors import ListedColormap

        places, column = drawn.places, action - self.n_state
        if kind == "optimal":
            assert self.optimal is not None
            places = [
                axis_values(drawn.cut.view, i, end, N_OPTIMAL, N_OPTIMAL)
                for i, end in zip(self.across, self.ends, strict=True)
            ]
            values = drawn.best(self.optimal, grid(drawn.cut, places))[:, column]
        else:
            values = drawn.actions[:, column]
        x, y = (cell_borders(place, end) for place, end in zip(places, self._reach(), strict=True))
        shape = len(places[0]), len(places[1])
        mesh = ax.pcolormesh(x, y, values.reshape(shape).T, rasterized=True, **look)
        if kind != "optimal" and not drawn.is_seen.all():
            veil = np.ma.masked_where(drawn.is_seen, np.ones(len(drawn.is_seen)))
            shade = ListedColormap([SHADE])
            ax.pcolormesh(x, y, veil.reshape(shape).T, cmap=shade, rasterized=True)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        set_ticks(ax.xaxis, self.view, self.across[0])
        set_ticks(ax.yaxis, self.view, self.across[1])
        return mesh

    def _reach(self) -> list[tuple[float, float]]:
        """Return the drawn ranges of the two axes. Discrete axes extend by half a value."""
        half = [0.5 * self.view.is_whole[i] for i in self.across]
        return [(low - by, high + by) for (low, high), by in zip(self.ends, half, strict=True)]

    def _colors(self, action: int) -> tuple[Any, Any, tuple[list[float], list[str]] | None]:
        """Return (norm, colormap, ticks) of an action axis. `ticks` is (values, labels).

        `ticks` is None for a continuous axis, and for one with many values.
        """
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
        labels = [f"{value:.0f}" for value in values]
        return (
            BoundaryNorm(low + np.arange(n + 1), n),
            ListedColormap(list(colors)),
            (values, labels),
        )


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

    States that hardly ever occur are gray: within 5 % of each drawn axis there was not one visit,
    over one state axis at none of the drawn steps. `Planner` and `Auto` know their visits. Other
    agents count them by balls, so a visit is spread evenly over its ball. `MetricQ` and heuristics
    do not know them, so nothing is gray.

    Parameters
    ----------
    agent : Agent
        The agent whose greedy policy is drawn.
    ax : Axes or several, optional
        The Axes to draw on: one for each panel, or one that is divided. By default new ones.
    steps : sequence of int, optional
        The steps to draw. By default at most six as lines, or three as maps, evenly spaced.
    optimal : Optimal, optional
        The result of `zooming.solve`. If given, its actions are drawn too: as dashed lines
        in the color of the step, or as a second row of maps.
    axes : sequence of axes, optional
        Names of the axes to draw: ("state[1]", "action[0]") for lines, ("state[0]", "state[2]")
        for maps. Without an action axis, the first four are drawn. Two numbers stand for a state
        axis and an action axis, each counted from 0.
    at : dict or state, optional
        Where to cut the other state axes: {axis: value} for some of them, or one state. By default
        at the center of the most visited ball of each step.
    limits : pair of floats or dict, optional
        The smallest and largest state to draw, or {axis: (low, high)}.
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
    space, view = agent.axes, view_of(agent.axes)
    across, actions = choose_axes(view, space.n_state, axes)
    most_steps = MOST_STEPS_DRAWN if len(across) == 1 else MOST_MAPS
    chosen = (
        some_steps(agent.horizon, most_steps)
        if steps is None
        else [agent.problem.check_step(step) for step in steps]
    )
    if not chosen:
        raise ConfigurationError("steps is empty: give the steps to draw, for example steps=[0]")
    states = view.part(slice(0, space.n_state))
    ends = [axis_limits(states, i, limits) for i in across]
    n = n or (N_LINE if len(across) == 1 else N_MAP)
    most = MOST_VALUES[len(across)]
    places = [axis_values(states, i, end, n, most) for i, end in zip(across, ends, strict=True)]
    cuts = [states.cut(across, at, default_state(agent, step, states)) for step in chosen]
    drawn = [Shown(agent, step, cut, places, ends) for step, cut in zip(chosen, cuts, strict=True)]
    picture = Picture(view, space.n_state, across, actions, drawn, ends, optimal, agent.horizon)
    found = picture.lines(ax) if len(across) == 1 else picture.maps(ax)
    return found[0, 0] if found.size == 1 else found
