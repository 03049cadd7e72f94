"""Check the paper's guarantees on a trained agent. [SBY19 sec. 4 and 5]

Every partition, of boxes or of balls, must satisfy three laws: the domains cover the space and are
disjoint; centers of balls of equal radius are at least a radius apart; a ball of depth l has
between 4^(l-1) and 4^l visits. If the optimum is given, the audit also measures how often optimism,
Q >= Q*, fails.
"""

from __future__ import annotations

import numpy as np

from zooming.agents.base.agent import Agent
from zooming.agents.tables.metric_q import MetricQ
from zooming.agents.tables.q_learner import QLearner
from zooming.agents.tables.tree_q import TreeQ
from zooming.analysis.audit.balls import audit_balls
from zooming.analysis.audit.boxes import audit_boxes
from zooming.analysis.audit.report import Audit, Law
from zooming.analysis.optimal import Optimal
from zooming.errors import ConfigurationError
from zooming.validation import check_int, known_options

__all__ = ["Audit", "Law", "audit"]


@known_options
def audit(
    agent: Agent, optimal: Optimal | None = None, *, n_points: int = 2000, seed: int = 0
) -> Audit:
    """Check the paper's laws on an agent.

    Parameters
    ----------
    agent
        The agent, trained or not: `AdaptiveQ`, `NetQ`, `MetricQ` or, for the laws of a partition,
        `TreeQ`.
    optimal
        The optimum of the agent's environment, from `zooming.solve`. If given, optimism (Q >= Q*)
        is checked.
    n_points, seed
        Number and seed of the random points per step, at which covering and optimism are checked,
        beside the center and the corners of every box. For `MetricQ`, covering is checked at every
        pair of points, and optimism too if the problem is finite.

    Returns
    -------
    Audit
        One entry per law, and the measured constants. Print it for a table.

    Raises
    ------
    ConfigurationError
        If the agent is of another class, or `optimal` is for another horizon.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(1000)
    >>> zooming.audit(agent).holds
    True
    """
    if not isinstance(agent, QLearner) or not (agent.has_lemmas or isinstance(agent, TreeQ)):
        why = "splits or learns by a rule of its own"
        if not isinstance(agent, QLearner):
            why = "keeps no balls of the paper's algorithm"
        raise ConfigurationError(
            f"{type(agent).__name__} {why}, so no lemma applies to it; AdaptiveQ, NetQ, MetricQ "
            "and TreeQ can be audited"
        )
    check_int(n_points, "n_points", 1)
    if optimal is not None and not isinstance(optimal, Optimal):
        raise ConfigurationError(f"optimal={optimal!r}: give what zooming.solve(env) returns")
    if optimal is not None and optimal.horizon != agent.horizon:
        raise ConfigurationError(
            f"the optimum is for {optimal.horizon} steps, the agent plays {agent.horizon}: solve "
            "its environment"
        )
    generator = np.random.default_rng(check_int(seed, "seed", 0, None))
    if isinstance(agent, MetricQ):
        return audit_balls(agent, optimal, n_points, generator)
    return audit_boxes(agent, optimal, n_points, generator)
