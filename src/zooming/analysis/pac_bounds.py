"""Apply the theory to an agent and a run: episodes needed, bound on the gap, assumptions.

The module `pac` has the mathematics.
"""

from __future__ import annotations

import math

from zooming import theory
from zooming.agents.q_learner import QLearner
from zooming.analysis.certificates import EVALUATION_SHARE
from zooming.bonuses import Theory
from zooming.envs.compiled import CompiledEnv
from zooming.envs.starts import FIXED
from zooming.spaces.flatten import INTERVAL


def _n_atoms(agent: QLearner) -> int:
    """Return the number of balls per step before any split."""
    return math.prod(agent.axes.n_values)


def _lipschitz(agent: QLearner) -> float:
    """Return the Lipschitz constant that the bonus assumes, or 1 if it assumes none."""
    bonus = getattr(agent.bonus, "bonus", agent.bonus)
    return float(getattr(bonus, "lipschitz", 1.0))


def _regret_bound(agent: QLearner, episodes: int, delta: float) -> float:
    """Return the regret bound for rewards scaled to [0, 1]."""
    span = agent.reward_range[1] - agent.reward_range[0]
    if agent.axes.n_wide == 0:
        return theory.discrete_regret_bound(agent.horizon, episodes, _n_atoms(agent), 1, delta)
    return theory.regret_bound(
        agent.horizon, episodes, agent.axes.n_wide, _n_atoms(agent), delta, _lipschitz(agent) / span
    )


def gap_bound(agent: QLearner, episodes: int, delta: float, best_of: int, eta: float) -> float:
    """Return a bound on the gap to the optimum that holds with probability 1 - delta.

    The bonus must guarantee optimism. `eta` bounds the error of the means by which
    the policy is chosen.
    """
    assert isinstance(agent.bonus, Theory)
    span = agent.reward_range[1] - agent.reward_range[0]
    left = _remaining_delta(delta, agent, best_of) - agent.bonus.delta
    total = _regret_bound(agent, episodes, agent.bonus.delta)
    if not _has_one_start(agent):
        total += theory.start_error(agent.horizon, episodes, theory.START_SHARE * delta)
    return span * total / episodes / math.pow(left, 1 / best_of) + 2 * eta


def _remaining_delta(delta: float, agent: QLearner, best_of: int) -> float:
    """Return the error probability that is left for learning.

    Choosing among several policies takes a share of delta, and random starts take another.
    """
    taken = (EVALUATION_SHARE if best_of > 1 else 0.0) + (
        0.0 if _has_one_start(agent) else theory.START_SHARE
    )
    return delta * (1 - taken)


def _has_one_start(agent: QLearner) -> bool:
    """Return whether all episodes are known to start in the same state."""
    inner = getattr(agent.env, "unwrapped", None)
    if isinstance(inner, CompiledEnv):
        return inner.start_kind == FIXED
    return all(
        axis.kind != INTERVAL and axis.low == axis.high
        for axis in (agent.axes[i] for i in range(agent.axes.n_state))
    )


def episodes_needed(agent: QLearner, epsilon: float, delta: float) -> float:
    """Return the number of episodes that the theory requires for one draw.

    It is infinite if no bound is known.
    """
    if agent._without_bound() is not None:
        return math.inf
    span = agent.reward_range[1] - agent.reward_range[0]
    if agent.axes.n_wide == 0:
        return theory.discrete_pac_episodes(
            agent.horizon, epsilon / span, delta, _n_atoms(agent), 1, not _has_one_start(agent)
        )
    return theory.pac_episodes(
        agent.horizon, epsilon / span, delta, agent.axes.n_wide, _n_atoms(agent),
        _lipschitz(agent) / span, 1.0,
        not _has_one_start(agent),
    )  # fmt: skip


def find_obstacles(
    agent: QLearner, episodes: int, epsilon: float, delta: float, best_of: int
) -> list[str]:
    """Return the reasons why no bound applies to this agent and run; empty if one applies."""
    span, bonus = agent.reward_range[1] - agent.reward_range[0], agent.bonus
    share = delta * epsilon / (2 * agent.horizon * span)
    right = f"Theory(episodes={episodes}, delta={share:.3g}, lipschitz={_lipschitz(agent):g})"
    if (why := agent._without_bound()) is not None:
        return [why]
    found = [] if (against := agent._against_bound()) is None else [against]
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
    elif bonus.delta >= _remaining_delta(delta, agent, best_of):
        found.append(
            f"the bonus may fail with probability {bonus.delta:g}, which leaves nothing of delta; "
            f"{right} leaves half"
        )
    return found


def assumptions(agent: QLearner, is_proved: bool) -> tuple[str, ...]:
    """Return the assumptions of the measured bound and, if `is_proved`, of the proved one too."""
    low, high = agent.reward_range
    found = [
        f"rewards in [{low:g}, {high:g}]",
        "independent episodes",
        f"H = {agent.horizon} steps each",
    ]
    if not is_proved:
        return tuple(found)
    if agent.axes.n_wide:
        found.append(
            f"Q* is Lipschitz with L = {_lipschitz(agent):g} on the unit cube (not checked)"
        )
    if agent.action == "uniform":
        return (
            *found,
            "the policy is played as it learned, with act: predict plays the center of the ball "
            "instead of a draw",
        )
    return (
        *found,
        "no two best balls tie: else the proof is for act, and predict may break the tie in "
        "another way",
    )
