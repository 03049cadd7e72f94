"""Policies that are not learned: functions, agents, classical rules, and noise around them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zooming.agents.base.problem import LearningProblem
from zooming.errors import ConfigurationError, ZoomingError
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, Leaf
from zooming.spaces.masks import has_mask
from zooming.validation import Floats, clip_rounding, short_repr

Policy = Callable[[int, Any, Mapping[str, Any] | None], Any]


OBSERVATIONS, STEPS = ("obs", "observation", "state", "x"), ("step", "t", "h", "time")  # names


def as_function(policy: Any, what: str = "policy") -> Policy:
    """Return a policy as a function of (step, observation, info).

    `what` is the noun used in error messages.
    """
    if isinstance(policy, type):
        raise ConfigurationError(f"{what}={policy.__name__} is a class; give an instance of it")
    if hasattr(policy, "predict"):
        return lambda step, observation, info: policy.predict(
            observation, state=np.array([step]), info=info if has_mask(info or {}) else None
        )[0]
    if callable(policy):
        _check_signature(policy, what)
        return lambda step, observation, info: _call(policy, what, step, observation)
    raise ConfigurationError(
        f"{what}={short_repr(policy)}: give an agent, or a function {what}(step, observation)"
    )


def _call(policy: Callable[..., Any], what: str, step: int, observation: Any) -> Any:
    """Call a policy function and return its action. Raise ConfigurationError if it is None."""
    try:
        # A copy, because a function that changes its argument would change what is learned.
        played = policy(step, copy.deepcopy(observation))
    except Exception as error:
        error.add_note(f"the {what} was called as {what}(step, observation)")
        raise
    if played is None:
        raise ConfigurationError(
            f"step {step}: the {what} returned None; it must return an action for every step and "
            "observation"
        )
    return played


def _check_signature(policy: Callable[..., Any], what: str) -> None:
    """Raise ConfigurationError if a function cannot be called with (step, observation)."""
    try:
        signature = inspect.signature(policy)
    except (TypeError, ValueError):
        return  # written in C: it has no signature
    try:
        signature.bind(0, None)
    except TypeError as error:
        raise ConfigurationError(
            f"{what}={short_repr(policy)} takes {signature}; give a function "
            f"{what}(step, observation)"
        ) from error
    names = list(signature.parameters)[:2]
    if names[0] in OBSERVATIONS and names[-1] in STEPS:
        raise ConfigurationError(
            f"{what} takes {signature}, but it is called as {what}(step, observation); swap its "
            "parameters"
        )


def rule_action(
    agent: Any, rule: Policy, step: int, observation: Any, info: Mapping[str, Any] | None
) -> Floats:
    """Return the action of a rule as a checked flat vector, made feasible according to `info`.

    Raise ConfigurationError if it is not an action of the agent's environment.
    """
    played = rule(step, observation, info)
    flat = check_action(agent.problem, step, played, "rule")
    if not agent.axes.are_plain:
        _check_bounds(agent.axes, step, played)
    return np.asarray(agent.nearest_feasible(step, flat, info), np.float64)


def check_action(problem: LearningProblem, step: int, played: Any, who: str) -> Floats:
    """Return an action as a flat vector.

    Raise ConfigurationError if it is not a valid action. `who` names its source in the message.
    """
    try:
        flat = problem.flat_action(step, played)
        return problem.check_point(step, flat, problem.axes.n_state)
    except ZoomingError as error:
        raise ConfigurationError(f"the {who} gave {short_repr(played)}: {error}") from error


def _check_bounds(axes: Any, step: int, played: Any) -> None:
    """Raise ConfigurationError if a rule's action is beyond the agent's `bounds`.

    The agent would learn from it as if the bound itself had been played.
    """
    for i, value in enumerate(axes.actions.flat(played, "action").tolist()):
        axis = axes[axes.n_state + i]
        slack = 1e-9 * (axis.high - axis.low)  # rounding
        if axis.clips and not axis.low - slack <= value <= axis.high + slack:
            raise ConfigurationError(
                f"step {step}: the rule gave {axis.name} = {value:g}, which is outside the agent's "
                f"bounds ({axis.low:g}, {axis.high:g}); widen bounds=, or clip it in the rule"
            )


class Exploration:
    """Draw random actions for a log: uniform with probability `epsilon`, else near the policy's.

    Parameters
    ----------
    leaves : list of Leaf
        The axes of the action space.
    epsilon : float
        Probability of an action that is uniform over the whole space.
    noise : float
        Largest distance of the other actions from the policy's, as a share of the range of each
        axis. On a categorical axis, the probability of a random category. With 0, the other
        actions are the policy's own.
    kinds : sequence of str, optional
        Kinds of the axes. By default those of the leaves.
    """

    def __init__(
        self, leaves: list[Leaf], epsilon: float, noise: float, kinds: Sequence[str] | None = None
    ) -> None:
        self.epsilon, self.noise = epsilon, noise
        self.low = np.concatenate([leaf.low for leaf in leaves])
        self.high = np.concatenate([leaf.high for leaf in leaves])
        own = [leaf.kind for leaf in leaves for _ in leaf.low]
        self.kinds = own if kinds is None else list(kinds)
        self.names = [name for leaf in leaves for name in leaf.names]
        for name, low, high in zip(self.names, self.low, self.high, strict=True):
            if noise and not np.isfinite(high - low):
                raise ConfigurationError(f"{name} is unbounded; noise needs a bounded action space")

    def check_inside(self, action: Floats, step: int) -> None:
        """Raise ConfigurationError if the action of a policy is outside the space."""
        i = clip_rounding(action, self.low, self.high)[1]
        if i is not None:
            raise ConfigurationError(
                f"step {step}: the policy gave {self.names[i]} = {action[i]:g}, which is outside "
                f"[{self.low[i]:g}, {self.high[i]:g}]; clip the value"
            )

    def draw_near(self, center: Floats, generator: np.random.Generator) -> Floats:
        """Return a random action near `center`: close on numeric axes, seldom another category."""
        found = center.copy()
        for i, (first, last) in enumerate(self._ranges(center)):
            if self.kinds[i] == INTERVAL:
                found[i] = generator.uniform(first, last)
            else:
                found[i] = generator.integers(int(first), int(last) + 1)
        for i, kind in enumerate(self.kinds):
            if kind == CATEGORICAL and generator.random() >= self.noise:
                found[i] = center[i]
        return found

    def _ranges(self, center: Floats) -> list[tuple[float, float]]:
        """Return the range (low, high) of each axis from which `draw_near` draws.

        It reaches `noise` times the width of the axis to both sides of `center`. On a categorical
        axis it is the whole axis.
        """
        found = []
        for value, lowest, highest, kind in zip(
            center, self.low, self.high, self.kinds, strict=True
        ):
            reach = self.noise * (highest - lowest)
            if kind == CATEGORICAL:
                reach = highest - lowest
            elif kind != INTERVAL:
                reach = max(1.0, np.rint(reach))
            found.append((float(max(lowest, value - reach)), float(min(highest, value + reach))))
        return found
