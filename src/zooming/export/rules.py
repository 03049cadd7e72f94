"""Describe a policy in a few rules: in these states play this action."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zooming import notebook
from zooming.agents.base.status import own_policy, plain, plain_ends, warn_untrained
from zooming.analysis.evaluate import evaluate
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.export.forms import about, head_of
from zooming.export.regions import (
    FEW_VISITS,
    SEEN,
    contain,
    gather,
    merge,
    policy_regions,
    scale_actions,
    set_apart,
    simplify,
    weigh,
    whole_states,
)
from zooming.export.tree import tree_of
from zooming.export.write import export_policy
from zooming.spaces.flatten import CATEGORICAL
from zooming.spaces.masks import has_mask, split_info
from zooming.spaces.names import printable_names
from zooming.validation import (
    Floats,
    Ints,
    check_int,
    check_is_agent,
    count_noun,
    known_options,
)

DEFAULT_RULES = 8
EPISODES = 500  # of a measurement
CLOSE = 0.005  # mean distance of actions, in shares of their axes, that needs no more rules
MOST_LISTED = 6  # categories of a rule; more are shortened
MOST_ROWS = 60  # of a table in a notebook


@known_options
def explain(
    agent: Any,
    step: int | None = None,
    *,
    n_rules: int | None = DEFAULT_RULES,
    env: Any = None,
    episodes: int = EPISODES,
    seed: int = 0,
) -> Rules:
    """Return the policy of an agent as rules.

    A policy with more regions than `n_rules` is simplified: the states are cut into boxes with one
    action each, close to what the agent plays in its most visited states. States that never
    occurred at a step have rules of their own, called unvisited, beyond `n_rules`. The return
    that the rules lose against the policy is measured by `zooming.evaluate`, with the same seed for
    both. The agent does not learn from it.

    Some policies have no regions of one action (`Planner`, `MetricQ`, the rule of a warm start).
    They are evaluated on a grid of states.

    Parameters
    ----------
    agent : Agent
        The agent.
    step : int, optional
        The step to explain, counted from 0. By default all of them.
    n_rules : int, optional
        Largest number of boxes to cut the states of a step into, before unvisited states are set
        apart. None means as many as the policy has regions.
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
    boxes, n_regions, is_sampled, is_simplified = {}, {}, False, False
    for h in steps:
        with agent.run.lock:
            boxes[h], own, n_regions[h], is_exact = _rules_of(agent, h, n_rules)
        rules += own
        is_sampled |= not is_exact
        is_simplified |= n_rules is not None and n_regions[h] > n_rules
    policy = RulePolicy(agent, boxes)
    loss, text = None, "These rules are the whole policy, exactly."
    if is_sampled or is_simplified:
        n = "the policy" if is_sampled else f"{sum(n_regions.values()):,} regions"
        loss, text = _loss(policy, env, episodes, seed)
        known = sum(rule.sure != "unvisited" for rule in rules)
        text = f"{count_noun(known, 'rule')} in place of {n}. {text}"
    text += "".join(f" Warning: {one}." for one in agent.status()["warnings"])
    return Rules(tuple(rules), n_regions, loss, text, is_sampled, about(agent), policy)


def _check_agent(agent: Any) -> Any:
    """Return the agent, or a copy with its own policy if it was loaded without its rule."""
    check_is_agent(agent)
    is_without_rule = getattr(agent, "is_guided", False) and agent.guide.rule is None
    return own_policy(agent) if is_without_rule else agent


def _rules_of(
    agent: Any, step: int, n_rules: int | None
) -> tuple[tuple[Floats, Floats, Floats], list[PolicyRule], int, bool]:
    """Return boxes (low, high, action), rules, number of regions, and whether these are exact."""
    regions = policy_regions(step, agent)
    known = gather(agent, step, regions, regions.actions)
    weights = weigh(regions, known)
    rows, number = np.unique(regions.actions, axis=0, return_inverse=True)
    low, high, chosen = merge(regions.low, regions.high, number.ravel())
    n_regions = len(low)
    is_simplified = n_rules is not None and n_regions > n_rules
    if n_rules is not None and is_simplified:
        distances = scale_actions(agent.axes, regions.actions)
        enough = 0.0 if regions.is_exact else CLOSE
        low, high, chosen = simplify(regions, distances, weights, n_rules, enough)
    apart = set_apart(agent.axes, regions, known.seen, low, high, chosen, is_simplified)
    unseen = np.zeros(len(low), bool)
    if not (apart[3].all() and known.total.sum() >= SEEN):  # else one visit to a ball of all states
        low, high, chosen, unseen = apart
    n_regions, boxes = n_regions if is_simplified else len(low), (low, high, rows[chosen])
    cells = contain(low, high, regions.points).argmax(axis=1)
    if not np.array_equal(boxes[2][cells], regions.actions):
        known = gather(agent, step, regions, boxes[2][cells])
    found = []
    for i, (low, high, action, is_unseen) in enumerate(zip(*boxes, unseen, strict=True)):
        own = cells == i
        mean = np.average(known.q_value[own], weights=weights[own]) if own.any() else np.nan
        visits, total = known.visits[own].sum(), known.total[own].sum()
        part = own & (known.seen > 0)
        played = np.vstack([action, regions.actions[part if part.any() else own]])
        found.append(
            PolicyRule(
                step,
                tuple(low.tolist()),
                tuple(high.tolist()),
                tuple(action.tolist()),
                tuple(played.min(axis=0).tolist()),
                tuple(played.max(axis=0).tolist()),
                float(mean) if np.isfinite(mean) else None,
                0 if is_unseen else round(float(visits)) if np.isfinite(visits) else None,
                min(1.0, float(visits / total)) if total > 0 and not is_unseen else None,
            )
        )
    return boxes, found, n_regions, regions.is_exact


def _loss(policy: RulePolicy, env: Any, episodes: int, seed: int) -> tuple[Interval | None, str]:
    """Return the loss of return of the rules against the agent's policy, and a sentence on it."""
    if env is None or not episodes:
        missing = f"the agent has no environment {policy.env_name}"
        return None, f"The loss was not measured: {missing if env is None else 'episodes=0'}."
    one, two = (evaluate(played, env, episodes, seed=seed) for played in (policy.agent, policy))
    loss = mean_interval(one.returns - two.returns)
    mean, low, high = plain_ends(loss.mean, loss.low, loss.high)
    return loss, (
        f"They lose {mean} (95 % interval {low} to {high}, {episodes:,} paired episodes) of a mean "
        f"return of {plain(one.mean)}."
    )


@dataclass(frozen=True)
class PolicyRule:
    """One rule: at a step, in a box of states, play an action.

    Attributes
    ----------
    step : int
        The step, counted from 0.
    low, high : tuple of float
        Corners of the box, in the environment's units; infinite where the box has no end. A box
        contains its low faces but not its high faces.
    action : tuple of float
        The action, one number per axis.
    least, most : tuple of float
        Ends of the actions that the policy plays in these states. They differ from `action` if the
        rule stands for several.
    value : float or None
        The agent's estimate of the return from here on, the mean over the box. The estimates of
        AdaptiveQ and NetQ are optimistic.
    visits : int or None
        About how often the action was played in the box. A visit is spread evenly over its ball:
        the visits of a step sum to at most the number of episodes, and states of the ball that
        never occurred have their share. If all steps share one
        partition (`TreeQ`), those of all steps count.
    share : float or None
        These visits as a share of all visits of the box.
    sure : str
        "unvisited" if nothing shows that these states occur at this step; "guess" below 10 visits;
        else "unsure" for a share below 1/4, "likely" below 1/2, "sure" above; "unknown" for an
        agent without boxes.
    """

    step: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    action: tuple[float, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]
    value: float | None
    visits: int | None
    share: float | None

    @property
    def sure(self) -> str:
        if self.visits is None:
            return "unknown"
        if self.share is None:
            return "unvisited"
        if self.visits < FEW_VISITS:
            return "guess"
        return "unsure" if self.share < 0.25 else "likely" if self.share < 0.5 else "sure"


@dataclass(frozen=True)
class Rules:
    """The policy of some steps as rules. Returned by `agent.explain`.

    Print it, or end a notebook cell with it. `rules.policy` plays the rules, for example in
    `zooming.evaluate(rules.policy, env)`.

    Attributes
    ----------
    rules : tuple of PolicyRule
        The rules, by step and state. The boxes of a step cover all states and do not overlap.
    n_regions : dict
        {step: number of rules that would give the policy exactly}.
    loss : Interval or None
        Return that the rules lose against the agent's policy, in episodes with the same seed:
        `mean`, with a 95 % interval from `low` to `high`. None if nothing was measured.
    loss_text : str
        A sentence about the loss.
    is_sampled : bool
        Whether the policy was evaluated on a grid of states, because it has no regions.
    about : str
        Which agent and environment the policy comes from.
    policy : RulePolicy
        It plays the rules.
    """

    rules: tuple[PolicyRule, ...]
    n_regions: dict[int, int]
    loss: Interval | None
    loss_text: str
    is_sampled: bool
    about: str
    policy: RulePolicy = field(repr=False)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, i: int) -> PolicyRule:
        return self.rules[i]

    @property
    def steps(self) -> list[int]:
        """The steps that are explained."""
        return sorted(self.n_regions)

    def __str__(self) -> str:
        head, rows = self._table()
        return "\n".join([self.title, *align([head, *rows]), *self.notes])

    def _repr_html_(self) -> str:
        head, rows = self._table()
        more = [f"... and {len(rows) - MOST_ROWS} more rules"] if len(rows) > MOST_ROWS else []
        return notebook.table(self.title, head, rows[:MOST_ROWS], [*more, *self.notes])

    @property
    def title(self) -> str:
        steps = self.steps
        at = f"step {steps[0]}" if len(steps) == 1 else f"{len(steps)} steps"
        return f"{self.about}, {at}, {count_noun(len(self), 'rule')}"

    @property
    def notes(self) -> list[str]:
        """Sentences to print below the rules."""
        found = [self.loss_text]
        kinds = {rule.sure for rule in self.rules}
        if kinds == {"unvisited"} and self.policy.agent.n_episodes == 0:
            found.insert(0, "The agent has not learned yet: every action is a guess.")
        elif "unvisited" in kinds:
            guess = "nothing shows that these states occur at this step; the action is a guess"
            found.insert(0, f"Unvisited: {guess}.")
        if self.is_sampled:
            has = "The policy has no regions of one action"
            found.insert(0, f"{has}: it was evaluated on a grid of states.")
        return found

    def export(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the rules as Python, JSON, C or SQL code that runs without zooming.

        The file plays exactly what `rules.policy` plays. The options are those of
        `zooming.export_policy`. All steps must be explained.
        """
        missing = sorted(set(range(self.policy.horizon)) - set(self.steps))
        if missing:
            raise ConfigurationError(
                f"the rules lack {count_noun(len(missing), 'step')}, for example step "
                f"{missing[0]}; explain all steps: agent.explain().export(path)"
            )
        warn_untrained(self.policy.agent)
        axes = self.policy.agent.axes
        boxes = []
        for step in self.steps:
            low, high, actions = self.policy.rules[step]
            played = axes.shaped_action(axes.to_unit_cube(actions.copy(), axes.n_state))
            boxes.append((low, high, np.asarray(axes.actions.batch(played, "action")[0])))
        heading = f"{count_noun(len(self), 'rule')} for the policy of {self.about}"
        # Rules compare states in the environment's units, also on squashed axes.
        form = tree_of(boxes, head_of(axes, heading, squashes=False))
        return export_policy(form, path, **options)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of a table of the rules, as text."""
        axes, several = self.policy.agent.axes, len(self.steps) > 1
        are_categories = [kind == CATEGORICAL for kind in axes.kinds[axes.n_state :]]
        has_visits = any(rule.visits is not None for rule in self.rules)
        is_whole = whole_states(axes).tolist()
        ends = [
            (int(axes.low[i]), int(axes.high[i])) if axes.kinds[i] == CATEGORICAL else None
            for i in range(axes.n_state)
        ]
        rows = []
        for rule in self.rules:
            sides = zip(rule.low, rule.high, is_whole, ends, strict=True)
            row = [*([str(rule.step)] if several else []), *(side_text(*side) for side in sides)]
            row += map(action_text, rule.action, rule.least, rule.most, are_categories)
            value = None if rule.sure == "unvisited" else rule.value
            row += ["" if value is None else plain(value)]
            if has_visits:
                row += ["" if rule.visits is None else f"{rule.visits:,}"]
                row += ["" if rule.share is None else f"{rule.share:.0%}", rule.sure]
            rows.append(row)
        head = [*(["step"] if several else []), *printable_names(axes.names), "value"]
        return [*head, *(["visits", "share", "sure"] if has_visits else [])], rows


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
    ) -> tuple[Any, Ints]:
        """Return the action of the rules, and the next steps.

        The arguments are those of `Agent.predict`.
        """
        axes = self.agent.axes
        steps, _, is_batch = self.agent.problem.check_steps(observation, state, episode_start)
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


def side_text(
    low: float, high: float, is_whole: bool, categories: tuple[int, int] | None = None
) -> str:
    """Return the range of one axis as text, or the values if they are categories.

    `categories` is the (first, last) category. Their numbers have no order, so they are listed.

    >>> side_text(-np.inf, 0.25, False), side_text(0.25, 0.5, False), side_text(0.5, np.inf, False)
    ('below 0.25', '0.25 to 0.5', 'from 0.5')
    >>> side_text(1.5, 4.5, True), side_text(1.5, 2.5, True), side_text(-np.inf, 2.5, True)
    ('2 to 4', '2', 'up to 2')
    >>> side_text(1.5, 4.5, True, (0, 9)), side_text(-np.inf, 0.5, True, (0, 9))
    ('in {2, 3, 4}', '= 0')
    >>> side_text(1.5, np.inf, True, (0, 9))
    'in {2, 3, ..., 9}'
    """
    if low == -np.inf and high == np.inf:
        return "any"
    if is_whole:
        low, high = np.ceil(low), np.ceil(high) - 1
    if categories is not None:
        values = [*range(int(max(low, categories[0])), int(min(high, categories[1])) + 1)]
        if len(values) == 1:
            return f"= {values[0]}"
        shown = values if len(values) <= MOST_LISTED else [*values[:2], "...", values[-1]]
        return f"in {{{', '.join(map(str, shown))}}}"
    if is_whole and low == high:
        return plain(low)
    if low == -np.inf:
        return f"{'up to' if is_whole else 'below'} {plain(high)}"
    return f"from {plain(low)}" if high == np.inf else f"{plain(low)} to {plain(high)}"


def action_text(action: float, least: float, most: float, is_category: bool = False) -> str:
    """Return an action as text, with the range of the actions that it stands for.

    >>> action_text(40.0, 31.0, 43.0), action_text(0.5, 0.5, 0.5)
    ('40 (31 to 43)', '0.5')
    >>> action_text(2.0, 0.0, 2.0, is_category=True)
    '2 (mostly)'
    """
    shown, *ends = (plain(round(x, 12)) for x in (action, least, most))  # no 2e-15 after mixing
    if ends == [shown, shown]:
        return shown
    return f"{shown} (mostly)" if is_category else f"{shown} ({ends[0]} to {ends[1]})"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines with aligned columns.

    >>> align([["a", "b"], ["long", "c"]])
    ['  a     b', '  long  c']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
