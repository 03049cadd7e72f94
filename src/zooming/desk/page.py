"""What happens at a desk, in numbers and as a page: asks, rewards, returns, alarms."""

from __future__ import annotations

import html
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming import notebook
from zooming.agents.base.status import Status, plain
from zooming.analysis.intervals import mean_interval
from zooming.desk.learner import LEARNED

if TYPE_CHECKING:
    from zooming.desk.desk import Desk

RECENT = 200_000  # events whose returns are shown
BLOCKS = 24  # points of the curve of returns
FEW = 10  # episodes of a block below which no alarm is raised
MISSING = 0.1  # share of rewards that may be missing
CHANGED = 2.0  # ratio of standard deviations that is a change of the noise
BEHIND = 10_000  # events that may wait to be learned


def returns_of(desk: Desk) -> tuple[Any, Any]:
    """Return (returns, share explored) of the recent episodes that ended with all rewards."""
    last = desk.storage.read("SELECT COALESCE(MAX(seq), 0) FROM events")[0][0]
    rows = desk.storage.read(
        "SELECT d.episode, d.step, d.explored, e.kind, e.data FROM events e "
        "JOIN decisions d ON d.id = e.decision JOIN episodes p ON p.number = d.episode "
        "WHERE e.seq > ? AND p.is_over = 1 AND e.kind IN ('tell', 'default', 'missing', 'frozen')",
        [last - RECENT],
    )
    found: dict[int, list[Any]] = {}
    for number, step, explored, kind, data in rows:
        one = found.setdefault(number, [0.0, 0, 0, math.nan])
        told = json.loads(data)
        one[0] += told["reward"] if kind in LEARNED else math.nan
        one[1], one[2] = one[1] + 1, one[2] + explored
        if told.get("terminated") or step + 1 == desk.agent.horizon:
            one[3] = step + 1
    whole = [found[k] for k in sorted(found) if found[k][1] == found[k][3]]
    whole = [one for one in whole if not math.isnan(one[0])]
    return np.array([one[0] for one in whole]), np.array([one[2] / one[1] for one in whole])


def status(desk: Desk) -> Status:
    """Return what happens at a desk; see `Desk.status`."""
    read = desk.storage.read
    kinds: Any = dict(read("SELECT kind, COUNT(*) FROM events GROUP BY kind"))
    deciders: Any = dict(read("SELECT decider, COUNT(*) FROM decisions GROUP BY decider"))
    waiting = int(read("SELECT COUNT(*) FROM decisions WHERE state = 'open'")[0][0])
    last = int(read("SELECT COALESCE(MAX(seq), 0) FROM events")[0][0])
    values, explored = returns_of(desk)
    recent = values[-max(FEW, len(values) // 4) :]
    n = len(recent)
    agent, guide = desk.agent, desk.agent.guide
    player = type(getattr(agent, "player", agent)).__name__
    deciding = read("SELECT decider FROM decisions ORDER BY id DESC LIMIT 1")
    told = {}
    if guide is not None:
        is_promoted = bool(read("SELECT 1 FROM meta WHERE name = 'apprentice'"))
        better = "was promoted" if is_promoted else "is better: promote() lets it decide"
        told["apprentice"] = (
            f"the rule {guide.words()}{'' if guide.is_open else f'; the agent {better}'}"
        )
    return Status({
        "asks": sum(deciders.values()), "by": deciders, "tells": kinds.get("tell", 0),
        "defaults": kinds.get("default", 0),
        "waiting": waiting,
        "not learned": {k: kinds.get(k, 0) for k in ("late", "extra", "frozen", "missing")},
        "learned": f"{desk.version:,} of {last:,} events",
        "mode": desk.mode,
        "return": f"{mean_interval(recent)} in the last {n:,} episodes" if n > 1 else None,
        "explored": f"{explored.mean():.1%} of the decisions of the last {len(values):,} episodes"
        if len(values)
        else None,
        "plays": "the rule" if deciding == [("rule",)] else player,
        **told,
        "alarms": alarms(desk, values, kinds, last),
    })  # fmt: skip


def alarms(desk: Desk, values: Any, kinds: dict[str, int], last: int) -> list[str]:
    """Return one sentence per sign that something is wrong."""
    found = [] if desk.fault is None else [desk.fault]
    if desk.failures:
        n, last_one = len(desk.failures), desk.failures[-1]
        found.append(f"the agent failed to learn from {n:,} rewards, lastly {last_one}")
    n = max(FEW, len(values) // 5)
    if len(values) >= 3 * n:
        before, now = values[:-n], values[-n:]
        was, is_ = mean_interval(before), mean_interval(now)
        if is_.high < was.low:
            found.append(
                f"returns fall: the last {n} episodes earned {plain(is_.mean)}, those before "
                f"{plain(was.mean)}"
            )
        one, other = float(np.std(before)), float(np.std(now))
        if max(one, other) > CHANGED * min(one, other) and max(one, other) > 1e-9:
            found.append(
                f"the noise of returns changed: a standard deviation of {plain(other)} in "
                f"the last {n} episodes, {plain(one)} before"
            )
    missing, told = kinds.get("missing", 0) + kinds.get("default", 0), kinds.get("tell", 0)
    if missing > max(FEW, MISSING * (told + missing)):
        found.append(f"{missing:,} rewards were missing or late, and {told:,} came in time")
    if last - desk.version > BEHIND:
        found.append(f"{last - desk.version:,} events wait to be learned: does a learner run?")
    return found


def page(desk: Desk) -> str:
    """Return an HTML page of `status`, with a curve of returns. It loads nothing."""
    values, explored = returns_of(desk)
    facts = status(desk)
    warnings = "".join(f'<p class="warn">{html.escape(one)}</p>' for one in facts.pop("alarms"))
    return notebook.page(
        f"Desk {desk.storage.name}",
        f"{warnings}<pre>{html.escape(str(facts))}</pre>"
        f"<h2>Return by episode</h2>{_curve(values)}"
        f"<h2>Share of decisions that explored</h2>{_curve(explored, 0.0)}"
        '<p class="quiet">Means of equal shares of the episodes that ended with all rewards, with '
        "intervals of 95 %. The numbers below a curve are those of the first and the last of these "
        "episodes.</p>",
    )


def _curve(values: Any, least: float = -math.inf) -> str:
    """Return a drawing of the means of equal shares of `values`, with their intervals."""
    blocks = [one for one in np.array_split(values, min(BLOCKS, len(values) // 2 or 1)) if len(one)]
    if len(blocks) < 2:
        return '<p class="quiet">Too few episodes have ended.</p>'
    found = [mean_interval(one) for one in blocks]
    low = max(least, min(one.low for one in found))
    high = max(one.high for one in found)
    span = (high - low) or 1.0

    def at(k: int, value: float) -> str:
        return f"{50 + 740 * (k + 0.5) / len(found):.1f},{220 - 200 * (value - low) / span:.1f}"

    band = [at(k, one.high) for k, one in enumerate(found)]
    band += [at(k, max(low, one.low)) for k, one in reversed(list(enumerate(found)))]
    line = " ".join(at(k, one.mean) for k, one in enumerate(found))
    return (
        '<svg viewBox="0 0 800 250" role="img" aria-label="curve">'
        f'<polygon points="{" ".join(band)}" fill="#9bd" fill-opacity=".4"/>'
        f'<polyline points="{line}" fill="none" stroke="#146" stroke-width="2"/>'
        f'<text x="0" y="225" font-size="13">{plain(low)}</text>'
        f'<text x="0" y="25" font-size="13">{plain(high)}</text>'
        f'<text x="50" y="245" font-size="13">1</text>'
        f'<text x="790" y="245" font-size="13" text-anchor="end">{len(values):,}</text></svg>'
    )
