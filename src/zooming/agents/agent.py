"""The base class of all agents: how one is made, trained and saved."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from zooming.agents.history import History
from zooming.agents.learning_problem import LearningProblem
from zooming.agents.policy import READING, reading
from zooming.agents.seeds import generator_at, seed_of
from zooming.agents.step_learner import StepLearner
from zooming.upper import UpperMethod
from zooming.validation import known_options

if TYPE_CHECKING:
    from zooming.agents.warm_start import WarmStartOptions


class Agent(StepLearner):
    """Base class of all agents: learns a policy for episodes of `horizon` steps.

    Steps are counted from 0. An axis is named `state[0]`, `action["gear"]`, ...; the name of a
    space (`state`) means all its axes.

    To write an agent of your own, define `act`, `update` and `greedy`. `learn`, `predict` and the
    callbacks then work. `checked_state` and `checked_transition` validate inputs, and
    `zooming.check_agent` tests the result. To be saved it also needs `_state` and `_restore`. An
    agent with a table of balls is a `zooming.agents.q_learner.QLearner`, which has all of these.

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
        if "__init__" in cls.__dict__:
            cls.__init__ = known_options(cls.__init__)  # type: ignore[method-assign]
        for name in READING:
            if callable(method := cls.__dict__.get(name)):
                setattr(cls, name, reading(method))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the lock, so that an agent can be copied and pickled."""
        return {name: one for name, one in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()

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
        self.clipping = np.array([rewards == "clip", 0])  # whether to clip, number clipped
        self.has_warned_of_clipping = False
        self.seed = seed_of(seed)
        self.env = env
        self.stored_env: dict[str, Any] | None = None  # from a file, if loaded without env
        self._n_episodes = 0
        self.was_cut = False  # whether an episode of learn() went on when the horizon ended it
        self.env_rng: np.random.Generator | None = None  # of the environment; set by learn()
        self.learner = 0  # thread that runs learn(), 0 if none does
        self.latest_run: Any = None  # the `Pauses` of a running or failed learn()
        self.stop_flag: threading.Event | None = None  # set by learn_many when it is interrupted
        self.guide: Any = None  # the `Guide` of warm_start()
        # Held while the agent changes or is read. Learning releases it between calls of kernels.
        self.lock = threading.RLock()
        self.is_asked = False  # whether a reader may wait for the lock

    def free_env(self) -> Any:
        """Return the environment to play on, or a copy of it while another thread learns on it."""
        is_free = self.env is None or self.learner in (0, threading.get_ident())
        return self.env if is_free else copy.deepcopy(self.env)

    # --- learning ---------------------------------------------------------------------------------

    @known_options
    def learn(
        self,
        episodes: int,
        *,
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
        from zooming.agents import training  # imported here because drivers import agents

        return training.learn(
            self,
            episodes,
            progress_bar=progress_bar,
            driver=driver,
            checkpoints=checkpoints,
            callback=callback,
        )

    def warm_start(
        self, rule: Any, episodes: int = 200, **options: Unpack[WarmStartOptions]
    ) -> History:
        """Play a rule and learn from it.

        Later calls of `learn` keep the rule until the agent is as good. While the rule is kept,
        `predict` plays the rule. See `zooming.agents.warm_start`.

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
        from zooming.agents.warm_start import warm_start  # imported here because it uses agents

        return warm_start(self, rule, episodes, **options)

    @property
    def interrupted_history(self) -> History | None:
        """The finished episodes of the latest learn() if an exception ended it, otherwise None."""
        return None if self.latest_run is None else self.latest_run.final_history()

    learn_from = UpperMethod()
    to_log = UpperMethod()

    @property
    def env_generator(self) -> dict[str, Any] | None:
        """State of the environment's generator before the next episode.

        It is None before learn().
        """
        return None if self.env_rng is None else dict(self.env_rng.bit_generator.state)

    @env_generator.setter
    def env_generator(self, state: dict[str, Any] | None) -> None:
        self.env_rng = None if state is None else generator_at(state)

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
            If the agent cannot be saved, for example with a split rule of your own.
        OSError
            If the path exists and is not a regular file, or its folder does not exist.
        """
        from zooming.agents import checkpoints  # imported here because checkpoints import agents

        self.is_asked = True
        with self.lock:
            checkpoints.save(self, path)

    def check_savable(self) -> None:
        """Raise ConfigurationError if `save` would refuse this agent. Long runs call it first."""
        from zooming.agents import checkpoints

        checkpoints.check_savable(self)

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
        from zooming.agents import checkpoints

        return checkpoints.load_as(cls, path, env)
