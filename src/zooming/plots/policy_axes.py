"""Choose the axes and the states at which a policy is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.errors import ConfigurationError
from zooming.partitions.cuts import Cut, View, most_visited
from zooming.validation import Floats

Limits = tuple[float, float] | Mapping[str, tuple[float, float]]
MOST_STEPS_DRAWN = 6  # lines in one plot
MOST_MAPS = 3  # steps of a policy drawn as maps
MOST_ROWS = 4  # action axes drawn by default
FEW_VISITS = 10  # actions of balls with fewer visits are drawn pale
FAINT = 0.25  # opacity
N_LINE, N_MAP, N_OPTIMAL = 201, 41, 15  # points along a continuous axis
MOST_DASHES = 24  # values of a discrete axis drawn as dashes; more are drawn as a staircase
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


def draw_dashes(
    ax: Any, x: Floats, played: Floats, is_pale: NDArray[np.bool_], best: Floats | None,
    shade: Any, name: str, k: int,
    n: int, step: int,
) -> None:  # fmt: skip
    """Draw a dash at each value of a discrete axis. The dashes of n steps are side by side.

    This call draws step number k of the n steps.
    """
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
