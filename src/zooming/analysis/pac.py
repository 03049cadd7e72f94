"""Learn a probably approximately correct (PAC) policy, with a certificate.

Draw one of the K played policies uniformly. With probability 1 - delta, its gap to the optimum is
at most R(K) / (K (delta - delta_b)), where delta_b is the probability that the regret bound fails.
[SBY19 Thm 4.2] The regret refers to the observed start states. If starts are random, the gap from a
future start adds `theory.start_error`. A share of delta covers the case that this bound fails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zooming import theory
from zooming.agents.base import seeds
from zooming.agents.tables.q_learner import QLearner
from zooming.analysis.evaluate import Evaluation, evaluate
from zooming.bonuses import Theory
from zooming.envs.compiled import CompiledEnv
from zooming.envs.starts import FIXED
from zooming.errors import ConfigurationError
from zooming.spaces.flatten import INTERVAL
from zooming.validation import check_float, check_int, known_options


@dataclass(frozen=True)
class Certificate:
    """The result of `agent.learn_pac`: a policy, and what is proved or measured about it.

    Print it for a summary. The proved bound and `value_low` hold with probability 1 - delta each.

    Attributes
    ----------
    policy
        A copy of the agent, as it was before the episode `chosen`, counted from 1.
    epsilon, delta
        The requested gap to the optimum, and the failure probability.
    status
        "proved", "claimed" (by the paper, whose proof has an open step for H > 1 with splits) or
        "nothing".
    gap_bound
        Upper bound on the gap to the optimum after these episodes; infinite if no bound applies.
    episodes, episodes_needed
        Number of episodes learned, and the number that the theory requires.
    reasons, assumptions
        Why nothing is proved, and what the bounds assume.
    evaluation, value_low
        Value measured on fresh episodes, or None, and its lower bound by Hoeffding's inequality.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> certificate = agent.learn_pac(epsilon=0.5, delta=0.1, episodes=500)
    >>> certificate.status, certificate.chosen, round(certificate.value_low, 2)
    ('nothing', 397, 4.52)
    """

    policy: Any = field(repr=False)
    epsilon: float
    delta: float
    status: str
    gap_bound: float
    episodes_needed: float
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...]
    episodes: int
    chosen: int
    evaluation: Evaluation | None
    value_low: float

    def __str__(self) -> str:
        sure = f"with probability {1 - self.delta:g}"
        gap = f"V* - V is at most {self.gap_bound:.4g} {sure}"
        proved = {
            "proved": f"{gap} (asked: {self.epsilon:g})",
            "claimed": f"nothing; the paper claims that {gap}, but one step of its proof is open "
            "for H > 1 with splits",
            "nothing": f"nothing: {'; '.join(self.reasons)}",
        }
        lines = {
            "policy": f"the policy of episode {self.chosen:,}, drawn uniformly from "
            f"{self.episodes:,}",
            "proved": proved[self.status],
            "assuming": "; ".join(self.assumptions),
            "measured": "nothing",
        }
        if self.evaluation is not None:
            lines["measured"] = (
                f"its value is {self.evaluation}; at least {self.value_low:.4f} {sure} "
                "(Hoeffding, if rewards stay in their range and episodes are independent)"
            )
            if self.status != "nothing":
                lines["together"] = (
                    f"what is {self.status} and what is measured each hold with the probability "
                    f"stated; both hold at once with probability {max(0.0, 1 - 2 * self.delta):g}"
                )
        title = f"PAC certificate for epsilon = {self.epsilon:g}, delta = {self.delta:g}"
        return "\n".join([title, *(f"  {name:9} {text}" for name, text in lines.items())])


def _lipschitz(agent: QLearner) -> float:
    """Return the Lipschitz constant that the bonus assumes, or 1 if it assumes none."""
    bonus = getattr(agent.bonus, "bonus", agent.bonus)
    return float(getattr(bonus, "lipschitz", 1.0))


def gap_bound(agent: QLearner, episodes: int, delta: float) -> float:
    """Return a bound on the gap that holds with probability 1 - delta; the bonus is a Theory."""
    assert isinstance(agent.bonus, Theory)
    span = agent.reward_range[1] - agent.reward_range[0]
    left = _remaining_delta(delta, agent) - agent.bonus.delta
    failure, n_atoms = agent.bonus.delta, math.prod(agent.axes.n_values)
    if agent.axes.n_wide == 0:
        total = theory.discrete_regret_bound(agent.horizon, episodes, n_atoms, 1, failure)
    else:
        d, lipschitz = agent.axes.n_wide, _lipschitz(agent) / span  # for rewards in [0, 1]
        total = theory.regret_bound(agent.horizon, episodes, d, n_atoms, failure, lipschitz)
    if not _has_one_start(agent):
        total += theory.start_error(agent.horizon, episodes, theory.START_SHARE * delta)
    return span * total / episodes / left


def _remaining_delta(delta: float, agent: QLearner) -> float:
    """Return the error probability that is left for learning. Random starts take a share."""
    return delta * (1 - (0.0 if _has_one_start(agent) else theory.START_SHARE))


def _has_one_start(agent: QLearner) -> bool:
    """Return whether all episodes are known to start in the same state."""
    inner = getattr(agent.env, "unwrapped", None)
    if isinstance(inner, CompiledEnv):
        return inner.start_kind == FIXED
    axes = [agent.axes[i] for i in range(agent.axes.n_state)]
    return all(axis.kind != INTERVAL and axis.low == axis.high for axis in axes)


def episodes_needed(agent: QLearner, epsilon: float, delta: float) -> float:
    """Return the number of episodes that the theory requires for one draw, or infinity."""
    if agent.why_no_bound() is not None:
        return math.inf
    span, n_atoms = agent.reward_range[1] - agent.reward_range[0], math.prod(agent.axes.n_values)
    wanted, has_starts = (agent.horizon, epsilon / span, delta), not _has_one_start(agent)
    if agent.axes.n_wide == 0:
        return theory.discrete_pac_episodes(*wanted, n_atoms, 1, has_starts)
    lipschitz = _lipschitz(agent) / span
    return theory.pac_episodes(*wanted, agent.axes.n_wide, n_atoms, lipschitz, 1.0, has_starts)


def find_obstacles(agent: QLearner, episodes: int, epsilon: float, delta: float) -> list[str]:
    """Return the reasons why no bound applies to this agent and run; empty if one applies."""
    span, bonus = agent.reward_range[1] - agent.reward_range[0], agent.bonus
    share = delta * epsilon / (2 * agent.horizon * span)
    right = f"Theory(episodes={episodes}, delta={share:.3g}, lipschitz={_lipschitz(agent):g})"
    if (why := agent.why_no_bound()) is not None:
        return [why]
    found = [] if (against := agent.against_bound()) is None else [against]
    if agent.n_episodes or agent.table.rows["n_visits"][: agent.table.rows_in_use].any():
        found.append("the agent had learned before, and the bound is for a run from the start")
    if not isinstance(bonus, Theory):
        found.append(f"the bonus {bonus} has no bound with constants; use {right}")
    elif bonus.episodes != episodes:
        found.append(
            f"the bonus is for K = {bonus.episodes}, not for the {episodes:,} episodes of this "
            f"run; use {right}"
        )
    elif bonus.reward_noise:
        found.append(
            "with reward_noise, the bound has no constants; leave it out if rewards are bounded"
        )
    elif bonus.delta >= _remaining_delta(delta, agent):
        found.append(
            f"the bonus may fail with probability {bonus.delta:g}, which leaves nothing of delta; "
            f"{right} leaves half"
        )
    return found


def assumptions(agent: QLearner, is_proved: bool) -> tuple[str, ...]:
    """Return the assumptions of the measured bound and, if `is_proved`, of the proved one too."""
    low, high = agent.reward_range
    steps = f"H = {agent.horizon} steps each"
    found = [f"rewards in [{low:g}, {high:g}]", "independent episodes", steps]
    if is_proved and agent.axes.n_wide:
        found.append(
            f"Q* is Lipschitz with L = {_lipschitz(agent):g} on the unit cube (not checked)"
        )
    if is_proved:
        found.append(
            "the policy is played as it learned, with act: predict plays the center of the ball "
            "instead of a draw"
            if agent.action == "uniform"
            else "no two best balls tie: else the proof is for act, and predict may break the tie "
            "in another way"
        )
    return tuple(found)


MOST_EPISODES_BY_DEFAULT = 10**8  # limit, unless the user gives a number
BLOCK = 10**6  # episodes learned at once, to limit the size of a history


@known_options
def learn_pac(
    agent: QLearner,
    epsilon: float,
    delta: float,
    *,
    episodes: int | None = None,
    evaluation_episodes: int = 1000,
    progress_bar: bool = False,
) -> Certificate:
    """Learn, draw one of the played policies at random, and return it with a certificate.

    The `policy` of the certificate is a separate agent. The agent itself keeps all it has learned.

    Parameters
    ----------
    agent : AdaptiveQ or another agent with a table of balls
        The agent to train.
    epsilon, delta : float
        Largest accepted gap to the optimal value, above 0, and failure probability.
    episodes : int, optional
        Episodes to learn. By default the number that the theory requires. Must be given if no bound
        is known (`NetQ`, `MetricQ`).
    evaluation_episodes : int, default 1000
        Fresh episodes on which the policy is measured; 0 for none.
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
    >>> certificate = agent.learn_pac(0.5, 0.1, episodes=2000, evaluation_episodes=100)
    >>> certificate.status, certificate.chosen
    ('nothing', 1587)
    """
    span = agent.reward_range[1] - agent.reward_range[0]
    if not 0 < check_float(epsilon, "epsilon", 0.0, math.inf) <= agent.horizon * span:
        raise ConfigurationError(
            f"epsilon={epsilon}: the gap must be above 0 and at most what an episode can earn, "
            f"{agent.horizon * span:g}"
        )
    if not 0 < check_float(delta, "delta", 0.0, 1.0) < 1:
        raise ConfigurationError(f"delta={delta}: the failure probability must lie between 0 and 1")
    check_int(evaluation_episodes, "evaluation_episodes", 0)
    if evaluation_episodes == 1:
        raise ConfigurationError(
            "evaluation_episodes=1: give at least 2 to measure, or 0 for no measurement"
        )
    needed = episodes_needed(agent, epsilon, delta)
    if episodes is None:
        budget = f"Give a budget, learn_pac({epsilon}, {delta}, episodes=...): the policy is drawn"
        if (why := agent.why_no_bound()) is not None:
            raise ConfigurationError(
                f"the theory names no number of episodes for {type(agent).__name__}: {why}. "
                f"{budget} and measured all the same"
            )
        if needed > MOST_EPISODES_BY_DEFAULT:
            raise ConfigurationError(
                f"epsilon={epsilon}, delta={delta}: the theory asks for {needed:.3g} episodes; "
                f"learn_pac plays at most {MOST_EPISODES_BY_DEFAULT:,} by default. {budget}, and "
                "the certificate says what was proved with it"
            )
        episodes = int(needed)
    episodes = check_int(episodes, "episodes", 1)
    reasons = find_obstacles(agent, episodes, epsilon, delta)
    chosen, policy = _play(agent, episodes, progress_bar)

    evaluation, value_low = None, -math.inf
    if evaluation_episodes:
        env_seed = seeds.derive_seed(agent.seed, "pac evaluation", np.uint32)
        evaluation = evaluate(policy, agent.env, evaluation_episodes, seed=(env_seed + 1) % 2**32)
        # The range of a return contains 0, because an episode may end early.
        lowest = min(0.0, agent.horizon * agent.reward_range[0])
        highest = max(0.0, agent.horizon * agent.reward_range[1])
        width = math.sqrt(math.log(1 / delta) / (2 * evaluation_episodes))
        value_low = max(lowest, evaluation.mean - (highest - lowest) * width)

    gap = math.inf if reasons else gap_bound(agent, episodes, delta)
    if not reasons and gap > epsilon:
        least = f"at best {gap:.3g}"
        if gap >= agent.horizon * span:
            least = "no less than what an episode can earn"
        reasons.append(
            f"the bound on the gap after {episodes:,} episodes is {least}; about {needed:.3g} "
            "would be needed"
        )
    is_sound = agent.horizon == 1 or agent.axes.n_wide == 0
    status = "nothing" if reasons else "proved" if is_sound else "claimed"
    assumed = assumptions(agent, is_proved=status != "nothing")
    return Certificate(
        policy, epsilon, delta, status, gap, needed, tuple(reasons), assumed, episodes, chosen,
        evaluation, value_low,
    )  # fmt: skip


def _play(agent: QLearner, episodes: int, progress_bar: bool) -> tuple[int, QLearner]:
    """Train for all `episodes`. Return the drawn episode, and the agent before it."""
    sequence = seeds.seed_sequence(agent.seed, f"pac after {agent.n_episodes}")
    drawn = int(np.random.default_rng(sequence).integers(1, episodes, endpoint=True))
    done, policy = 0, agent
    for end in (drawn - 1, episodes):
        while done < end:
            block = min(BLOCK, end - done)
            agent.learn(block, progress_bar=progress_bar)
            done += block
        if end < drawn:  # a copy with its own table and generator state; the env is shared
            policy = agent.twin()
    return drawn, policy
