"""The two drivers of learn(): a fused kernel for compiled environments, a Python loop for others.

Agent and environment have separate generators. So both drivers give the same history to the last
bit.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.utils import seeding
from numpy import empty
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.env_facts import reset, take_step
from zooming.agents.base.status import warn_of_clipping
from zooming.agents.tables.q_learner import QLearner, is_vector
from zooming.agents.training.history import History, RunArrays
from zooming.agents.training.many import accepts
from zooming.agents.training.vector import VectorRun, check_vector
from zooming.agents.warm.warm_start import Guided
from zooming.envs.compiled import CompiledEnv, find_compiled, find_fusible
from zooming.errors import ConfigurationError
from zooming.kernels import DUE, FINE, GOES_ON, TERMINATED, TRUNCATED, WRONG_SIZE
from zooming.kernels.loop.crossing import Crossing
from zooming.progress import progress
from zooming.spaces.masks import has_mask
from zooming.upper import UpperMethod
from zooming.validation import check_int, short_repr, takes_arguments


def can_step_on(agent: Agent) -> bool:
    """Return whether a driver may call `start` and `step_on` instead of `act` and `update`.

    It may not if the agent is not a `QLearner`, or if a subclass or a caller has replaced one of
    these methods.
    """
    own = getattr(agent.act, "__func__", None), getattr(agent.update, "__func__", None)
    return own == (QLearner.act, QLearner.update)


def start(agent: QLearner, observation: Any) -> Any:
    """Return the first action of an episode. Calls of `step_on` must follow."""
    with agent.run.lock:
        return agent._act(0, observation, None, True)


def step_on(
    agent: QLearner,
    step: int,
    observation: Any,
    action: Any,
    reward: float,
    next_observation: Any,
    terminated: bool,
    truncated: bool,
) -> Any:
    """Learn from a step and return the next action, or None if the episode is over.

    One kernel call does the work of `update` and of the next `act`. `action` must be the last one
    that `start` or `step_on` returned.
    """
    with agent.run.lock:
        return _step_on(
            agent, step, observation, action, reward, next_observation, terminated, truncated
        )


def _step_on(
    agent: QLearner,
    step: int,
    observation: Any,
    action: Any,
    reward: float,
    next_observation: Any,
    terminated: bool,
    truncated: bool,
) -> Any:
    axes, table = agent.axes, agent.table
    is_over = terminated or truncated or step + 1 >= agent.horizon
    if isinstance(reward, float) and agent._lowest_reward <= reward <= agent._highest_reward:
        after = (
            next_observation
            if axes.has_plain_states and is_vector(next_observation)
            else agent.problem.flat_state(step, next_observation, "next ")
        )
        end = TERMINATED if terminated else TRUNCATED if truncated else GOES_ON
        played = empty(axes.n_action)
        try:
            code = table.next_step(table.handle, step, reward, after, end, played)
        except (TypeError, ValueError):  # not a float64 vector: `update` converts it
            code = WRONG_SIZE
        if code == DUE:
            table.split(table.payload)
            code = FINE
        if code == FINE:
            if is_over:
                return None
            return played if axes.has_plain_actions else axes.shaped_action(played)
    agent.update(step, observation, action, reward, next_observation, terminated)
    return None if is_over else agent._act(step + 1, next_observation, None, True)


Callback = Callable[[Any, History], Any]


class Pauses:
    """The pauses of one call of learn(), and the history so far that callbacks receive.

    A callback is due every `callback.every` episodes of the agent (1 without that attribute), and
    after the last episode of the call. All episodes of the agent are counted, also those of earlier
    calls. So learn(a), learn(b) call it after the same episodes as learn(a + b).
    """

    def __init__(
        self,
        agent: Agent,
        episodes: int,
        checkpoints: Iterable[int],
        callback: Callback | Iterable[Callback] | None,
    ) -> None:
        self.agent, self.episodes = agent, episodes
        self.n_before, self.n_clipped_before = agent.n_episodes, agent.n_clipped
        self.policy_values: list[float] = []
        self.stops = _check_stops(checkpoints, episodes)
        self.callbacks = _check_callbacks(callback)
        for _, one in self.callbacks:
            if hasattr(one, "check_agent"):
                one.check_agent(agent)
        self.is_stopped = False
        self.log = RunArrays(episodes)

    value_policy = UpperMethod()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without callbacks, so that an interrupted agent can be pickled."""
        return {**vars(self), "callbacks": []}

    @property
    def n_done(self) -> int:
        """Number of finished episodes of this call."""
        return int(self.log.done[0])

    def next_pause(self) -> int:
        """Return the episode after which the next pause is due, counted from 1 in this call."""
        done = self.n_done
        due = [every - (self.n_before + done) % every + done for every, _ in self.callbacks]
        due += self.stops[len(self.policy_values) : len(self.policy_values) + 1]
        return min([*due, self.episodes])

    def take(self) -> None:
        """Evaluate the policy and call callbacks where they are due. A callback may end the run."""
        done = self.n_done
        if (
            len(self.policy_values) < len(self.stops)
            and self.stops[len(self.policy_values)] == done
        ):
            self.policy_values.append(self.value_policy())
        if not self.callbacks:
            return
        history = self.history_so_far()
        is_last = done == self.episodes
        others = []
        for every, callback in self.callbacks:
            if is_last or (self.n_before + done) % every == 0:
                self._call(callback, history)
            else:
                others.append(callback)
        if self.is_stopped:  # so this was the last episode: call the others too
            for callback in others:
                self._call(callback, history)

    def _call(self, callback: Callback, history: History) -> None:
        answer = callback(self.agent, history)
        if not (answer is None or isinstance(answer, (bool, np.bool_))):
            raise ConfigurationError(
                f"{_name(callback)} returned {answer!r}; return False to stop the run, True or "
                "nothing to go on"
            )
        self.is_stopped |= answer is not None and not answer

    def history_so_far(self) -> History:
        """Return the history so far as read-only views, without copying."""
        views = self._whole_episodes()
        for view in views:
            view.setflags(write=False)
        return self._history(*views)

    def final_history(self) -> History:
        """Return the history that learn() returns: copies of the finished episodes."""
        return self._history(*(view.copy() for view in self._whole_episodes()))

    def _whole_episodes(self) -> tuple[NDArray[Any], ...]:
        log, done = self.log, self.n_done
        return log.returns[:done], log.n_balls[:done], log.n_steps[:done]

    def _history(
        self, returns: NDArray[Any], n_balls: NDArray[Any], n_steps: NDArray[Any]
    ) -> History:
        stops = np.array(self.stops[: len(self.policy_values)], np.int64)
        n_clipped = self.agent.n_clipped - self.n_clipped_before
        by_rule = np.array(self.log.rule_episodes, np.int64)
        return History(
            returns, n_balls, self.agent, stops, np.array(self.policy_values), n_steps, n_clipped,
            by_rule, self.log.let_go,
        )  # fmt: skip


def _check_stops(checkpoints: Iterable[int], episodes: int) -> list[int]:
    stops = sorted({int(k) for k in checkpoints})
    if stops and not (stops[0] >= 1 and stops[-1] <= episodes):
        raise ConfigurationError(
            f"checkpoints={short_repr(stops)}: give numbers of episodes from 1 to {episodes}"
        )
    return stops


def _check_callbacks(callback: Any) -> list[tuple[int, Callback]]:
    if callback is None:
        return []
    if not callable(callback) and not isinstance(callback, Iterable):
        raise ConfigurationError(
            f"callback={callback!r}: give a function callback(agent, history), or a list of them"
        )
    callbacks = [callback] if callable(callback) else list(callback)
    for one in callbacks:
        if not callable(one) or isinstance(one, type) or not takes_arguments(one, None, None):
            fix = (
                f"make one: {one.__name__}(...)"
                if isinstance(one, type)
                else "give functions callback(agent, history)"
            )
            raise ConfigurationError(
                f"callback: {one!r} cannot be called with (agent, history); {fix}"
            )
    return [
        (check_int(getattr(one, "every", 1), f"{_name(one)}.every", 1), one) for one in callbacks
    ]


def _name(callback: Any) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))


DRIVERS = ("auto", "fused", "python")
_CHUNK_SECONDS = 0.1  # longest kernel call between checks for Ctrl-C and the progress bar

_FIRST_CHUNK = 100  # steps of the first kernel call, whose speed is unknown
_GROWTH = 8  # largest ratio of one kernel call to the next, since steps become slower

Advance = Callable[[int], None]


def learn(
    agent: Agent,
    episodes: int,
    *,
    env: Any = None,
    progress_bar: bool,
    driver: str,
    checkpoints: Iterable[int],
    callback: Callback | Iterable[Callback] | None,
) -> History:
    """Play episodes and return their history. A callback may end the run early."""
    if driver not in DRIVERS:
        raise ConfigurationError(f"driver={driver!r}: choose one of {DRIVERS}")
    episodes = check_int(episodes, "episodes", 0)
    if env is not None:
        if driver == "fused":
            raise ConfigurationError('driver="fused" plays no vector environment; leave it out')
        check_vector(agent, env)
    elif agent.env is None:
        raise ConfigurationError(
            f"this agent was loaded without its environment ({agent.env_name}); give it: "
            "zooming.load(path, env=env)"
        )
    if _is_learning(agent):
        raise ConfigurationError(
            "learn() of this agent is running already, in this thread (a callback called it) or in "
            "another one; call it after the run"
        )
    if env is not None:
        return _learn_vector(agent, env, episodes, progress_bar, checkpoints, callback)
    env = find_fusible(agent.env)
    can_fuse = env is not None and isinstance(agent, Compiled) and agent.axes.are_plain
    if driver == "fused" and not can_fuse:
        raise ConfigurationError(
            'driver="fused" needs a compiled environment without wrappers and a compiled agent '
            "without bounds=; "
            f'{type(agent).__name__} on {agent.env_name} runs with driver="python"'
        )
    pauses = Pauses(agent, episodes, checkpoints, callback)
    if not episodes:  # the environment is not even seeded
        return pauses.final_history()
    agent.run.latest = pauses  # for `interrupted_history`, if an exception ends this call
    inner, twin = agent.env.unwrapped, None
    with _progress(agent, episodes, progress_bar) as advance, _mark_learning(agent, pauses.log):
        run: Any = (
            _Python(agent, pauses.log)
            if driver == "python" or not can_fuse
            else _Fused(agent, env, pauses.log)
        )
        if agent.is_guided:
            run = Guided(agent, run, _Python, pauses.log)
        while pauses.n_done < episodes and not pauses.is_stopped:
            run.play(pauses.next_pause(), advance)
            if pauses.callbacks or pauses.stops:
                if twin is None:
                    twin = seeds.copy_generator(agent.run.env_rng)
                # A copy of the generator: callbacks cannot change the next episode.
                inner.np_random = twin
                pauses.take()
    history = pauses.final_history()
    agent.run.latest = None
    return history


def _learn_vector(
    agent: Agent,
    env: Any,
    episodes: int,
    progress_bar: bool,
    checkpoints: Iterable[int],
    callback: Callback | Iterable[Callback] | None,
) -> History:
    """Play episodes side by side on a vector environment and return their history."""
    pauses = Pauses(agent, episodes, checkpoints, callback)
    if not episodes:
        return pauses.final_history()
    agent.run.latest, agent.run.learner = pauses, threading.get_ident()
    agent.drop_paused()
    run = VectorRun(agent, env, episodes, pauses.log)
    try:
        with _progress(agent, episodes, progress_bar) as advance:
            while pauses.n_done < episodes and not pauses.is_stopped:
                run.play(pauses.next_pause(), advance)
                if pauses.callbacks or pauses.stops:
                    pauses.take()
                _stop_if_asked(agent)
    finally:
        run.close()
        agent.run.learner = 0
    history = pauses.final_history()
    agent.run.latest = None
    return history


@runtime_checkable
class Compiled(Protocol):
    """Interface of agents that play whole episodes of a compiled environment in compiled code."""

    def play(self, env: Any, crossing: Crossing, log: RunArrays, end: int) -> int:
        """Play compiled episodes until the log has `end` of them. Return the kernel's code.

        The compiled code updates the agent, and writes return and number of balls of each finished
        episode into `log`. `crossing` is the environment with this agent's random numbers.
        """


class _Fused:
    """Driver that plays episodes of a compiled environment in compiled code."""

    def __init__(self, agent: Any, env: Any, log: RunArrays) -> None:
        self.agent, self.env, self.log = agent, env, log
        if agent.run.env_rng is None:
            agent.run.env_rng = seeding.np_random(_env_seed(agent))[0]
        self.crossing = env.crossing(agent.run.env_rng)
        self.n_steps = min(
            agent.horizon, env.horizon
        )  # compiled dynamics never end an episode early
        self.chunk = max(1, _FIRST_CHUNK // agent.horizon)

    def play(self, end: int, advance: Advance) -> None:
        agent, log = self.agent, self.log
        while (first := int(log.done[0])) < end:
            last = min(first + self.chunk, end)
            log.n_steps[first:last] = self.n_steps
            agent.run.was_cut = agent.run.was_cut or agent.horizon < self.env.horizon
            began = time.perf_counter()
            with agent.run.lock:
                code = agent.play(self.env, self.crossing, log, last)
            seconds = time.perf_counter() - began
            finished = int(log.done[0]) - first
            if code == kernels.BAD_REWARD:
                raise agent.problem.bad_reward(int(log.trouble[0]), log.trouble[2])
            if code == kernels.BAD_STATE:
                step, coordinate = int(log.trouble[0]), int(log.trouble[1])
                raise agent.problem.bad_coordinate(
                    max(step - 1, 0), coordinate, log.trouble[2], "next " if step else ""
                )
            warn_of_clipping(agent)
            log.is_full = code == kernels.FULL
            if finished == self.chunk:
                growth = min(_GROWTH, _CHUNK_SECONDS / max(seconds, 1e-9))
                self.chunk = int(finished * growth) + 1
            advance(finished)
            _stop_if_asked(agent)


class _Python:
    """Driver that plays episodes of any environment step by step."""

    def __init__(self, agent: Any, log: RunArrays) -> None:
        self.agent, self.log = agent, log
        # Skip wrappers that change nothing: they take as long as the agent.
        self.env = find_compiled(agent.env) or agent.env
        agent.drop_paused()

    def play(self, end: int, advance: Advance) -> None:
        agent, log, env = self.agent, self.log, self.env
        inner, act, update = env.unwrapped, agent.act, agent.update
        end_episode = getattr(agent, "end_episode", None)  # of a `RuleSide`, which learns then
        is_quick = can_step_on(agent)
        is_told = agent.sees_outcomes
        if agent.run.env_rng is not None:
            inner.np_random = agent.run.env_rng
        for episode in range(int(log.done[0]), end):
            observation, info = reset(env, _env_seed(agent) if agent.run.env_rng is None else None)
            agent.run.env_rng = inner.np_random
            first, total = observation, 0.0
            if episode == 0 and info and has_mask(info):
                _check_takes_info(agent)
            n_before = agent.n_episodes
            action, is_kept = None, False  # is_kept: the action is one that step_on can follow
            for step in range(agent.horizon):
                if action is None:
                    is_kept = False
                    if info and has_mask(info):
                        action = act(step, observation, info=info)
                    elif is_quick and step == 0:
                        action, is_kept = start(agent, observation), True
                    else:
                        action = act(step, observation)
                next_observation, reward, terminated, truncated, info = take_step(env, action)
                if is_told or (info and has_mask(info)):
                    update(
                        step,
                        observation,
                        action,
                        reward,
                        next_observation,
                        terminated,
                        next_info=info,
                    )
                    action = None
                elif is_kept:
                    action = step_on(
                        agent, step, observation, action, reward, next_observation, terminated,
                        truncated,
                    )  # fmt: skip
                else:
                    update(step, observation, action, reward, next_observation, terminated)
                    action = None
                total += float(reward)
                observation = next_observation
                if terminated or truncated:
                    break
            agent.run.see_start(agent.axes.flat_states(first)[0][0])
            if end_episode is not None:
                end_episode()
            if agent.n_episodes == n_before:  # a user's agent that does not count episodes
                agent._take_n_episodes(n_before + 1)
            log.returns[episode], log.n_balls[episode], log.n_steps[episode] = (
                total,
                agent.n_balls,
                step + 1,
            )
            agent.run.was_cut = agent.run.was_cut or not (terminated or truncated)
            log.done[0] = episode + 1
            advance(1)
            _stop_if_asked(agent)


class LearningStopped(BaseException):
    """Raised in a thread to end a run whose result is no longer needed."""


def _stop_if_asked(agent: Agent) -> None:
    """Raise LearningStopped if the run is no longer needed. Let those read who wait for it."""
    if agent.run.stop_flag is not None and agent.run.stop_flag.is_set():
        raise LearningStopped
    if agent.run.is_asked:
        agent.run.is_asked = False
        time.sleep(0.001)  # otherwise, this thread would have the lock again before they do


def _check_takes_info(agent: Any) -> None:
    for method, name in ((agent.act, "info"), (agent.update, "next_info")):
        if not accepts(method, name):
            raise ConfigurationError(
                f"{agent.env_name} says which actions are feasible, but "
                f"{type(agent).__name__}.{method.__name__} takes no "
                f"{name}; add `*, {name}=None` to its arguments, see Agent.nearest_feasible"
            )


@contextmanager
def _mark_learning(agent: Agent, log: RunArrays) -> Iterator[None]:
    """Mark the agent as learning inside the `with` block.

    At the end of the block, the environment gets a copy of the generator that was used.
    """
    inner = agent.env.unwrapped
    agent.run.learner = threading.get_ident()
    try:
        yield
    finally:
        agent.run.learner = 0
        if isinstance(inner, CompiledEnv):
            inner.abandon()
        if agent.run.env_rng is not None:
            inner.np_random = seeds.copy_generator(agent.run.env_rng)


def _is_learning(agent: Agent) -> bool:
    """Return whether a learn() of this agent is running.

    An interrupt may have left the mark behind. So the stack of the marked thread is searched.
    """
    if not agent.run.learner:
        return False
    frame = sys._current_frames().get(agent.run.learner)
    n_running = 0
    while frame is not None:
        n_running += frame.f_code is learn.__code__ and frame.f_locals.get("agent") is agent
        frame = frame.f_back
    # The calling learn() does not count.
    return n_running > (agent.run.learner == threading.get_ident())


def _env_seed(agent: Agent) -> int:
    return seeds.derive_seed(agent.seed, "environment", np.uint32)


@contextmanager
def _progress(agent: Agent, episodes: int, shown: bool) -> Iterator[Advance]:
    if not shown:
        yield lambda n: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError("progress_bar=True needs rich: pip install 'zooming[lab]'") from error
    columns = (
        TextColumn("{task.description}"), BarColumn(16), MofNCompleteColumn(),
        TextColumn("episodes"), TimeRemainingColumn(),
        TextColumn(f"{{task.fields[balls]:,}} {agent.counted}"),
    )  # fmt: skip
    with progress(*columns) as bar:
        task = bar.add_task(type(agent).__name__, total=episodes, balls=agent.n_balls)

        def advance(n: int) -> None:
            bar.update(task, advance=n, balls=agent.n_balls)

        yield advance
