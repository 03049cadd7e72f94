"""Describe a policy, or the differences of two policies, in a few rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from zooming import notebook
from zooming.agents.base.own_policy import own_policy
from zooming.errors import ConfigurationError
from zooming.export.evidence import gather, weigh
from zooming.export.forms import about
from zooming.export.regions import (
    Regions,
    category_ends,
    contain,
    greedy_actions,
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
    align,
    make_rules,
    measure,
    side_text,
)
from zooming.spaces.names import printable, printable_names
from zooming.validation import Floats, check_int, count_noun, import_frames

DEFAULT_RULES = 8
EPISODES = 500  # of a measurement
CLOSE = 0.005  # mean distance of actions, in shares of their axes, that needs no more rules


@dataclass(frozen=True)
class Difference:
    """One box of states in which two policies play different actions.

    Attributes
    ----------
    step : int
        The step, counted from 0.
    low, high : tuple of float
        Corners of the box, in the environment's units; infinite where the box has no end.
    action, other_action : tuple of float
        The actions of the two policies there. If there are several pairs, the most typical one.
    weight : float
        Share of the first agent's visits of the step that fell into the box.
    """

    step: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    action: tuple[float, ...]
    other_action: tuple[float, ...]
    weight: float


@dataclass(frozen=True)
class Differences:
    """The states in which two policies differ. Returned by `zooming.explain(a, b)`.

    Attributes
    ----------
    regions : tuple of Difference
        The boxes in which they differ, those with the most weight first.
    worth : Measured or None
        Return of the second policy minus that of the first, in episodes with the same seed.
    is_sampled : bool
        Whether the policies were compared on a grid of states. This is done if one of them has no
        regions with one action each.
    about : str
        Which agents and environment the policies come from.
    state_names, action_names : tuple of str
        Names of the axes.
    """

    regions: tuple[Difference, ...]
    worth: Measured | None
    is_sampled: bool
    about: str
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    is_whole: tuple[bool, ...]  # of each state axis
    categories: tuple[tuple[int, int] | None, ...]  # (first, last) of each axis that has some

    def __len__(self) -> int:
        return len(self.regions)

    def __getitem__(self, i: int) -> Difference:
        return self.regions[i]

    def __str__(self) -> str:
        head, rows = self._table()
        return "\n".join([self.about, *align([head, *rows]), *self.notes])

    def _repr_html_(self) -> str:
        return notebook.table(self.about, *self._table(), self.notes)

    @property
    def notes(self) -> list[str]:
        """Sentences to print below the regions."""
        found = []
        if not self.regions:
            found.append("The policies are the same.")
        if self.is_sampled:
            found.append("A policy has no regions of one action: both were evaluated on a grid.")
        if self.worth is None:
            return [*found, "How much more b earns than a was not measured."]
        more = "more" if self.worth.mean >= 0 else "less"
        size = self.worth if self.worth.mean >= 0 else self.worth.negate()
        found.append(f"b earns {size.text} {more} than a, which earns {self.worth.instead_of:.4g}.")
        return found

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per region. Infinite ends are None."""
        found = []
        for one in self.regions:
            row: dict[str, Any] = {"step": one.step}
            for name, low, high in zip(self.state_names, one.low, one.high, strict=True):
                row[f"{name} low"] = low if np.isfinite(low) else None
                row[f"{name} high"] = high if np.isfinite(high) else None
            for who, actions in (("a", one.action), ("b", one.other_action)):
                row.update(
                    {
                        f"{name} of {who}": x
                        for name, x in zip(self.action_names, actions, strict=True)
                    }
                )
            found.append({**row, "weight": one.weight})
        return found

    def frame(self, library: str = "polars") -> Any:
        """Return `records()` as a data frame. `library` is "polars" or "pandas"."""
        return import_frames(library, "frame").DataFrame(self.records())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = ["step", *self.state_names]
        head += [f"{name} of {who}" for who in "ab" for name in self.action_names]
        rows = []
        for one in self.regions:
            sides = zip(one.low, one.high, self.is_whole, self.categories, strict=True)
            row = [str(one.step), *(side_text(*side) for side in sides)]
            row += [f"{x:.4g}" for x in (*one.action, *one.other_action)]
            rows.append([*row, f"{one.weight:.0%}"])
        return [*head, "visits"], rows


@overload
def explain(
    agent: Any, other: None = None, *, step: int | None = None, n_rules: int | None = DEFAULT_RULES,
    env: Any = None, episodes: int = EPISODES, seed: int = 0,
) -> Rules: ...  # fmt: skip
@overload
def explain(
    agent: Any, other: Any, *, step: int | None = None, n_rules: int | None = DEFAULT_RULES,
    env: Any = None, episodes: int = EPISODES, seed: int = 0,
) -> Differences: ...  # fmt: skip
def explain(
    agent: Any,
    other: Any = None,
    *,
    step: int | None = None,
    n_rules: int | None = DEFAULT_RULES,
    env: Any = None,
    episodes: int = EPISODES,
    seed: int = 0,
) -> Rules | Differences:
    """Return the policy of an agent as rules, or where the policies of two agents differ.

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
    other : Agent, optional
        A second agent on the same spaces.
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
    Rules or Differences
        The rules. With two agents, the regions in which they differ, and what all of them
        together are worth.

    Raises
    ------
    ConfigurationError
        If an argument is wrong, or the agents have different spaces or horizons.

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
    agent = _check_agent(agent, "agent")
    steps = list(range(agent.horizon)) if step is None else [agent.problem.check_step(step)]
    n_rules = None if n_rules is None else check_int(n_rules, "n_rules", 1)
    if check_int(episodes, "episodes", 0) == 1:
        raise ConfigurationError("episodes=1: give at least 2, or 0 to measure nothing")
    seed = check_int(seed, "seed", 0)
    env = agent.run.free_env(agent.env) if env is None else env
    if other is not None:
        other = _check_agent(other, "other")
        return compare(agent, other, steps, n_rules, env, episodes, seed)
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
        tuple(whole_states(agent.axes).tolist()), category_ends(agent.axes), policy, regions,
    )  # fmt: skip


def _check_agent(agent: Any, name: str) -> Any:
    """Return the agent, or a copy with its own policy if it was loaded without its rule."""
    if not all(hasattr(agent, part) for part in ("predict", "axes", "problem")):
        raise ConfigurationError(f"{name}={agent!r} is not an agent of zooming")
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


def compare(
    agent: Any, other: Any, steps: list[int], n_rules: int | None, env: Any, episodes: int,
    seed: int,
) -> Differences:  # fmt: skip
    """Find where two policies differ at some steps, and how much more the second one earns."""
    check_comparable(agent, other)
    found, is_sampled = [], False
    for step in steps:
        own, is_exact = _differences(agent, other, step, n_rules)
        found += own
        is_sampled |= not is_exact
    found.sort(key=lambda one: -one.weight)
    worth = measure(other, agent, env, episodes, seed) if env is not None and episodes else None
    n_state, names = agent.axes.n_state, printable_names(agent.axes.names)
    return Differences(
        tuple(found), worth, is_sampled,
        f"a: {_name(agent)}; b: {_name(other)}; on {printable(agent.env_name)}",
        names[:n_state], names[n_state:],
        tuple(whole_states(agent.axes).tolist()), category_ends(agent.axes),
    )  # fmt: skip


def check_comparable(agent: Any, other: Any) -> None:
    """Raise ConfigurationError if two agents do not play the same states and actions."""
    if agent.horizon != other.horizon:
        raise ConfigurationError(
            f"the first agent plays {agent.horizon} steps, the second one {other.horizon}; compare "
            "agents of one horizon"
        )
    for one, two in zip(agent.axes.describe(), other.axes.describe(), strict=False):
        if one != two:
            raise ConfigurationError(
                f"the agents have different spaces: {one[0]} from {one[1]:g} to {one[2]:g} "
                f"({one[3]}), and {two[0]} from {two[1]:g} to {two[2]:g} ({two[3]})"
            )
    if len(agent.axes) != len(other.axes):
        raise ConfigurationError(
            f"the agents have different spaces: {', '.join(agent.axes.names)}, and "
            f"{', '.join(other.axes.names)}"
        )


def _differences(
    agent: Any, other: Any, step: int, n_rules: int | None
) -> tuple[list[Difference], bool]:
    """Return the boxes of a step in which two policies differ, and whether the boxes are exact."""
    regions = policy_regions(step, agent, other)
    n = regions.actions.shape[1]
    pairs = np.hstack([regions.actions, greedy_actions(other, step, regions.points)])
    weights = weigh(regions, gather(agent, step, regions, regions.actions))
    rows, number = np.unique(pairs, axis=0, return_inverse=True)
    low, high, chosen = merge(regions.low, regions.high, number.ravel())
    actions = rows[chosen]
    if n_rules is not None and (actions[:, :n] != actions[:, n:]).any(axis=1).sum() > n_rules:
        both = scale_actions(agent.axes, np.vstack([pairs[:, :n], pairs[:, n:]]))
        first, second = np.split(both, 2)
        distances = np.hstack([first, second, first - second])
        low, high, actions = simplify(regions, pairs, distances, weights, n_rules)
    cells = contain(low, high, regions.points).argmax(axis=1)
    shares = np.bincount(cells, weights, len(low)) / weights.sum()
    return [
        Difference(
            step, tuple(low[i].tolist()), tuple(high[i].tolist()), tuple(actions[i, :n].tolist()),
            tuple(actions[i, n:].tolist()), float(shares[i]),
        )
        for i in range(len(low))
        if (actions[i, :n] != actions[i, n:]).any()
    ], regions.is_exact  # fmt: skip


def _name(agent: Any) -> str:
    return f"{type(agent).__name__} after {agent.n_episodes:,} episodes"
