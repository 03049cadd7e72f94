"""The base class of all agents: how one is made, trained, read and saved."""

from __future__ import annotations

import copy
import functools
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zooming.agents import warm_start as warm_starts
from zooming.agents.base import episodes
from zooming.agents.base.episodes import Episode, Play
from zooming.agents.base.problem import Checked, LearningProblem, stated_steps
from zooming.agents.base.seeds import generator_at, seed_of
from zooming.agents.base.status import Status, count_clipped
from zooming.agents.files import checkpoints as stored
from zooming.agents.files import registry
from zooming.agents.files.options import build_agent, fixed_options_of, options_of
from zooming.agents.training.history import History
from zooming.agents.training.replay import Transitions, update_each
from zooming.envs.compiled import find_compiled
from zooming.envs.starts import FIXED
from zooming.errors import ConfigurationError
from zooming.methods import UpperMethod
from zooming.partitions.view import Partition
from zooming.spaces.flatten import as_numbers
from zooming.spaces.masks import Allowed, Feasible, feasible, has_mask, split_info
from zooming.validation import Floats, Ints, as_float, check_int, known_options, step_first

# Methods that read what was learned. They wait while another thread changes it.
READING = ("predict", "value", "q_value", "visits", "partition", "status")
STEP_FIRST = ("act", "update", "value", "q_value", "visits", "partition")
UNDOUBTED = 20  # episodes before which nothing is doubted
MOST_OTHERS = 64  # open episodes that an action may depend on
ENOUGH_STARTS = 20  # equal starts in a row after which no other start is expected


# What dir() shows of zooming's own agents: the members for users. Others serve the library.
SHOWN = frozenset((
    "act", "act_batch", "as_published", "axes", "begin", "env", "explain", "export", "get_params",
    "guide", "horizon", "interrupted_history", "learn", "learn_from", "load", "n_balls",
    "n_clipped", "n_episodes", "nbytes", "partition", "policy", "predict", "q_value", "save",
    "seed", "show", "status", "tell", "to_log", "update", "value", "visits", "warm_start",
))  # fmt: skip


def reading(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method hold the lock of its agent. Reading then changes nothing, in any thread."""

    @functools.wraps(method)
    def read(self: Any, *arguments: Any, **options: Any) -> Any:
        self.run.is_asked = True
        with self.run.lock:
            return method(self, *arguments, **options)

    return read


class RunState:
    """What a run of `learn` needs beside what was learned: lock, generator, flags; `agent.run`.

    Drivers and readers in other threads share it. `clips`: whether rewards are clipped.
    """

    def __init__(self, clips: bool) -> None:
        # Held while the agent changes or is read. Learning releases it between calls of kernels.
        self.lock = threading.RLock()
        self.is_asked = False  # whether a reader may wait for the lock
        self.learner = 0  # thread that runs learn(), 0 if none does
        self.latest: Any = None  # the `Pauses` of a running or failed learn()
        self.stop_flag: threading.Event | None = None  # set by learn_many when it is interrupted
        self.env_rng: np.random.Generator | None = None  # of the environment; set by learn()
        self.n_begun = 0  # episodes begun by `Agent.begin`
        self.plays: dict[int, Play] = {}  # of the `Episode`s that are open, by id
        self.stored_env: dict[str, Any] | None = None  # from a file, if loaded without env
        self.clipping = np.array([clips, 0])  # whether to clip rewards, number clipped
        self.has_warned_of_clipping = False
        self.was_cut = False  # whether an episode of learn() went on when the horizon ended it
        # The state in which all episodes began, and their number; 0 if they differ.
        self.seen_start: tuple[Floats, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the lock, so that an agent can be copied and pickled."""
        kept = {name: one for name, one in vars(self).items() if name != "lock"}
        return {**kept, "plays": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()

    @property
    def env_generator(self) -> dict[str, Any] | None:
        """State of the environment's generator before the next episode, None before learn()."""
        return None if self.env_rng is None else dict(self.env_rng.bit_generator.state)

    @env_generator.setter
    def env_generator(self, state: dict[str, Any] | None) -> None:
        self.env_rng = None if state is None else generator_at(state)

    def waiting(self, play: Play) -> list[dict[int, Any]]:
        """Return `Play.waiting` of other open episodes: what is not learned yet.

        Of many, only the last `MOST_OTHERS` that have begun count.
        """
        last = [one.waiting for one in self.plays.values()][-MOST_OTHERS:]
        return [one for one in last if one is not play.waiting]

    def free_env(self, env: Any) -> Any:
        """Return the environment to play on, or a copy of it while another thread learns on it."""
        is_free = env is None or self.learner in (0, threading.get_ident())
        return env if is_free else copy.deepcopy(env)

    def restore_clipped(self, n_clipped: Any) -> None:
        """Restore the number of clipped rewards. Raise ValueError if the agent clips none."""
        self.clipping[1] = n = check_int(n_clipped, "n_clipped", 0)
        if n and not self.clipping[0]:
            raise ValueError(f"{n:,} rewards were clipped by an agent with rewards='refuse'")
        self.has_warned_of_clipping = n > 0

    def see_start(self, state: Floats) -> None:
        """Remember the start of an episode, as long as all were equal."""
        if self.seen_start is None:
            self.seen_start = state, 1
        elif self.seen_start[1]:
            is_same = np.array_equal(self.seen_start[0], state)
            self.seen_start = self.seen_start[0], self.seen_start[1] + 1 if is_same else 0


class Policy:
    """The learned policy of an agent, which keeps its own `step`; see `Agent.policy`.

    It plays what `agent.predict` recommends at the time of the call. A batch of observations is
    played, too, if all environments are at the same step.
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


class Agent(ABC):
    """Base class of all agents: learns a policy for episodes of `horizon` steps.

    Steps are counted from 0. An axis is named `state[0]`, `action["gear"]`, ...; the name of a
    space (`state`) means all its axes.

    To write an agent of your own, define `act`, `update` and `greedy`. `learn`, `predict` and the
    callbacks then work. `checked_state` and `checked_transition` validate inputs, and
    `zooming.check_agent` tests the result. To be saved it also needs `saved_state` and
    `restore_state`. An agent with a table of balls is a
    `zooming.agents.tables.q_learner.QLearner`, which has all of these.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    horizon : int, optional
        Steps of an episode. By default the environment's own number.
    reward_range : (float, float), optional
        Lowest and highest reward of one step. By default the environment's own `reward_range`, or
        (0, 1) if it states none. `zooming.reward_range(env)` proposes a range.
    rewards : {"refuse", "clip"}, default "refuse"
        "refuse" raises an error for a reward outside `reward_range`. "clip" learns from the nearer
        end, counts it in `n_clipped` and warns once; returns keep the reward that was paid. NaN and
        infinity are always refused.
    bounds : dict, optional
        {axis: (low, high)}, for unbounded axes or a smaller range. Values beyond count as the ends.
    ordered : bool or names of axes, default False
        Discrete axes whose neighboring values are similar. True means all of them.
    squash : bool, float or dict, default False
        Maps unbounded axes to an interval: True (scale 1), a scale, or {axis: scale}.
    weights : dict or sequence, optional
        Weight of each axis in the metric: {axis: weight}, or one number per axis. An axis of
        weight 0 is ignored.
    names : dict or sequence, optional
        Names of the axes for everything that is printed, drawn or written: {axis: name}, or one
        name per axis, the state's first. By default those of `env.metadata["names"]`, if any.
    seed : int, optional
        Seed of the agent and of its environment. By default a random one.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> class Middle(zooming.Agent):
    ...     def act(self, step, observation, *, info=None):
    ...         return self.axes.shaped_action(self.greedy(step, observation))
    ...     def update(self, step, observation, action, reward, next_observation, *rest, **info):
    ...         pass
    ...     def greedy(self, step, state):
    ...         low, high = self.axes.action_ends
    ...         return (low + high) / 2
    >>> agent = Middle(gym.make("zooming/Oil-v0"), seed=0)
    >>> round(float(agent.learn(10).returns.mean()), 2), agent.predict([0.3])[0]
    (3.89, array([0.5]))
    """

    interpolates = False  # whether the policy's action varies within a ball
    interleaves = True  # whether several episodes may be open at a time
    sees_outcomes = False  # whether `update` wants the info of each step
    guide: Any = None  # the `Guide` of a warm start
    _is_stepless = False  # whether the last call of `predict` was without a step
    _has_warned_of_step = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        registry.register(cls)
        if "__init__" in cls.__dict__:
            cls.__init__ = known_options(cls.__init__)  # type: ignore[method-assign]
        for names, decorate in ((STEP_FIRST, step_first), (READING, reading)):
            for name in names:
                if callable(method := cls.__dict__.get(name)):
                    setattr(cls, name, decorate(method))

    def __dir__(self) -> list[str]:
        names = super().__dir__()
        if not type(self).__module__.startswith("zooming."):  # a class of a user's own
            return list(names)
        return [name for name in names if name in SHOWN or name.startswith("_")]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "run": copy.copy(self.run)}  # a copy has a lock of its own

    @known_options
    def __init__(
        self,
        env: Any,
        *,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
        seed: int | None = None,
    ) -> None:
        self.problem = problem = LearningProblem(
            env, type(self).__name__, horizon=horizon, reward_range=reward_range, rewards=rewards,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, names=names,
        )  # fmt: skip
        self.axes, self.horizon, self.env_name = problem.axes, problem.horizon, problem.env_name
        self.reward_range, self.rewards = problem.reward_range, problem.rewards
        self.run = RunState(rewards == "clip")
        self.seed = seed_of(seed)
        self.env = env
        self._n_episodes = 0

    # --- learning ---------------------------------------------------------------------------------

    @known_options
    def learn(
        self,
        episodes: int,
        *,
        env: Any = None,
        progress_bar: bool = False,
        driver: str = "auto",
        checkpoints: Iterable[int] = (),
        callback: Callable[[Any, History], Any]
        | Iterable[Callable[[Any, History], Any]]
        | None = None,
    ) -> History:
        """Play episodes and learn from them.

        `learn(a)` followed by `learn(b)` equals `learn(a + b)`.

        Parameters
        ----------
        episodes : int
            Number of episodes, at most 100,000,000 per call (the history takes 24 bytes each).
        env : gymnasium.vector.VectorEnv, optional
            Play on this vector environment instead, with as many episodes side by side as it has
            environments. The history is in the order in which episodes ended. Each call resets
            the environments, so learn(a) and learn(b) differ from learn(a + b) here.
        progress_bar : bool, default False
            Show a progress bar. Needs rich.
        driver : {"auto", "fused", "python"}, default "auto"
            "fused" runs compiled environments in compiled code, "python" steps any environment.
            Both give the same history to the last bit.
        checkpoints : iterable of int, optional
            Episodes, from 1, after which the exact value of the policy is stored in the history.
        callback : callable or list of callables, optional
            Called as `callback(agent, history)` after every episode. Returning False ends the run.
            With an attribute `every` it is called after every so many episodes and after the last.
            `zooming.callbacks` has ready-made ones.

        Returns
        -------
        History
            One entry per episode. After an exception see `interrupted_history`.

        Raises
        ------
        ConfigurationError
            If an option is wrong, or the agent was loaded without its environment.
        TransitionError
            If a state or reward is outside its range. Nothing is learned from that step.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> history = agent.learn(1000, callback=lambda agent, history: agent.n_balls < 60)
        >>> bool(history.n_balls[-2] < 60 <= history.n_balls[-1]), len(history) == agent.n_episodes
        (True, True)
        """
        history: History = self._drive(
            episodes, env=env, progress_bar=progress_bar, driver=driver, checkpoints=checkpoints,
            callback=callback,
        )  # fmt: skip
        return history

    _drive = UpperMethod()

    def begin(self) -> Episode:
        """Begin an episode. Any number of them may be open at a time.

        Which agent of a portfolio plays, and by which plan, is fixed here, and the return is
        credited to it. What is learned depends on the order of `begin`, `update` and `abandon`
        over all episodes alone. `save` does not store open episodes. A class that plays one
        episode at a time raises ConfigurationError if one is open.

        Returns
        -------
        Episode
            Call `act`, then `update`, until `is_over`; or `abandon`.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> stores = [agent.begin() for _ in range(50)]
        >>> actions = [store.act([0.3]) for store in stores]
        >>> for store, action in zip(stores, actions):
        ...     store.update(0.5, action)
        >>> agent.n_episodes, agent.visits(0, [0.3], actions[0])
        (50, 50)
        """
        return Episode(self, *episodes.begin(self))

    @reading
    def act_batch(self, steps: Any, observations: Any, *, info: Any = None) -> Any:
        """Return actions to learn from, one per observation. Nothing is learned or changed.

        Parameters
        ----------
        steps, observations
            A batch of observations, and the step of each, from 0.
        info : dict or sequence of dicts, optional
            One dict per observation, see `predict`.

        Returns
        -------
        batch of actions
            As `predict` returns them.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> agent.act_batch([0, 0, 4], [[0.1], [0.2], [0.9]]).shape
        (3, 1)
        """
        if self.is_guided and self.guide.ledger.plays_rule():
            return self.guide.predict(observations, steps, info=info)[0]
        given, states, is_batch = self.problem.check_steps(observations, steps)
        infos = split_info(info, len(states), is_batch)
        allowed = [
            self._feasible(step, one) for step, one in zip(given.tolist(), infos, strict=True)
        ]
        actions = self.explore_many(given, states, allowed)
        return self.axes.shaped_action(actions if is_batch else actions[0])

    warm_start = warm_starts.warm_start

    @property
    def interrupted_history(self) -> History | None:
        """The finished episodes of the latest learn() if an exception ended it, otherwise None."""
        return None if self.run.latest is None else self.run.latest.final_history()

    learn_from = UpperMethod()
    to_log = UpperMethod()
    export = UpperMethod()
    explain = UpperMethod()
    show = UpperMethod()

    # --- one step at a time -----------------------------------------------------------------------

    @abstractmethod
    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action to play while learning.

        Parameters
        ----------
        step, observation
            Step of the episode, from 0, and the observation of the environment.
        info : dict, optional
            Info of the observation. `action_mask`, `action_low` and `action_high` in it
            restrict the action, see `zooming.spaces.masks`.
        """

    @abstractmethod
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
        """Learn from one transition. A TransitionError leaves the agent unchanged.

        Parameters
        ----------
        step, observation, action
            Step of the episode, from 0, the observation, and the action that was played.
        reward, next_observation
            The reward of the step, and the observation after it.
        terminated : bool, default False
            Whether the environment ended the episode. The value of the next observation is then 0.
        next_info : dict, optional
            Info of the next observation. If it restricts actions, only feasible ones count for the
            value of the next observation.
        """

    def learn_transitions(self, recorded: Transitions, done: Ints | None = None) -> None:
        """Learn from recorded transitions, as if `update` were called for each in order.

        done[0] counts the learned ones: after an error or an interrupt, learning resumes there.
        """
        update_each(self, recorded, done)

    @property
    def n_episodes(self) -> int:
        """Number of episodes begun. An episode counts at its update of step 0.

        If an interrupt stops an episode at a split, the next learn() continues and counts it.
        """
        return self._n_episodes

    def set_n_episodes(self, n: int) -> None:
        """Set the number of episodes. Agents that count their episodes themselves ignore it."""
        self._n_episodes = n

    # --- many episodes at once, see `episodes` ----------------------------------------------------

    def prepare_play(self) -> None:
        """Do what is due before an episode begins, such as a plan. It may take long."""
        return  # most agents plan nothing

    def draw_play(self, play: Play) -> dict[str, Any]:
        """Return how an episode with the seed of `play` is played, as JSON values."""
        return {}

    def count_play(self, play: Play) -> None:
        """Count an episode that begins."""
        return  # most agents count at the first update

    def act_play(
        self, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        """Return the action for a step of an episode. It must not change what was learned."""
        return self.act(step, observation, **({"info": info} if info else {}))

    def update_play(
        self, play: Play, transition: tuple[Any, ...], masks: Mapping[str, Any]
    ) -> None:
        """Learn from a step of an episode. The arguments are those of `update`."""
        self.update_and_count(transition, masks)

    def update_and_count(self, transition: tuple[Any, ...], masks: Mapping[str, Any]) -> None:
        """Call `update`, and count the episode at step 0 if a class of a user's own does not."""
        n_before = self.n_episodes
        self.update(*transition, **masks)
        if transition[0] == 0 and self.n_episodes == n_before:
            self.set_n_episodes(n_before + 1)

    def update_checked(
        self, transition: tuple[Any, ...], point: Checked, masks: Mapping[str, Any]
    ) -> None:
        """Call `update`. A class may read `point` instead of checking the transition again."""
        self.update(*transition, **masks)

    def end_play(self, play: Play, total: float) -> None:
        """Count the return of an episode that has ended."""
        return  # most agents learn from steps alone

    def abandon_play(self, play: Play) -> None:
        """Forget an episode that has begun, and that will have no return."""
        return

    def explore_many(self, steps: Ints, states: Floats, allowed: Allowed) -> Floats:
        """Return one flat action to learn from per (step, state). Nothing changes."""
        return self.greedy_actions(steps, states, False, allowed)

    def drop_paused(self) -> None:
        """Drop an episode that was paused to cover a ball of a metric."""
        return  # most agents have none

    # --- inputs -----------------------------------------------------------------------------------

    def checked_state(self, step: int, observation: Any) -> Floats:
        """Return the observation as a float64 vector in its bounds. Rounding errors are clipped.

        Raise TransitionError if it is not a state of the environment, or `step` is outside the
        episode. For agents of your own.
        """
        problem = self.problem
        step = problem.check_step(step)
        return problem.check_point(step, problem.flat_state(step, observation), 0)

    def checked_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> Checked:
        """Return (state, action, reward, next state), each validated like `checked_state`.

        With `rewards="clip"`, a reward outside the range is clipped and counted. Raise
        TransitionError if a value is invalid. For agents of your own.
        """
        checked = self.problem.check_transition(step, observation, action, reward, next_observation)
        if checked[2] != as_float(reward):
            count_clipped(self)
        return checked

    @property
    def n_clipped(self) -> int:
        """Number of rewards that were clipped; 0 with `rewards="refuse"`."""
        return int(self.run.clipping[1])

    # --- files ------------------------------------------------------------------------------------

    def get_params(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, its seed included.

        `type(agent)(env, **agent.get_params())` is an equal agent that has learned nothing. The
        arguments of a class of your own are read from the attributes of the same names.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=0.5, seed=7)
        >>> params = agent.get_params()
        >>> params["bonus"], params["horizon"], params["seed"]
        (Scaled(c=0.5), 5, 7)
        """
        return options_of(self)

    def saved_options(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, as JSON values."""
        return self._to_json(self.get_params())

    def fixed_options(self) -> dict[str, Any]:
        """Return the options that the class of this agent sets itself, as JSON values."""
        return self._to_json(fixed_options_of(self))

    def option_values(self) -> dict[str, Any]:
        """Return the options of zooming's own classes that this agent has."""
        return {**self.problem.options, "seed": self.seed}

    def _to_json(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return some options of this agent as JSON values."""
        return options

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learned as JSON values and arrays."""
        raise NotImplementedError

    saved_state.is_missing = True  # type: ignore[attr-defined]  # a class that defines it can be saved

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what `saved_state` returned; raise ValueError or KeyError if it is invalid."""
        raise NotImplementedError

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        """Return a new agent with those of the options that its constructor accepts."""
        return build_agent(cls, env, options)

    # --- the policy -------------------------------------------------------------------------------

    @property
    def is_guided(self) -> bool:
        """Whether the rule of a warm start is still in use."""
        return self.guide is not None and bool(self.guide.is_open)

    @reading
    @known_options
    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        info: Any = None,
    ) -> tuple[Any, Ints]:
        """Play one step: return the greedy action, and the step to give as `state` next time.

        The policy depends on the step, which is `state`. Without `state` it is 0, so a loop that
        leaves it out plays the first step for ever; `agent.policy()` keeps the step for such a
        loop. The signature is that of Stable-Baselines3. Learning is not affected.

        `predict` warns once of two calls in a row without `state` (and `episode_start`), if the
        second observation cannot be a start: if the environment states another one, or if 20 or
        more episodes that `learn` played in Python all began in another one.

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
        (action, state)
            The action, or a batch of actions, and the next step of each environment.
        """
        if self.is_guided:
            found: tuple[Any, Ints] = self.guide.predict(
                observation, state, episode_start, deterministic, info=info
            )
            return found
        steps, states, is_batch = self.problem.check_steps(observation, state, episode_start)
        self._watch_step(states, state is not None or episode_start is not None)
        infos = split_info(info, len(states), is_batch)
        allowed = [
            self._feasible(step, one) for step, one in zip(steps.tolist(), infos, strict=True)
        ]
        actions = self.greedy_actions(steps, states, deterministic, allowed)
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
        >>> observation, info = env.reset(seed=0)
        >>> is_over = False
        >>> while not is_over:
        ...     observation, reward, is_over, truncated, info = env.step(policy(observation))
        >>> policy.step
        5
        """
        return Policy(self)

    def _only_start(self) -> Floats | None:
        """Return the flat state in which every episode begins, or None if that is not known."""
        compiled = None if self.env is None else find_compiled(self.env)
        if compiled is not None and compiled.start_kind == FIXED:
            states = compiled.observations(compiled.start_law.states)
            return np.asarray(self.axes.flat_states(states)[0][0])
        if compiled is not None:
            return None
        state, n_seen = self.run.seen_start or (None, 0)
        return state if n_seen >= ENOUGH_STARTS else None

    def _watch_step(self, states: Floats, has_step: bool) -> None:
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

    def greedy(self, step: int, state: Floats) -> Any:
        """Return the flat action of the learned policy, without learning and without random draws.

        `state` is a vector from `checked_state`. The action has the form that `checked_transition`
        returns, between `axes.action_ends`.
        """
        if type(self).greedy_actions is Agent.greedy_actions:
            raise NotImplementedError(
                f"{type(self).__name__} does not say what its policy plays: define greedy(self, "
                "step, state)"
            )
        return self.greedy_actions(
            np.array([self.problem.check_step(step)]), state.reshape(1, -1), True, [None]
        )[0]

    def greedy_actions(
        self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed
    ) -> Floats:
        """Return one flat action per (step, state), each among the `allowed` ones; None: any."""
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

    def nearest_feasible(self, step: int, action: Any, info: Mapping[str, Any] | None) -> Floats:
        """Return the flat action nearest to the flat `action` among those that `info` allows."""
        return self._nearest(as_numbers(action, "action"), self._feasible(step, info))

    def _feasible(self, step: int, info: Mapping[str, Any] | None) -> Feasible | None:
        return (
            feasible(self.axes, info, f"{self.env_name}, step {step}")
            if info and has_mask(info)
            else None
        )

    def _nearest(self, action: Floats, allowed: Feasible | None) -> Floats:
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
        step, observation, action
            Step of the episode, from 0, and the pair, in the units of the environment.
        """
        raise self._no_estimate()

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        """Return V(observation): the largest Q of the relevant balls, at most the largest return.

        Parameters
        ----------
        step, observation
            Step of the episode, from 0, and the observation, in the units of the environment.
        info : dict, optional
            Info of the observation. Balls without a feasible action are ignored.
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
        """Number of active balls, summed over all steps; of a `Planner`, cells of its grid.

        A portfolio, such as `Auto`, counts those of the agent that played last.
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

    def should_earn(self) -> tuple[float, float] | None:
        """Return (mean return that the policy should earn, standard error); None if unknown."""
        return None

    def doubts(self) -> list[str]:
        """Return one sentence per suspected problem, for `status()`."""
        return self._doubt_short_horizon()

    def _doubt_short_horizon(self) -> list[str]:
        """Return a sentence if the horizon cut off episodes that the environment would go on with.

        Nothing is doubted if the environment states no larger number of steps, or always ends
        before the horizon.
        """
        stated = None if self.env is None else stated_steps(self.env)
        is_short = stated is not None and stated > self.horizon and self.run.was_cut
        if stated is None or not is_short or self.n_episodes < UNDOUBTED:
            return []
        return [
            f"episodes went on when horizon={self.horizon} ended them, and "
            f"{self.env_name} states up to {stated:,} steps: what comes later is not "
            "learned; if it matters, leave out horizon="
        ]

    @reading
    def status(self) -> Status:
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
        return Status({
            "episodes": self.n_episodes,
            "horizon": self.horizon,
            **({self.counted: self.n_balls} if self.n_balls else {}),
            "bytes": self.nbytes,
            **self._status(),
            **({"rewards clipped": self.n_clipped} if self.n_clipped else {}),
            **({} if self.guide is None else {"rule": self.guide.status()}),
            "warnings": self.doubts(),
        })  # fmt: skip

    def _status(self) -> dict[str, Any]:
        """Return the entries of `status()` that only this kind of agent has."""
        return {}

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file, atomically. An agent from `zooming.load` continues exactly.

        Parameters
        ----------
        path : str or PathLike
            The file. A symbolic link is followed.

        Raises
        ------
        ConfigurationError, OSError
            If the agent, such as one with an oracle of your own, or the path cannot be written.
        """
        self.run.is_asked = True
        with self.run.lock:
            stored.save(self, path)

    def check_savable(self) -> None:
        """Raise ConfigurationError if `save` would refuse this agent. Long runs call it first."""
        if type(self).save is Agent.save:  # a class with its own `save` decides itself
            stored.check_class(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> Self:
        """Load an agent of this class, which may be your own, from a file of `save`.

        `zooming.load` does the same for zooming's own classes, and describes `env`.
        """
        return stored.load_as(cls, path, env)


class Delegate(Agent):
    """Base class of agents that take policy, Q and balls from another agent, `recommended`."""

    @property
    @abstractmethod
    def recommended(self) -> Agent:
        """The agent whose policy `predict` plays."""

    @property
    def interpolates(self) -> bool:  # type: ignore[override]
        """Whether the recommended policy's action varies within a ball."""
        return self.recommended.interpolates

    def greedy_actions(
        self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed
    ) -> Floats:
        return self.recommended.greedy_actions(steps, states, deterministic, allowed)

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        return self.recommended.value(step, observation, info=info)

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        return self.recommended.q_value(step, observation, action)

    def visits(self, step: int, observation: Any, action: Any) -> int:
        return self.recommended.visits(step, observation, action)

    def partition(self, step: int) -> Partition:
        return self.recommended.partition(step)
