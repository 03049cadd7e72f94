"""Returns since a warm start: how much exploring may lose, and when the rule is let go.

Let U be the upper confidence bound of the rule's mean return, and x the returns of the agent's own
episodes since the warm start.

- Budget: the agent plays if sum(U - x), plus the expected cost of its next episode, is at most
  loss * (all episodes since the warm start), and if the rule has played a quarter as many episodes
  as the agent, for comparison.
- Test: the rule is let go when the lower confidence bound of the agent's mean return, over all its
  episodes or over those since its 32nd, 64th, 128th, ..., is at least U - margin.

The bounds hold for all numbers of samples at once. For n independent normal samples with unknown
mean mu and variance, the likelihood ratio of "the mean is mu + sigma d, d normal with variance 1/C"
against "the mean is mu" is

    E_n(mu) = sqrt(C / (n + C)) (V / (V - S^2 / (n + C)))^(n/2),

with S the sum and V the sum of squares of the samples minus mu, and the scale integrated out by its
invariant measure. E_n is a martingale that begins at 1, so it exceeds 1/alpha at some n with
probability at most alpha (Ville). The means with E_n < 1/alpha are the interval.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zooming.agents.base.status import plain, plus_minus
from zooming.errors import ConfigurationError
from zooming.validation import Floats, check_float, check_int

N, MEAN, SQUARES = range(3)  # statistics of returns: number, mean, sum of squared deviations
N_WINDOWS = 26  # windows of the agent's episodes; window j > 0 begins after 2 ** (4 + j) of them
PRIOR = 20.0  # C: the interval is narrowest, relative to its best, at about 10 C samples
LEAST = 20  # episodes of the rule, and of the agent, that the test needs
USUAL_LOSS = 0.005  # default of `loss`, as a share of the rule's mean return
# Reserve for the agent's first episode, in units of the rule's mean return. A first episode that
# costs twice as much still keeps the mean loss per episode below 2 * loss at every time.
FIRST = 10.0
MOST = 2**62  # episodes in a file
COMPARED = 0.25  # least number of the rule's episodes for each episode of the agent


class Ledger:
    """Statistics of the returns since a warm start began. They decide who plays.

    Parameters
    ----------
    episodes : int
        Number of episodes that the rule plays first.
    confidence, loss, margin
        See `Agent.warm_start`.
    least_return : float
        The least possible return, minus infinity if it is unknown.
    """

    def __init__(
        self,
        episodes: int,
        *,
        confidence: float = 0.95,
        loss: float | None = None,
        margin: float = 0.0,
        least_return: float = -math.inf,
    ) -> None:
        self.confidence = check_float(confidence, "confidence", 0.5, 1.0)
        if not confidence < 1:
            raise ConfigurationError(f"confidence={confidence}: give a probability below 1")
        self.loss = None if loss is None else check_float(loss, "loss", 0.0, math.inf)
        self.margin = check_float(margin, "margin", 0.0, math.inf)
        self.n_warm = check_int(episodes, "episodes", 2 * LEAST)
        self.least_return = least_return
        self.of_rule: Floats = np.zeros(3)
        self.windows: Floats = np.zeros((N_WINDOWS, 3))  # of the agent; the first has all episodes
        self.let_go = 0  # episodes after which the rule was let go, 0 if it is kept

    # --- who plays --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the rule is still in use, that is, has not been let go."""
        return not self.let_go

    @property
    def n_returns(self) -> int:
        """Number of episodes with a known return, of the rule and of the agent."""
        return int(self.of_rule[N] + self.windows[0, N])

    @property
    def n_since(self) -> int:
        """Number of these episodes since the warm start ended."""
        return max(0, self.n_returns - self.n_warm)

    def plays_rule(self) -> bool:
        """Return whether the rule plays the next episode."""
        if not self.is_open:
            return False
        if self.n_returns < self.n_warm or self.of_rule[N] < COMPARED * self.windows[0, N]:
            return True
        room = self.room()
        return not (room > 0.0 and room >= self._next_cost())

    # --- the budget -------------------------------------------------------------------------------

    @property
    def alpha(self) -> float:
        """The error probability of each of the two sides of the test."""
        return (1.0 - self.confidence) / 2

    @property
    def allowed_loss(self) -> float:
        """The return per episode that exploring may lose against the rule."""
        return USUAL_LOSS * abs(float(self.of_rule[MEAN])) if self.loss is None else self.loss

    def upper_of_rule(self) -> float:
        """Return U, the upper confidence bound of the rule's mean return at level 1 - alpha."""
        return interval(self.of_rule, self.alpha)[1]

    def room(self) -> float:
        """Return how much return exploring may still lose against the rule."""
        n_own, mean = self.windows[0, :SQUARES].tolist()
        lost = n_own * (self.upper_of_rule() - mean) if n_own else 0.0
        return self.allowed_loss * self.n_since - lost

    def _next_cost(self) -> float:
        """Return the reserve for the agent's first episode, later its mean cost so far."""
        n_own, mean = self.windows[0, :SQUARES].tolist()
        if not n_own:
            of_rule = float(self.of_rule[MEAN])
            return min(FIRST * abs(of_rule), of_rule - self.least_return)
        return max(0.0, self.upper_of_rule() - float(mean))

    # --- the test ---------------------------------------------------------------------------------

    def credit(self, value: float, by_rule: bool) -> None:
        """Add the return of an episode, and test whether to let go of the rule."""
        if not self.is_open:
            return
        if by_rule:
            add_sample(self.of_rule, value)
            return
        n_before = self.windows[0, N]
        for j, window in enumerate(self.windows):
            if j and n_before < 2 ** (4 + j):
                break
            add_sample(window, value)
        if self._is_better():
            self.let_go = self.n_returns

    def _is_better(self) -> bool:
        """Return whether the agent is at least as good as the rule, with the stated confidence."""
        if self.of_rule[N] < LEAST:
            return False
        needed = self.upper_of_rule() - self.margin
        return any(
            window[N] >= LEAST and interval(window, self._share(j))[0] >= needed
            for j, window in enumerate(self.windows)
        )

    def _share(self, j: int) -> float:
        """Return the error probability of window j. These sum to alpha over all windows."""
        return self.alpha / ((j + 1) * (j + 2))

    # --- words and files --------------------------------------------------------------------------

    def facts(self) -> dict[str, str]:
        """Return {label: text}: what was earned, the budget and the test."""
        room = self.room()
        left = f"{plain(room)} is left" if room >= 0 else f"{plain(-room)} more than that was lost"
        loss = f"{plain(self.allowed_loss)} of the return per episode since the warm start; {left}"
        return {
            "rule": _earned(self.of_rule),
            "agent": _earned(self.windows[0]) + ("" if self.is_open else ", until then"),
            "allowed loss": loss if self.is_open else "not limited: the rule was let go",
            "let go": self._missing()
            if self.is_open
            else f"after {self.let_go:,} episodes, with confidence {self.confidence:g}",
        }

    def _missing(self) -> str:
        """Return text on what the test still lacks before the rule is let go."""
        low = interval(self.windows[0], self._share(0))[0]
        needed = self.upper_of_rule() - self.margin
        if not math.isfinite(low + needed):
            return "not yet: too few episodes of the agent or of the rule"
        return (
            f"not yet: the lower bound of the agent's mean return is {plain(low)}, and must reach "
            f"{plain(needed)}, the upper bound of the rule's"
            + (" minus margin" if self.margin else "")
        )

    def state(self) -> dict[str, Any]:
        """Return options and statistics to save, as JSON values."""
        options = ("confidence", "loss", "margin")
        return {
            "options": {name: getattr(self, name) for name in options},
            "n_warm": self.n_warm,
            "let_go": self.let_go,
            "of_rule": self.of_rule.tolist(),
            "windows": self.windows.tolist(),
        }

    def restore(self, kept: dict[str, Any]) -> None:
        """Restore saved statistics. Raise ValueError if they are invalid."""
        n_warm, let_go = kept["n_warm"], kept["let_go"]
        of_rule, windows = (np.array(kept[name], np.float64) for name in ("of_rule", "windows"))
        for array, shape in ((of_rule, self.of_rule.shape), (windows, self.windows.shape)):
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError("the statistics of the guide are invalid")
            if (array[..., [N, SQUARES]] < 0).any():
                raise ValueError("the statistics of the guide are invalid")
        for n in (n_warm, let_go):
            if type(n) is not int or not 0 <= n <= MOST:
                raise ValueError("the episodes of the guide are invalid")
        self.n_warm, self.let_go, self.of_rule, self.windows = n_warm, let_go, of_rule, windows


def half_width(n: float, deviation: float, alpha: float) -> float:
    """Return half the width of the confidence interval after n samples; infinite for the first few.

    `deviation` is the standard deviation of the samples, with the divisor n.

    >>> [round(half_width(n, 1.0, 0.05), 3) for n in (5, 50, 500, 5000)]
    [inf, 0.482, 0.139, 0.048]
    """
    if n < 2:
        return math.inf
    ratio = math.exp(math.log((n + PRIOR) / (PRIOR * alpha * alpha)) / n)
    room = 1.0 - ratio * PRIOR / (n + PRIOR)
    return deviation * math.sqrt((ratio - 1.0) / room) if room > 0 else math.inf


def interval(numbers: Floats, alpha: float) -> tuple[float, float]:
    """Return (low, high), the confidence interval of the mean."""
    n, mean, squares = numbers.tolist()
    half = half_width(n, math.sqrt(squares / n) if n else 0.0, alpha)
    return mean - half, mean + half


def add_sample(numbers: Floats, value: float) -> None:
    """Add a sample to `numbers`, which holds the statistics N, MEAN and SQUARES."""
    n, mean, squares = numbers.tolist()
    away = value - mean
    mean += away / (n + 1.0)
    numbers[:] = n + 1.0, mean, squares + away * (value - mean)


def _earned(numbers: Floats) -> str:
    n, mean, squares = numbers.tolist()
    if not n:
        return "has not played"
    error = math.sqrt(squares) / n
    return f"mean return {plus_minus(mean, error)} in {int(n):,} episodes"
