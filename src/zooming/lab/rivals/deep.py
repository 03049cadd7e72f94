"""The learners of Stable-Baselines3 as agents."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.errors import ConfigurationError
from zooming.kernels import LOW, WIDTH
from zooming.lab.rivals.bins import ActionGrid
from zooming.lab.rivals.rival import LibraryAgent, Transition, import_library
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, check_choice, check_float, check_int

_ONE_AT_A_TIME = threading.RLock()


class _Closed(BaseException):
    """Raised to end the loop of a learner whose agent is gone."""


class Handover:
    """Connect the loop of a library, which sees `env`, with the agent, which calls `advance`.

    `run` starts the loop of the library. It is called in a thread of its own and should not return.
    """

    def __init__(self, env_spaces: tuple[gym.Space[Any], gym.Space[Any]]) -> None:
        self.env = _Env(self, *env_spaces)
        self.run: Callable[[], Any] = lambda: None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._generators: tuple[Any, Any] | None = None
        self._fault: str | None = None

    @contextmanager
    def own_generators(self) -> Iterator[None]:
        """Replace the global generators by those of the learner in the `with` block."""
        import torch

        with _ONE_AT_A_TIME:
            before = np.random.get_state(), torch.get_rng_state()
            if self._generators is not None:
                np.random.set_state(self._generators[0])
                torch.set_rng_state(self._generators[1])
            try:
                yield
            finally:
                self._generators = np.random.get_state(), torch.get_rng_state()
                np.random.set_state(before[0])
                torch.set_rng_state(before[1])

    def advance(self, *answers: Any) -> Any:
        """Pass answers one by one to the waiting loop. Return the action that it plays next.

        The answer to `reset` is an observation. The answer to `step` is (observation, reward,
        terminated, truncated).
        """
        if self._fault is not None:
            raise ConfigurationError(self._fault)
        with self.own_generators():
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, daemon=True)
                self._thread.start()
                self._wait()  # for reset
            for answer in answers:
                self._answers.put(answer)
                action = self._wait()
        return action

    def close(self) -> None:
        """End the thread. Nothing can be learned afterwards."""
        self._answers.put(_Closed())

    def _wait(self) -> Any:
        """Return the next request of the loop: None for `reset`, an action for `step`."""
        try:
            asked = self._asked.get()
        except BaseException:  # an interrupt
            self._fault = "learning was interrupted within a step of its library; make a new agent"
            self.close()
            if self._thread is not None:
                self._thread.join()  # the generators are exchanged only when it has ended
            raise
        if isinstance(asked, BaseException):
            self._fault = f"its library failed before: {asked}"
            raise asked
        return asked

    def ask(self, action: Any) -> Any:
        """Pass an action (None for `reset`) to the agent, and return its answer."""
        self._asked.put(action)
        answer = self._answers.get()
        if isinstance(answer, _Closed):
            raise answer
        return answer

    def _loop(self) -> None:
        try:
            self.run()
            self._asked.put(RuntimeError("the loop of the library ended"))
        except _Closed:
            return
        except BaseException as error:
            self._asked.put(error)


class _Env(gym.Env[Any, Any]):
    """The environment that the library sees."""

    def __init__(
        self, handover: Handover, observations: gym.Space[Any], actions: gym.Space[Any]
    ) -> None:
        self.observation_space, self.action_space = observations, actions
        self._handover = handover

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._handover.ask(None), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated = self._handover.ask(action)
        return observation, reward, terminated, truncated, {}


CONTINUOUS = ("SAC", "TD3")  # play boxes only
GRIDDED = ("DQN",)  # play the points of a grid
ALGORITHMS = ("PPO", "SAC", "TD3", "DQN")
_OURS = ("policy", "env", "seed")  # options that the adapter sets
_FOREVER = 2**60  # steps: the agent, not the library, decides when to stop


class DeepAgent(LibraryAgent):
    """A learner of Stable-Baselines3 with its default settings, and the step in the observation.

    An observation holds every state axis scaled to [-1, 1], or one-hot if it is categorical, and
    the step scaled to [-1, 1]. Rewards are divided by the span of `reward_range`. The end of the
    horizon is terminal. The discount is 1, because returns are not discounted. Everything else is
    the library's default. Every step that the library plays is a step of `learn`.

    Continuous actions are scaled to [-1, 1]. TD3 has no exploration noise in the library, so it
    gets the noise of its paper. DQN plays a grid of `bins` points per action axis, both ends
    included. torch is set to one thread. The agent cannot be saved.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    algorithm : {"PPO", "SAC", "TD3", "DQN"}
        The class of Stable-Baselines3.
    settings : dict, optional
        Arguments of that class, for example {"learning_rate": 0.001}.
    bins : int, default 11
        Points of the grid along each action axis, for DQN.
    noise : float, default 0.1
        Standard deviation of the noise that TD3 adds to actions in [-1, 1].
    episodes : int, default 2000
        Number of episodes for DQN's exploration schedule. A study passes its own number.
    **options
        Options of `Agent`: horizon, reward_range, rewards, bounds, ordered, squash, weights,
        names, seed.

    Raises
    ------
    ConfigurationError
        If the library is missing, or cannot play such actions.

    Examples
    --------
    >>> import gymnasium as gym
    >>> agent = DeepAgent(gym.make("zooming/Oil-v0"), "PPO", {"n_steps": 64}, seed=0)
    >>> history = agent.learn(20)
    >>> len(history), agent.n_episodes
    (20, 20)
    """

    family = "sb3"

    def __init__(
        self,
        env: Any,
        algorithm: str,
        settings: Mapping[str, Any] | None = None,
        *,
        bins: int = 11,
        noise: float = 0.1,
        episodes: int = 2000,
        **options: Any,
    ) -> None:
        super().__init__(env, algorithm, settings, **options)
        self.bins = check_int(bins, "bins", 2, 10_000)
        self.noise = check_float(noise, "noise", 0.0, 10.0)
        self.episodes = check_int(episodes, "episodes", 1)
        check_choice("algorithm", algorithm, ALGORITHMS)
        learner = getattr(import_library("stable_baselines3"), algorithm)
        self._check_settings(learner, _OURS)
        self._coder = _Coder(self)
        self._actions = _make_actions(self)
        handover = Handover((self._coder.space, self._actions.space))
        self._handover = handover
        self.model = _make_model(self, learner, handover)
        handover.run = _make_loop(self.model)
        weakref.finalize(self, handover.close)
        self._played: tuple[Any, float, bool] | None = None  # the outcome that came last

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action that the library plays while it learns."""
        state = self.checked_state(step, observation)
        allowed = self._feasible(step, info)
        if self._asked is not None:
            # The last action led to no transition, so the library still waits for its outcome.
            self._asked = self._nearest(self._asked.copy(), allowed)
            return self.axes.shaped_action(self._asked.copy())
        seen = self._coder.encode(np.array([step]), state[None])[0]
        answers: list[Any] = []
        if self._played is not None:
            after, reward, terminated = self._played
            answers.append((after, reward, terminated, step == 0 and not terminated))
        if self._played is None or step == 0 or self._played[2]:
            answers.append(seen)  # the answer to reset, by which every episode begins
        action = self._actions.flat(self._handover.advance(*answers))
        self._asked, self._played = self._nearest(action, allowed), None
        return self.axes.shaped_action(self._asked.copy())

    def _learn(self, seen: Transition) -> None:
        # The library learns from the transition when the next action is asked for.
        self._check_asked(seen.action)
        after = self._coder.encode(np.array([seen.step + 1]), seen.next_state[None])[0]
        span = self.reward_range[1] - self.reward_range[0]
        self._played, self._asked = (after, seen.reward / span, seen.is_last), None

    def _policy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        seen = self._coder.encode(steps, states)
        found = self.model.policy.predict(seen, deterministic=deterministic)[0]
        return np.array([self._actions.flat(one) for one in found])

    @property
    def nbytes(self) -> int:
        """Memory of the networks and of the filled part of the buffer, in bytes."""
        networks: int = sum(
            one.numel() * one.element_size() for one in self.model.policy.parameters()
        )
        is_off_policy = hasattr(self.model, "replay_buffer")
        buffer = self.model.replay_buffer if is_off_policy else self.model.rollout_buffer
        arrays = [one for one in vars(buffer).values() if isinstance(one, np.ndarray)]
        return networks + sum(one[: buffer.size()].nbytes for one in arrays)


class _Coder:
    """Convert states and steps to the observations of a network."""

    def __init__(self, agent: Agent) -> None:
        axes = agent.axes
        self._horizon = agent.horizon
        self._low = axes.table[: axes.n_state, LOW]
        self._width = np.where(
            axes.table[: axes.n_state, WIDTH] > 0, axes.table[: axes.n_state, WIDTH], 1.0
        )
        kinds = axes.kinds[: axes.n_state]
        self._plain = np.flatnonzero([kind != CATEGORICAL for kind in kinds])
        self._values = {
            i: np.arange(axes.low[i], axes.high[i] + 1)
            for i in range(axes.n_state)
            if kinds[i] == CATEGORICAL
        }
        n = len(self._plain) + sum(map(len, self._values.values())) + 1
        self.space = gym.spaces.Box(-1.0, 1.0, (n,), np.float32)

    def encode(self, steps: NDArray[np.int64], states: Floats) -> NDArray[np.float32]:
        shares = 2.0 * (states - self._low) / self._width - 1.0
        columns = [shares[:, self._plain]]
        columns += [states[:, [i]] == values for i, values in self._values.items()]
        columns.append((2.0 * steps / self._horizon - 1.0)[:, None])
        found: Floats = np.clip(np.concatenate(columns, axis=1), -1.0, 1.0)
        return found.astype(np.float32)


class _Box:
    """Continuous actions. The library sees them scaled to [-1, 1]."""

    def __init__(self, agent: Agent) -> None:
        self._low, self._high = agent.axes.action_ends
        self.space = gym.spaces.Box(-1.0, 1.0, (agent.axes.n_action,), np.float32)

    def flat(self, action: Any) -> Floats:
        shares = (np.clip(np.asarray(action, np.float64), -1.0, 1.0) + 1.0) / 2.0
        return np.clip(self._low + shares * (self._high - self._low), self._low, self._high)


class _Points:
    """Actions that are the points of a grid. The library sees their indices."""

    def __init__(self, agent: Agent, bins: int) -> None:
        self._grid = ActionGrid(agent.axes, bins).actions
        self.space = gym.spaces.Discrete(len(self._grid))

    def flat(self, action: Any) -> Floats:
        found: Floats = self._grid[int(action)]
        return found.copy()


def _make_actions(agent: DeepAgent) -> _Box | _Points:
    """Return the converter of actions for the library: `_Box` or `_Points`.

    Raise ConfigurationError if the library cannot play the actions of the environment.
    """
    are_boxes = [kind == INTERVAL for kind in agent.axes.kinds[agent.axes.n_state :]]
    if agent.algorithm in GRIDDED:
        return _Points(agent, agent.bins)
    if all(are_boxes):
        return _Box(agent)
    if agent.algorithm in CONTINUOUS:
        raise ConfigurationError(
            f"{agent.label} plays continuous actions only, and the actions of "
            f"{agent.env_name} are whole numbers, at least in part; take sb3:PPO or sb3:DQN"
        )
    if any(are_boxes):
        raise ConfigurationError(
            f"{agent.label} plays either continuous actions or whole numbers, but "
            f"{agent.env_name} has axes of both kinds; take sb3:DQN, which plays a grid"
        )
    return _Points(agent, 100_000)


def _make_model(agent: DeepAgent, learner: Any, handover: Handover) -> Any:
    """Make the library's learner, with its own random generators."""
    import random

    import torch

    torch.set_num_threads(1)
    ours: dict[str, Any] = {"gamma": 1.0, "device": "cpu"}
    if agent.algorithm == "TD3":
        n = agent.axes.n_action
        noises = import_library("stable_baselines3.common.noise")
        ours["action_noise"] = noises.NormalActionNoise(np.zeros(n), np.full(n, agent.noise))
    seed = seeds.derive_seed(agent.seed, "agent", np.uint32) >> 1
    before = random.getstate()
    with handover.own_generators():
        model = learner("MlpPolicy", handover.env, **{**ours, **agent.settings, "seed": seed})
    random.setstate(before)
    if agent.algorithm == "DQN":
        # The library's schedule is a share of all steps, which it is not told here.
        schedule, planned = model.exploration_schedule, agent.episodes * agent.horizon
        model.exploration_schedule = lambda _: schedule(
            max(0.0, 1.0 - model.num_timesteps / planned)
        )
    return model


def _make_loop(model: Any) -> Callable[[], Any]:
    def loop() -> None:
        import torch

        torch.set_num_threads(1)  # threads have their own number
        model.learn(_FOREVER)

    return loop
