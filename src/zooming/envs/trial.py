"""Try the functions of a user's compiled environment before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.envs.compiled import CompiledEnv, Dynamics
from zooming.errors import ConfigurationError
from zooming.kernels.crossing import draw_start
from zooming.validation import Floats


def try_in_python(env: CompiledEnv, dynamics: Dynamics, params: Floats, chance: Any) -> None:
    """Play one step in plain Python, where a wrong index raises an error.

    `params` are the user's own, without those that `CompiledEnv` appends. `chance` is the outcome
    for the dynamics, or None if they take a generator.
    """
    rng, state = np.random.default_rng(0), np.empty(env.state_box.shape)
    draw_start()(env.crossing(rng).handle, env.params, state)
    low, high = env.action_box.low, env.action_box.high
    after, written = np.full_like(state, np.nan), "write every coordinate: next_state[i] = ..."
    action = low.copy() if env.has_whole_actions else (low + high) / 2
    try:
        getattr(dynamics, "py_func", dynamics)(
            state, action, 0, params, rng if chance is None else chance, after
        )
    except IndexError as error:
        raise ConfigurationError(
            f"{env.name}: {error}; the state has {len(state)} coordinates, the action "
            f"{len(low)}, and params "
            f"{len(params)} numbers"
        ) from error
    except Exception:  # some functions run only when compiled; then this check is skipped
        return
    missing = np.flatnonzero(np.isnan(after))
    if len(missing):
        raise ConfigurationError(
            f"{env.name} did not write next_state[{missing[0]}], or wrote NaN; {written}"
        )


def check_weights(env: CompiledEnv) -> None:
    """Raise ConfigurationError if `weigh` gives invalid weights at one start state and action."""
    state, action = (
        np.empty(env.state_box.shape),
        (env.action_box.low + env.action_box.high) / 2,
    )
    if env.weigh is not None:
        draw_start()(env.crossing(np.random.default_rng(0)).handle, env.params, state)
        fault = weights_fault(
            env, 0, *(point[0] for point in env.round_discrete(state[None], action[None]))
        )
        if fault:
            raise ConfigurationError(f"{env.name}, step 0: {fault}")


def weights_fault(env: CompiledEnv, step: int, state: Floats, action: Floats) -> str:
    """Return a sentence on what is wrong with the weights of `weigh`, or "" if nothing is."""
    values, weights = env.outcomes(step, 1)
    if env.weigh is None:
        return ""
    weights = np.full_like(weights, np.nan)
    env.weigh(state, action, step, env.params, values, weights)
    where = f"in state {state.tolist()}, action {action.tolist()}, "
    for i, weight in enumerate(weights):
        if not (weight >= 0 and np.isfinite(weight)):
            return f"{where}weights[{i}] is {weight}; write every weight, a finite number >= 0"
    return (
        ""
        if weights.sum() > 0
        else f"{where}all weights are 0; at least one outcome must be possible"
    )
