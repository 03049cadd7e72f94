"""The status of an agent: a dictionary that shows its numbers plainly, as lines or as a table."""

from __future__ import annotations

import copy
import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from zooming import notebook
from zooming.errors import ConfigurationError
from zooming.validation import count_own_frames

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent


PLAIN = 1e-5, 1e15  # numbers outside are written with an exponent


class Status(dict[str, Any]):
    """The result of `agent.status()`: a dictionary that prints as one line per entry.

    A notebook shows it as a table.

    Examples
    --------
    >>> axes = {"stock": Bandwidths(0.25, float("inf"))}
    >>> print(Status({"plays": "Planner", "axes": axes, "gain": 1234567.8}))
    plays: Planner
    axes:
      stock: reward bandwidth 0.25, value follows the trend
    gain: 1,234,568
    """

    def __str__(self) -> str:
        return "\n".join(
            f"{'  ' * depth}{f'{name}: {text}'.rstrip() if name else text}"
            for depth, name, text in _rows(self, 0)
        )

    def _repr_html_(self) -> str:
        indent = "\N{EM SPACE}"
        rows = [(indent * depth + name, text) for depth, name, text in _rows(self, 0)]
        return notebook.card("Status", rows)


class Bandwidths(NamedTuple):
    """Bandwidths of a planner's models along an axis, as shares of the axis.

    An infinite one means that the axis does not matter beyond the trend.
    """

    reward_bandwidth: float
    value_bandwidth: float


def plain(value: float, digits: int = 4) -> str:
    """Return a number with at least so many digits, without an exponent.

    >>> plain(1234567.8), plain(0.51234), plain(2.0), plain(float("nan"))
    ('1,234,568', '0.5123', '2', 'not known yet')
    """
    if math.isnan(value):
        return "not known yet"
    if math.isinf(value):
        return "unlimited" if value > 0 else "minus infinity"
    if value != 0.0 and not PLAIN[0] <= abs(value) < PLAIN[1]:
        return f"{value:.{digits}g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_ends(mean: float, low: float, high: float) -> list[str]:
    """Return a mean and the ends of its interval, rounded to two digits of half its width.

    >>> plain_ends(44523.4, 43987.2, 45059.6), plain_ends(0.00075, -0.00027, 0.00177)
    (['44,523', '43,987', '45,060'], ['0.0008', '-0.0003', '0.0018'])
    """
    half = (high - low) / 2
    if not (math.isfinite(half) and PLAIN[0] <= half < PLAIN[1]):
        return [plain(value, 5) for value in (mean, low, high)]
    places = max(0, 1 - math.floor(math.log10(half)))
    return [f"{round(value, places) + 0.0:,.{places}f}" for value in (mean, low, high)]


def plus_minus(mean: float, error: float) -> str:
    """Return a mean with its uncertainty, which has two digits.

    >>> plus_minus(5926.3, 160.4), plus_minus(67.749, 1.5), plus_minus(0.5, 0.0)
    ('5,926 ± 160', '67.7 ± 1.5', '0.5 ± 0')
    """
    if not (math.isfinite(error) and error > 0.0 and PLAIN[0] <= abs(error) < PLAIN[1]):
        return f"{plain(mean)} ± {plain(error)}"
    places = 1 - math.floor(math.log10(error))
    shown = max(0, places)
    return f"{round(mean, shown) + 0.0:,.{shown}f} ± {round(error, places):,.{shown}f}"


def in_words(value: Any) -> str:
    """Return a value of a status as text."""
    if isinstance(value, Bandwidths):
        return ", ".join(
            f"{name} follows the trend" if math.isinf(one) else f"{name} bandwidth {plain(one)}"
            for name, one in zip(("reward", "value"), value, strict=True)
        )
    if isinstance(value, tuple):
        return ", ".join(in_words(one) for one in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known yet"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return plain(value) if isinstance(value, float) else str(value)


def _rows(entries: dict[str, Any], depth: int) -> list[tuple[int, str, str]]:
    """Return (depth, name, text) of each entry, and of those in nested dictionaries and lists."""
    found: list[tuple[int, str, str]] = []
    for name, value in entries.items():
        if isinstance(value, dict):
            found += [(depth, name, ""), *_rows(value, depth + 1)]
        elif isinstance(value, list):
            found.append((depth, name, "" if value else "none"))
            found += [(depth + 1, "", str(entry)) for entry in value]
        else:
            found.append((depth, name, in_words(value)))
    return found


def count_clipped(agent: Agent) -> None:
    """Count one clipped reward. Warn if it is the first one."""
    agent.run.clipping[1] += 1
    warn_of_clipping(agent)


def warn_of_clipping(agent: Agent) -> None:
    """Warn that rewards are clipped, once per agent."""
    if agent.run.clipping[1] and not agent.run.has_warned_of_clipping:
        agent.run.has_warned_of_clipping = True
        low, high = agent.reward_range
        warnings.warn(
            f"{agent.env_name}: a reward outside the reward range [{low}, {high}] was clipped, "
            "and others will be, too; "
            "agent.n_clipped counts them, and zooming.reward_range(env, "
            f"horizon={agent.horizon}) proposes a wider range",
            stacklevel=count_own_frames(),
        )


def clipping_text(agent: Agent) -> str:
    """Return the number of clipped rewards as text for a repr, such as ", 3 rewards clipped".

    The text is empty if none was clipped.
    """
    return f", {agent.n_clipped:,} rewards clipped" if agent.n_clipped else ""


def check_let_go(agent: Any) -> None:
    """Raise ConfigurationError if a rule is still in use, because a rule cannot be exported."""
    if getattr(agent, "is_guided", False):
        raise ConfigurationError(
            f"the rule of the warm start {agent.guide.words()}, and a file cannot hold the rule. "
            "Export rules that come close to what predict plays, agent.explain().export(path); or "
            "set agent.guide = None to export the agent's own policy, which was not shown to be as "
            "good: compare zooming.evaluate(agent) before and after that"
        )


def warn_untrained(agent: Any) -> None:
    """Warn if a policy is to be exported before the agent has learned anything."""
    if agent.n_episodes == 0 and agent.n_balls:
        warnings.warn(
            f"{type(agent).__name__} has not learned from any episode yet, so the file will hold "
            "the guess that it begins with; call agent.learn(episodes) first",
            UserWarning,
            stacklevel=count_own_frames(),
        )


def own_policy(agent: Any) -> Any:
    """Return a copy of the agent without its guide, for functions that describe its own policy.

    Warn if the rule is still kept, because `predict` then plays another policy. Use the copy to
    read the policy, not to learn.
    """
    if not getattr(agent, "is_guided", False):
        return agent
    warnings.warn(
        f"the rule of the warm start {agent.guide.words()}. This is the agent's own policy, which "
        "was not shown to be as good. In Python, agent.explain() tells what predict plays, after "
        "agent.guide.set_rule(rule) if the agent was loaded",
        UserWarning,
        stacklevel=count_own_frames(),
    )
    found = copy.copy(agent)
    found.guide = None
    return found
