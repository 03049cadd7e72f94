"""The result of an off-policy evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from zooming import notebook
from zooming.validation import count_noun

MODEL, IMPORTANCE, DOUBLY_ROBUST = METHODS = ("model", "importance", "doubly robust")


@dataclass(frozen=True)
class Estimate:
    """The result of `zooming.evaluate_on`. `print` shows it with its assumptions.

    Attributes
    ----------
    method : str
        "model", "importance" or "doubly robust".
    mean : float
        Estimated mean return of the policy; NaN if there is no answer.
    interval : (float, float)
        Confidence interval; NaN if there is no answer.
    level : float
        Confidence of the interval.
    effective_samples : float
        Number of equally weighted episodes that would be as informative.
    support : float
        Share of the policy's steps near which the log has data.
    n_episodes : int
        Episodes that were used.
    logged_mean : float
        Mean return of the log itself.
    assumptions : tuple of str
        The assumptions of the estimate.
    reason : str or None
        Why there is no answer, and what to do about it.
    n_dropped, n_dropped_rows : int
        Episodes with faults, which were left out (`bad="skip"`), and their rows.
    """

    method: str
    mean: float
    interval: tuple[float, float]
    level: float
    effective_samples: float
    support: float
    n_episodes: int
    logged_mean: float
    assumptions: tuple[str, ...]
    reason: str | None = None
    n_dropped: int = 0
    n_dropped_rows: int = 0

    def __str__(self) -> str:
        low, high = self.interval
        found = (
            f"{self.mean:.4g} ({self.level:.0%} interval {low:.4g} to {high:.4g})"
            if self.reason is None
            else f"no answer: {self.reason}"
        )
        return "\n".join(
            [
                f"{found}, by {self.method}",
                f"the log itself: {self._logged()}",
                f"effective samples: {self.effective_samples:.1f}",
                f"support: the log has data near {self.support:.1%} of the policy's steps",
                "assumptions:",
                *(f"  {one}" for one in self.assumptions),
            ]
        )

    def _logged(self) -> str:
        """Return text on the mean return of the log, and on how much of the log was used."""
        found = f"{self.logged_mean:.4g} in {self.n_episodes:,} episodes"
        if not self.n_dropped:
            return found
        dropped = count_noun(self.n_dropped, "episode")
        rows = count_noun(self.n_dropped_rows, "row")
        return f"{found}; {dropped} with faults left out ({rows})"

    def _repr_html_(self) -> str:
        low, high = self.interval
        facts = {
            "mean return": f"{self.mean:.4g}" if self.reason is None else "no answer",
            f"{self.level:.0%} interval": f"{low:.4g} to {high:.4g}"
            if self.reason is None
            else self.reason,
            "method": self.method,
            "the log itself": self._logged(),
            "effective samples": f"{self.effective_samples:.1f}",
            "support": f"{self.support:.1%} of the policy's steps",
            "assumptions": "; ".join(self.assumptions),
        }
        return notebook.card("Estimate", facts)
