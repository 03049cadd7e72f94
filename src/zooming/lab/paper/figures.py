"""The figures of the paper as data: problem, step of the partition shown, and claims.

Numbers follow the paper: 1 to 3 are in the text, 4 to 15 in the appendix. 7 repeats 2, and 13
repeats 3. Two problems are not in the paper: shifting arrivals with a cost of moving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zooming.errors import ConfigurationError
from zooming.lab.paper import claims
from zooming.lab.paper.claims import Claim
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


CAPTION = "caption"  # of the figure itself


def _better_than(name: str, text: str) -> tuple[Claim, Claim]:
    """Return the claims that the adaptive agent performs better, and learns a better policy."""
    return (
        Claim(
            f"the adaptive agent performs better than {text}.", "abstract", claims.beats, (name,)
        ),
        Claim(
            f"the adaptive agent learns a policy better than {text}.",
            CAPTION,
            claims.ends_ahead,
            (name,),
        ),
    )


def _heuristic_wins(name: str, text: str) -> tuple[Claim, Claim]:
    return (
        Claim(f"{text} performs best.", CAPTION, claims.is_best, (name,)),
        Claim(f"{text} is near-optimal.", "section 7.1", claims.near_optimal, (name,)),
    )


# "better empirical rewards", "a much smaller partition" (section 1.1): for every problem
_ALWAYS = (
    Claim("the adaptive agent learns faster than the net.", "section 1.1", claims.beats),
    Claim("the adaptive agent ends better than the net.", "section 1.1", claims.ends_ahead),
    Claim("the adaptive partition is much smaller.", "section 1.1", claims.fewer_balls),
)
_STAY = (*_ALWAYS, *_heuristic_wins("no-movement", "no movement"))
_MEDIAN = (*_ALWAYS, *_heuristic_wins("median", "the median"))
# "much better performance compared to heuristics"
_ABSTRACT, _POLICIES = zip(
    _better_than("no-movement", "no movement"), _better_than("median", "the median"), strict=True
)
_NOBODY = Claim("no agent is optimal.", CAPTION, claims.nobody_is_optimal)
_MIXED = (*_ALWAYS, _NOBODY, *_POLICIES, *_ABSTRACT)
_SHIFTING = (*_ALWAYS, *_ABSTRACT)

FIGURES = tuple(
    Figure(*figure)
    for figure in (
        ((1,), "ambulance-shifting-0", "ambulance, shifting arrivals, c = 0", _SHIFTING),
        ((2, 7), "oil-laplace-1", "oil, Laplace survey, lambda = 1", _ALWAYS),
        ((3, 13), "ambulance-beta-1", "ambulance, Beta(5, 2) arrivals, c = 1", _STAY),
        ((4,), "oil-quadratic-1", "oil, quadratic survey, lambda = 1", _ALWAYS),
        ((5,), "oil-quadratic-10", "oil, quadratic survey, lambda = 10", _ALWAYS),
        ((6,), "oil-quadratic-50", "oil, quadratic survey, lambda = 50", _ALWAYS),
        ((8,), "oil-laplace-10", "oil, Laplace survey, lambda = 10", _ALWAYS),
        ((9,), "oil-laplace-50", "oil, Laplace survey, lambda = 50", _ALWAYS),
        ((10,), "ambulance-uniform-1", "ambulance, uniform arrivals, c = 1", _STAY),
        ((11,), "ambulance-uniform-0.25", "ambulance, uniform arrivals, c = 0.25", _MIXED),
        ((12,), "ambulance-uniform-0", "ambulance, uniform arrivals, c = 0", _MEDIAN),
        ((14,), "ambulance-beta-0.25", "ambulance, Beta(5, 2) arrivals, c = 0.25", _MIXED),
        ((15,), "ambulance-beta-0", "ambulance, Beta(5, 2) arrivals, c = 0", _MEDIAN),
        ((), "ambulance-shifting-0.25", "ambulance, shifting arrivals, c = 0.25", _SHIFTING),
        ((), "ambulance-shifting-1", "ambulance, shifting arrivals, c = 1", _STAY),
    )
)  # fmt: skip


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
