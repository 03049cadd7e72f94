"""The constants of `Auto`, each with its reason; `kernels.plans.layout` has those of a planner."""

from __future__ import annotations

from typing import Annotated as A
from typing import Any, NamedTuple, get_type_hints


class Constants(NamedTuple):
    """The constants of a portfolio of a planner and a tree."""

    PILOT: A[int, "episodes of the planner alone: the tree learns their scale of rewards"] = 5
    FORCED: A[float, "every agent plays FORCED sqrt(episodes): agents improve"] = 0.3
    BLOCK: A[float, "share of the episodes so far that an agent plays in a row"] = 0.05
    MOST_BLOCK: A[int, "and at most so many: a law may change"] = 100
    MOST_CUBES: A[int, "with more axes, the tree halves one side at a time"] = 6
    WARM: A[int, "episodes before a plan is kept, to be played again if returns fall"] = 128
    LEAST_RECALLS: A[int, "returns that are compared, at least"] = 16
    KEPT: A[int, "latest returns that are kept, to see whether they fall"] = 1000
    DOUBTFUL: A[float, "deviations by which ranks fall if the plan is played again"] = 2.5
    CERTAIN: A[float, "deviations by which its ranks fall if the law has changed"] = 4.0
    LOST: A[float, "and least fall of its mean return, as a share of what was gained"] = 0.1
    LARGER: A[float, "after n returns, a search has sqrt(n / LARGER) times as many at once"] = 10.0


CONSTANTS = Constants()
(
    PILOT, FORCED, BLOCK, MOST_BLOCK, MOST_CUBES, WARM, LEAST_RECALLS, KEPT, DOUBTFUL, CERTAIN,
    LOST, LARGER,
) = CONSTANTS  # fmt: skip


def in_words(record: Any) -> dict[str, str]:
    """Return {name: value and reason} of a record of constants.

    Examples
    --------
    >>> in_words(CONSTANTS)["FORCED"]
    '0.3: every agent plays FORCED sqrt(episodes): agents improve'
    """
    hints = get_type_hints(type(record), include_extras=True)
    return {
        name: f"{value:g}: {hints[name].__metadata__[0]}"
        for name, value in record._asdict().items()
    }
