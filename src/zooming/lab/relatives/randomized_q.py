"""Q-learning with randomized learning rates and no bonus. [Tiapkin et al. 2023]"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.base import seeds
from zooming.agents.files.options import build_agent
from zooming.agents.tables.adaptive_q import first_boxes, split_core, take_split_options
from zooming.agents.tables.q_learner import QLearner, check_n_rows
from zooming.errors import ConfigurationError
from zooming.validation import check_float, check_int


class RandomizedQ(QLearner):
    """Q-learning on an adaptive partition that explores by random learning rates, without a bonus.

    A ball has several copies of Q. Each visit moves every copy towards reward + V(x') with a random
    weight of its own. The visits of a ball form stages of H, (1 + 1/H) H, (1 + 1/H)^2 H, ...
    visits. When a stage ends, Q becomes the largest copy, and the copies restart at the largest
    possible return. `docs/lab/relatives.md` has the definition.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    copies : int, default 10
        Copies of Q for each ball. More copies explore more.
    prior_samples : float, default 1.0
        Weight of the largest possible return at the beginning of a stage, as a number of samples.
    split : {"all", "longest"}, default "all"
        Sides that a split halves: all that are longer than half the diameter, or one longest side.
    max_balls : int, optional
        Largest number of active balls. A ball is split only while its children fit in.
    **options
        cap, ties, action: as for `AdaptiveQ`. Options of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.RandomizedQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(episodes=2000)
    >>> bool(history.returns[-200:].mean() > history.returns[:200].mean() + 0.5)
    True
    """

    has_lemmas = False

    def __init__(
        self,
        env: Any,
        *,
        copies: int = 10,
        prior_samples: float = 1.0,
        split: str = "all",
        max_balls: int | None = None,
        **options: Any,
    ) -> None:
        if "bonus" in options:
            raise ConfigurationError(
                "RandomizedQ explores by random learning rates and has no bonus; leave bonus= out, "
                "or give more copies= to explore more"
            )
        super().__init__(env, bonus=0.0, **options)
        take_split_options(self, split, max_balls)
        self.copies = check_int(copies, "copies", 1, 1000)
        self.prior_samples = check_float(prior_samples, "prior_samples", 1e-6, 1e6)
        core = split_core(self)
        core["bonus_rule"], core["n_stats"] = kernels.RANDOMIZED, kernels.FIRST_COPY + self.copies
        core["prior_samples"] = self.prior_samples
        core["rates_seed"] = seeds.derive_seed(self.seed, "learning rates")
        self._begin(first_boxes(self, core))

    def _status(self) -> dict[str, Any]:
        return {**super()._status(), "bonus": "none", "copies": self.copies}

    def option_values(self) -> dict[str, Any]:
        known = super().option_values()
        return {name: value for name, value in known.items() if name != "bonus"}

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        check_n_rows(env, options, arrays, options["horizon"])
        return build_agent(cls, env, options)
