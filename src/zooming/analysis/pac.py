"""Learn a probably approximately correct (PAC) policy, with a certificate.

Draw one of the K played policies uniformly. With probability 1 - delta, its gap to the optimum is
at most R(K) / (K (delta - delta_b)), where delta_b is the probability that the regret bound fails.
[SBY19 Thm 4.2] The regret refers to the observed start states. If starts are random, the gap from a
future start adds `theory.start_error`. A share of delta covers the case that this bound fails.

If m policies are drawn, the probability that all are bad is the m-th power of that for one policy.
The best one is chosen by its mean return over n fresh episodes. By a union bound, the m means are
within eta = range sqrt(log(2 m / delta_e) / (2 n)) of the truth, except with probability delta_e.
The gap is then at most R(K) / (K (delta - delta_b - delta_e)^(1/m)) + 2 eta.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from zooming.agents import seeds
from zooming.agents.q_learner import QLearner
from zooming.analysis.certificates import EVALUATION_SHARE, Certificate
from zooming.analysis.evaluate import evaluate
from zooming.analysis.pac_bounds import assumptions, episodes_needed, find_obstacles, gap_bound
from zooming.errors import ConfigurationError
from zooming.validation import check_float, check_int

MOST_EPISODES_BY_DEFAULT = 10**8  # limit, unless the user gives a number
BLOCK = 10**6  # episodes learned at once, to limit the size of a history


def learn_pac(
    agent: QLearner,
    epsilon: float,
    delta: float,
    *,
    episodes: int | None = None,
    best_of: int = 1,
    evaluation_episodes: int = 1000,
    progress_bar: bool = False,
) -> Certificate:
    """Learn, draw one of the played policies at random, and return it with a certificate.

    The certificate states what is proved, under which assumptions, and what was measured. Its
    `policy` is a separate agent. The agent itself keeps all it has learned.

    Parameters
    ----------
    agent : AdaptiveQ or another agent with a table of balls
        The agent to train.
    epsilon : float
        Largest accepted gap to the optimal value, above 0.
    delta : float
        Failure probability, between 0 and 1.
    episodes : int, optional
        Episodes to learn. By default the number that the theory requires for `epsilon` and
        `delta`. Must be given if no bound is known (`NetQ`, `MetricQ`).
    best_of : int, default 1
        Number of policies drawn. The best one in evaluation is returned.
    evaluation_episodes : int, default 1000
        Fresh episodes for each evaluation; 0 for none.
    progress_bar : bool, default False
        Show a progress bar. Needs rich.

    Returns
    -------
    Certificate
        The policy and what is known about it.

    Raises
    ------
    ConfigurationError
        If an option is wrong, or if `episodes` is missing and the theory requires too many.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> certificate = agent.learn_pac(
    ...     epsilon=0.5, delta=0.1, episodes=2000, best_of=3, evaluation_episodes=100
    ... )
    >>> certificate.status, certificate.drawn, certificate.evaluation_episodes
    ('nothing', (551, 1587, 1900), 400)
    """
    span = agent.reward_range[1] - agent.reward_range[0]
    if not 0 < check_float(epsilon, "epsilon", 0.0, math.inf) <= agent.horizon * span:
        raise ConfigurationError(
            f"epsilon={epsilon}: the gap must be above 0 and at most what an episode can earn, "
            f"{agent.horizon * span:g}"
        )
    if not 0 < check_float(delta, "delta", 0.0, 1.0) < 1:
        raise ConfigurationError(f"delta={delta}: the failure probability must lie between 0 and 1")
    check_int(best_of, "best_of", 1)
    check_int(evaluation_episodes, "evaluation_episodes", 0)
    if evaluation_episodes == 1 or (best_of > 1 and not evaluation_episodes):
        raise ConfigurationError(
            f"evaluation_episodes={evaluation_episodes}: give at least 2 to measure, and to "
            f"choose the best of {best_of}"
            if best_of > 1
            else "evaluation_episodes=1: give at least 2 to measure, or 0 for no measurement"
        )
    needed = episodes_needed(agent, epsilon, delta)
    if episodes is None:
        if (why := agent._without_bound()) is not None:
            raise ConfigurationError(
                f"the theory names no number of episodes for {type(agent).__name__}: {why}. Give "
                "a budget, "
                f"learn_pac({epsilon}, {delta}, episodes=...): the policy is drawn and measured "
                "all the same"
            )
        if needed > MOST_EPISODES_BY_DEFAULT:
            raise ConfigurationError(
                f"epsilon={epsilon}, delta={delta}: the theory asks for {needed:.3g} episodes; "
                f"learn_pac plays at most {MOST_EPISODES_BY_DEFAULT:,} by default. Give a budget, "
                f"learn_pac({epsilon}, {delta}, episodes=...): the certificate says what was "
                "proved with it"
            )
        episodes = int(needed)
    episodes = check_int(episodes, "episodes", 1)
    reasons = find_obstacles(agent, episodes, epsilon, delta, best_of)
    drawn, policies = _play(agent, episodes, best_of, progress_bar)

    env_seed, low, high = (
        seeds.derive_seed(agent.seed, "pac evaluation", np.uint32),
        *_return_range(agent),
    )
    chosen, n_played, evaluation, value_low = drawn[0], 0, None, -math.inf
    eta = 0.0
    if best_of > 1:  # evaluate each on the same episodes, and below the best on fresh ones
        means = {
            k: evaluate(policy, agent.env, evaluation_episodes, seed=env_seed).mean
            for k, policy in policies.items()
        }
        chosen, n_played = max(means, key=lambda k: means[k]), len(means) * evaluation_episodes
        eta = (high - low) * math.sqrt(
            math.log(2 * best_of / (EVALUATION_SHARE * delta)) / (2 * evaluation_episodes)
        )
    if evaluation_episodes:
        evaluation = evaluate(
            policies[chosen], agent.env, evaluation_episodes, seed=(env_seed + 1) % 2**32
        )
        value_low = max(
            low,
            evaluation.mean
            - (high - low) * math.sqrt(math.log(1 / delta) / (2 * evaluation_episodes)),
        )
        n_played += evaluation_episodes

    gap = math.inf if reasons else gap_bound(agent, episodes, delta, best_of, eta)
    if not reasons and gap > epsilon:
        share = (
            f"at best {gap:.3g}"
            if gap < agent.horizon * span
            else "no less than what an episode can earn"
        )
        reasons.append(
            f"the bound on the gap after {episodes:,} episodes is {share}; about {needed:.3g} "
            "would be needed"
        )
    is_sound = agent.horizon == 1 or agent.axes.n_wide == 0
    status = "nothing" if reasons else "proved" if is_sound else "claimed"
    assumed = assumptions(agent, is_proved=status != "nothing")
    return Certificate(
        policies[chosen], epsilon, delta, status, gap, needed, tuple(reasons), assumed,
        episodes, tuple(drawn),
        chosen, evaluation, value_low, n_played, eta,
    )  # fmt: skip


def _play(
    agent: QLearner, episodes: int, n: int, progress_bar: bool
) -> tuple[list[int], dict[int, Any]]:
    """Train for all `episodes`. Return the drawn episodes, and the agent before each of them.

    The draws are made first, so only the drawn policies are stored.
    """
    generator = np.random.default_rng(
        seeds.seed_sequence(agent.seed, f"pac after {agent.n_episodes}")
    )
    drawn = sorted(generator.integers(1, episodes, size=n, endpoint=True).tolist())
    policies: dict[int, Any] = {}
    done = 0
    for end in [*(k - 1 for k in drawn), episodes]:
        while done < end:
            block = min(BLOCK, end - done)
            agent.learn(block, progress_bar=progress_bar)
            done += block
        if end < episodes:
            policies.setdefault(end + 1, _copy(agent))
    return drawn, policies


def _copy(agent: QLearner) -> QLearner:
    """Return a copy of the agent with its own table and generator state. The env is shared."""
    policy = copy.copy(agent)
    policy.table, policy.env_generator = agent.table.copy(), agent.env_generator
    policy._paused = agent._paused.copy()
    return policy


def _return_range(agent: QLearner) -> tuple[float, float]:
    """Return the range of an episode's return. It contains 0, because an episode may end early."""
    low, high = agent.reward_range
    return min(0.0, agent.horizon * low), max(0.0, agent.horizon * high)
