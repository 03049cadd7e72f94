"""Adaptive Q-learning: the paper's algorithm. [SBY19 Alg. 1]"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zooming.agents.tables.q_learner import QLearner
from zooming.agents.tables.split_options import (
    first_boxes,
    set_budget,
    split_core,
    take_split_options,
)
from zooming.bonuses import Bonus
from zooming.theory import MOST_SIDES


class AdaptiveQ(QLearner):
    """Q-learning on an adaptive partition of the state-action space. [SBY19 Alg. 1]

    The partition becomes finer where the agent plays often, which is where the return is high.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bonus : float or Bonus, optional
        Exploration bonus: a number c means c / sqrt(t), or an object of `zooming.bonuses`.
        By default c is 0.1 times the span of `reward_range`.
    horizon : int, optional
        Steps of an episode. By default the environment's own number.
    reward_range : (float, float), optional
        Lowest and highest reward of one step. By default the environment's own `reward_range`, or
        (0, 1) if it states none. `zooming.reward_range(env)` proposes a range.
    rewards : {"refuse", "clip"}, default "refuse"
        Raise an error for a reward outside `reward_range`, or learn from the nearer end.
    bounds : dict, optional
        {axis: (low, high)}. Values beyond these ends count as the ends.
    ordered : bool or names of axes, default False
        Discrete axes whose neighboring values are similar. True means all of them.
    squash : bool, float or dict, default False
        Maps unbounded axes to an interval: True, a scale, or {axis: scale}.
    weights : dict or sequence, optional
        Weight of each axis in the metric: {axis: weight}, or one number per axis.
    names : dict or sequence, optional
        Names of the axes for everything that is printed, drawn or written: {axis: name}, or one
        name per axis, the state's first. By default those of `env.metadata["names"]`, if any.
    split : {"all", "longest"}, default "all"
        Sides that a split halves: all that are longer than half the diameter, or one longest side.
    max_balls : int, optional
        Largest number of active balls. When it is reached, the ball that matters least makes room
        for each further split.
    max_bytes : int, optional
        Largest size of the table, `nbytes`. It sets `max_balls`.
    seed : int, optional
        Seed of the agent and of its environment. By default a random one.
    cap : {"remaining", "horizon"}, default "remaining"
        Cap values by the steps that remain or, as in the paper, by the horizon.
    action : {"center", "uniform"}, default "center"
        Play the center of the chosen ball or, as in the paper, a uniform draw from it.
    ties : {"random", "first"}, default "random"
        Choose a random ball among those of equal Q, as in the paper, or the first one.

    Examples
    --------
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
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
        split: str = "all",
        max_balls: int | None = None,
        max_bytes: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon,
            reward_range=reward_range, rewards=rewards,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, names=names,
            seed=seed,
        )  # fmt: skip
        take_split_options(self, split, max_balls)
        core = split_core(self)
        set_budget(self, core, max_bytes)
        self._begin(first_boxes(self, core))

    @classmethod
    def as_published(cls, env: Any, bonus: float | Bonus, **options: Any) -> AdaptiveQ:
        """Return the agent in the paper's form: values capped by H, actions uniform in the ball.

        Parameters
        ----------
        env : gymnasium.Env
            The environment to learn on.
        bonus : float or Bonus
            Exploration bonus: a number c means c / sqrt(t). The paper tunes c.
        **options
            Other options of `AdaptiveQ`.
        """
        return cls(env, bonus=bonus, cap="horizon", ties="random", action="uniform", **options)

    def _without_bound(self) -> str | None:
        return None

    def _against_bound(self) -> str | None:
        if self.max_balls is not None:
            return f"with max_balls={self.max_balls:,}, balls are removed that the bound relies on"
        if not self.table.core["cubes"][0] and self.axes.n_wide:
            return (
                "the constants of the bound are for cubes or atoms, not for other shapes of balls"
            )
        if self.axes.n_wide > MOST_SIDES:
            return (
                f"the bound covers at most {MOST_SIDES} axes, and this problem has "
                f"{self.axes.n_wide}"
            )
        return None
