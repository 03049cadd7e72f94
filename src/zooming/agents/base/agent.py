"""The base class of all agents: how one is made, trained and saved."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import episodes
from zooming.agents.base.episodes import Episode, Play
from zooming.agents.base.policy import READING, LearnedPolicy, check_steps, reading
from zooming.agents.base.problem import LearningProblem
from zooming.agents.base.run_state import RunState
from zooming.agents.base.seeds import seed_of
from zooming.agents.base.status import count_clipped
from zooming.agents.files import checkpoints as stored
from zooming.agents.files import registry
from zooming.agents.files.options import build_agent, fixed_options_of, options_of
from zooming.agents.training.history import History
from zooming.agents.training.replay import Transitions, update_each
from zooming.agents.warm.warm_start import WarmStartOptions, warm_start
from zooming.spaces.masks import Feasible, split_info
from zooming.upper import UpperMethod
from zooming.validation import as_float, known_options


class StepLearner(LearnedPolicy):
    """Base class of `Agent` with the methods that a subclass defines or calls.

    A subclass defines `act` and `update`. To be saved, it also defines `_state` and `_restore`.
    Every instance is an `Agent`; the casts below tell mypy so.
    """

    _n_episodes: int

    # --- one step at a time -----------------------------------------------------------------------

    @abstractmethod
    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action to play while learning.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation : Any
            The observation of the environment.
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
        reward : float
            The reward of the step.
        next_observation : Any
            The observation after the step.
        terminated : bool, default False
            Whether the environment ended the episode. The value of the next observation is then 0.
        next_info : dict, optional
            Info of the next observation. If it restricts actions, only feasible ones count for the
            value of the next observation.
        """

    def _learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        """Learn from recorded transitions. The result equals calling `update` for each in order.

        If a transition is bad, TransitionError is raised and the ones before it stay learned.
        done[0] counts the learned transitions. After an interrupt, learning resumes there.
        """
        update_each(cast("Agent", self), recorded, done)

    # --- episodes ---------------------------------------------------------------------------------

    @property
    def n_episodes(self) -> int:
        """Number of episodes begun. The agent counts an episode at its update of step 0.

        In an agent class of your own, learn() counts the episodes. If an interrupt stops an episode
        at a split, the next learn() continues that episode, and it counts when it is finished.
        """
        return self._n_episodes

    def _take_n_episodes(self, n: int) -> None:
        """Set the number of episodes, given by learn() or a file.

        Agents that count their episodes themselves ignore it.
        """
        self._n_episodes = n

    # --- many episodes at once, see `episodes` ----------------------------------------------------

    interleaves = True  # whether several episodes may be open at a time
    sees_outcomes = False  # whether `update` wants the info of each step

    def prepare_play(self) -> None:
        """Do what is due before an episode begins, such as a plan. It may take long."""

    def draw_play(self, play: Play) -> dict[str, Any]:
        """Return how an episode with the seed of `play` is played, as JSON values."""
        return {}

    def count_play(self, play: Play) -> None:
        """Count an episode that begins."""

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
            self._take_n_episodes(n_before + 1)

    def end_play(self, play: Play, total: float) -> None:
        """Count the return of an episode that has ended."""

    def explore_many(
        self,
        steps: NDArray[np.int64],
        states: NDArray[np.float64],
        allowed: Sequence[Feasible | None],
    ) -> NDArray[np.float64]:
        """Return one flat action to learn from per (step, state). Nothing changes."""
        return self._greedy(steps, states, False, allowed)

    def drop_paused(self) -> None:
        """Drop an episode that was paused to cover a ball of a metric."""
        return  # most agents have none

    # --- inputs -----------------------------------------------------------------------------------

    def checked_state(self, step: int, observation: Any) -> NDArray[np.float64]:
        """Return the observation as a float64 vector in its bounds. Rounding errors are clipped.

        Parameters
        ----------
        step : int
            Step of the episode, from 0.
        observation : Any
            An observation of the environment.

        Raises
        ------
        TransitionError
            If the observation is not a state of the environment, or `step` is outside the episode.
        """
        problem = self.problem
        step = problem.check_step(step)
        return problem.check_point(step, problem.flat_state(step, observation), 0)

    def checked_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]:
        """Return (state, action, reward, next state), each validated like `checked_state`.

        With `rewards="clip"`, a reward outside the range is clipped and counted.

        Parameters
        ----------
        step, observation, action, reward, next_observation
            The transition, as `update` takes it.

        Raises
        ------
        TransitionError
            If a value is invalid.
        """
        checked = self.problem.check_transition(step, observation, action, reward, next_observation)
        if checked[2] != as_float(reward):
            count_clipped(cast("Agent", self))
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

        Returns
        -------
        dict
            The value of each argument but `env`.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), bonus=0.5, seed=7)
        >>> params = agent.get_params()
        >>> params["bonus"], params["horizon"], params["seed"]
        (Scaled(c=0.5), 5, 7)
        """
        return options_of(self)

    def _options(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, as JSON values."""
        return self._to_json(self.get_params())

    def _fixed_options(self) -> dict[str, Any]:
        """Return the options that the class of this agent sets itself, as JSON values."""
        return self._to_json(fixed_options_of(self))

    def _known_options(self) -> dict[str, Any]:
        """Return the options of zooming's own classes that this agent has."""
        return {**self.problem.options, "seed": self.seed}

    def _to_json(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return some options of this agent as JSON values."""
        return options

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what was learned as JSON values and arrays."""
        raise NotImplementedError

    _state.is_missing = True  # type: ignore[attr-defined]  # a class that defines it can be saved

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what `_state` returned; raise ValueError or KeyError if it is invalid."""
        raise NotImplementedError

    @classmethod
    def _from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        """Return a new agent with those of the options that its constructor accepts.

        `_restore` then restores what was learned.
        """
        return build_agent(cls, env, options)


class Agent(StepLearner):
    """Base class of all agents: learns a policy for episodes of `horizon` steps.

    Steps are counted from 0. An axis is named `state[0]`, `action["gear"]`, ...; the name of a
    space (`state`) means all its axes.

    To write an agent of your own, define `act`, `update` and `greedy`. `learn`, `predict` and the
    callbacks then work. `checked_state` and `checked_transition` validate inputs, and
    `zooming.check_agent` tests the result. To be saved it also needs `_state` and `_restore`. An
    agent with a table of balls is a `zooming.agents.tables.q_learner.QLearner`, which has all of
    these.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    horizon : int, optional
        Steps of an episode. By default the environment's own number.
    reward_range : (float, float), default (0.0, 1.0)
        Lowest and highest reward of one step. `zooming.reward_range(env)` proposes a range.
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

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        registry.register(cls)
        if "__init__" in cls.__dict__:
            cls.__init__ = known_options(cls.__init__)  # type: ignore[method-assign]
        for name in READING:
            if callable(method := cls.__dict__.get(name)):
                setattr(cls, name, reading(method))

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
        self.guide: Any = None  # the `Guide` of warm_start()

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
            episodes,
            env=env,
            progress_bar=progress_bar,
            driver=driver,
            checkpoints=checkpoints,
            callback=callback,
        )
        return history

    _drive = UpperMethod()

    def begin(self) -> Episode:
        """Begin an episode. Any number of them may be open at a time.

        How the episode is played is fixed here: by which agent of a portfolio, and by which plan
        of a planner. Its return is credited to those. What is learned depends on the order of
        `begin`, `update` and `abandon` over all episodes, and on nothing else: `act` changes
        nothing. `save` does not store open episodes.

        Returns
        -------
        Episode
            Call `act`, then `update`, until `is_over`; or `abandon`.

        Raises
        ------
        ConfigurationError
            If this class plays one episode at a time, and one is open.

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
        steps : array of int
            Step of each observation, from 0.
        observations : Any
            A batch of observations.
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
        given, states, is_batch = check_steps(self.problem, observations, steps, None)
        infos = split_info(info, len(states), is_batch)
        allowed = [
            None if one is None else self._feasible(step, one)
            for step, one in zip(given.tolist(), infos, strict=True)
        ]
        actions = self.explore_many(given, states, allowed)
        return self.axes.shaped_action(actions if is_batch else actions[0])

    def warm_start(
        self, rule: Any, episodes: int = 200, **options: Unpack[WarmStartOptions]
    ) -> History:
        """Play a rule and learn from it.

        Later calls of `learn` keep the rule until the agent is as good. While the rule is kept,
        `predict` plays the rule. See `zooming.agents.warm.warm_start`.

        Parameters
        ----------
        rule : function, Agent or rule
            A function `rule(step, observation)` that returns an action, or an object with
            `predict`: an agent, or the rule of a gallery problem.
        episodes : int, default 200
            Number of episodes that the rule plays first, at least 40.
        **options
            confidence, loss, margin and progress_bar, see `WarmStartOptions`.

        Returns
        -------
        History
            The episodes that the rule played.
        """
        return warm_start(self, rule, episodes, **options)

    @property
    def interrupted_history(self) -> History | None:
        """The finished episodes of the latest learn() if an exception ended it, otherwise None."""
        return None if self.run.latest is None else self.run.latest.final_history()

    learn_from = UpperMethod()
    to_log = UpperMethod()

    # --- files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file, atomically. An agent from `zooming.load` continues exactly.

        Parameters
        ----------
        path : str or PathLike
            The file. A symbolic link is followed.

        Raises
        ------
        ConfigurationError
            If the agent cannot be saved, for example with a covering oracle of your own.
        OSError
            If the path exists and is not a regular file, or its folder does not exist.
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
        """Load an agent of this class from a file.

        `zooming.load` does the same for zooming's own classes. Use this method for a class of your
        own, which `zooming.load` does not know.

        Parameters
        ----------
        path : str or PathLike
            A file written by `save`.
        env : gymnasium.Env, optional
            The environment to continue on, see `zooming.load`.
        """
        return stored.load_as(cls, path, env)
