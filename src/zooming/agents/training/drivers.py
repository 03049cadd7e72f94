"""The drivers of learn(): a fused kernel for compiled environments, Python loops for others.

Agent and environment have separate generators. So the fused kernel and the Python loop give the
same history to the last bit. On a vector environment, the updates of an episode are made when it
ends, in the order of the environments if several end at once. So a run is one sequence of `begin`
and `update`, the same for synchronous and asynchronous ones. With updates at each step, what is
learned at a step would reach the step before it one round of all environments later, instead of one
episode later.
"""

from __future__ import annotations

import contextlib
import copy
import operator
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.episodes import Episode
from zooming.agents.base.problem import reset, take_step
from zooming.agents.base.status import warn_of_clipping
from zooming.agents.tables.q_learner import QLearner
from zooming.agents.training.history import History, RunArrays
from zooming.agents.training.many import accepts
from zooming.agents.warm_start import Guided
from zooming.envs.compiled import CompiledEnv, find_compiled
from zooming.envs.functions import error_of
from zooming.errors import ConfigurationError
from zooming.kernels.loop.crossing import Crossing
from zooming.methods import UpperMethod
from zooming.progress import counted
from zooming.spaces.flatten import build_tree
from zooming.spaces.masks import has_mask, split_info
from zooming.validation import check_choice, check_int, short_repr, takes_arguments


def can_step_on(agent: Agent) -> bool:
    """Return whether a driver may call `start` and `step_on` instead of `act` and `update`.

    It may not if the agent is not a `QLearner`, or if a subclass or a caller has replaced one of
    these methods.
    """
    own = getattr(agent.act, "__func__", None), getattr(agent.update, "__func__", None)
    return own == (QLearner.act, QLearner.update)


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
        return self._history(views)

    def final_history(self) -> History:
        """Return the history that learn() returns: copies of the finished episodes."""
        return self._history([view.copy() for view in self._whole_episodes()])

    def _whole_episodes(self) -> list[NDArray[Any]]:
        log = self.log
        return [array[: self.n_done] for array in (log.returns, log.n_balls, log.n_steps)]

    def _history(self, whole: list[NDArray[Any]]) -> History:
        returns, n_balls, n_steps = whole
        return History(
            returns, n_balls, self.agent,
            np.array(self.stops[: len(self.policy_values)], np.int64), np.array(self.policy_values),
            n_steps, self.agent.n_clipped - self.n_clipped_before,
            np.array(self.log.rule_episodes, np.int64), self.log.let_go,
        )  # fmt: skip


def _check_stops(checkpoints: Iterable[int], episodes: int) -> list[int]:
    try:
        stops = sorted({operator.index(k) for k in checkpoints})
    except TypeError:
        stops = [0]  # not a list of whole numbers
    if stops and not (stops[0] >= 1 and stops[-1] <= episodes):
        raise ConfigurationError(
            f"checkpoints={short_repr(checkpoints)}: give numbers of episodes from 1 to {episodes}"
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
NEXT_STEP, SAME_STEP = "NextStep", "SameStep"  # when a finished environment is reset by itself
ENDED_EACH = 12  # see `_Vector`; chosen on three problems, judged on twelve (docs/desk.md)
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
    check_choice("driver", driver, DRIVERS)
    episodes = check_int(episodes, "episodes", 0)
    if env is not None:
        if driver == "fused":
            raise ConfigurationError('driver="fused" plays no vector environment; leave it out')
        _check_vector(agent, env)
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
    fusible = None if agent.env is None else find_compiled(agent.env)
    can_fuse = fusible is not None and isinstance(agent, Compiled) and agent.axes.are_plain
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
    inner, twin = agent.env.unwrapped if env is None else None, None
    text = f"episodes, {{task.fields[balls]:,}} {agent.counted}"
    bar = counted(
        type(agent).__name__, episodes, progress_bar, text, lambda: {"balls": agent.n_balls}
    )
    with bar as advance, _mark_learning(agent, inner):
        run: Any
        if env is not None:
            run = _Vector(agent, env, episodes, pauses.log)
        elif driver == "python" or not can_fuse:
            run = _Python(agent, pauses.log)
        else:
            run = _Fused(agent, fusible, pauses.log)
        if agent.is_guided and env is None:
            run = Guided(agent, run, _Python, pauses.log)
        try:
            while pauses.n_done < episodes and not pauses.is_stopped:
                run.play(pauses.next_pause(), advance)
                if pauses.callbacks or pauses.stops:
                    if inner is not None:  # callbacks cannot change the next episode
                        twin = twin or seeds.copy_generator(agent.run.env_rng)
                        inner.np_random = twin
                    pauses.take()
        finally:
            if env is not None:
                run.close()
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
        self.n_steps = min(agent.horizon, env.horizon)  # compiled dynamics never end early
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
                raised = error_of(self.env.given)  # of dynamics that are called in Python
                raise agent.problem.bad_reward(int(log.trouble[0]), log.trouble[2]) from raised
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
            agent.problem.check_action_space(env)
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
                        action, is_kept = agent.start(observation), True
                    else:
                        action = act(step, observation)
                next_observation, reward, terminated, truncated, info = take_step(env, action)
                if is_told or (info and has_mask(info)):
                    update(
                        step, observation, action, reward, next_observation, terminated,
                        next_info=info,
                    )  # fmt: skip
                    action = None
                elif is_kept:
                    action = agent.step_on(
                        step, observation, action, reward, next_observation, terminated, truncated
                    )
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
                agent.set_n_episodes(n_before + 1)
            log.add(total, agent.n_balls, step + 1)
            agent.run.was_cut = agent.run.was_cut or not (terminated or truncated)
            advance(1)
            _stop_if_asked(agent)


class _Vector:
    """Driver that plays a vector environment: one open episode per environment.

    Exactly `episodes` episodes are begun, and all of them are finished. Environments without an
    episode idle. Those whose episode the agent's horizon cuts are reset.

    One more is open for every `ENDED_EACH` episodes that the agent has ended: otherwise, `num_envs`
    episodes would be played by an agent that knows nothing, and as many by one that knows these
    alone.
    """

    def __init__(self, agent: Agent, env: Any, episodes: int, log: RunArrays) -> None:
        self.agent, self.env, self.log, self.n_left = agent, env, log, episodes
        self.open: list[Episode | None] = [None] * env.num_envs
        self.n_before = agent.n_episodes
        mode = env.metadata.get("autoreset_mode", NEXT_STEP)
        self.mode = str(getattr(mode, "value", mode))
        self._finished = self._play()
        agent.drop_paused()

    def play(self, end: int, advance: Advance) -> None:
        """Play until the log has `end` episodes."""
        while self.log.done[0] < end:
            next(self._finished)
            advance(1)
            _stop_if_asked(self.agent)

    def close(self) -> None:
        """Record the episodes that are learned, and abandon those that are open."""
        for episode in self.open:
            if episode is not None and episode.is_over:
                self._record(episode)
            elif episode is not None:
                episode.abandon()

    def _play(self) -> Iterator[None]:
        """Play; yield when an episode has finished."""
        agent, env, n = self.agent, self.env, self.env.num_envs
        # Seeded by the episodes begun, so that an agent from a file goes on as the saved one.
        seed = seeds.derive_seed(agent.seed, f"vector {agent.run.n_begun}", np.uint32)
        observations, info = env.reset(seed=seed)
        infos, actions = split_info(info, n, True), [None] * n
        is_fresh, is_waiting = np.ones(n, bool), np.zeros(n, bool)  # waiting for its reset
        outcomes: list[list[Any]] = [[] for _ in range(n)]  # of the steps of each open episode
        while True:
            seen = list(iterate(env.observation_space, observations))
            for i in np.flatnonzero(is_fresh).tolist():
                if self._n_room > 0:
                    self.open[i] = agent.begin()
                    self.n_left -= 1
                    agent.run.see_start(agent.axes.flat_states(seen[i])[0][0])
            for i, episode in enumerate(self.open):
                if episode is not None:
                    actions[i] = episode.act(seen[i], info=infos[i])
            usual = next(action for action in actions if action is not None)
            for i, episode in enumerate(self.open):
                if episode is None:  # an environment that is reset by this step ignores its action
                    actions[i] = usual if is_waiting[i] else self._feasible(usual, infos[i])
            space = env.single_action_space
            batch: Any = create_empty_array(space, n)
            observations, rewards, terminated, truncated, info = env.step(
                concatenate(space, actions, batch)
            )
            after = list(iterate(env.observation_space, observations))
            infos, last_infos = (split_info(one, n, True) for one in (info, info.get("final_info")))
            is_done = np.asarray(terminated) | np.asarray(truncated)
            is_fresh, was_waiting = is_waiting.copy(), is_waiting
            is_waiting = is_done & (self.mode == NEXT_STEP)
            is_fresh |= is_done & (self.mode == SAME_STEP)
            resets = is_done & (self.mode not in (NEXT_STEP, SAME_STEP))
            ended: list[tuple[int, Episode]] = []
            for i, episode in enumerate(self.open):
                if episode is None or was_waiting[i]:
                    continue
                is_last = is_done[i] and self.mode == SAME_STEP
                seen_last = info["final_obs"][i] if is_last else after[i]
                # Copied, because the environment may fill its arrays anew.
                outcome = float(rewards[i]), copy.deepcopy(seen_last), terminated[i], truncated[i]
                next_info = None if terminated[i] else (last_infos if is_last else infos)[i]
                outcomes[i].append((*outcome, copy.deepcopy(next_info)))
                if is_done[i] or episode.step == agent.horizon:
                    ended.append((i, episode))
                    resets[i] |= not is_done[i]
                    agent.run.was_cut = agent.run.was_cut or not is_done[i]
            # The last steps first, so that values are known to the steps before them.
            steps = [(step, i, episode) for i, episode in ended for step in range(episode.step)]
            for step, i, episode in sorted(steps, key=lambda one: -one[0]):
                reward, following, ends, cuts, next_info = outcomes[i][step]
                episode.update(reward, following, ends, cuts, next_info=next_info, step=step)
            for i, episode in ended:
                self.open[i], outcomes[i] = None, []
                self._record(episode)
                yield
            idle = [i for i, episode in enumerate(self.open) if not (episode or is_done[i])]
            resets[idle[: self._n_room]] = True
            if resets.any() and (self.n_left or any(self.open)):
                observations, info = env.reset(options={"reset_mask": resets.copy()})
                for i in np.flatnonzero(resets).tolist():
                    infos[i] = split_info(info, n, True)[i]
                is_fresh |= resets

    @property
    def _n_room(self) -> int:
        """Number of episodes that may begin now."""
        n_ended, n_open = self.n_before + int(self.log.done[0]), sum(map(bool, self.open))
        return max(0, min(self.n_left, 1 + n_ended // ENDED_EACH - n_open))

    def _feasible(self, action: Any, info: Any) -> Any:
        """Return an action that `info` allows, for an environment without an episode."""
        axes = self.agent.axes
        flat = axes.actions.flat(action, "action")
        return axes.shaped_action(self.agent.nearest_feasible(0, flat, info))

    def _record(self, episode: Episode) -> None:
        log, k = self.log, int(self.log.done[0])
        if "rule" in episode.play.drawn:
            log.rule_episodes += [k + 1] * episode.play.drawn["rule"]
            if log.let_go is None and not self.agent.is_guided:
                log.let_go = k + 1
        log.add(episode.total, self.agent.n_balls, episode.step)


def _check_vector(agent: Agent, env: Any) -> None:
    """Raise ConfigurationError if an agent cannot learn on this vector environment."""
    if not isinstance(env, gym.vector.VectorEnv):
        raise ConfigurationError(
            f"env={type(env).__name__}: learn(env=...) takes a vector environment, "
            "gymnasium.make_vec(...); to learn on one environment, make the agent with it"
        )
    if not agent.interleaves and env.num_envs > 1:
        raise ConfigurationError(
            f"{type(agent).__name__} plays one episode at a time, and the vector environment has "
            f"{env.num_envs}; give num_envs=1"
        )
    for name, own, space in (
        ("observation", agent.axes.states, env.single_observation_space),
        ("action", agent.axes.actions, env.single_action_space),
    ):
        kind = "state" if name == "observation" else "action"
        if build_tree(space, kind, f"{name}_space").describe() != own.describe():
            raise ConfigurationError(
                f"the {name} space of the vector environment is {space}, and another one in the "
                f"agent's environment ({agent.env_name}); make both alike"
            )


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


@contextlib.contextmanager
def _mark_learning(agent: Agent, inner: Any) -> Iterator[None]:
    """Mark the agent as learning inside the `with` block.

    At the end, the environment `inner`, if any, gets a copy of the generator that was used.
    """
    agent.run.learner = threading.get_ident()
    try:
        yield
    finally:
        agent.run.learner = 0
        if isinstance(inner, CompiledEnv):
            inner.abandon()
        if inner is not None and agent.run.env_rng is not None:
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
