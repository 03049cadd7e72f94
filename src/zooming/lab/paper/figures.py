"""The figures of the paper as data: problem, step of the partition shown, and claims.

Numbers follow the paper: 1 to 3 are in the text, 4 to 15 in the appendix. 7 repeats 2, and 13
repeats 3. Two problems are not in the paper: shifting arrivals with a cost of moving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zooming.errors import ConfigurationError
from zooming.lab.paper.claims import (
    CAPTION,
    AdaptiveBeats,
    Claim,
    EndsAhead,
    FewerBalls,
    IsBest,
    NearOptimal,
    NetExploresMore,
    NetFallsShort,
    NobodyIsOptimal,
    SavesTime,
)
from zooming.lab.paper.fineness import FineAlongDiagonal, FineNear, FinestAt, FollowsOptimum
from zooming.lab.study.problems import PRESETS, Problem
from zooming.validation import suggest

SECOND_STEP = 1  # 0-based; the paper shows h = 2


@dataclass(frozen=True)
class Figure:
    """One problem, with its figure numbers in the paper and the claims about it."""

    numbers: tuple[int, ...]
    problem: str
    title: str
    claims: tuple[Claim, ...]
    step: int = SECOND_STEP

    @property
    def name(self) -> str:
        """The file name of the figure without suffix."""
        return (
            f"figure-{self.numbers[0]:02d}-{self.problem}"
            if self.numbers
            else f"beyond-{self.problem}"
        )

    @property
    def heading(self) -> str:
        """The heading, such as `Figures 2 and 7: ...`."""
        if not self.numbers:
            return f"Not in the paper: {self.title}"
        return (
            f"Figure{'s' if len(self.numbers) > 1 else ''} "
            f"{' and '.join(map(str, self.numbers))}: {self.title}"
        )

    @property
    def preset(self) -> Problem:
        return PRESETS[self.problem]

    @property
    def has_heuristics(self) -> bool:
        """Whether the paper compares with heuristics, which it does on the ambulance problems."""
        return self.problem.startswith("ambulance")


# "better empirical rewards", "a much smaller partition" (section 1.1), "saves on time" (4.1): for
# every problem
_ALWAYS = (AdaptiveBeats(), EndsAhead(), FewerBalls(), SavesTime())
_WELL = (FineNear(0.75, 0.75), FinestAt(0.75, 0.75))
_NARROW = FinestAt(0.75, 0.75, "section 7.3")  # "able to narrow in on the point with large reward"
_STAY = (*_ALWAYS, IsBest("no-movement"), NearOptimal("no-movement"), FineAlongDiagonal())
_MEDIAN = (*_ALWAYS, IsBest("median"), NearOptimal("median"))
_HEURISTICS = ("no-movement", "median")
_ABSTRACT = tuple(
    AdaptiveBeats(other, "abstract") for other in _HEURISTICS
)  # "much better performance compared to heuristics"
_MIXED = (
    *_ALWAYS,
    NobodyIsOptimal(),
    *(EndsAhead(other, CAPTION) for other in _HEURISTICS),
    *_ABSTRACT,
)
_SHIFTING = (*_ALWAYS, *_ABSTRACT, FollowsOptimum())

FIGURES = (
    Figure((1,), "ambulance-shifting-0", "ambulance, shifting arrivals, c = 0", _SHIFTING),
    Figure((2, 7), "oil-laplace-1", "oil, Laplace survey, lambda = 1", (*_ALWAYS, *_WELL)),
    Figure((3, 13), "ambulance-beta-1", "ambulance, Beta(5, 2) arrivals, c = 1", _STAY),
    Figure((4,), "oil-quadratic-1", "oil, quadratic survey, lambda = 1", (*_ALWAYS, *_WELL)),
    Figure(
        (5,),
        "oil-quadratic-10",
        "oil, quadratic survey, lambda = 10",
        (*_ALWAYS, NetExploresMore(), _NARROW),
    ),
    Figure(
        (6,),
        "oil-quadratic-50",
        "oil, quadratic survey, lambda = 50",
        (*_ALWAYS, NetFallsShort(), _NARROW),
    ),
    Figure(
        (8,),
        "oil-laplace-10",
        "oil, Laplace survey, lambda = 10",
        (*_ALWAYS, *_WELL, NetFallsShort()),
    ),
    Figure(
        (9,),
        "oil-laplace-50",
        "oil, Laplace survey, lambda = 50",
        (*_ALWAYS, NetFallsShort(), _NARROW),
    ),
    Figure((10,), "ambulance-uniform-1", "ambulance, uniform arrivals, c = 1", _STAY),
    Figure(
        (11,),
        "ambulance-uniform-0.25",
        "ambulance, uniform arrivals, c = 0.25",
        (*_MIXED, FineNear(0.5, 0.5, "section 7.3")),
    ),
    Figure(
        (12,),
        "ambulance-uniform-0",
        "ambulance, uniform arrivals, c = 0",
        (*_MEDIAN, FineNear(0.5, 0.5)),
    ),
    Figure(
        (14,),
        "ambulance-beta-0.25",
        "ambulance, Beta(5, 2) arrivals, c = 0.25",
        (*_MIXED, FineNear(0.7, 0.7, "section 7.3")),
    ),
    Figure(
        (15,),
        "ambulance-beta-0",
        "ambulance, Beta(5, 2) arrivals, c = 0",
        (*_MEDIAN, FineNear(0.7, 0.7)),
    ),
    Figure((), "ambulance-shifting-0.25", "ambulance, shifting arrivals, c = 0.25", _SHIFTING),
    Figure((), "ambulance-shifting-1", "ambulance, shifting arrivals, c = 1", _STAY),
)


def figures_named(names: Sequence[str]) -> list[Figure]:
    """Return the figures with these numbers or problems, in the paper's order; by default all."""
    chosen = set()
    for name in names:
        found = [
            f for f in FIGURES if name == f.problem or (name.isdigit() and int(name) in f.numbers)
        ]
        if not found:
            known = [figure.problem for figure in FIGURES]
            raise ConfigurationError(
                f"the paper has no figure {name!r}{suggest(name, known)}. Give numbers from 1 to "
                "15, or problems: "
                f"{', '.join(known)}"
            )
        chosen.add(found[0])
    return [figure for figure in FIGURES if not names or figure in chosen]
