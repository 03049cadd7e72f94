"""The learned policy of an agent: read it, show it, and export it."""

from __future__ import annotations

import functools
import warnings
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import status as cards
from zooming.agents.base.env_facts import stated_steps
from zooming.agents.base.problem import LearningProblem
from zooming.agents.base.run_state import RunState
from zooming.envs.compiled import find_compiled
from zooming.envs.starts import FIXED
from zooming.errors import ConfigurationError, ZoomingError
from zooming.partitions.view import Partition
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import as_numbers
from zooming.spaces.masks import Feasible, feasible, has_mask, split_info
from zooming.upper import UpperMethod
from zooming.validation import known_options

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent


def check_steps(
    problem: LearningProblem, observation: Any, state: Any, episode_start: Any
) -> tuple[NDArray[np.int64], NDArray[np.float64], bool]:
    """Return (steps, flat states, whether they are a batch) from the arguments of `predict`.

    Raise TransitionError or ConfigurationError if an argument does not fit the problem, or if the
    arguments do not fit each other.
    """
    try:
        states, is_batch = problem.axes.flat_states(observation)
    except ZoomingError as error:
        where = (
            "0"
            if state is None
            else ", ".join(str(step) for step in np.ravel(np.asarray(state, object)))
        )
        raise type(error)(f"{problem.env_name}, step {where}: {error}") from error
    steps = _as_steps(state, len(states))
    if episode_start is not None:
        starts = np.asarray(episode_start, bool).reshape(-1)
        if len(starts) not in (1, len(steps)):
            raise ConfigurationError(
                f"episode_start has {len(starts)} entries for {len(steps)} environments"
            )
        steps[np.broadcast_to(starts, steps.shape)] = 0
    for step in steps.tolist():
        problem.check_step(step, is_batch)
    return steps, states, is_batch


def _as_steps(state: Any, n_states: int) -> NDArray[np.int64]:
    """Return one step for each of `n_states` observations; None means step 0."""
    try:
        steps = np.zeros(n_states, np.int64) if state is None else np.array(state).reshape(-1)
    except ValueError as error:
        raise ConfigurationError(
            f"state must hold one integer step per environment, got {state!r}"
        ) from error
    if not np.issubdtype(steps.dtype, np.integer):
        raise ConfigurationError(f"state must hold one integer step per environment, got {state!r}")
    if len(steps) != n_states:
        raise ConfigurationError(
            f"state has {len(steps)} entries for {n_states} observations; give one step "
            "per environment"
        )
    return steps.astype(np.int64)


# Methods that read what was learned. They wait while another thread changes it.
READING = ("predict", "value", "q_value", "visits", "partition", "status")
UNDOUBTED = 20  # episodes before which nothing is doubted
ENOUGH_STARTS = 20  # equal starts in a row after which no other start is expected


def reading(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method hold the lock of its agent. Reading then changes nothing, in any thread."""

    @functools.wraps(method)
    def read(self: Any, *arguments: Any, **options: Any) -> Any:
        self.run.is_asked = True
        with self.run.lock:
            return method(self, *arguments, **options)

    return read


class Policy:
    """The learned policy of an agent, which keeps its own step; see `Agent.policy`.

    It plays what `agent.predict` recommends at the time of the call. A batch of observations is
    played, too, if all environments are at the same step.

    Parameters
    ----------
    agent : Agent
        The agent.

    Attributes
    ----------
    step
        The step of the next action, from 0.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent, self.step = agent, 0

    def __call__(self, observation: Any, *, info: Any = None) -> Any:
        """Return the action for an observation; `info` is that of `Agent.predict`."""
        agent = self.agent
        if self.step >= agent.horizon:
            raise ConfigurationError(
                f"{agent.env_name}: all {agent.horizon} steps of an episode have been played; call "
                "policy.reset() at the start of each episode"
            )
        n_states = len(agent.axes.flat_states(observation)[0])
        action, _ = agent.predict(observation, np.full(n_states, self.step), info=info)
        self.step += 1
        return action

    def reset(self) -> None:
        """Begin an episode."""
        self.step = 0

    def __repr__(self) -> str:
        return f"Policy({self.agent.env_name}, step={self.step} of {self.agent.horizon})"


class LearnedPolicy(ABC):
    """Base class of `Agent` with the methods that read, show and export what was learned.

    They change nothing. A subclass defines `greedy` for one state, or `_greedy` for many. Every
    instance is an `Agent`; the cast below tells mypy so.
    """

    interpolates = False  # whether the policy's action varies within a ball

    problem: LearningProblem
    axes: Axes
    env_name: str
    seed: int
    horizon: int
    env: Any
    guide: Any = None  # the `Guide` of a warm start
    run: RunState
    n_episodes: Any
    n_clipped: Any
    _is_stepless = False  # whether the last call of `predict` was without a step
    _has_warned_of_step = False

    @property
    def is_guided(self) -> bool:
        """Whether the rule of a warm start is still in use."""
        return self.guide is not None and bool(self.guide.is_open)

    @known_options
    @reading
    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, NDArray[np.int64]]:
        """Play one step: return the greedy action, and the step to give as `state` next time.

        The policy depends on the step, which is `state`. Without `state` it is 0, so a loop that
        leaves it out plays the first step for ever; `agent.policy()` keeps the step for such a
        loop. The signature is that of Stable-Baselines3. Learning is not affected.

        `predict` warns once of two calls in a row without `state` (and `episode_start`), if the
        second observation cannot be a start: if the environment states one start state, or if 20
        or more episodes that `learn` played in Python all began in the same state, and it is not
        that one. Nothing is said where starts are random or unknown.

        After a warm start, the action is that of the rule until the rule is let go, see
        `Agent.warm_start`. Gymnasium's vector environments must use `AutoresetMode.SAME_STEP`.

        Parameters
        ----------
        observation : Any
            One observation, or a batch of them.
        state : int or array of int, optional
            Step of each environment, from 0. By default 0.
        episode_start : bool or array of bool, optional
            Where true, the step is reset to 0.
        deterministic : bool, default True
            If false, draw the action uniformly from the best ball.
        info : dict or sequence of dicts, optional
            Info of the observation. If it restricts actions, a feasible one is played. For a
            batch, one dict per environment, or the dict of arrays of a vector environment.

        Returns
        -------
        action : Any
            The action, or a batch of actions.
        state : array of int
            The next step of each environment.
        """
        if self.is_guided:
            found: tuple[Any, NDArray[np.int64]] = self.guide.predict(
                observation, state, episode_start, deterministic, info=info
            )
            return found
        steps, states, is_batch = check_steps(self.problem, observation, state, episode_start)
        self._watch_step(states, state is not None or episode_start is not None)
        infos = split_info(info, len(states), is_batch)
        allowed = [
            self._feasible(step, one) for step, one in zip(steps.tolist(), infos, strict=True)
        ]
        actions = self._greedy(steps, states, deterministic, allowed)
        return self.axes.shaped_action(actions if is_batch else actions[0]), steps + 1

    def policy(self) -> Policy:
        """Return a function that plays the learned policy and keeps the step.

        Returns
        -------
        Policy
            `policy(observation)` returns an action, `policy.reset()` begins an episode.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> env = gym.make("zooming/Oil-v0")
        >>> agent = zooming.AdaptiveQ(env, seed=0)
        >>> history, policy = agent.learn(2000), agent.policy()
        >>> for episode in range(3):
        ...     observation, info = env.reset(seed=episode)
        ...     policy.reset()
        ...     is_over = False
        ...     while not is_over:
        ...         action = policy(observation)
        ...         observation, reward, terminated, truncated, info = env.step(action)
        ...         is_over = terminated or truncated
        >>> policy.step
        5
        """
        return Policy(cast("Agent", self))

    def _only_start(self) -> NDArray[np.float64] | None:
        """Return the flat state in which every episode begins, or None if that is not known."""
        compiled = None if self.env is None else find_compiled(self.env)
        if compiled is not None:
            if compiled.start_kind != FIXED:
                return None
            only: NDArray[np.float64] = self.axes.flat_states(
                compiled.observations(compiled.start_law.states)
            )[0][0]
            return only
        state, n_seen = self.run.seen_start or (None, 0)
        return state if n_seen >= ENOUGH_STARTS else None

    def _watch_step(self, states: NDArray[np.float64], has_step: bool) -> None:
        """Warn once if a loop seems to leave out the step, see `predict`."""
        was_stepless, self._is_stepless = self._is_stepless, not has_step
        is_loop = not has_step and was_stepless and len(states) == 1
        if not is_loop or self._has_warned_of_step or self.horizon == 1:
            return
        start = self._only_start()
        if start is None or (states == start).all():
            return
        self._has_warned_of_step = True
        warnings.warn(
            f"{self.env_name}: predict was called again without `state`, so it played step 0, but "
            "no episode begins with this observation. For a loop, use policy = agent.policy(), "
            "policy.reset() and policy(observation), or give predict the `state` that it "
            "returned. If step 0 is meant, give state=0",
            UserWarning,
            stacklevel=5,  # two decorators lie between
        )

    def greedy(self, step: int, state: NDArray[np.float64]) -> Any:
        """Return the flat action of the learned policy, without learning and without random draws.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        state : array
            A vector from `checked_state`.

        Returns
        -------
        array
            The action in the form that `checked_transition` returns, between `axes.action_ends`.
        """
        if type(self)._greedy is LearnedPolicy._greedy:
            name = type(self).__name__
            raise NotImplementedError(
                f"{name} does not say what its policy plays: define greedy(self, step, state)"
            )
        return self._greedy(
            np.array([self.problem.check_step(step)]), state.reshape(1, -1), True, [None]
        )[0]

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: NDArray[np.float64],
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> NDArray[np.float64]:
        """Return one flat action per (step, state). `allowed` holds the feasible actions of each.

        None in `allowed` means that all actions are feasible.
        """
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            action = as_numbers(
                self.greedy(step, self.problem.check_point(step, states[k], 0)), "greedy's action"
            )
            if action.shape != actions[k].shape:
                raise ConfigurationError(
                    f"greedy gave an action of shape {action.shape}; give the flat vector of "
                    f"{self.axes.n_action} numbers that checked_transition gives"
                )
            actions[k] = self._nearest(action, allowed[k])
        return actions

    def nearest_feasible(
        self, step: int, action: Any, info: Mapping[str, Any] | None
    ) -> NDArray[np.float64]:
        """Return the flat action nearest to `action` among those that `info` allows.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        action : Any
            A flat action.
        info : dict or None
            Info of the observation, see `Agent.act`.
        """
        return self._nearest(as_numbers(action, "action"), self._feasible(step, info))

    def _feasible(self, step: int, info: Mapping[str, Any] | None) -> Feasible | None:
        return (
            feasible(self.axes, info, f"{self.env_name}, step {step}")
            if info and has_mask(info)
            else None
        )

    def _nearest(
        self, action: NDArray[np.float64], allowed: Feasible | None
    ) -> NDArray[np.float64]:
        """Return the flat action nearest to `action` among the allowed ones."""
        if allowed is None:
            return action
        n_state = self.axes.n_state
        return self.axes.to_unit_cube(
            allowed.nearest(self.axes.from_unit_cube(action, n_state)), n_state
        )

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        """Return Q(observation, action), the optimistic estimate of the ball with this pair.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation, action
            The pair, in the units of the environment.
        """
        raise self._no_estimate()

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        """Return V(observation): the largest Q of the relevant balls, at most the largest return.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation : Any
            The observation, in the units of the environment.
        info : dict, optional
            Info of the observation. If it restricts actions, balls without a feasible action are
            ignored.
        """
        raise self._no_estimate()

    def visits(self, step: int, observation: Any, action: Any) -> int:
        """Return n(B) of the ball with this pair. The visits of its ancestors are included.

        The arguments are those of `q_value`.
        """
        raise self._no_estimate()

    def partition(self, step: int) -> Partition:
        """Return the active balls of a step as arrays."""
        raise self._no_estimate()

    @property
    def n_balls(self) -> int:
        """Number of active balls, summed over all steps; `counted` names them.

        A `Planner` counts the cells of its grid. A portfolio, such as `Auto`, counts those of the
        agent that played last.
        """
        return 0

    @property
    def counted(self) -> str:
        """What `n_balls` counts, in words: balls, or cells."""
        return "balls"

    def _no_estimate(self) -> ConfigurationError:
        return ConfigurationError(
            f"{type(self).__name__} is a heuristic: it keeps no balls and no estimates. AdaptiveQ "
            "and NetQ do."
        )

    # --- for notebooks and status -----------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory of the learned data in bytes."""
        return 0

    def _repr_html_(self) -> str:
        return str(self.status()._repr_html_())

    def _should_earn(self) -> tuple[float, float] | None:
        """Return (mean return that the policy should earn, standard error); None if unknown."""
        return None

    def _warnings(self) -> list[str]:
        """Return one sentence per suspected problem, for `status()`."""
        return self._doubt_short_horizon()

    def _doubt_short_horizon(self) -> list[str]:
        """Return a sentence if the horizon cut episodes off that the environment would go on with.

        Nothing is doubted if the environment states no larger number of steps: then it is for the
        agent to say how long an episode is. An environment may also end by itself before its stated
        number, for example if a wrapper joins several steps to one.
        """
        stated = None if self.env is None else stated_steps(self.env)
        if stated is None or stated <= self.horizon:
            return []
        if not self.run.was_cut or self.n_episodes < UNDOUBTED:
            return []
        return [
            f"episodes went on when horizon={self.horizon} ended them, and "
            f"{self.env_name} states up to {stated:,} steps: what comes later is not "
            "learned; if it matters, leave out horizon="
        ]

    @reading
    def status(self) -> cards.Status:
        """Return what the agent has learned so far, in numbers; `print` shows it readably.

        Returns
        -------
        Status
            A dictionary, which a notebook shows as a table. "episodes": number so far. "horizon":
            steps of an episode. "balls" (of a `Planner` "cells") and "bytes": number and memory.
            What else the agent can tell. "rewards clipped", if any were. "rule":
            `agent.guide.status()` of a warm start. "warnings": what seems wrong.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> history = agent.learn(100)
        >>> print(agent.status())
        episodes: 100
        horizon: 5
        balls: 65
        bytes: 4,032
        bonus: Scaled(c=0.1)
        warnings: none
        """
        return cards.Status({
            "episodes": self.n_episodes,
            "horizon": self.horizon,
            **({self.counted: self.n_balls} if self.n_balls else {}),
            "bytes": self.nbytes,
            **self._status(),
            **({"rewards clipped": self.n_clipped} if self.n_clipped else {}),
            **({} if self.guide is None else {"rule": self.guide.status()}),
            "warnings": self._warnings(),
        })  # fmt: skip

    def _status(self) -> dict[str, Any]:
        """Return the entries of `status()` that only this kind of agent has."""
        return {}

    # --- other forms ------------------------------------------------------------------------------

    export = UpperMethod()
    explain = UpperMethod()
    show = UpperMethod()
