"""Plot policies: the learned action as lines over one state axis, or as maps over two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zooming.agents.agent import Agent
from zooming.analysis.optimal import Optimal
from zooming.errors import ConfigurationError
from zooming.partitions.cuts import view_of
from zooming.partitions.view import some_steps
from zooming.plots.partitions import (
    ValueNames,
)
from zooming.plots.policy_axes import (
    MOST_MAPS,
    MOST_STEPS_DRAWN,
    MOST_VALUES,
    N_LINE,
    N_MAP,
    Limits,
    axis_limits,
    axis_values,
    choose_axes,
    default_state,
)
from zooming.plots.policy_pictures import Picture, Shown
from zooming.validation import short_repr


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
    own_names = agent.value_names() if hasattr(agent, "value_names") else {}  # of a metric's points
    names = {**own_names, **(value_names or {})}
    states = view.part(slice(0, space.n_state))
    ends = [axis_limits(states, i, limits) for i in across]
    n = n or (N_LINE if len(across) == 1 else N_MAP)
    most = MOST_VALUES[len(across)]
    places = [axis_values(states, i, end, n, most) for i, end in zip(across, ends, strict=True)]
    cuts = [states.cut(across, at, default_state(agent, step, states)) for step in chosen]
    drawn = [
        Shown(agent, step, cut, places, ends, info) for step, cut in zip(chosen, cuts, strict=True)
    ]
    picture = Picture(
        view, space.n_state, across, actions, drawn, ends, names, optimal, agent.horizon
    )
    found = picture.lines(ax) if len(across) == 1 else picture.maps(ax)
    return found[0, 0] if found.size == 1 else found
