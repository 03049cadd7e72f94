"""Whether the paper's guarantees hold on the agent in front of you. [SBY19 sec. 4 and 5]

The laws that any partition of this family must keep, boxes or balls: the domains cover the space and are disjoint, centers of
balls of one radius lie a radius apart, and a ball of depth l has between 4^(l-1) and 4^l visits. With the optimum at hand: how
often optimism Q >= Q* fails, and the zooming dimension, the growth of the number of near-optimal balls as they get smaller.
"""

from __future__ import annotations

from zooming.agents.agent import Agent
from zooming.agents.metric_q import MetricQ
from zooming.agents.tabled import TabledAgent
from zooming.analysis.audit.box_balls import audit_boxes
from zooming.analysis.audit.metric_balls import audit_balls
from zooming.analysis.audit.report import Audit, Law
from zooming.analysis.solve import Optimal
from zooming.errors import SpaceError
from zooming.validation import check_int, known_options

__all__ = ["Audit", "Law", "audit"]


@known_options
def audit(agent: Agent, optimal: Optimal | None = None, *, n_points: int = 2000, seed: int = 0) -> Audit:
    """Checks the paper's laws on a live agent; with `optimal` (from `zooming.solve`) also optimism, at `n_points` per step.

    Of balls of a metric every pair of points is looked at; optimism on boxes that they stand for at `n_points` of them.

    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(1000)
    >>> zooming.audit(agent).holds
    True
    """
    if not isinstance(agent, (TabledAgent, MetricQ)):
        raise SpaceError(f"{type(agent).__name__} keeps no balls, so there is nothing to audit; AdaptiveQ, NetQ and MetricQ do")
    check_int(n_points, "n_points", 1)
    if optimal is not None and not isinstance(optimal, Optimal):
        raise SpaceError(f"optimal={optimal!r}: give what zooming.solve(env) returns")
    if optimal is not None and optimal.horizon != agent.horizon:
        raise SpaceError(f"the optimum is for {optimal.horizon} steps, the agent plays {agent.horizon}: solve its environment")
    if isinstance(agent, MetricQ):
        return audit_balls(agent, optimal, n_points, seed)
    return audit_boxes(agent, optimal, n_points, seed)
