"""Check claims of the paper about several figures, on the findings of each figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zooming.analysis.intervals import Interval
from zooming.app.paper.claims import Verdict, all_of, sign

SHARPNESS = (1, 10, 50)


@dataclass(frozen=True)
class Grows:
    """Claim: a measure grows with the sharpness of the survey, from problem to problem."""

    survey: str
    measure: str  # a key of the findings: [mean, low, high]
    claim: str
    source: str

    @property
    def problems(self) -> list[str]:
        return [f"oil-{self.survey}-{sharpness}" for sharpness in SHARPNESS]

    def check(self, found: Mapping[str, Mapping[str, Any]]) -> Verdict:
        """Return the verdict on this claim. `found` maps each problem to its findings."""
        numbers = [Interval(*found[problem][self.measure]) for problem in self.problems]
        grows = [sign(_difference(after, before)) for before, after in itertools.pairwise(numbers)]
        shown = ", ".join(f"{n.mean:.2f} ± {(n.high - n.low) / 2:.2f}" for n in numbers)
        finding = f"At lambda = {', '.join(map(str, SHARPNESS))} it is {shown} per episode."
        return Verdict(f"{self.claim} ({self.survey} survey).", all_of(grows), finding, self.source)


_GAP = "the gap between the adaptive agent and the net grows with the sharpness"
_ERROR = "the net ends further below the optimum the sharper the survey"
OVERALL = tuple(
    Grows(survey, measure, claim, source)
    for measure, claim, source in (
        ("gap", _GAP, "section 1.1"),
        ("net_error", _ERROR, "section 7.3"),
    )
    for survey in ("laplace", "quadratic")
)


def overall(findings: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdicts on the claims whose figures all have findings."""
    found = {one["problem"]: one for one in findings}
    return [
        claim.check(found)
        for claim in OVERALL
        if all(problem in found for problem in claim.problems)
    ]


def _difference(one: Interval, other: Interval) -> Interval:
    """Return the interval of the difference of two independent means."""
    half = math.hypot((one.high - one.low) / 2, (other.high - other.low) / 2)
    return Interval(
        one.mean - other.mean, one.mean - other.mean - half, one.mean - other.mean + half
    )
