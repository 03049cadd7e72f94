"""Partitions and policies: what the agent knows, over the state-action space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.agents.base import Agent
from zooming.errors import SpaceError
from zooming.optimal import Optimal
from zooming.partition import Partition, some_steps
from zooming.plots.look import GRAY, LINES, TICKS, drawing

Floats = NDArray[np.float64]
MOST_STEPS = 6  # lines of a policy that a reader can tell apart
FEW_VISITS = 10  # of a ball: what is played there is hardly learned yet
FAINT = 0.25  # opacity


def partition(
    balls: Partition,
    ax: Any = None,
    *,
    optimal: Optimal | None = None,
    axes: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    colorbar: bool = True,
    cmap: str = "viridis",
    limits: tuple[float, float] | None = None,
    n: int = 101,
) -> Any:
    """The active balls of a step, colored by their Q, from the first of the `limits` to the second.

    With `optimal` (from `zooming.solve`) their borders over Q* instead, on n x n points: fine where Q* is high, if all is well.
    With more than two dimensions it is a slice along `axes` (by default the first state and the first action axis), through the
    point `at` (by default the middle of the space).
    """
    if not isinstance(balls, Partition):
        raise SpaceError(f"a {type(balls).__name__} is not a partition; give that of a step, for example agent.partition(0)")
    (horizontal, vertical), point, shown = balls.slice(axes, at)
    pair = [horizontal, vertical]
    low, high = balls.window()
    first, last = (np.clip(corner, low, high)[shown][:, pair] for corner in (balls.low, balls.high))
    sides = (last - first) / (high - low)[pair]
    with drawing(ax, boxed=True) as ax:
        # Thinner borders around smaller balls: they must not hide what they enclose.
        borders = {"linewidth": np.clip(12 * sides.min(axis=1, initial=1.0), 0.12, 0.5)}
        if optimal is None:
            drawn = _boxes(first, last, cmap=cmap, edgecolor="white", **borders)
            drawn.set_array(balls.q_value[shown])
            ax.add_collection(drawn)
        else:
            x, y, q = _over_optimum(balls, optimal, pair, point, n)
            drawn = ax.pcolormesh(x, y, q, shading="gouraud", cmap=cmap, rasterized=True)
            edges = {"facecolor": "none", "edgecolor": "black", "linewidth": 1.4 * borders["linewidth"]}
            ax.add_collection(_boxes(first, last, **edges))
        if limits:
            drawn.set_clim(*limits)
        ax.set(xlim=(low[horizontal], high[horizontal]), ylim=(low[vertical], high[vertical]))
        ax.set(xlabel=label(balls.names, horizontal), ylabel=label(balls.names, vertical))
        part = f", a slice through {int(shown.sum())}" if len(balls.names) > 2 else ""
        ax.set_title(f"step {balls.step}: {len(balls)} balls" + ("" if optimal is None else " over Q*") + part)
        if colorbar:
            bar = ax.figure.colorbar(drawn, ax=ax, label="Q" if optimal is None else "Q*")
            bar.outline.set_linewidth(0.8)
            bar.ax.tick_params(labelsize=TICKS)
    return ax


def partition_over_optimum(balls: Partition, optimal: Optimal, ax: Any = None, **options: Any) -> Any:
    """The borders of the balls over Q* in color: `partition` with `optimal`."""
    return partition(balls, ax, optimal=optimal, **options)


def policy(
    agent: Agent,
    ax: Any = None,
    *,
    steps: Sequence[int] | None = None,
    optimal: Optimal | None = None,
    axes: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    limits: tuple[float, float] | None = None,
    n: int = 201,
) -> Any:
    """The learned action against the state, one line for each of the `steps` (by default at most six, evenly chosen).

    A line is faint where its ball has fewer than ten visits: there it means little. With `optimal` the best actions too, dashed
    and in the color of their step. With more state or action axes it is a slice: `axes` are the state and the action axis to
    show (both counted from 0), through the state `at` (by default the middle of the space). `limits` are the least and the
    largest state to draw.
    """
    space = agent.axes
    if not isinstance(space.state_space, gym.spaces.Box):
        raise SpaceError(
            f"a policy is drawn over a Box of states; these are a {type(space.state_space).__name__}. For MetricQ there is "
            f"plots.balls(agent.balls(step)); agent.predict takes many states at once"
        )
    state_axis, action_axis = axes or (0, 0)
    if not (0 <= state_axis < space.n_state and 0 <= action_axis < space.n_action):
        raise SpaceError(
            f"axes={axes}: give a state axis from 0 to {space.n_state - 1} and an action axis from 0 to {space.n_action - 1}"
        )
    low, high = space.low[: space.n_state], space.high[: space.n_state]
    point = _middle(low, high) if at is None else np.asarray(at, np.float64).reshape(-1)
    if point.shape != low.shape or not ((low <= point) & (point <= high)).all():
        raise SpaceError(f"at={at!r}: give one state, {space.n_state} numbers between {low.tolist()} and {high.tolist()}")
    left, right = (low[state_axis], high[state_axis]) if limits is None else limits
    if not -np.inf < left < right < np.inf:
        raise SpaceError(f"{space.names[state_axis]} from {left} to {right}: give limits=(low, high), the states to draw")
    chosen = some_steps(agent.horizon, MOST_STEPS) if steps is None else list(steps)
    states = np.tile(point, (n, 1))
    states[:, state_axis] = np.linspace(left, right, n)
    observations = states.reshape(n, *space.state_space.shape)
    few = states[:: max(1, n // 50)]  # the optimum has few kinks, and each of its actions takes a search
    with drawing(ax, boxed=True) as ax:
        import matplotlib as mpl

        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.75, max(len(chosen), 1)))  # steps have an order
        if optimal is not None:
            for step, shade in zip(chosen, shades, strict=True):
                best = [np.atleast_1d(optimal.action(step, state))[action_axis] for state in few]
                ax.plot(few[:, state_axis], best, color=shade, linewidth=0.9, linestyle="--", label=f"_optimal {step}")
        is_faint = False
        for i, (step, shade) in enumerate(zip(chosen, shades, strict=True)):
            actions = agent.predict(observations, state=np.full(n, step))[0]
            few_visits = _hardly_visited(agent, step, observations, actions)
            is_faint |= bool(few_visits.any())
            # Dashes are the optimum's, if it is there.
            look = {"color": shade, "linestyle": LINES[i % len(LINES)] if optimal is None else "-"}
            x, played = states[:, state_axis], actions.reshape(n, -1)[:, action_axis]
            near = few_visits | np.roll(few_visits, 1) | np.roll(few_visits, -1)  # so that the faint part joins the other
            ax.plot(x, np.where(near, played, np.nan), alpha=FAINT, **look)
            ax.plot(x, np.where(few_visits, np.nan, played), label=f"step {step}", **look)
        bounds = space.low[space.n_state + action_axis], space.high[space.n_state + action_axis]
        margin = 0.02 * (bounds[1] - bounds[0])  # a line at the border is a line too
        ax.set(xlim=(left, right), ylim=(bounds[0] - margin, bounds[1] + margin))
        names = space.names
        ax.set(xlabel=label(names, state_axis), ylabel=label(names, space.n_state + action_axis))
        others = [f"{names[i]} = {point[i]:.3g}" for i in range(space.n_state) if i != state_axis]
        part = f", {len(chosen)} of {agent.horizon} steps" if len(chosen) < agent.horizon else ""
        ax.set_title("policy" + (f" at {', '.join(others)}" if others else "") + part)
        handles = ax.get_legend_handles_labels()[0]
        if optimal is not None:
            handles += ax.plot([], [], color=GRAY, linewidth=0.9, linestyle="--", label="optimal")
        if is_faint:
            handles += ax.plot([], [], color=GRAY, alpha=FAINT, label=f"under {FEW_VISITS} visits")
        ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the lines, which may be anywhere
    return ax


def _hardly_visited(agent: Agent, step: int, observations: Floats, actions: Any) -> NDArray[np.bool_]:
    """Where the ball of (observation, action) has few visits; nowhere for an agent without balls."""
    if type(agent).visits is Agent.visits:
        return np.zeros(len(observations), bool)
    pairs = zip(observations, actions, strict=True)
    return np.array([agent.visits(step, observation, action) < FEW_VISITS for observation, action in pairs])


def _over_optimum(balls: Partition, optimal: Optimal, pair: list[int], point: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    low, high = balls.window()
    x, y = (np.linspace(low[axis], high[axis], n) for axis in pair)
    points = np.tile(point, (n * n, 1))
    points[:, pair] = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    n_state = sum(name.startswith("state") for name in balls.names)
    states, actions = optimal.grid.env.playable(points[:, :n_state], points[:, n_state:])
    return x, y, optimal.q_values(balls.step, states, actions).reshape(n, n)


def _middle(low: Floats, high: Floats) -> Floats:
    """Of each axis; 0, or the one end, where there is no other."""
    finite_low, finite_high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
    return np.nan_to_num((finite_low + finite_high) / 2, nan=0.0, posinf=0.0, neginf=0.0)


def _boxes(low: Floats, high: Floats, **options: Any) -> Any:
    from matplotlib.collections import PolyCollection

    left, bottom, right, top = low[:, 0], low[:, 1], high[:, 0], high[:, 1]
    corners = np.stack([left, bottom, right, bottom, right, top, left, top], axis=1).reshape(-1, 4, 2)
    return PolyCollection(corners, **options)  # type: ignore[arg-type]  # an array of polygons is documented


def label(names: Sequence[str], axis: int) -> str:
    """What an axis is called: by its kind, if it is the only one of it."""
    kind = names[axis].split("[")[0]
    return kind if sum(name.startswith(kind) for name in names) == 1 else names[axis]
