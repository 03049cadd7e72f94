"""Episodes of one agent, any number of which may be open at a time.

What an agent has learned is a function of the sequence of `begin`, `update` and `abandon` over all
of its episodes. `act` changes nothing: its random numbers come from the seed of the agent, the
number of the episode and the step. So the same updates in the same order give the same agent, to
the last bit, whoever makes them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zooming.agents.base.seeds import derive_seed
from zooming.errors import ConfigurationError
from zooming.spaces.masks import has_mask
from zooming.validation import Floats, check_flag

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent

_MASK, _GOLD = 2**64 - 1, 0x9E3779B97F4A7C15
_ROUNDING = 1e-6  # relative difference of equal states, of which one was rounded to float32


def mix(z: int) -> int:
    """Return 64 random bits, a function of 64 bits (SplitMix64)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def episode_seed(seed: int, number: int) -> int:
    """Return the seed of episode `number` of an agent with this seed."""
    return mix((derive_seed(seed, "episodes") + number * _GOLD) & _MASK)


@dataclass
class Play:
    """How an episode is played, fixed when it begins.

    `seed` and `drawn` are JSON values: they are enough to continue the episode. `kept` holds the
    plan that the episode began with, as long as the process lives.
    """

    seed: int
    drawn: dict[str, Any] = field(default_factory=dict)
    kept: Any = None
    # By step, of actions that were not learned yet, if the agent heeds them: (state and action,
    # plan, its cell, what a play adds to the cell's).
    waiting: dict[int, tuple[Floats, Any, int, float]] = field(default_factory=dict)
    explored = False  # whether the last action was not the best one by the agent's own estimate

    def random_at(self, step: int) -> np.uint64:
        """Return the state of the generator for the action of a step."""
        return np.uint64(mix((self.seed + (step + 1) * _GOLD) & _MASK))


def plan_name(drawn: Mapping[str, Any]) -> str:
    """Return a name of the plan that an episode is played by, "" if there is none.

    `drawn` is that of its `Play`. An agent that plans has "plan" there, the number of the plan. One
    that is made of others has "seed" and "own", which are those of the one that plays.
    """
    own = plan_name(drawn["own"]) if "own" in drawn else str(drawn.get("plan", ""))
    return f"{drawn['seed']}/{own}" if own and "seed" in drawn else own


class Episode:
    """One episode of an agent, see `Agent.begin`. Any number may be open at a time.

    Attributes
    ----------
    number : int
        Number of the episode, from 0, in the order of `begin`.
    step : int
        The step of the next action, from 0.
    total : float
        The rewards so far.
    is_over : bool
        Whether the episode has ended or was abandoned.
    """

    def __init__(self, agent: Agent, number: int, play: Play) -> None:
        self.agent, self.number, self.play = agent, number, play
        self.step, self.total, self.is_over = 0, 0.0, False
        self._waiting: dict[int, tuple[Any, Any]] = {}  # (observation, action) to be updated
        self._last: int | None = None  # the last step, once it is known
        agent.run.plays[id(play)] = play

    def act(self, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action to play at this step, and go on to the next one. Nothing is learned.

        Parameters
        ----------
        observation : Any
            The observation of the environment.
        info : dict, optional
            Info of the observation, see `Agent.act`.
        """
        if self.is_over or self.step >= self.agent.horizon:
            raise self._refuse("act")
        action = act_in(self.agent, self.play, self.step, observation, info)
        kept = copy.deepcopy(observation), copy.deepcopy(action)  # callers may fill them anew
        self._waiting[self.step] = kept
        self.step += 1
        return action

    def update(
        self,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        truncated: bool = False,
        *,
        action: Any = None,
        next_info: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        """Learn from an action that has no update yet, by default from the first one.

        Parameters
        ----------
        reward, next_observation, terminated, next_info
            See `Agent.update`.
        truncated : bool, default False
            Whether the episode was cut off: it is over, but the next state has a value.
        action : Any, optional
            The action that was played, if it is another one than `act` returned.
        step : int, optional
            The step to learn from. The last one first makes values known to the steps before it.
        """
        step = next(iter(self._waiting), -1) if step is None else step
        is_number = isinstance(step, (int, np.integer))
        if self.is_over or not is_number or step not in self._waiting:
            raise self._refuse("update", step)
        check_flag(terminated, "terminated")
        check_flag(truncated, "truncated")
        observation, played = self._waiting[step]
        played = played if action is None else action
        learn_in(
            self.agent, self.play, step, observation, played, reward, next_observation,
            terminated, next_info,
        )  # fmt: skip
        del self._waiting[step]
        self.total += float(reward)
        if terminated or truncated or step + 1 == self.agent.horizon:
            self._last = step
        if self._last is not None and not any(k < self._last for k in self._waiting):
            self._end(self.total)

    def abandon(self) -> None:
        """End the episode. What was learned stays, and its return is not counted."""
        self._end(None)

    def _end(self, total: float | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._leave()
            end(self.agent, self.play, total)

    def _leave(self) -> None:
        self.agent.run.plays.pop(id(self.play), None)

    __del__ = _leave  # an episode that nobody can end is not under way

    def _refuse(self, call: str, step: int = -1) -> ConfigurationError:
        where = f"{self.agent.env_name}: {call} in episode {self.number}"
        if self.is_over:
            return ConfigurationError(f"{where}, which is over; agent.begin() begins another one")
        if call == "act":
            return ConfigurationError(
                f"{where}, of which all {self.agent.horizon} steps were played; call update, or "
                "abandon()"
            )
        if self._waiting:
            known = ", ".join(map(str, self._waiting))
            return ConfigurationError(f"{where}, step={step!r}: only steps {known} wait for it")
        return ConfigurationError(f"{where}, but no action waits for its update; call act first")

    def __repr__(self) -> str:
        state = "over" if self.is_over else f"at step {self.step} of {self.agent.horizon}"
        return f"Episode({self.number} of {self.agent.env_name}, {state})"


# --- the steps of an episode, for `Episode` and for those who keep their own ----------------------


def begin(agent: Agent, play: Play | None = None) -> tuple[int, Play]:
    """Begin an episode. Return its number, and how it is played: as `play` says, or drawn."""
    run = agent.run
    with run.lock:
        if not agent.interleaves and run.plays:
            raise ConfigurationError(
                f"{type(agent).__name__} plays one episode at a time; end the open one first, by "
                "its last update or by abandon()"
            )
        if play is None:
            play = draw(agent, prepares=True)
        elif not play.drawn.get("rule"):
            agent.prepare_play()
        if not play.drawn.get("rule"):
            agent.count_play(play)
        number, run.n_begun = run.n_begun, run.n_begun + 1
    return number, play


def draw(agent: Agent, *, prepares: bool = False, number: int | None = None) -> Play:
    """Draw how the next episode is played. The agent changes only if it `prepares`."""
    play = Play(episode_seed(agent.seed, agent.run.n_begun if number is None else number))
    if agent.is_guided:
        play.drawn["rule"] = agent.guide.ledger.plays_rule()
    if not play.drawn.get("rule"):
        if prepares:
            agent.prepare_play()
        play.drawn |= agent.draw_play(play)
    return play


def act_in(
    agent: Agent, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
) -> Any:
    """Return the action for a step of an episode. The agent does not change."""
    with agent.run.lock:
        if play.drawn.get("rule"):
            return agent.guide.rule_action(step, observation, info)
        return agent.act_play(play, step, observation, info if has_mask(info) else None)


def learn_in(
    agent: Agent,
    play: Play,
    step: int,
    observation: Any,
    action: Any,
    reward: float,
    next_observation: Any,
    terminated: bool,
    next_info: Mapping[str, Any] | None,
) -> None:
    """Learn from a step of an episode. The steps may come in any order."""
    transition = (step, observation, action, reward, next_observation, bool(terminated))
    # `has_mask` first: it refuses what is no dict.
    is_used = has_mask(next_info) or (next_info and agent.sees_outcomes)
    masks: dict[str, Any] = {"next_info": next_info} if is_used else {}
    with agent.run.lock:
        if play.drawn.get("rule"):
            agent.update_and_count(transition, masks)
        else:
            agent.update_play(play, transition, masks)
        play.waiting.pop(step, None)


def end(agent: Agent, play: Play, total: float | None) -> None:
    """End an episode with this return, or without one that counts."""
    with agent.run.lock:
        if total is None:
            agent.abandon_play(play)
            return
        if "rule" in play.drawn and agent.guide is not None:
            agent.guide.ledger.credit(total, play.drawn["rule"])
        if not play.drawn.get("rule"):
            agent.end_play(play, total)


class _Place(NamedTuple):
    step: int
    state: Floats
    waits: bool  # whether an `act` waits for its update

    def is_at(self, step: int, state: Floats) -> bool:
        if step != self.step:
            return False
        is_same: bool = self.state.tolist() == state.tolist()  # NumPy takes ten times as long
        return is_same or np.allclose(self.state, state, rtol=_ROUNDING, atol=0.0)


class EpisodeOrder:
    """Follow one episode by the calls of `act` and `update`; `Agent.begin` plays several.

    After act(h, x), update(h, x) or another `act` may follow; after an update that leads to y at
    step h, act(h, y) or update(h, y). Step 0 begins a new episode: always by `act`, and by
    `update` unless an `act` waits for its update. Updates of episodes that no `act` began are not
    checked.
    """

    _now: _Place | None = None

    def forget(self) -> None:
        """Accept any call next."""
        self._now = None

    @property
    def waits(self) -> bool:
        """Whether an `act` waits for its update."""
        return self._now is not None and self._now.waits

    def check_act(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `act` cannot follow."""
        now = self._now
        if step and now and not now.waits and not now.is_at(step, state):
            raise self._wrong(env_name, f"act came for step {step} and {state.tolist()}", now)

    def acted(self, step: int, state: Floats) -> None:
        """State that `act` was called."""
        self._now = _Place(step, state, True)

    def check_update(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `update` cannot follow."""
        now = self._now
        if now and (step or now.waits) and not now.is_at(step, state):
            raise self._wrong(env_name, f"update came for step {step} and {state.tolist()}", now)

    def updated(self, step: int, next_state: Floats, is_over: bool) -> None:
        """State that `update` was called."""
        self._now = None if is_over else _Place(step + 1, next_state, False)

    def _wrong(self, env_name: str, call: str, now: _Place) -> ConfigurationError:
        last = "act was called" if now.waits else "the episode is"
        return ConfigurationError(
            f"{env_name}: {call}, but {last} at step {now.step} with {now.state.tolist()}; act and "
            "update play one episode at a time, which act at step 0 begins. agent.begin() plays "
            "several at once"
        )
