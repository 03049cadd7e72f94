"""Warm start: an agent first learns from a rule that people use, and later takes over from it.

Let U be the upper confidence bound of the rule's mean return, and x the returns of the agent's own
episodes since the warm start.

- Budget: the agent plays if sum(U - x), plus the expected cost of its next episode, is at most
  loss * (all episodes since the warm start), and if the rule has played a quarter as many episodes
  as the agent, for comparison.
- Test: the rule is let go when the lower confidence bound of the agent's mean return, over all its
  episodes or over those since its 32nd, 64th, 128th, ..., is at least U.

The bounds hold for all numbers of samples at once. For n independent normal samples with unknown
mean mu and variance, the likelihood ratio of "the mean is mu + sigma d, d normal with variance 1/C"
against "the mean is mu" is

    E_n(mu) = sqrt(C / (n + C)) (V / (V - S^2 / (n + C)))^(n/2),

with S the sum and V the sum of squares of the samples minus mu, and the scale integrated out by its
invariant measure. E_n is a martingale that begins at 1, so it exceeds 1/alpha at some n with
probability at most alpha (Ville). The means with E_n < 1/alpha are the interval.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.agents.base import policies
from zooming.agents.base.status import Status, plain, plus_minus
from zooming.agents.training.history import History, RunArrays
from zooming.errors import ConfigurationError
from zooming.spaces.masks import split_info
from zooming.validation import ANY_REWARD, Floats, Ints, check_float, check_int, known_options

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent

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


@known_options
def warm_start(
    agent: Agent,
    rule: Any,
    episodes: int = 200,
    *,
    confidence: float = 0.95,
    loss: float | None = None,
    progress_bar: bool = False,
) -> History:
    """Play a rule and learn from it.

    Later calls of `learn` let the agent explore as long as that costs at most `loss` per episode.
    Otherwise the rule plays. A test on the returns decides when to let go of the rule, and the
    history records when. Until then, `predict` plays the rule. docs/offline.md states what is
    guaranteed.

    Parameters
    ----------
    agent : Agent
        The agent that learns.
    rule : function, Agent or rule
        A function `rule(step, observation)` that returns an action, or an object with `predict`:
        an agent, or the rule of a gallery problem.
    episodes : int, default 200
        Number of episodes that the rule plays first, at least 40.
    confidence : float, default 0.95
        Probability with which the bounds on the mean returns hold.
    loss : float, optional
        How much of the return exploring may lose per episode, compared with the rule, until the
        rule is let go. By default 0.5 % of the absolute mean return of the rule.
    progress_bar : bool, default False
        Show a progress bar. Needs rich.

    Returns
    -------
    History
        The episodes that the rule played.

    Raises
    ------
    ConfigurationError
        If an option is wrong, another rule is in use, or the rule returns an invalid action.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0", noise=0.05)
    >>> agent = zooming.AdaptiveQ(env, seed=0)
    >>> history = agent.warm_start(lambda step, state: [0.5], episodes=100)
    >>> history += agent.learn(1000)
    >>> history.let_go, len(history.rule_episodes), agent.guide.is_open
    (518, 461, False)
    """
    if agent.is_guided:
        raise ConfigurationError(
            f"a rule guides this agent already ({agent.guide.words()}); learn goes on with it, and "
            "agent.guide = None ends it"
        )
    if rule is None or rule is agent:
        raise ConfigurationError(
            f"rule={'None' if rule is None else 'the agent itself'}: give another agent, or a "
            "function rule(step, observation)"
        )
    before, n_before, generator = agent.guide, agent.n_episodes, copy.deepcopy(agent.run.env_rng)
    agent.guide = Guide(agent, rule, episodes, confidence=confidence, loss=loss)
    try:
        return agent.learn(episodes, progress_bar=progress_bar)
    finally:
        if agent.n_episodes == n_before:  # the rule failed in its first episode
            agent.guide, agent.run.env_rng = before, generator


class Ledger:
    """Statistics of the returns since a warm start began. They decide who plays.

    `least_return` is the least possible return, minus infinity if it is unknown. The other
    parameters are those of `warm_start`.
    """

    def __init__(
        self,
        episodes: int,
        *,
        confidence: float = 0.95,
        loss: float | None = None,
        least_return: float = -math.inf,
    ) -> None:
        self.confidence = check_float(confidence, "confidence", 0.5, 1.0)
        if not confidence < 1:
            raise ConfigurationError(f"confidence={confidence}: give a probability below 1")
        self.loss = None if loss is None else check_float(loss, "loss", 0.0, math.inf)
        self.n_warm = check_int(episodes, "episodes", 2 * LEAST)
        self.least_return = least_return
        self.of_rule: Floats = np.zeros(3)
        self.windows: Floats = np.zeros((N_WINDOWS, 3))  # of the agent; the first has all episodes
        self.let_go = 0  # episodes after which the rule was let go, 0 if it is kept

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
        needed = self.upper_of_rule()
        return any(
            window[N] >= LEAST and self._lower_of_agent(j) >= needed
            for j, window in enumerate(self.windows)
        )

    def _lower_of_agent(self, j: int) -> float:
        """Return the lower confidence bound of window j; errors of all windows sum to alpha."""
        return interval(self.windows[j], self.alpha / ((j + 1) * (j + 2)))[0]

    def facts(self) -> dict[str, str]:
        """Return {label: text}: what was earned, the budget and the test."""
        room = self.room()
        left = f"{plain(room)} is left" if room >= 0 else f"{plain(-room)} more than that was lost"
        loss = f"{plain(self.allowed_loss)} of the return per episode since the warm start; {left}"
        low, needed = self._lower_of_agent(0), self.upper_of_rule()
        missing = (
            f"not yet: the lower bound of the agent's mean return is {plain(low)}, and must reach "
            f"{plain(needed)}, the upper bound of the rule's"
        )
        if not math.isfinite(low + needed):
            missing = "not yet: too few episodes of the agent or of the rule"
        let_go = f"after {self.let_go:,} episodes, with confidence {self.confidence:g}"
        return {
            "rule": _earned(self.of_rule),
            "agent": _earned(self.windows[0]) + ("" if self.is_open else ", until then"),
            "allowed loss": loss if self.is_open else "not limited: the rule was let go",
            "let go": missing if self.is_open else let_go,
        }

    def state(self) -> dict[str, Any]:
        """Return options and statistics to save, as JSON values."""
        return {
            "options": {"confidence": self.confidence, "loss": self.loss},
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
            is_valid = array.shape == shape and np.isfinite(array).all()
            if not is_valid or (array[..., [N, SQUARES]] < 0).any():
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


class Guide:
    """Play the rule of a warm start until it is let go. The parameters are those of `warm_start`.

    In loops of your own, the episodes of `agent.begin()` are guided.
    """

    def __init__(self, agent: Any, rule: Any, episodes: int, **options: Any) -> None:
        self.agent = agent
        self.rule = None if rule is None else policies.as_function(rule, "rule")
        self.ledger = Ledger(episodes, least_return=_least_return(agent), **options)
        self.n_before = agent.n_episodes  # episodes of the agent before the warm start

    @property
    def is_open(self) -> bool:
        """Whether the rule is still in use, that is, has not been let go."""
        return self.ledger.is_open

    @property
    def n_played(self) -> int:
        """Number of the agent's episodes since the warm start began, those of the rule included."""
        return int(self.agent.n_episodes - self.n_before)

    def set_rule(self, rule: Any) -> None:
        """Set the rule again after loading the agent from a file, which does not hold the rule."""
        self.rule = policies.as_function(rule, "rule")

    def rule_action(self, step: int, observation: Any, info: Mapping[str, Any] | None) -> Any:
        """Return the action of the rule, validated and made feasible."""
        if self.rule is None:
            raise ConfigurationError(
                "this agent was saved while a rule guided it, and a file does not hold the rule; "
                "give it again: agent.guide.set_rule(rule), or drop it: agent.guide = None"
            )
        return self.agent.axes.shaped_action(
            policies.rule_action(self.agent, self.rule, step, observation, info)
        )

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, Ints]:
        """Return the action of the rule or, once it is let go, of the agent, as `Agent.predict`."""
        agent, axes = self.agent, self.agent.axes
        if not self.is_open:
            found: tuple[Any, Ints] = agent.predict(
                observation, state, episode_start, deterministic, info=info
            )
            return found
        steps, _, is_batch = agent.problem.check_steps(observation, state, episode_start)
        states = axes.states.batch(observation, "observation")[0]
        infos = split_info(info, len(steps), is_batch)
        actions = [
            axes.actions.flat(self.rule_action(step, axes.states.shaped(states[k]), one), "action")
            for k, (step, one) in enumerate(zip(steps.tolist(), infos, strict=True))
        ]
        return axes.shaped_action(np.array(actions) if is_batch else actions[0]), steps + 1

    def status(self) -> Status:
        """Return who plays and why, the budget and the test. `print` shows one entry per line."""
        ledger = self.ledger
        plays_rule = ledger.plays_rule()
        if not ledger.is_open:
            why = "the rule was let go"
        elif ledger.n_returns < ledger.n_warm:
            why = "the warm start is not over"
        elif plays_rule:
            why = "for comparison, or because exploring would cost too much"
        else:
            why = "exploring is within the allowed loss"
        by_rule, own = int(ledger.of_rule[N]), self.n_played - int(ledger.of_rule[N])
        return Status(
            {
                "plays": "the rule" if plays_rule else "the agent",
                "why": why,
                "episodes": f"{by_rule:,} of the rule, {own:,} of the agent",
                **ledger.facts(),
                "predict plays": "the rule" if ledger.is_open else "the agent's policy",
            }
        )

    def words(self) -> str:
        """Return text that completes "the rule ...", such as "let go after 322 episodes"."""
        if self.is_open:
            return "is kept: predict plays the rule"
        return f"let go after {self.ledger.let_go:,} episodes"

    def __repr__(self) -> str:
        return f"Guide(the rule {self.words()})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rule": None}  # as in a file: functions may not be picklable

    def __deepcopy__(self, memo: dict[int, Any]) -> Guide:
        memo[id(self)] = found = type(self).__new__(type(self))
        vars(found).update(copy.deepcopy(self.__getstate__(), memo))
        found.rule = self.rule
        return found

    def state(self) -> dict[str, Any]:
        """Return the state to save as JSON values, without the rule."""
        return {**self.ledger.state(), "n_before": self.n_before}

    @classmethod
    def from_state(cls, agent: Any, kept: dict[str, Any]) -> Guide:
        """Return a guide with the saved `state`. Raise ValueError if it is invalid."""
        found = cls(agent, None, 2 * LEAST, **kept["options"])
        found.ledger.restore(kept)
        if type(kept["n_before"]) is not int or not 0 <= kept["n_before"] <= agent.n_episodes:
            raise ValueError("the episodes of the guide are invalid")
        found.n_before = kept["n_before"]
        return found


class Guided:
    """Driver of learn() after a warm start: plays each episode by the rule or by the agent.

    `own` is the driver of the agent's episodes. `by_rule` returns one of the rule's, given the
    object that acts and the log.
    """

    def __init__(
        self, agent: Any, own: Any, by_rule: Callable[[Any, RunArrays], Any], log: RunArrays
    ) -> None:
        self.agent, self.own, self.by_rule, self.log = agent, own, by_rule, log

    def play(self, end: int, advance: Callable[[int], None]) -> None:
        """Play until the log has `end` episodes."""
        log, guide = self.log, self.agent.guide
        if guide is not None:  # a callback may have ended the warm start
            while guide.is_open and (first := int(log.done[0])) < end:
                plays_rule = guide.ledger.plays_rule()
                run = self.by_rule(RuleSide(self.agent, guide), log) if plays_rule else self.own
                try:
                    run.play(first + 1, advance)
                finally:  # an interrupt may come between two episodes
                    if log.done[0] > first:
                        log.rule_episodes += [first + 1] * plays_rule
                        guide.ledger.credit(float(log.returns[first]), plays_rule)
                        log.let_go = None if guide.is_open else first + 1
        self.own.play(end, advance)


class RuleSide:
    """Take the agent's place in a driver: play the rule for it.

    The agent learns from each episode when it has ended. If the rule raises an error within an
    episode, the agent learns nothing from that episode.
    """

    def __init__(self, agent: Any, guide: Guide) -> None:
        self.agent, self.guide = agent, guide
        self.transitions: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = name in ("agent", "guide", "transitions")
        object.__setattr__(self if is_own else self.agent, name, value)

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action of the rule."""
        if step == 0:
            self.transitions = []
        return self.guide.rule_action(step, observation, info)

    def update(self, *transition: Any, **masks: Any) -> None:
        """Keep a transition until the episode ends. An environment may reuse masks: copy them."""
        self.transitions.append((transition, copy.deepcopy(masks)))

    def end_episode(self) -> None:
        """Let the agent learn from the transitions of the episode, if all of them are valid."""
        for transition, _ in self.transitions:
            self.agent.problem.check_transition(*transition[:5])
        for transition, masks in self.transitions:
            self.agent.update(*transition, **masks)
        self.transitions = []


def _least_return(agent: Any) -> float:
    """Return the least possible return, of episodes that may end early."""
    low, high = agent.reward_range
    if getattr(agent, "known_range", agent.reward_range) is None:
        return -math.inf  # `Auto` has made up a range for its trees
    if (low, high) == ANY_REWARD or agent.rewards != "refuse":
        return -math.inf
    return float(agent.horizon * min(low, 0.0))
