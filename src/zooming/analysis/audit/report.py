"""What an audit says, whatever the shape of the balls: laws that hold or not, and constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zooming import notebook


@dataclass(frozen=True)
class Law:
    """One law: whether it holds (None: it does not apply), and what was found, naming the first ball that breaks it."""

    name: str
    holds: bool | None
    found: str


@dataclass(frozen=True)
class Audit:
    """The report of `zooming.audit`; print it."""

    title: str
    laws: tuple[Law, ...]
    c1: float  # the least and the largest sqrt(n) diam over played balls: the constants of the theorem on any nested scheme
    c2: float  # (for balls of a metric: of sqrt(n) r / d_max over those that can be split)
    aspect: float | None  # the largest ratio of the longest to the shortest side of a box, of those sides that can be halved
    size_ratio: float | None  # the largest |P_h| / K^(d/(d+2)), where the dimension d is known
    optimism_failures: float | None  # share of (x, a) with Q < Q*, if the optimum was given
    zooming_dimension: float | None
    nbytes: int

    @property
    def holds(self) -> bool:
        """Whether no law is broken."""
        return all(law.holds is not False for law in self.laws)

    def __str__(self) -> str:
        marks = {True: "holds ", False: "BROKEN", None: "  -   "}
        lines = [self.title, *(f"  {marks[law.holds]}  {law.name}: {law.found}" for law in self.laws)]
        return "\n".join([*lines, *(" " * 10 + text for text in self._numbers())])

    def _repr_html_(self) -> str:
        marks = {True: "✓ holds", False: "✗ BROKEN", None: "–"}
        rows = [(law.name, marks[law.holds], law.found) for law in self.laws]
        return notebook.table(self.title, ("law", "", "found"), rows, notes=self._numbers())

    def _numbers(self) -> list[str]:
        """The constants that were measured, a sentence each."""
        found = []
        size = "r / d_max" if self.aspect is None else "diam"
        if self.c1 <= self.c2:  # NaN if no ball that was played can be split
            found.append(f"c1 = {self.c1:.3g} <= sqrt(n) {size} <= c2 = {self.c2:.3g}")
            if self.aspect is not None:
                found[-1] += f", aspect ratio up to {self.aspect:.3g}"
        if self.size_ratio is not None:
            found.append(f"the largest partition has {self.size_ratio:.3g} K^(d/(d+2)) balls")
        if self.zooming_dimension is not None:
            found.append(f"near-optimal balls grow like r^-{self.zooming_dimension:.2f} (empirical zooming dimension)")
        return [*found, f"{self.nbytes:,} bytes"]


def growth(counts: NDArray[np.float64]) -> float | None:
    """The slope of log2 counts[l] over the depths l; None if there are too few. The deepest is still being filled."""
    depths: NDArray[np.int64] = np.flatnonzero(counts > 0)
    if len(depths) < 3:
        return None
    depths = depths[:-1]
    return max(0.0, float(np.polyfit(depths, np.log2(counts[depths]), 1)[0]))
