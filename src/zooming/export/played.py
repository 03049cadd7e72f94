"""Play rules in place of an agent's policy, and measure what one policy earns more than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.policy import check_steps
from zooming.analysis.evaluate import evaluate
from zooming.analysis.intervals import mean_interval
from zooming.export.regions import contain
from zooming.spaces.masks import has_mask, split_info
from zooming.validation import Floats


class RulePolicy:
    """Play rules at the steps that have some, and the agent's policy at all others.

    It has the `predict` of an agent, so `zooming.evaluate(policy, env)` accepts it.

    Parameters
    ----------
    agent : Agent
        The agent that the rules were made for.
    rules : dict
        {step: (low, high, action)}, each an array with one row per rule, in the environment's
        units. The boxes of a step cover all states.
    """

    def __init__(self, agent: Any, rules: Mapping[int, tuple[Floats, Floats, Floats]]) -> None:
        self.agent, self.rules = agent, dict(rules)
        self.env, self.env_name, self.horizon = agent.env, agent.env_name, agent.horizon

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return the action of the rules, and the next steps.

        The arguments are those of `Agent.predict`.
        """
        axes = self.agent.axes
        steps, _, is_batch = check_steps(self.agent.problem, observation, state, episode_start)
        states = axes.states.batch(observation, "observation")[0]
        infos = split_info(info, len(steps), is_batch)
        played = np.empty((len(steps), axes.n_action))
        for step in np.unique(steps).tolist():
            at = np.flatnonzero(steps == step)
            if step in self.rules:
                low, high, actions = self.rules[step]
                played[at] = actions[contain(low, high, states[at]).argmax(axis=1)]
            else:
                found = self.agent.predict(axes.states.shaped(states[at]), state=steps[at])[0]
                played[at] = axes.actions.batch(found, "action")[0]
        played = axes.to_unit_cube(played, axes.n_state)
        for k, one in enumerate(infos):
            if one and has_mask(one):
                played[k] = self.agent.nearest_feasible(int(steps[k]), played[k], one)
        return axes.shaped_action(played if is_batch else played[0]), steps + 1


@dataclass(frozen=True)
class Measured:
    """How much more one policy earns than another, over episodes with the same seed.

    Attributes
    ----------
    mean, low, high : float
        Mean difference of the returns, with a 95 % confidence interval.
    of, instead_of : float
        Mean return of the one policy and of the other.
    episodes : int
        Number of episodes that each of them played.
    """

    mean: float
    low: float
    high: float
    of: float
    instead_of: float
    episodes: int

    def negate(self) -> Measured:
        """Return the same difference seen from the other policy."""
        return Measured(-self.mean, -self.high, -self.low, self.instead_of, self.of, self.episodes)

    @property
    def text(self) -> str:
        """The difference with its interval, as text."""
        return (
            f"{self.mean:.4g} (95 % interval {self.low:.4g} to {self.high:.4g}, "
            f"{self.episodes:,} paired episodes)"
        )


def measure(of: Any, instead_of: Any, env: Any, episodes: int, seed: int) -> Measured:
    """Return how much more the policy `of` earns, by `evaluate` with the same seed for both."""
    one, two = (evaluate(policy, env, episodes, seed=seed) for policy in (of, instead_of))
    found = mean_interval(one.returns - two.returns)
    return Measured(found.mean, found.low, found.high, one.mean, two.mean, episodes)
