"""Describe a policy in a few rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.agents.base.status import own_policy
from zooming.errors import ConfigurationError
from zooming.export.evidence import gather, weigh
from zooming.export.forms import about
from zooming.export.regions import (
    Regions,
    category_ends,
    contain,
    merge,
    policy_regions,
    scale_actions,
    simplify,
    whole_states,
)
from zooming.export.rules import (
    Measured,
    PolicyRule,
    RulePolicy,
    Rules,
    make_rules,
    measure,
)
from zooming.spaces.names import printable_names
from zooming.validation import Floats, check_int, count_noun

DEFAULT_RULES = 8
EPISODES = 500  # of a measurement
CLOSE = 0.005  # mean distance of actions, in shares of their axes, that needs no more rules


def explain(
    agent: Any,
    *,
    step: int | None = None,
    n_rules: int | None = DEFAULT_RULES,
    env: Any = None,
    episodes: int = EPISODES,
    seed: int = 0,
) -> Rules:
    """Return the policy of an agent as rules.

    A policy with more regions than `n_rules` is simplified: the states are cut into boxes with one
    action each, close to what the agent plays in its most visited states. The return that the rules
    lose against the policy is measured by `zooming.evaluate`, with the same seed for both. The
    agent does not learn from it.

    Some policies have no regions of one action (`Planner`, `MetricQ`, the rule of a warm start).
    They are evaluated on a grid of states.

    Parameters
    ----------
    agent : Agent
        The agent.
    step : int, optional
        The step to explain, counted from 0. By default all of them.
    n_rules : int, optional
        Largest number of rules of a step. None means as many as the policy has regions.
    env : gymnasium.Env, optional
        Environment to measure on. By default the agent's own.
    episodes : int, default 500
        Episodes of the measurement; 0 for none.
    seed : int, default 0
        Seed of the measurement.

    Returns
    -------
    Rules
        The rules, and the return that they lose.

    Raises
    ------
    ConfigurationError
        If an argument is wrong.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0"), seed=0)
    >>> history = agent.learn(5000)
    >>> rules = zooming.explain(agent, step=1, n_rules=3)
    >>> for rule in rules:
    ...     print(rule.low, rule.high, rule.action, rule.visits, rule.sure)
    (-inf,) (0.625,) (0.671875,) 702 sure
    (0.625,) (0.75,) (0.734375,) 660 likely
    (0.75,) (inf,) (0.796875,) 1060 likely
    >>> rules.n_regions, rules.loss.mean < 0.01  # the policy itself returns 4.36
    ({1: 14}, True)
    """
    agent = _check_agent(agent)
    steps = list(range(agent.horizon)) if step is None else [agent.problem.check_step(step)]
    n_rules = None if n_rules is None else check_int(n_rules, "n_rules", 1)
    if check_int(episodes, "episodes", 0) == 1:
        raise ConfigurationError("episodes=1: give at least 2, or 0 to measure nothing")
    seed = check_int(seed, "seed", 0)
    env = agent.run.free_env(agent.env) if env is None else env
    rules: list[PolicyRule] = []
    boxes, n_regions, regions = {}, {}, {}
    for h in steps:
        with agent.run.lock:
            boxes[h], own, n_regions[h], regions[h] = _rules_of(agent, h, n_rules)
        rules += own
    policy = RulePolicy(agent, boxes)
    is_sampled = not all(one.is_exact for one in regions.values())
    loss, text = None, "These rules are the whole policy, exactly."
    if is_sampled or len(rules) < sum(n_regions.values()):
        n = "the policy" if is_sampled else f"{sum(n_regions.values()):,} regions"
        instead = f"{count_noun(len(rules), 'rule')} in place of {n}."
        loss, text = _loss(agent, policy, env, episodes, seed, instead)
    n_state, names = agent.axes.n_state, printable_names(agent.axes.names)
    return Rules(
        tuple(rules), n_regions, loss, text, is_sampled, about(agent),
        names[:n_state], names[n_state:],
        tuple(whole_states(agent.axes).tolist()), category_ends(agent.axes), policy,
    )  # fmt: skip


def _check_agent(agent: Any) -> Any:
    """Return the agent, or a copy with its own policy if it was loaded without its rule."""
    if not all(hasattr(agent, part) for part in ("predict", "axes", "problem")):
        raise ConfigurationError(f"agent={agent!r} is not an agent of zooming")
    is_without_rule = getattr(agent, "is_guided", False) and agent.guide.rule is None
    return own_policy(agent) if is_without_rule else agent


def _rules_of(
    agent: Any, step: int, n_rules: int | None
) -> tuple[tuple[Floats, Floats, Floats], list[PolicyRule], int, Regions]:
    """Return boxes (low, high, action), rules, number of regions, and regions of one step."""
    regions = policy_regions(step, agent)
    known = gather(agent, step, regions, regions.actions)
    weights = weigh(regions, known)
    rows, number = np.unique(regions.actions, axis=0, return_inverse=True)
    low, high, chosen = merge(regions.low, regions.high, number.ravel())
    n_regions = len(low)
    order = np.lexsort(low.T[::-1])
    boxes = low[order], high[order], rows[chosen[order]]
    if n_rules is not None and n_regions > n_rules:
        distances = scale_actions(agent.axes, regions.actions)
        enough = 0.0 if regions.is_exact else CLOSE
        boxes = simplify(regions, regions.actions, distances, weights, n_rules, enough)
    cells = contain(boxes[0], boxes[1], regions.points).argmax(axis=1)
    if not np.array_equal(boxes[2][cells], regions.actions):
        known = gather(agent, step, regions, boxes[2][cells])
    estimates = known.q_value, known.visits, known.total, weights
    return boxes, make_rules(step, boxes, cells, estimates), n_regions, regions


def _loss(
    agent: Any, policy: RulePolicy, env: Any, episodes: int, seed: int, instead: str
) -> tuple[Measured | None, str]:
    """Measure the return that the rules lose against the agent's policy.

    Return (loss, text about the loss). The text begins with the sentence `instead`.
    """
    if env is None or not episodes:
        why = "episodes=0" if env is not None else f"the agent has no environment {agent.env_name}"
        return None, f"{instead} The loss was not measured: {why}."
    found = measure(agent, policy, env, episodes, seed)
    word, size = ("falls", found) if found.mean >= 0 else ("rises", found.negate())
    return found, f"{instead} The mean return {word} by {size.text} from {found.of:.4g}."


def explain_step(agent: Any, step: int | None = None, **options: Any) -> Any:
    """Return the learned policy as readable rules. It is the method `explain` of an agent.

    The options are the other arguments of `zooming.explain`, for example `n_rules`.
    """
    return explain(agent, step=step, **options)
