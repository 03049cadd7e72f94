"""A policy that is probably nearly optimal, with a certificate that says what was proved and what was only measured.

One of the K policies played, drawn uniformly, is as good as they are on average: with probability 1 - delta its gap to the
optimum is at most R(K) / (K (delta - delta_b)), where delta_b is the probability that the regret bound fails. [SBY19 Thm 4.2]
The regret is about the states where episodes did start. If starts are random, the gap from a start to come adds
`theory.start_error`, which fails with a share of delta of its own.

Of m draws, all are bad with the m-th power of the probability that one is. The best is chosen by n fresh episodes each: the m
means are within eta = range sqrt(log(2 m / delta_e) / (2 n)) of the truth except with probability delta_e, by a union bound.
The gap is then at most R(K) / (K (delta - delta_b - delta_e)^(1/m)) + 2 eta.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zooming import notebook, theory
from zooming.agents import seeds
from zooming.agents.ball_agent import BallAgent
from zooming.analysis.evaluate import Evaluation, evaluate
from zooming.bonuses import Theory
from zooming.envs.compiled import CompiledEnv
from zooming.envs.starts import FIXED
from zooming.errors import SpaceError
from zooming.spaces.flatten import INTERVAL
from zooming.validation import check_float, check_int

MOST_EPISODES = 10**8  # that are played without being asked for
BLOCK = 10**6  # episodes learned at once, so that their histories need not be kept together
EVALUATION_SHARE = 0.25  # of delta, for the choice among several


@dataclass(frozen=True)
class Certificate:
    """What `agent.learn_pac` found: the `policy`, and what is known of it; print it.

    `status` is "proved", "claimed" (by the paper, whose proof has an open step for H > 1 with splits) or "nothing".
    `gap_bound` is the largest gap to the optimum that the theory leaves after these episodes, `episodes_needed` how many it
    asks for; `reasons` say why nothing more is proved. `evaluation` was measured on fresh episodes, None if there were none;
    `value_low` is below the policy's value with probability 1 - delta, by Hoeffding's inequality: it needs that rewards stay in
    their range and that episodes are independent, and nothing else of the problem. `choice_error` is how far the means that
    chose among several may be from the truth, all of them, except with probability delta / 4.

    The bound that was proved and `value_low` hold with probability 1 - delta each, so both at once with 1 - 2 delta only.
    """

    policy: Any = field(repr=False)  # an agent of its own, as it was before the episode `chosen`
    epsilon: float
    delta: float
    status: str
    gap_bound: float
    episodes_needed: float
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...]
    episodes: int
    drawn: tuple[int, ...]  # episodes, counted from 1, whose policies were looked at
    chosen: int
    evaluation: Evaluation | None
    value_low: float
    evaluation_episodes: int  # all of them
    choice_error: float

    def __str__(self) -> str:
        return "\n".join([self._title(), *(f"  {name:9} {text}" for name, text in self._lines().items())])

    def _repr_html_(self) -> str:
        return notebook.card(self._title(), self._lines())

    def _title(self) -> str:
        return f"PAC certificate for epsilon = {self.epsilon:g}, delta = {self.delta:g}"

    def _lines(self) -> dict[str, str]:
        """What is known, by topic."""
        gap = f"V* - V is at most {self.gap_bound:.4g} with probability {1 - self.delta:g}"
        proved = {
            "proved": f"{gap} (asked: {self.epsilon:g})",
            "claimed": f"nothing; the paper claims that {gap}, but one step of its proof is open for H > 1 with splits",
            "nothing": f"nothing: {'; '.join(self.reasons)}",
        }
        whole_run = f"the policy of episode {self.chosen:,}, "
        m = len(self.drawn)
        whole_run += "drawn uniformly" if m == 1 else f"the best measured of {m} drawn uniformly"
        union = (
            f"; by a union bound the {m} means that chose it are within {self.choice_error:.3g} of the truth with probability "
        )
        union += f"{1 - EVALUATION_SHARE * self.delta:g}"
        measured = "nothing"
        if self.evaluation is not None:
            measured = (
                f"its value is {self.evaluation}; at least {self.value_low:.4f} with probability {1 - self.delta:g} "
                f"(Hoeffding, if rewards stay in their range and episodes are independent){union if m > 1 else ''}"
            )
        at_once = max(0.0, 1 - 2 * self.delta)
        both = f"what is {self.status} and what is measured hold with these probabilities each, with {at_once:g} both at once"
        return {
            "policy": f"{whole_run} from {self.episodes:,}",
            "proved": proved[self.status],
            "assuming": "; ".join(self.assumptions),
            "measured": measured,
            **({"together": both} if self.status != "nothing" and self.evaluation is not None else {}),
            "samples": f"{self.episodes:,} episodes to learn, {self.evaluation_episodes:,} to evaluate",
        }


def learn_pac(
    agent: BallAgent,
    epsilon: float,
    delta: float,
    *,
    episodes: int | None = None,
    best_of: int = 1,
    evaluation_episodes: int = 1000,
    progress_bar: bool = False,
) -> Certificate:
    """Learns, and gives one of the policies played with its certificate; see `AdaptiveQ.learn_pac`."""
    span = agent.reward_range[1] - agent.reward_range[0]
    if not 0 < check_float(epsilon, "epsilon", 0.0, math.inf) <= agent.horizon * span:
        raise SpaceError(
            f"epsilon={epsilon}: the gap must be above 0 and at most what an episode can earn, {agent.horizon * span:g}"
        )
    if not 0 < check_float(delta, "delta", 0.0, 1.0) < 1:
        raise SpaceError(f"delta={delta}: the failure probability must lie between 0 and 1")
    check_int(best_of, "best_of", 1)
    check_int(evaluation_episodes, "evaluation_episodes", 0)
    if evaluation_episodes == 1 or (best_of > 1 and not evaluation_episodes):
        raise SpaceError(
            f"evaluation_episodes={evaluation_episodes}: give at least 2 to measure, and to choose the best of {best_of}"
            if best_of > 1
            else "evaluation_episodes=1: give at least 2 to measure, or 0 for no measurement"
        )
    needed = _episodes_needed(agent, epsilon, delta)
    if episodes is None:
        if (why := agent._without_bound()) is not None:
            raise SpaceError(
                f"the theory names no number of episodes for {type(agent).__name__}: {why}. Give a budget, "
                f"learn_pac({epsilon}, {delta}, episodes=...): the policy is drawn and measured all the same"
            )
        if needed > MOST_EPISODES:
            raise SpaceError(
                f"epsilon={epsilon}, delta={delta}: the theory asks for {needed:.3g} episodes, more than the {MOST_EPISODES:,} "
                f"that are played without being asked for. Give a budget, learn_pac({epsilon}, {delta}, episodes=...): the "
                f"certificate says what it is worth"
            )
        episodes = int(needed)
    episodes = check_int(episodes, "episodes", 1)
    reasons = _open_points(agent, episodes, epsilon, delta, best_of)
    drawn, policies = _play(agent, episodes, best_of, progress_bar)

    env_seed, low, high = seeds.word(agent.seed, "pac evaluation", np.uint32), *_return_range(agent)
    chosen, n_played, evaluation, value_low = drawn[0], 0, None, -math.inf
    eta = 0.0
    if best_of > 1:  # each on the same episodes, then the best of them on others
        means = {k: evaluate(policy, agent.env, evaluation_episodes, seed=env_seed).mean for k, policy in policies.items()}
        chosen, n_played = max(means, key=lambda k: means[k]), len(means) * evaluation_episodes
        eta = (high - low) * math.sqrt(math.log(2 * best_of / (EVALUATION_SHARE * delta)) / (2 * evaluation_episodes))
    if evaluation_episodes:
        evaluation = evaluate(policies[chosen], agent.env, evaluation_episodes, seed=(env_seed + 1) % 2**32)
        value_low = max(low, evaluation.mean - (high - low) * math.sqrt(math.log(1 / delta) / (2 * evaluation_episodes)))
        n_played += evaluation_episodes

    gap = math.inf if reasons else _gap_bound(agent, episodes, delta, best_of, eta)
    if not reasons and gap > epsilon:
        share = f"at best {gap:.3g}" if gap < agent.horizon * span else "no less than what an episode can earn"
        reasons.append(f"the bound on the gap after {episodes:,} episodes is {share}; about {needed:.3g} would be needed")
    is_sound = agent.horizon == 1 or agent.axes.n_wide == 0
    status = "nothing" if reasons else "proved" if is_sound else "claimed"
    assumptions = _assumptions(agent, is_proved=status != "nothing")
    return Certificate(
        policies[chosen], epsilon, delta, status, gap, needed, tuple(reasons), assumptions, episodes, tuple(drawn),
        chosen, evaluation, value_low, n_played, eta,
    )  # fmt: skip


def _play(agent: BallAgent, episodes: int, n: int, progress_bar: bool) -> tuple[list[int], dict[int, Any]]:
    """The episodes drawn, and for each of them the agent as it was before; the agent has learned all `episodes` then.

    The draws are made up front, so only these are kept.
    """
    generator = np.random.default_rng(seeds.stream(agent.seed, f"pac after {agent.n_episodes}"))
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


def _copy(agent: BallAgent) -> BallAgent:
    """The agent as it is, with a table of its own; the environment is shared, and its generator put back for each learner."""
    policy = copy.copy(agent)
    policy.table, policy.env_generator = agent.table.copy(), agent.env_generator
    policy._paused = agent._paused.copy()
    return policy


def _n_atoms(agent: BallAgent) -> int:
    """Balls per step that are there from the start."""
    return math.prod(agent.axes.n_values)


def _lipschitz(agent: BallAgent) -> float:
    bonus = getattr(agent.bonus, "bonus", agent.bonus)
    return float(getattr(bonus, "lipschitz", 1.0))


def _regret_bound(agent: BallAgent, episodes: int, delta: float) -> float:
    """In units of the reward's span, for rewards scaled to [0, 1]."""
    span = agent.reward_range[1] - agent.reward_range[0]
    if agent.axes.n_wide == 0:
        return theory.discrete_regret_bound(agent.horizon, episodes, _n_atoms(agent), 1, delta)
    return theory.regret_bound(agent.horizon, episodes, agent.axes.n_wide, _n_atoms(agent), delta, _lipschitz(agent) / span)


def _gap_bound(agent: BallAgent, episodes: int, delta: float, best_of: int, eta: float) -> float:
    """The largest gap that is left with probability 1 - delta, if the agent's bonus keeps its promise."""
    assert isinstance(agent.bonus, Theory)
    span = agent.reward_range[1] - agent.reward_range[0]
    left = _left_of(delta, agent, best_of) - agent.bonus.delta
    total = _regret_bound(agent, episodes, agent.bonus.delta)
    if not _has_one_start(agent):
        total += theory.start_error(agent.horizon, episodes, theory.START_SHARE * delta)
    return span * total / episodes / math.pow(left, 1 / best_of) + 2 * eta


def _left_of(delta: float, agent: BallAgent, best_of: int) -> float:
    """What the choice among several and random starts leave of delta."""
    taken = (EVALUATION_SHARE if best_of > 1 else 0.0) + (0.0 if _has_one_start(agent) else theory.START_SHARE)
    return delta * (1 - taken)


def _has_one_start(agent: BallAgent) -> bool:
    """Whether all episodes are known to start in one state."""
    inner = getattr(agent.env, "unwrapped", None)
    if isinstance(inner, CompiledEnv):
        return inner.start_kind == FIXED
    return all(axis.kind != INTERVAL and axis.low == axis.high for axis in (agent.axes[i] for i in range(agent.axes.n_state)))


def _episodes_needed(agent: BallAgent, epsilon: float, delta: float) -> float:
    """For a single draw; infinite where no bound is known."""
    if agent._without_bound() is not None:
        return math.inf
    span = agent.reward_range[1] - agent.reward_range[0]
    if agent.axes.n_wide == 0:
        return theory.discrete_pac_episodes(agent.horizon, epsilon / span, delta, _n_atoms(agent), 1, not _has_one_start(agent))
    return theory.pac_episodes(
        agent.horizon, epsilon / span, delta, agent.axes.n_wide, _n_atoms(agent), _lipschitz(agent) / span, 1.0,
        not _has_one_start(agent),
    )  # fmt: skip


def _open_points(agent: BallAgent, episodes: int, epsilon: float, delta: float, best_of: int) -> list[str]:
    """Why the theory says nothing of this agent, whatever the number of episodes; empty if it does."""
    span, bonus = agent.reward_range[1] - agent.reward_range[0], agent.bonus
    share = delta * epsilon / (2 * agent.horizon * span)
    right = f"Theory(episodes={episodes}, delta={share:.3g}, lipschitz={_lipschitz(agent):g})"
    if (why := agent._without_bound()) is not None:
        return [why]
    found = [] if (against := agent._against_bound()) is None else [against]
    if agent.n_episodes or agent.table.rows["n_visits"][: agent.table.rows_in_use].any():
        found.append("the agent had learned before, and the bound is for a run from the start")
    if not isinstance(bonus, Theory):
        found.append(f"the bonus {bonus} has no bound with constants; {right} has")
    elif bonus.episodes != episodes:
        found.append(f"the bonus is for K = {bonus.episodes}, not for the {episodes:,} episodes of this run; {right} is")
    elif bonus.reward_noise:
        found.append("the bound with reward_noise has no constants; bounded rewards need none")
    elif bonus.delta >= _left_of(delta, agent, best_of):
        found.append(f"the bonus may fail with probability {bonus.delta:g}, which leaves nothing of delta; {right} leaves half")
    return found


def _assumptions(agent: BallAgent, is_proved: bool) -> tuple[str, ...]:
    """What the bounds need: the measured one little, the proved or claimed one more."""
    low, high = agent.reward_range
    found = [f"rewards in [{low:g}, {high:g}]", "independent episodes", f"H = {agent.horizon} steps each"]
    if not is_proved:
        return tuple(found)
    if agent.axes.n_wide:
        found.append(f"Q* is Lipschitz with L = {_lipschitz(agent):g} on the unit cube (not checked)")
    if agent.action == "uniform":
        return (*found, "the policy is played as it learned, with act: predict plays the center of the ball instead of a draw")
    return (*found, "no two best balls tie: else the proof is for act, and predict may break the tie in another way")


def _return_range(agent: BallAgent) -> tuple[float, float]:
    """An episode may end early, so 0 is among what it can earn."""
    low, high = agent.reward_range
    return min(0.0, agent.horizon * low), max(0.0, agent.horizon * high)
