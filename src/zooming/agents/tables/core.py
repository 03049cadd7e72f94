"""The core of a ball table: choices, the bonus in it, and the rows that a stored table needs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.bonuses import Bernstein, Bonus, Doubling, Exact, Theory, number_of_phase
from zooming.errors import ConfigurationError
from zooming.spaces.axes import Axes
from zooming.validation import as_float

MOST_BALLS = 2**30 - 1  # a table of twice as many rows still has 31-bit row numbers
CAPS = ("remaining", "horizon")
TIES = {"random": kernels.RANDOM, "first": kernels.FIRST}
ACTIONS = {"center": kernels.CENTER, "uniform": kernels.UNIFORM}


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
