"""Warm start: play a rule, the careful policy or the agent. `ledger` decides which."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents import rules, seeds
from zooming.agents.careful import careful_action, find_planner
from zooming.agents.ceilings import return_range
from zooming.agents.confidence import NORMAL
from zooming.agents.ledger import (
    CAREFUL,
    LEARNER,
    LEAST,
    LEFT,
    LET_GO,
    NOISY,
    PLAYED,
    VARIED,
    Ledger,
)
from zooming.agents.ledger_words import ledger_facts
from zooming.agents.status import Status
from zooming.agents.steps import check_steps
from zooming.agents.stored_ledger import ledger_state, restore_ledger
from zooming.errors import ConfigurationError
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.spaces.masks import split_info
from zooming.validation import Floats, check_float

USUAL_NOISE = 0.5  # mean number of noisy actions in a noisy episode, but
MOST_NOISE = 0.1  # at most this share of its steps
NEAR = 0.1  # spread of the noise of a variation, if every action has close neighbors


class Guide:
    """Play the rule of a warm start until it is let go. See `Agent.warm_start`.

    In training loops of your own, call `act` and `update` of the guide, not those of the agent.

    Parameters
    ----------
    agent : Agent
        The learner.
    rule : function or Agent
        The rule.
    episodes, noise, spread
        See `Agent.warm_start`.
    **options
        The options confidence, loss, margin and bound of `Agent.warm_start`.
    """

    def __init__(
        self,
        agent: Any,
        rule: Any,
        episodes: int,
        *,
        noise: float | None = None,
        spread: float = 0.5,
        bound: str = NORMAL,
        **options: Any,
    ) -> None:
        self.agent = agent
        self.rule = None if rule is None else rules.as_function(rule, "rule")
        usual = min(MOST_NOISE, USUAL_NOISE / agent.horizon)
        self.given_noise = noise
        self.noise = usual if noise is None else check_float(noise, "noise", 0.0, 1.0)
        self.spread = check_float(spread, "spread", 0.0, 1.0)
        self.ledger = Ledger(
            episodes, bound=bound, ends=return_range(agent),
            has_careful=find_planner(agent) is not None, limits_noise=noise is None,
            varies=self.noise > 0, **options,
        )  # fmt: skip
        self._total: float | None = None  # return so far of an episode played by hand

    # --- who plays --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the rule is still in use, that is, has not been let go."""
        return self.ledger.is_open

    @property
    def has_played(self) -> bool:
        """Whether at least one episode has been played."""
        return bool(self.ledger.counts[PLAYED])

    def choose(self) -> None:
        """If the current block is over, decide who plays the next one."""
        ledger, planner = self.ledger, find_planner(self.agent)
        if planner is not None:
            if ledger.counts[LEFT] <= 0 and planner.table.is_due:
                planner.table.refit()  # now, so that no episode has two careful policies
            ledger.note_plan(planner.table.n_plans)
        ledger.choose()
        if ledger.player != LEARNER and self.rule is None:
            ledger.counts[LEFT] = 0
            raise _no_rule()

    def set_rule(self, rule: Any) -> None:
        """Set the rule again after loading the agent from a file, which does not hold the rule."""
        self.rule = rules.as_function(rule, "rule")

    @property
    def plays_careful(self) -> bool:
        """Whether the careful policy plays the current episode, with or without noise."""
        ledger = self.ledger
        return ledger.player == CAREFUL or (ledger.player == VARIED and ledger.tries_careful())

    # --- playing ----------------------------------------------------------------------------------

    def own_action(self, step: int, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action in an episode of the rule, the careful policy or a variation."""
        agent, axes, player = self.agent, self.agent.axes, self.ledger.player
        flat = self._flat_action(step, observation, info, self.plays_careful)
        if player in (NOISY, VARIED):
            n = int(self.ledger.counts[PLAYED])  # in the seed, so that a loaded agent continues
            generator = np.random.default_rng(seeds.derive_seed(agent.seed, f"noise {n} {step}"))
            kinds = axes.kinds[axes.n_state :]
            noise, spread = self.noise, self.spread
            low, high = axes.action_ends
            if player == VARIED and self._has_near(low, high, kinds):
                noise, spread = 1.0, min(spread, NEAR)
            if generator.random() < noise:
                flat = rules.perturb(flat, low, high, kinds, spread, generator)
                flat = agent.nearest_feasible(step, flat, info)
        return axes.shaped_action(flat)

    def _has_near(self, low: Floats, high: Floats, kinds: list[str]) -> bool:
        """Return whether every action has close neighbors: no categories and no coarse integers."""
        return all(
            kind == INTERVAL or (kind != CATEGORICAL and NEAR * (last - first) >= 1.0)
            for kind, first, last in zip(kinds, low, high, strict=True)
        )

    def _flat_action(
        self, step: int, observation: Any, info: Mapping[str, Any] | None, is_careful: bool
    ) -> Floats:
        """Return the flat action of the careful policy if `is_careful`, otherwise of the rule."""
        assert self.rule is not None
        agent, planner = self.agent, find_planner(self.agent)
        flat = rules.rule_action(agent, self.rule, step, observation, info)
        if not is_careful or planner is None:
            return flat
        state = agent.checked_state(step, observation)
        return careful_action(planner, step, state, flat, agent._feasible(step, info))

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action of the rule, the careful policy or the agent: of the one that plays.

        The arguments are those of `Agent.act`.
        """
        if self.agent.problem.check_step(step) == 0:
            self.agent.checked_state(step, observation)  # raise before anything changes
            self._close()
            self.choose()
            if self.ledger.player != LEARNER:
                self.agent.drop_paused()
        if self.ledger.player != LEARNER:
            return self.own_action(step, observation, info)
        return self.agent.act(step, observation, **({"info": info} if info else {}))

    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        truncated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Let the agent learn from one transition. At the end of an episode, count its return.

        The arguments are those of `Agent.update`. If `truncated` is not passed, a truncated episode
        is counted when the next one begins.
        """
        masks = {"next_info": next_info} if next_info else {}
        agent = self.agent
        agent.update(step, observation, action, reward, next_observation, terminated, **masks)
        if step == 0:  # only an episode with an update counts
            self._total = 0.0
        if self._total is not None:
            self._total += float(reward)
        if terminated or truncated or step + 1 == agent.horizon:
            self._close()

    def _close(self) -> None:
        """Count the return of an episode that was played with `act` and `update`."""
        if self._total is not None:
            self.ledger.credit([self._total])
        self._total = None

    def drop_open(self) -> None:
        """Forget an unfinished episode that was played with `act` and `update`."""
        self._total = None

    # --- the policy while the rule is kept --------------------------------------------------------

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return the action of the rule or of the careful policy.

        Once the rule is let go, the action is the agent's. The careful policy is played if it has
        earned more than the rule with the stated confidence, see `Ledger.trusts_careful`. Both are
        deterministic. The arguments are those of `Agent.predict`, which calls this method until the
        rule is let go.
        """
        agent, axes = self.agent, self.agent.axes
        if not self.is_open:
            found: tuple[Any, NDArray[np.int64]] = agent.predict(
                observation, state, episode_start, deterministic, info=info
            )
            return found
        if self.rule is None:
            raise _no_rule()
        steps, _, is_batch = check_steps(agent.problem, observation, state, episode_start)
        states = axes.states.batch(observation, "observation")[0]
        infos = split_info(info, len(steps), is_batch)
        is_careful = self.ledger.trusts_careful
        actions = np.empty((len(steps), axes.n_action))
        for k, (step, one) in enumerate(zip(steps.tolist(), infos, strict=True)):
            actions[k] = self._flat_action(step, axes.states.shaped(states[k]), one, is_careful)
        return axes.shaped_action(actions if is_batch else actions[0]), steps + 1

    # --- words ------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return who plays and why, the budget and the test. `print` shows one entry per line."""
        return Status({**ledger_facts(self.ledger), "predict plays": self._policy_name()})

    def _policy_name(self) -> str:
        if not self.is_open:
            return "the agent's policy"
        return "the careful policy" if self.ledger.trusts_careful else "the rule"

    def words(self) -> str:
        """Return text that completes "the rule ...", such as "let go after 322 episodes"."""
        if not self.is_open:
            return f"let go after {int(self.ledger.counts[LET_GO]):,} episodes"
        return f"is kept: predict plays {self._policy_name()}"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rule": None}  # as in a file: functions may not be picklable

    def __deepcopy__(self, memo: dict[int, Any]) -> Guide:
        memo[id(self)] = found = type(self).__new__(type(self))
        vars(found).update(copy.deepcopy(self.__getstate__(), memo))
        found.rule = self.rule
        return found

    def __repr__(self) -> str:
        return f"Guide(the rule {self.words()})"

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the state to save as JSON values, without the rule and an unfinished episode."""
        kept = ledger_state(self.ledger)
        kept["options"].update(noise=self.given_noise, spread=self.spread)
        return kept

    @classmethod
    def from_state(cls, agent: Any, kept: dict[str, Any]) -> Guide:
        """Return a guide with the saved `state`. Raise ValueError if it is invalid."""
        found = cls(agent, None, 2 * LEAST, **kept["options"])
        restore_ledger(found.ledger, kept)
        return found


def _no_rule() -> ConfigurationError:
    return ConfigurationError(
        "this agent was saved while a rule guided it, and a file does not hold the rule; give it "
        "again: agent.guide.set_rule(rule), or drop it: agent.guide = None"
    )
