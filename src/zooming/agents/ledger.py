"""Statistics of a warm start: who plays, how much may be lost, and when the rule is let go.

`docs/offline.md` has the statement. Let mu be the mean return of the rule, U its upper confidence
bound, and x the returns of the agent's exploring episodes.

- Noise: every second episode of the warm start has noise. Noise stops while noisy episodes have
  lost more than 3 % of the rule's mean return for each episode so far.
- Budget: the agent explores if sum(U - x), plus what the next block may cost, is at most loss *
  (all episodes since the warm start), and if the rule has played a quarter as many episodes as the
  others, for comparison. What the careful policy (see `careful`) and its variations seem to have
  lost reduces the budget.
- Trial: otherwise the careful policy plays, if it has lost at most `loss` times all episodes, and
  if its mean return plus one standard error (computed from the rule's returns) is at least the
  rule's. Otherwise the rule plays. A new plan changes the careful policy, so it halves the weight
  of earlier returns in that mean. A careful policy that was worse is thus tried again later; the
  worse it was, the more plans that takes.
- Variation: every second episode of the careful policy or the rule has a little noise, which shows
  the careful policy what is better nearby. Variations stop while they have lost more than half of
  `loss` times all episodes.
- `predict` plays the careful policy if its mean return is higher than the rule's by a one-sided
  test at level 1 - confidence, and if its mean in the trial is not lower.
- Test: the rule is let go when the lower confidence bound of the agent's mean return, over all its
  exploring episodes or over those since its 32nd, 64th, 128th, ..., is at least U - margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

import numpy as np

from zooming.agents.confidence import (
    BOUNDS,
    MEAN,
    N_NUMBERS,
    NORMAL,
    RANGE,
    SQUARES,
    N,
    add_sample,
    interval,
)
from zooming.errors import ConfigurationError
from zooming.validation import Floats, check_choice, check_float, check_int

RULE, NOISY, LEARNER, CAREFUL, VARIED = range(5)  # who plays
# Places in `counts`: episodes of the warm start in all, those played, who plays, episodes left in
# the block, all episodes played, the episode at which the rule was let go (0: not yet), the number
# of the careful policy's plan.
TO_WARM, WARMED, PLAYER, LEFT, PLAYED, LET_GO, PLAN = range(7)
N_WINDOWS = 26  # windows of the agent's episodes; window j > 0 begins after 2 ** (4 + j) of them
LEAST = 20  # episodes of the rule, and of the agent, that the test needs
NOISE_LOSS = 0.03  # loss by noise per episode of the warm start, as a share of the rule's return
USUAL_LOSS = 0.005  # default of `loss`, as a share of the rule's mean return
BLOCK = 0.01  # length of a block, as a share of the episodes that the agent has played
FIRST = 2.0  # largest cost of the agent's first episode, in units of the rule's mean return
COMPARED = 0.25  # least number of the rule's exact episodes for each other episode
VARIATION = 0.5  # share of the allowed loss that variations may cost
ERRORS = 1.0  # standard errors by which the careful policy may seem worse than the rule
ENDLESS = 2**62
NO_ENDS = (-math.inf, math.inf)


class Ledger:
    """Keep statistics of the returns since a warm start, and decide from them who plays.

    Parameters
    ----------
    episodes : int
        Number of episodes that the rule plays first.
    confidence, loss, margin, bound
        See `Agent.warm_start`.
    ends : (float, float)
        The range of returns, as far as it is known; `bound="range"` needs it.
    has_careful : bool
        Whether there is a careful policy.
    limits_noise : bool
        Whether noise stops when it has cost too much.
    varies : bool
        Whether variations are played. Without a careful policy there are none.
    """

    def __init__(
        self,
        episodes: int,
        *,
        confidence: float = 0.95,
        loss: float | None = None,
        margin: float = 0.0,
        bound: str = NORMAL,
        ends: tuple[float, float] = NO_ENDS,
        has_careful: bool = True,
        limits_noise: bool = True,
        varies: bool = True,
    ) -> None:
        self.confidence = check_float(confidence, "confidence", 0.5, 1.0)
        if not confidence < 1:
            raise ConfigurationError(f"confidence={confidence}: give a probability below 1")
        self.loss = None if loss is None else check_float(loss, "loss", 0.0, math.inf)
        self.margin = check_float(margin, "margin", 0.0, math.inf)
        self.bound = check_choice("bound", bound, BOUNDS)
        if bound == RANGE and ends == NO_ENDS:
            raise ConfigurationError(
                'bound="range" needs the range of the rewards: give the agent '
                "reward_range=(low, high)"
            )
        self.least_return = ends[0]
        self.ends = ends if bound == RANGE else NO_ENDS
        self.has_careful, self.limits_noise = has_careful, limits_noise
        self.varies = varies and has_careful
        self.counts = np.zeros(7, np.int64)
        self.counts[TO_WARM] = check_int(episodes, "episodes", 2 * LEAST)
        self.of_rule: Floats = np.zeros(N_NUMBERS)  # statistics of its exact episodes
        self.of_noisy: Floats = np.zeros(N_NUMBERS)  # of the rule's episodes with noise
        self.of_careful: Floats = np.zeros(N_NUMBERS)
        self.of_varied: Floats = np.zeros(N_NUMBERS)  # of variations with noise
        self.trial: Floats = np.zeros(N_NUMBERS)  # of the careful policy, late ones counting more
        self.windows: Floats = np.zeros((N_WINDOWS, N_NUMBERS))  # of the learner's episodes

    # --- who plays --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the rule is still in use, that is, has not been let go."""
        return not self.counts[LET_GO]

    @property
    def player(self) -> int:
        """Code of who plays the current episode, or played the last one: RULE, NOISY, ..."""
        return int(self.counts[PLAYER])

    @property
    def n_since(self) -> int:
        """Number of episodes played since the warm start ended."""
        return int(self.counts[PLAYED] - self.counts[WARMED])

    def choose(self) -> None:
        """If the current block is over, decide who plays the next one."""
        counts, n_own = self.counts, float(self.windows[0, N])
        if counts[LEFT] > 0:
            return
        if not self.is_open:
            counts[[PLAYER, LEFT]] = LEARNER, ENDLESS
        elif counts[WARMED] < counts[TO_WARM]:
            is_noisy = counts[WARMED] % 2 == 1 and self._affords_noise()
            counts[[PLAYER, LEFT]] = (NOISY if is_noisy else RULE), 1
        elif self.of_rule[N] < COMPARED * (n_own + self.of_careful[N] + self.of_varied[N]):
            counts[[PLAYER, LEFT]] = RULE, 1
        elif self.room() > 0.0 and self.room() >= self._next_cost():
            counts[[PLAYER, LEFT]] = LEARNER, self._block()
        elif counts[PLAYED] % 2 == 1 and self._affords_variation():
            counts[[PLAYER, LEFT]] = VARIED, 1
        else:
            counts[[PLAYER, LEFT]] = (CAREFUL if self.tries_careful() else RULE), 1

    def _affords_noise(self) -> bool:
        """Return whether noisy episodes of the warm start have lost no more than allowed."""
        n, mean = self.of_noisy[[N, MEAN]].tolist()
        allowed = NOISE_LOSS * abs(self.of_rule[MEAN]) * self.counts[WARMED]
        return not self.limits_noise or bool(n * (self.of_rule[MEAN] - mean) <= allowed)

    def _affords_variation(self) -> bool:
        """Return whether variations have lost no more than their share of the allowed loss."""
        is_allowed = self.varies and self.allowed_loss > 0
        allowed = VARIATION * self.allowed_loss * self.n_since
        return is_allowed and self._lost_by(self.of_varied) <= allowed

    def _lost_by(self, numbers: Floats) -> float:
        """Return how much return was lost against the rule in the episodes of `numbers`."""
        return float(numbers[N] * (self.of_rule[MEAN] - numbers[MEAN]))

    def note_plan(self, plan: int) -> None:
        """Halve the weight of the careful policy's past returns if its plan has changed.

        `plan` is the number of the current plan.
        """
        if self.counts[PLAN] != plan:
            self.counts[PLAN] = plan
            self.trial[[N, SQUARES]] *= 0.5

    def tries_careful(self) -> bool:
        """Return whether the careful policy plays when the agent does not explore."""
        n, mean = self.trial[[N, MEAN]].tolist()
        if not self.has_careful or not n or not self.allowed_loss:
            return self.has_careful and self.allowed_loss > 0
        variance = self.of_rule[SQUARES] / self.of_rule[N]  # own outliers must not excuse losses
        if self._lost_by(self.of_careful) > self.allowed_loss * self.n_since:
            return False
        return bool(mean + ERRORS * math.sqrt(variance / n) >= self.of_rule[MEAN])

    @property
    def trusts_careful(self) -> bool:
        """Whether the careful policy has earned more than the rule, with the stated confidence.

        This is tested on its returns since the warm start. Its mean in the trial, where later
        returns count more, must not be lower than the rule's either.
        """
        (n, mean, squares), (n_rule, of_rule, squares_of_rule) = (
            numbers[: SQUARES + 1].tolist() for numbers in (self.of_careful, self.of_rule)
        )
        if min(n, n_rule) < LEAST or self.trial[MEAN] < of_rule:
            return False
        if self.bound == RANGE:
            low = interval(self.of_careful, self.alpha, self.ends, self.bound)[0]
            return bool(low >= self.upper_of_rule())
        error = math.sqrt(squares / (n * (n - 1)) + squares_of_rule / (n_rule * (n_rule - 1)))
        return bool(mean - of_rule > NormalDist().inv_cdf(self.confidence) * error)

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
        return interval(self.of_rule, self.alpha, self.ends, self.bound)[1]

    def room(self) -> float:
        """Return how much return exploring may still lose against the rule."""
        upper, found = self.upper_of_rule(), self.allowed_loss * self.n_since
        n_own, mean = self.windows[0, [N, MEAN]].tolist()
        if n_own:
            found -= n_own * (upper - mean)
        for numbers in (self.of_careful, self.of_varied):
            found -= max(0.0, self._lost_by(numbers))
        return float(found)

    def _block(self) -> int:
        """Return how many episodes the agent plays before the next choice."""
        return 1 + int(BLOCK * self.windows[0, N])

    def _next_cost(self) -> float:
        """Return the estimated cost of the agent's next block, from its mean return so far."""
        n_own, mean = self.windows[0, [N, MEAN]].tolist()
        if not n_own:
            of_rule = float(self.of_rule[MEAN])
            return min(FIRST * abs(of_rule), of_rule - self.least_return)
        return float(self._block() * max(0.0, self.upper_of_rule() - mean))

    # --- the test ---------------------------------------------------------------------------------

    def credit(self, returns: Iterable[float]) -> None:
        """Add the returns of finished episodes, and test whether to let go of the rule."""
        counts, player = self.counts, self.player
        for value in map(float, returns):
            if not self.is_open:
                return  # the agent plays alone
            counts[[LEFT, PLAYED]] += -1, 1
            counts[WARMED] += counts[WARMED] < counts[TO_WARM]
            if player == RULE:
                add_sample(self.of_rule, value, self.alpha, self.ends)
            elif player == NOISY:
                add_sample(self.of_noisy, value, self.alpha, NO_ENDS)
            elif player == VARIED:
                add_sample(self.of_varied, value, self.alpha, NO_ENDS)
            elif player == CAREFUL:
                add_sample(self.of_careful, value, self.alpha, self.ends)
                add_sample(self.trial, value, self.alpha, NO_ENDS)
            elif player == LEARNER:
                self._add_to_windows(value)
                if self._is_better():
                    counts[LET_GO] = counts[PLAYED]

    def _add_to_windows(self, value: float) -> None:
        n_before = self.windows[0, N]
        for j in range(N_WINDOWS):
            if j and n_before < 2 ** (4 + j):
                break
            add_sample(self.windows[j], value, self._share(j), self.ends)

    def _is_better(self) -> bool:
        """Return whether the agent is at least as good as the rule, with the stated confidence."""
        if self.of_rule[N] < LEAST:
            return False
        needed = self.upper_of_rule() - self.margin
        for j, window in enumerate(self.windows):
            if window[N] < LEAST:
                break
            if interval(window, self._share(j), self.ends, self.bound)[0] >= needed:
                return True
        return False

    def _share(self, j: int) -> float:
        """Return the error probability of window j. These sum to alpha over all windows."""
        return self.alpha / ((j + 1) * (j + 2))
