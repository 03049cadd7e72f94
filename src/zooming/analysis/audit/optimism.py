"""Find out whether a bonus guarantees optimism, Q >= Q*, in an environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.bonuses import Doubling, Exact, Theory
from zooming.envs.compiled import CompiledEnv


def find_optimistic_bonus(
    bonus: Any, env: CompiledEnv, generator: np.random.Generator
) -> Theory | Exact | None:
    """Return the bonus that guarantees optimism in this environment, or None.

    A `Doubling` is unwrapped first. `Exact` gives the guarantee if it accounts for the noise of
    the rewards, or if the rewards have no noise.
    """
    inner = bonus.bonus if isinstance(bonus, Doubling) else bonus
    if isinstance(inner, Theory):
        return inner
    if not isinstance(inner, Exact):
        return None
    covers_noise = inner.random_rewards or inner.reward_noise > 0
    return inner if covers_noise or not _has_random_rewards(env, generator) else None


def _has_random_rewards(env: CompiledEnv, generator: np.random.Generator) -> bool:
    """Test at 20 random pairs (x, a) per step whether the reward depends on the outcome."""
    assert env.given is not None
    for step in range(env.horizon):
        every, weights = env.outcomes(step, 16)
        for _ in range(20):
            x = generator.uniform(env.state_box.low, env.state_box.high)
            a = generator.uniform(env.action_box.low, env.action_box.high)
            x, a = env.round_discrete(x, a)
            outcomes = every
            if env.weigh is not None:
                weights = weights.copy()
                env.weigh(x, a, step, env.params, every, weights)
                outcomes = every[weights > 0]
            if (
                len(
                    {
                        round(float(env.given(x, a, step, env.params, w, np.empty_like(x))), 12)
                        for w in outcomes
                    }
                )
                > 1
            ):
                return True
    return False
