"""Check the steps passed to `predict`, one per observation of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.learning_problem import LearningProblem
from zooming.errors import ConfigurationError, ZoomingError


def check_steps(
    problem: LearningProblem, observation: Any, state: Any, episode_start: Any
) -> tuple[NDArray[np.int64], NDArray[np.float64], bool]:
    """Return (steps, flat states, whether they are a batch) from the arguments of `predict`.

    Raise TransitionError or ConfigurationError if an argument does not fit the problem, or if the
    arguments do not fit each other.
    """
    try:
        states, is_batch = problem.axes.flat_states(observation)
    except ZoomingError as error:
        where = (
            "0"
            if state is None
            else ", ".join(str(step) for step in np.ravel(np.asarray(state, object)))
        )
        raise type(error)(f"{problem.env_name}, step {where}: {error}") from error
    steps = _as_steps(state, len(states))
    if episode_start is not None:
        starts = np.asarray(episode_start, bool).reshape(-1)
        if len(starts) not in (1, len(steps)):
            raise ConfigurationError(
                f"episode_start has {len(starts)} entries for {len(steps)} environments"
            )
        steps[np.broadcast_to(starts, steps.shape)] = 0
    for step in steps.tolist():
        problem.check_step(step, is_batch)
    return steps, states, is_batch


def _as_steps(state: Any, n_states: int) -> NDArray[np.int64]:
    """Return one step for each of `n_states` observations; None means step 0."""
    try:
        steps = np.zeros(n_states, np.int64) if state is None else np.array(state).reshape(-1)
    except ValueError as error:
        raise ConfigurationError(
            f"state must hold one integer step per environment, got {state!r}"
        ) from error
    if not np.issubdtype(steps.dtype, np.integer):
        raise ConfigurationError(f"state must hold one integer step per environment, got {state!r}")
    if len(steps) != n_states:
        raise ConfigurationError(
            f"state has {len(steps)} entries for {n_states} observations; give one step "
            "per environment"
        )
    return steps.astype(np.int64)
