"""Play a policy that differs from an agent's in some states, and measure the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.env_facts import reset, take_step
from zooming.agents.steps import check_steps
from zooming.analysis.intervals import mean_interval
from zooming.export.regions import contain
from zooming.spaces.masks import has_mask, split_info
from zooming.validation import Floats

MOST_STEPS = 10_000  # played for one measurement, if the number of episodes is not given
MOST_EPISODES = 500


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


class SwitchedPolicy:
    """Play the policy of `other` at one step in one box, and that of `agent` everywhere else."""

    def __init__(self, agent: Any, other: Any, step: int, low: Floats, high: Floats) -> None:
        self.agent, self.other, self.step, self.low, self.high = agent, other, step, low, high
        self.horizon = agent.horizon

    def predict(self, observation: Any, state: Any = None, *, info: Any = None) -> tuple[Any, Any]:
        """Return the action for one observation, and the next step."""
        chosen = self.agent
        if state is not None and int(np.ravel(state)[0]) == self.step:
            point = self.agent.axes.states.batch(observation, "observation")[0][0]
            if ((self.low <= point) & (point < self.high)).all():
                chosen = self.other
        action, after = chosen.predict(observation, state=state, info=info)
        return action, after


@dataclass(frozen=True)
class Measured:
    """How much more one policy earns than another, over episodes with the same seeds.

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


def difference(of: Floats, instead_of: Floats) -> Measured:
    """Return the mean difference of paired returns, with its interval."""
    found = mean_interval(of - instead_of)
    return Measured(
        found.mean, found.low, found.high, float(of.mean()), float(instead_of.mean()), len(of)
    )


def default_episodes(horizon: int) -> int:
    """Return how many episodes to play so that a measurement takes about a second."""
    return max(100, min(MOST_EPISODES, MOST_STEPS // horizon))


def play(policy: Any, env: Any, episodes: int, seed: int) -> Floats:
    """Play episodes and return their returns. Episode k starts with `env.reset(seed=seed + k)`."""
    returns = np.zeros(episodes)
    for k in range(episodes):
        observation, info = reset(env, seed + k)
        for step in range(policy.horizon):
            action, _ = policy.predict(
                observation, state=np.array([step]), info=info if has_mask(info) else None
            )
            observation, reward, terminated, truncated, info = take_step(env, action)
            returns[k] += float(reward)
            if terminated or truncated:
                break
    return returns
