"""The core of a ball table: write an agent's options for the kernels, and check a stored table."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.base import seeds
from zooming.bonuses import Bernstein, Bonus, Doubling, Exact, Theory, number_of_phase
from zooming.errors import ConfigurationError
from zooming.spaces.axes import Axes
from zooming.validation import as_float, check_int

if TYPE_CHECKING:
    from zooming.agents.tables.q_learner import QLearner

MOST_BALLS = 2**30 - 1  # a table of twice as many rows still has 31-bit row numbers
CAPS = ("remaining", "horizon")
TIES = {"random": kernels.RANDOM, "first": kernels.FIRST}
ACTIONS = {"center": kernels.CENTER, "uniform": kernels.UNIFORM}


def new_core(agent: QLearner, max_balls: int, layout: np.dtype[Any]) -> NDArray[Any]:
    """Return the core of a new table: the options of an agent in the layout of the kernels."""
    low, high = agent.reward_range
    core = np.zeros(1, layout)
    core["max_balls"] = max_balls
    core["random"] = seeds.derive_seed(agent.seed, "agent")
    core["horizon"], core["shared"] = agent.horizon, agent._shares_steps
    core["n_stats"], core["due_power"], core["due_factor"] = kernels.N_STATS, 2.0, 1.0
    core["n_state"], core["n_action"] = agent.axes.n_state, agent.axes.n_action
    core["ties"], core["action_rule"] = TIES[agent.ties], agent._actions[agent.action]
    core["full_cap"] = agent.cap == "horizon"
    core["reward_low"], core["reward_high"], core["reward_span"] = low, high, high - low
    write_bonus(core, agent.bonus, agent._has_only_atoms())
    return core


def write_bonus(core: NDArray[Any], given: Bonus, has_only_atoms: bool) -> None:
    """Write the bonus of the next episode into a core.

    With the doubling trick, it is the bonus of the phase that the episode belongs to.

    `has_only_atoms` says that every ball contains a single point from the start.
    """
    bonus, horizon = given, int(core["horizon"][0])
    span, coming = float(core["reward_span"][0]), int(core["episode"][0]) + 1
    if isinstance(bonus, Doubling):
        bonus, core["phase"] = bonus.phase(coming), number_of_phase(coming)
    if isinstance(bonus, (Theory, Exact, Bernstein)) and has_only_atoms:
        bonus = replace(bonus, lipschitz=0.0)  # each ball is one point, so its diameter is 0
    try:
        core["bonus"] = as_float(bonus.scale(horizon, span))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{type(given).__name__}.scale must return a number ({error})"
        ) from error
    if not np.isfinite(core["bonus"][0]):
        raise ConfigurationError(
            f"the bonus {given} has the scale {core['bonus'][0]}; it must be finite"
        )
    if isinstance(bonus, (Theory, Exact, Bernstein)):
        core["per_root_iota"], core["plain"] = bonus.terms(horizon, span)
        core["iota"] = bonus.log_term(horizon)
        core["first_iota"] = core["iota"] if bonus.episodes is None else 0.0
    if isinstance(bonus, Exact):
        core["bonus_rule"], core["lipschitz"] = kernels.EXACT, bonus.lipschitz
        core["reward_spread"] = bonus.reward_spread(span)
    elif isinstance(bonus, Bernstein):
        core["bonus_rule"], core["c1"], core["c2"] = kernels.BERNSTEIN, bonus.c1, bonus.c2


def check_core(agent: QLearner, core: NDArray[Any]) -> None:
    """Raise ValueError if the layout or a field of a stored core does not match the options.

    `agent` is a new agent with these options.
    """
    fresh = agent.table.core.copy()
    if core.dtype != fresh.dtype or core.shape != (1,):
        raise ValueError("the ball table has another layout")
    episode, phase = int(core["episode"][0]), int(core["phase"][0])
    check_int(episode, "episode", 0)
    if agent._first_table is not None:
        # Between a restart and the first update the phase is that of the coming episode.
        if phase not in {number_of_phase(max(episode, 1)), number_of_phase(episode + 1)}:
            raise ValueError(f"episode {episode} is not in the phase {phase} of the doubling trick")
        fresh["episode"] = 2**phase - 1
        write_bonus(fresh, agent.bonus, agent._has_only_atoms())
    fresh["episode"] = episode
    kernels.set_iota(fresh)
    for name in core.dtype.names or ():
        # Learning changes these three; all others follow from the options.
        if name not in ("n_rows", "n_balls", "random") and core[name][0] != fresh[name][0]:
            raise ValueError(
                f"{name} is {core[name][0]} in the table but {fresh[name][0]} in the options"
            )


def check_n_rows(
    env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]], n_roots: int
) -> None:
    """Raise ValueError if a stored table has fewer rows than the table of a new agent.

    Nothing as large as the table is allocated.
    """
    names = ("bounds", "ordered", "squash", "weights")
    given = {name: options[name] for name in names if name in options}
    axes = Axes(env.observation_space, env.action_space, **given)
    n_cut = 0 if options.get("first_cut") is None else sum(axes.are_intervals)
    n_rows = n_roots * math.prod(axes.n_values) * 2**n_cut
    if n_rows > len(arrays["balls"]):
        raise ValueError(
            f"{len(arrays['balls'])} rows are too few for {options['horizon']} steps of this space"
        )
