"""Adaptive Q-learning: the paper's algorithm. [SBY19 Alg. 1]"""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.agents.tabled import MOST_BALLS, TabledAgent
from zooming.bonuses import Bonus
from zooming.errors import SpaceError
from zooming.partition import BallTable


class AdaptiveQ(TabledAgent):
    """Q-learning on a partition of the state-action space that grows where the agent plays and where it pays.

    `bonus`: a number c means c / sqrt(t), by default 0.1 times the span of the rewards; or an object from
    `zooming.bonuses`. `cap`: values are capped by the steps "remaining" or, as in the paper, by the "horizon". `ties`:
    between balls of equal Q, "random" (each equally likely) or "first". `action`: what is played in a ball, its "center" or
    a "uniform" draw. `max_balls`: a ball is split only while its halves fit in.

    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(episodes=2000)
    >>> bool(history.returns[-200:].mean() > 4.6)  # the optimum is 4.75
    True
    """

    def __init__(
        self,
        env: Any,
        *,
        bonus: float | Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
        horizon: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_balls: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon, reward_range=reward_range, seed=seed
        )
        is_whole = isinstance(max_balls, (int, np.integer)) and not isinstance(max_balls, bool)
        if max_balls is not None and not (is_whole and self.horizon <= max_balls <= MOST_BALLS):
            raise SpaceError(
                f"max_balls={max_balls!r}: give a whole number, at least one ball per step ({self.horizon}) and at most "
                f"{MOST_BALLS:,}"
            )
        self.max_balls = None if max_balls is None else int(max_balls)
        core = self._core(MOST_BALLS if max_balls is None else max_balls)
        self.table = BallTable.of_roots(core, self._root_values(core))

    @classmethod
    def as_published(cls, env: Any, bonus: float | Bonus, **options: Any) -> AdaptiveQ:
        """The paper's own form: values capped by H, roots at H, actions drawn uniformly from the ball, bonus c / sqrt(t)."""
        return cls(env, bonus=bonus, cap="horizon", ties="random", action="uniform", **options)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "max_balls": self.max_balls}
