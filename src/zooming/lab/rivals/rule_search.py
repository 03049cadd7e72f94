"""Policy search over the numbers of a problem's classical rule, by CMA-ES of the library cmaes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from zooming.agents.base import seeds
from zooming.errors import ConfigurationError
from zooming.lab.rivals.rival import Rival, Transition, import_library
from zooming.spaces.masks import Allowed
from zooming.validation import Floats, Ints, check_float, check_int


class RuleSearch(Rival):
    """Tune the numbers of the problem's classical rule by CMA-ES while playing.

    The search knows the form of the rule and the range of each number, but not its textbook
    numbers. It begins in the middle of the ranges. A candidate plays `repeats` episodes and is
    judged by their mean return. The learned policy is the rule at the mean of the search
    distribution. When the search has converged by the criteria of the library, the agent plays that
    policy.

    Parameters
    ----------
    env : gymnasium.Env
        A problem whose `env.unwrapped.rule` has `low`, `high`, `with_numbers` and `predict`, as
        the problems of the gallery have.
    sigma : float, default 0.3
        First standard deviation as a share of each range.
    population : int, optional
        Candidates of a generation. By default the library's number, 4 + 3 log(n) for n numbers.
    repeats : int, optional
        Episodes of a candidate. By default sqrt(episodes / 50), at least 1.
    episodes : int, default 2000
        Episodes that the search may take, for the default of `repeats`. A study passes its own
        number.
    **options
        Options of `Agent`: horizon, reward_range, rewards, seed.

    Examples
    --------
    >>> import gymnasium as gym
    >>> agent = RuleSearch(gym.make("zooming/Newsvendor-v0"), repeats=2, seed=0)
    >>> history = agent.learn(200)
    >>> agent.rule.names
    ('level',)
    """

    def __init__(
        self,
        env: Any,
        *,
        sigma: float = 0.3,
        population: int | None = None,
        repeats: int | None = None,
        episodes: int = 2000,
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        self._shape: Any = getattr(env.unwrapped, "rule", None)
        if self._shape is None:
            raise ConfigurationError(
                f"rule-search tunes the classical rule of a problem, and {self.env_name} has none; "
                "take a problem of the gallery, or give your environment an attribute `rule`"
            )
        self.sigma = check_float(sigma, "sigma", 1e-6, 10.0)
        self.population = (
            None if population is None else check_int(population, "population", 2, 10_000)
        )
        self.episodes = check_int(episodes, "episodes", 1)
        planned = max(1, round(math.sqrt(self.episodes / 50)))
        self.repeats = planned if repeats is None else check_int(repeats, "repeats", 1)
        cmaes = import_library("rule-search")
        n = len(self._shape.low)
        self.search = cmaes.CMA(
            np.full(n, 0.5), self.sigma, bounds=np.array([[0.0, 1.0]] * n),
            seed=seeds.derive_seed(self.seed, "agent", np.uint32), population_size=self.population,
        )  # fmt: skip
        self._asked: Floats | None = None
        self._tried: list[tuple[Floats, float]] = []
        self._returns: list[float] = []
        self._playing = self._shape
        self.rule = self._rule_at(self.search.mean)

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action of the current candidate. Step 0 begins an episode."""
        state = self.checked_state(step, observation)
        if step == 0:
            self._begin()
        action = self._play(self._playing, np.array([step]), state[None])[0]
        return self.axes.shaped_action(self._nearest(action, self._feasible(step, info)))

    def _learn(self, seen: Transition) -> None:
        if seen.step == 0 or not self._returns:
            self._returns.append(0.0)
        self._returns[-1] += seen.reward

    def _policy(self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed) -> Floats:
        return self._play(self.rule, steps, states)

    @property
    def nbytes(self) -> int:
        """Memory of the mean and the covariance matrix in bytes."""
        n = len(self._shape.low)
        return 8 * (n + n * n)

    def _begin(self) -> None:
        """Choose the numbers for the next episode. A finished candidate is reported to CMA-ES."""
        if self._asked is not None and len(self._returns) >= self.repeats:
            self._tried.append((self._asked, -float(np.mean(self._returns))))
            self._asked = None
            if len(self._tried) == self.search.population_size:
                self.search.tell(self._tried)
                self._tried = []
                self.rule = self._rule_at(self.search.mean)
        if self._asked is None:
            self._returns = []
            if self.search.should_stop():
                self._playing = self.rule
            else:
                self._asked = self.search.ask()
                self._playing = self._rule_at(self._asked)

    def _rule_at(self, place: Floats) -> Any:
        """Return the rule with the numbers at this point of the unit cube."""
        low, high = self._shape.low, self._shape.high
        return self._shape.with_numbers(np.clip(low + place * (high - low), low, high))

    def _play(self, rule: Any, steps: Ints, states: Floats) -> Floats:
        """Return the flat actions of a rule."""
        seen = self.axes.states.shaped(self.axes.from_unit_cube(states, 0))
        actions = np.array(rule.predict(seen, state=steps)[0], np.float64)
        return self.axes.to_unit_cube(actions.reshape(len(states), -1), self.axes.n_state)
