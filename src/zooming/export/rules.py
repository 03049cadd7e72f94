"""A policy as readable rules: in these states play this action."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import notebook
from zooming.agents.base.status import warn_untrained
from zooming.analysis.evaluate import evaluate
from zooming.analysis.intervals import mean_interval
from zooming.errors import ConfigurationError
from zooming.export.forms import head_of
from zooming.export.regions import contain
from zooming.export.tree import tree_of
from zooming.export.write import export_policy
from zooming.spaces.masks import has_mask, split_info
from zooming.validation import Floats, count_noun, import_frames

MOST_LISTED = 6  # categories of a rule; more are shortened


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
    if categories is not None:
        return _values_text(max(np.ceil(low), categories[0]), min(np.ceil(high) - 1, categories[1]))
    if is_whole:
        low, high = np.ceil(low), np.ceil(high) - 1
        if low == high:
            return f"{low:g}"
        return f"up to {high:g}" if low == -np.inf else _range_text(low, high)
    return f"below {high:.4g}" if low == -np.inf else _range_text(low, high)


def _values_text(first: float, last: float) -> str:
    low, high = int(first), int(last)
    if low == high:
        return f"= {low}"
    shown: list[object] = [*range(low, min(high, low + MOST_LISTED - 1) + 1)]
    if high - low >= MOST_LISTED:
        shown = [low, low + 1, "...", high]
    return f"in {{{', '.join(map(str, shown))}}}"


def _range_text(low: float, high: float) -> str:
    return f"from {low:.4g}" if high == np.inf else f"{low:.4g} to {high:.4g}"


def align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines with aligned columns.

    >>> align([["a", "b"], ["long", "c"]])
    ['  a     b', '  long  c']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


FEW_VISITS = 10
MOST_ROWS = 60  # of a table in a notebook


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
    value : float or None
        The agent's estimate of the return from here on, the mean over the box. The estimates of
        AdaptiveQ and NetQ are optimistic.
    visits : int or None
        About how often the action was played in the box. A visit is spread evenly over its ball,
        so the visits of a step sum to at most the number of episodes. For an agent without boxes,
        the visits of the most visited ball.
    share : float or None
        These visits as a share of all visits of the box.
    sure : str
        "unvisited"; "guess" below 10 visits; else "unsure" for a share below 1/4, "likely" below
        1/2, "sure" above; "unknown" if the agent counts no visits.
    """

    step: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    action: tuple[float, ...]
    value: float | None
    visits: int | None
    share: float | None

    @property
    def sure(self) -> str:
        if self.visits is None:
            return "unknown"
        if self.visits < FEW_VISITS:
            return "guess" if self.visits else "unvisited"
        share = 0.25 if self.share is None else self.share
        return "unsure" if share < 0.25 else "likely" if share < 0.5 else "sure"


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
    loss : Measured or None
        Return that the rules lose against the agent's policy, in episodes with the same seed.
        None if nothing was measured. `loss_text` then says why.
    loss_text : str
        One sentence about the loss.
    is_sampled : bool
        Whether the policy was evaluated on a grid of states, because it has no regions.
    about : str
        Which agent and environment the policy comes from.
    state_names, action_names : tuple of str
        Names of the axes.
    """

    rules: tuple[PolicyRule, ...]
    n_regions: dict[int, int]
    loss: Measured | None
    loss_text: str
    is_sampled: bool
    about: str
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    is_whole: tuple[bool, ...]  # of each state axis
    categories: tuple[tuple[int, int] | None, ...]  # (first, last) of each axis that has some
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
        sampled = (
            ["The policy has no regions of one action: it was evaluated on a grid of states."]
            if self.is_sampled
            else []
        )
        return [*sampled, self.loss_text]

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per rule: step, "AXIS low", "AXIS high", actions, value, visits, ...

        Infinite ends and unknown values are None.
        """
        found = []
        for rule in self.rules:
            row: dict[str, Any] = {"step": rule.step}
            for name, low, high in zip(self.state_names, rule.low, rule.high, strict=True):
                row[f"{name} low"] = low if np.isfinite(low) else None
                row[f"{name} high"] = high if np.isfinite(high) else None
            row.update(zip(self.action_names, rule.action, strict=True))
            row.update(value=rule.value, visits=rule.visits, share=rule.share, sure=rule.sure)
            found.append(row)
        return found

    def frame(self, library: str = "polars") -> Any:
        """Return `records()` as a data frame. `library` is "polars" or "pandas"."""
        return import_frames(library, "frame").DataFrame(self.records())

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
        about = f"{count_noun(len(self), 'rule')} for the policy of {self.about}"
        # Rules compare states in the environment's units, also on squashed axes.
        return export_policy(tree_of(boxes, head_of(axes, about, squashes=False)), path, **options)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of a table of the rules, as text."""
        several = len(self.steps) > 1
        head = [*(["step"] if several else []), *self.state_names, *self.action_names]
        rows = []
        for rule in self.rules:
            sides = zip(rule.low, rule.high, self.is_whole, self.categories, strict=True)
            row = [*([str(rule.step)] if several else []), *(side_text(*side) for side in sides)]
            row += [f"{round(x, 12):.4g}" for x in rule.action]  # not 2e-15 after interpolating
            row += ["" if rule.value is None else f"{rule.value:.4g}"]
            row += ["" if rule.visits is None else f"{rule.visits:,}"]
            row += ["" if rule.share is None else f"{rule.share:.0%}", rule.sure]
            rows.append(row)
        return [*head, "value", "visits", "share", "sure"], rows


def make_rules(
    step: int, boxes: tuple[Floats, Floats, Floats], cells: Any, estimates: Any
) -> list[PolicyRule]:
    """Return the rules of one step from their boxes (low, high, action).

    `cells` [n_cells] is the index of the rule of each cell. `estimates` holds (value, visits,
    total, weight) of the rule's action in each cell. NaN means unknown.
    """
    value, visits, total, weight = estimates
    found = []
    for i, (low, high, action) in enumerate(zip(*boxes, strict=True)):
        own = cells == i
        mean = float(np.average(value[own], weights=weight[own])) if own.any() else np.nan
        # Without the total, the visits of a ball are those of all its cells.
        counts = visits[own].sum() if np.isfinite(total).all() else visits[own].max(initial=0.0)
        known, out_of = bool(np.isfinite(visits).all()), float(total[own].sum())
        found.append(
            PolicyRule(
                step, tuple(low.tolist()), tuple(high.tolist()), tuple(action.tolist()),
                mean if np.isfinite(mean) else None, round(float(counts)) if known else None,
                min(1.0, float(counts) / out_of) if out_of > 0 else None,
            )
        )  # fmt: skip
    return found
