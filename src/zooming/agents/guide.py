"""Warm start: decide whether the rule or the learner plays, and test when to drop the rule.

`docs/offline.md` has the statement. Let mu be the mean return of the rule, U its upper confidence
bound, and x the returns of the learner's episodes.

- Budget: the learner plays if sum(U - x) <= loss * (all episodes since the warm start), and if the
  rule has played a quarter as many episodes as the learner, for comparison.
- Test: the rule is let go when the lower confidence bound of the learner's mean return, over all
  its episodes or over those since its 32nd, 64th, 128th, ..., is at least U - margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents import rules, seeds
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
from zooming.agents.planner import ANY_REWARD
from zooming.agents.status import Status
from zooming.errors import ConfigurationError
from zooming.validation import Floats, check_choice, check_float, check_int

RULE, NOISY, LEARNER = range(3)  # who plays
PLAYERS = ("the rule", "the rule with noise", "the agent")
# Places in `counts`: exact and noisy episodes of the rule still to play at first, those played,
# who plays, episodes left in the block, episodes played in all, the one that let go (0: none yet).
TO_WARM, WARMED, PLAYER, LEFT, PLAYED, LET_GO = range(6)
N_WINDOWS = 26  # of the learner's episodes; window j > 0 begins after 2 ** (4 + j) of them
LEAST = 20  # episodes that the test needs of both
USUAL_LOSS = 0.05  # of the rule's mean return, per episode
BLOCK = 0.01  # share of its own episodes that the learner plays before the next choice
COMPARED = 0.25  # exact episodes of the rule for each of the learner's, at least: for the test
ENDLESS = 2**62
NO_ENDS = (-math.inf, math.inf)


class Guide:
    """The rule that guides an agent at the start; see `Agent.warm_start`.

    In loops of your own, call `act` and `update` of the guide instead of the agent's.

    Parameters
    ----------
    agent : Agent
        The learner.
    rule : function or Agent
        The rule.
    episodes, confidence, loss, margin, noise, spread, bound
        See `Agent.warm_start`.
    """

    def __init__(
        self,
        agent: Any,
        rule: Any,
        episodes: int,
        *,
        confidence: float = 0.95,
        loss: float | None = None,
        margin: float = 0.0,
        noise: float = 0.2,
        spread: float = 0.1,
        bound: str = NORMAL,
    ) -> None:
        self.agent = agent
        self.rule = None if rule is None else rules.as_function(rule, "rule")
        self.confidence = check_float(confidence, "confidence", 0.5, 1.0)
        if not confidence < 1:
            raise ConfigurationError(f"confidence={confidence}: give a probability below 1")
        self.loss = None if loss is None else check_float(loss, "loss", 0.0, math.inf)
        self.margin = check_float(margin, "margin", 0.0, math.inf)
        self.noise = check_float(noise, "noise", 0.0, 1.0)
        self.spread = check_float(spread, "spread", 0.0, 1.0)
        self.bound = check_choice("bound", bound, BOUNDS)
        self.ends = _return_range(agent) if bound == RANGE else NO_ENDS
        if bound == RANGE and self.ends == NO_ENDS:
            raise ConfigurationError(
                'bound="range" needs the range of the rewards: give the agent '
                "reward_range=(low, high)"
            )
        self.counts = np.zeros(6, np.int64)
        self.counts[TO_WARM] = check_int(episodes, "episodes", 2 * LEAST)
        self.of_rule: Floats = np.zeros(N_NUMBERS)  # statistics of its exact episodes
        self.windows: Floats = np.zeros(
            (N_WINDOWS, N_NUMBERS)
        )  # statistics of the learner's episodes
        self._total: float | None = None  # return so far of an episode played by hand

    # --- who plays --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the rule has not been let go."""
        return not self.counts[LET_GO]

    @property
    def has_played(self) -> bool:
        """Whether an episode has been played."""
        return bool(self.counts[PLAYED])

    @property
    def player(self) -> int:
        """Who plays the current episode, or played the last one: RULE, NOISY or LEARNER."""
        return int(self.counts[PLAYER])

    @property
    def alpha(self) -> float:
        """The probability of error of each of the two sides of the test."""
        return (1.0 - self.confidence) / 2

    @property
    def allowed_loss(self) -> float:
        """Loss of return per episode that is allowed against the rule."""
        return USUAL_LOSS * abs(float(self.of_rule[MEAN])) if self.loss is None else self.loss

    def upper_of_rule(self) -> float:
        """Return U, which is at least the rule's mean return with certainty 1 - alpha."""
        return interval(self.of_rule, self.alpha, self.ends, self.bound)[1]

    def room(self) -> float:
        """Return the return that may still be lost; the learner plays unless it is negative."""
        n_own, mean = self.windows[0, [N, MEAN]].tolist()
        spent = n_own * (self.upper_of_rule() - mean) if n_own else 0.0
        return self.allowed_loss * float(self.counts[PLAYED] - self.counts[WARMED]) - spent

    def choose(self) -> None:
        """Decide who plays, if the block is over."""
        counts = self.counts
        if counts[LEFT] > 0:
            return
        if not self.is_open:
            counts[[PLAYER, LEFT]] = LEARNER, ENDLESS
        elif counts[WARMED] < counts[TO_WARM]:
            counts[[PLAYER, LEFT]] = (NOISY if counts[WARMED] % 2 else RULE), 1
        elif self.room() >= 0 and self.of_rule[N] >= COMPARED * self.windows[0, N]:
            counts[[PLAYER, LEFT]] = LEARNER, 1 + int(BLOCK * self.windows[0, N])
        else:
            counts[[PLAYER, LEFT]] = RULE, 1
        if counts[PLAYER] != LEARNER and self.rule is None:
            counts[LEFT] = 0
            raise ConfigurationError(
                "this agent was saved while a rule guided it, and a file does not hold the rule; "
                "give it again: agent.guide.set_rule(rule)"
            )

    def credit(self, returns: Iterable[float]) -> None:
        """Count episodes that were played, and test whether to let go of the rule."""
        counts, player = self.counts, self.player
        for value in map(float, returns):
            counts[[LEFT, PLAYED]] += -1, 1
            counts[WARMED] += counts[WARMED] < counts[TO_WARM]
            if player == RULE:
                add_sample(self.of_rule, value, self.alpha, self.ends)
            elif player == LEARNER and self.is_open:
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
        """Return whether the learner is at least as good as the rule, with certainty."""
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
        """Return the probability of error of window j. The sum over all windows is alpha."""
        return self.alpha / ((j + 1) * (j + 2))

    # --- playing ----------------------------------------------------------------------------------

    def set_rule(self, rule: Any) -> None:
        """Give the rule of an agent that was loaded from a file."""
        self.rule = rules.as_function(rule, "rule")

    def rule_action(
        self, step: int, observation: Any, info: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the action of the rule, with noise in a noisy episode."""
        assert self.rule is not None
        agent, axes = self.agent, self.agent.axes
        flat = rules.rule_action(agent, self.rule, step, observation, info)
        if self.player == NOISY:
            name = f"noise {int(self.counts[PLAYED])} {step}"  # so that a loaded agent continues
            generator = np.random.default_rng(seeds.derive_seed(agent.seed, name))
            if generator.random() < self.noise:
                kinds = axes.kinds[axes.n_state :]
                low, high = axes.action_ends
                flat = rules.perturb(flat, low, high, kinds, self.spread, generator)
                flat = agent.nearest_feasible(step, flat, info)
        return axes.shaped_action(flat)

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action to play while learning: the rule's, or the agent's."""
        if self.agent.problem.check_step(step) == 0:
            self.agent.checked_state(step, observation)  # raise before anything changes
            self._close()
            self.choose()
            self._total = 0.0
        if self.player != LEARNER:
            return self.rule_action(step, observation, info)
        return self.agent.act(step, observation, **({"info": info} if info else {}))

    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Let the agent learn from one transition, and count the return when the episode ends."""
        masks = {"next_info": next_info} if next_info else {}
        agent = self.agent
        agent.update(step, observation, action, reward, next_observation, terminated, **masks)
        if self._total is not None:
            self._total += float(reward)
        if terminated or step + 1 == agent.horizon:
            self._close()

    def _close(self) -> None:
        """Credit the return of an episode that was played by hand."""
        if self._total is not None:
            self.credit([self._total])
        self._total = None

    # --- the safer policy -------------------------------------------------------------------------

    @property
    def env(self) -> Any:
        """The agent's environment."""
        return self.agent.env

    @property
    def horizon(self) -> int:
        """Steps of an episode."""
        return int(self.agent.horizon)

    @property
    def env_name(self) -> str:
        """Name of the environment, for messages."""
        return str(self.agent.env_name)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return the action of the rule, or of the agent once the rule was let go.

        The arguments are those of `Agent.predict`. As long as the rule is kept, give one
        observation, no batch.
        """
        agent = self.agent
        if not self.is_open:
            found: tuple[Any, NDArray[np.int64]] = agent.predict(
                observation, state, episode_start, deterministic, info=info
            )
            return found
        if self.rule is None:
            raise ConfigurationError("the rule is missing; give it: agent.guide.set_rule(rule)")
        is_new = state is None or (episode_start is not None and bool(np.all(episode_start)))
        step = 0 if is_new else int(np.asarray(state).reshape(-1)[0])
        flat = rules.rule_action(agent, self.rule, step, observation, info)
        return agent.axes.shaped_action(flat), np.array([step + 1])

    # --- words ------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return who plays and why, the budget and the test; `print` shows it readably."""
        counts, window = self.counts, self.windows[0]
        n_exact, n_noisy = int(self.of_rule[N]), int(counts[WARMED]) // 2
        return Status(
            {
                "plays": "the agent" if not self.is_open else PLAYERS[self.player],
                "episodes": f"{n_exact:,} of the rule, {n_noisy:,} of the rule with noise, "
                f"{int(counts[PLAYED]) - n_exact - n_noisy:,} of the agent",
                "rule": _words(self.of_rule),
                "agent": _words(window),
                "allowed loss": f"{self.allowed_loss:.4g} per episode; {self.room():.4g} are left"
                if self.is_open
                else "not limited: the rule was let go",
                "let go": f"after episode {int(counts[LET_GO]):,} since the warm start, with "
                f"confidence {self.confidence:g}"
                if counts[LET_GO]
                else "not yet",
            }
        )

    def words(self) -> str:
        """Return in one sentence who plays."""
        if not self.is_open:
            return f"let go after {int(self.counts[LET_GO]):,} episodes"
        return f"is kept: the agent may lose {self.room():.4g} more before the rule plays"

    def __repr__(self) -> str:
        return f"Guide(the rule {self.words()})"

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the state to save, as JSON. The rule itself is not saved."""
        self._close()
        options = ("confidence", "loss", "margin", "noise", "spread", "bound")
        return {
            "options": {name: getattr(self, name) for name in options},
            "counts": self.counts.tolist(),
            "of_rule": self.of_rule.tolist(),
            "windows": self.windows.tolist(),
        }

    @classmethod
    def from_state(cls, agent: Any, kept: dict[str, Any]) -> Guide:
        """Return a guide with the saved `state`; ValueError if it is invalid."""
        counts = np.array(kept["counts"], np.int64)
        found = cls(agent, None, 2 * LEAST, **kept["options"])
        numbers = {name: np.array(kept[name], np.float64) for name in ("of_rule", "windows")}
        are_shaped = all(
            array.shape == getattr(found, name).shape for name, array in numbers.items()
        )
        if counts.shape != (6,) or (counts < 0).any() or counts[PLAYER] > LEARNER:
            raise ValueError("the episodes of the guide are invalid")
        if not are_shaped or not all(np.isfinite(array).all() for array in numbers.values()):
            raise ValueError("the statistics of the guide are invalid")
        found.counts = counts
        vars(found).update(numbers)
        return found


def _return_range(agent: Any) -> tuple[float, float]:
    """Return the least and the largest return of an episode, which may end early."""
    low, high = agent.reward_range
    if (low, high) == ANY_REWARD or agent.rewards != "refuse":
        return NO_ENDS
    return agent.horizon * min(low, 0.0), agent.horizon * max(high, 0.0)


def _words(numbers: Floats) -> str:
    if not numbers[N]:
        return "has not played"
    n = float(numbers[N])
    error = math.sqrt(numbers[SQUARES]) / n
    return f"mean return {numbers[MEAN]:.4g} ± {error:.2g} in {int(n):,} episodes"
