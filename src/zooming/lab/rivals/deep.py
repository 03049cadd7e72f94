"""The learners of Stable-Baselines3 as agents."""

from __future__ import annotations

import inspect
import queue
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.errors import ConfigurationError, OptionError
from zooming.kernels import LOW, WIDTH
from zooming.lab.rivals.grid_q import ActionGrid
from zooming.lab.rivals.rival import Allowed, Rival, Steps, Transition, import_library
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.validation import Floats, check_choice, check_float, check_int, option_names, suggest

ALGORITHMS = ("PPO", "SAC", "TD3", "DQN")
CONTINUOUS = ("SAC", "TD3")  # play boxes only
_SET_HERE = ("policy", "env", "seed")  # options of the library that the adapter sets
_FOREVER = 2**60  # steps: the agent, not the library, decides when to stop
_ONE_AT_A_TIME = threading.RLock()


class _Closed(BaseException):
    """Raised to end the loop of a learner whose agent is gone."""


class Handover(gym.Env[Any, Any]):
    """The environment that a library sees. The agent answers its requests by `advance`.

    `run` starts the loop of the library. It is called in a thread of its own and should not return.
    """

    def __init__(self, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions
        self.run: Callable[[], Any] = lambda: None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._generators: tuple[Any, Any] | None = None
        self._fault: str | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._ask(None), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated = self._ask(action)
        return observation, reward, terminated, truncated, {}

    def _ask(self, action: Any) -> Any:
        """Pass an action (None for `reset`) to the agent, and return its answer."""
        self._asked.put(action)
        answer = self._answers.get()
        if isinstance(answer, _Closed):
            raise answer
        return answer

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

    def _loop(self) -> None:
        try:
            self.run()
            self._asked.put(RuntimeError("the loop of the library ended"))
        except _Closed:
            return
        except BaseException as error:
            self._asked.put(error)


class DeepAgent(Rival):
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
        super().__init__(env, **options)
        self.algorithm, self.settings = algorithm, dict(settings or {})
        self.bins = check_int(bins, "bins", 2, 10_000)
        self.noise = check_float(noise, "noise", 0.0, 10.0)
        self.episodes = check_int(episodes, "episodes", 1)
        check_choice("algorithm", algorithm, ALGORITHMS)
        learner = getattr(import_library("stable_baselines3"), algorithm)
        self._check_settings(learner)
        axes = self.axes
        kinds = axes.kinds[: axes.n_state]
        self._categories = {
            i: np.arange(axes.low[i], axes.high[i] + 1)
            for i in range(axes.n_state)
            if kinds[i] == CATEGORICAL
        }
        self._scaled = [i for i in range(axes.n_state) if i not in self._categories]
        self._grid = self._action_grid()  # None: continuous actions, which the library sees scaled
        n_seen = len(self._scaled) + sum(map(len, self._categories.values())) + 1
        self._handover = Handover(
            gym.spaces.Box(-1.0, 1.0, (n_seen,), np.float32),
            gym.spaces.Box(-1.0, 1.0, (axes.n_action,), np.float32)
            if self._grid is None
            else gym.spaces.Discrete(len(self._grid)),
        )
        self.model = self._make_model(learner)
        self._handover.run = _make_loop(self.model)
        weakref.finalize(self, self._handover.close)
        self._asked: Floats | None = None  # the action that has no outcome yet
        self._played: tuple[Any, float, bool] | None = None  # the outcome that came last

    @property
    def label(self) -> str:
        """The name in studies, such as "sb3:PPO"."""
        return f"sb3:{self.algorithm}"

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action that the library plays while it learns."""
        state = self.checked_state(step, observation)
        allowed = self._feasible(step, info)
        if self._asked is not None:
            # The last action led to no transition, so the library still waits for its outcome.
            self._asked = self._nearest(self._asked.copy(), allowed)
            return self.axes.shaped_action(self._asked.copy())
        seen = self._encode(np.array([step]), state[None])[0]
        answers: list[Any] = []
        if self._played is not None:
            after, reward, terminated = self._played
            answers.append((after, reward, terminated, step == 0 and not terminated))
        if self._played is None or step == 0 or self._played[2]:
            answers.append(seen)  # the answer to reset, by which every episode begins
        action = self._flat(self._handover.advance(*answers))
        self._asked, self._played = self._nearest(action, allowed), None
        return self.axes.shaped_action(self._asked.copy())

    def _learn(self, seen: Transition) -> None:
        # The library learns from the transition when the next action is asked for.
        if self._asked is None or not np.allclose(self._asked, seen.action, rtol=1e-6, atol=1e-12):
            raise ConfigurationError(
                f"{self.label} learns only from the action that act returned last: call act, then "
                "update"
            )
        after = self._encode(np.array([seen.step + 1]), seen.next_state[None])[0]
        span = self.reward_range[1] - self.reward_range[0]
        self._played, self._asked = (after, seen.reward / span, seen.is_last), None

    def _policy(
        self, steps: Steps, states: Floats, deterministic: bool, allowed: Allowed
    ) -> Floats:
        seen = self._encode(steps, states)
        found = self.model.policy.predict(seen, deterministic=deterministic)[0]
        return np.array([self._flat(one) for one in found])

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

    def _encode(self, steps: NDArray[np.int64], states: Floats) -> NDArray[np.float32]:
        """Return the observations of steps and flat states."""
        table = self.axes.table[: self.axes.n_state]
        width = np.where(table[:, WIDTH] > 0, table[:, WIDTH], 1.0)
        shares = 2.0 * (states - table[:, LOW]) / width - 1.0
        columns = [shares[:, self._scaled]]
        columns += [states[:, [i]] == values for i, values in self._categories.items()]
        columns.append((2.0 * steps / self.horizon - 1.0)[:, None])
        found: Floats = np.clip(np.concatenate(columns, axis=1), -1.0, 1.0)
        return found.astype(np.float32)

    def _flat(self, action: Any) -> Floats:
        """Return the flat action that an action of the library stands for."""
        if self._grid is not None:
            return np.array(self._grid[int(action)])
        low, high = self.axes.action_ends
        shares = (np.clip(np.asarray(action, np.float64), -1.0, 1.0) + 1.0) / 2.0
        return np.clip(low + shares * (high - low), low, high)

    def _action_grid(self) -> Floats | None:
        """Return the points that the library plays, or None for continuous actions.

        Raise ConfigurationError if the library cannot play the actions of the environment.
        """
        are_boxes = [kind == INTERVAL for kind in self.axes.kinds[self.axes.n_state :]]
        if self.algorithm == "DQN":
            return ActionGrid(self.axes, self.bins).actions
        if all(are_boxes):
            return None
        if self.algorithm in CONTINUOUS:
            raise ConfigurationError(
                f"{self.label} plays continuous actions only, and the actions of "
                f"{self.env_name} are whole numbers, at least in part; take sb3:PPO or sb3:DQN"
            )
        if any(are_boxes):
            raise ConfigurationError(
                f"{self.label} plays either continuous actions or whole numbers, but "
                f"{self.env_name} has axes of both kinds; take sb3:DQN, which plays a grid"
            )
        return ActionGrid(self.axes, 100_000).actions

    def _check_settings(self, learner: Any) -> None:
        """Raise OptionError for a setting that the library's class does not accept."""
        taken = inspect.signature(learner).parameters
        known = [name for name in taken if name not in _SET_HERE and not name.startswith("_")]
        for name in self.settings:
            if name not in known:
                near = suggest(name, [*known, *_own_options()])
                raise OptionError(f"{self.label} has no option {name!r}{near}")

    def _make_model(self, learner: Any) -> Any:
        """Make the library's learner, with its own random generators."""
        import torch

        torch.set_num_threads(1)
        ours: dict[str, Any] = {"gamma": 1.0, "device": "cpu"}
        if self.algorithm == "TD3":
            n = self.axes.n_action
            noises = import_library("stable_baselines3.common.noise")
            ours["action_noise"] = noises.NormalActionNoise(np.zeros(n), np.full(n, self.noise))
        seed = seeds.derive_seed(self.seed, "agent", np.uint32) >> 1
        before = random.getstate()
        with self._handover.own_generators():
            model = learner("MlpPolicy", self._handover, **{**ours, **self.settings, "seed": seed})
        random.setstate(before)
        if self.algorithm == "DQN":
            # The library's schedule is a share of all steps, which it is not told here.
            schedule, planned = model.exploration_schedule, self.episodes * self.horizon
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


def _own_options() -> frozenset[str]:
    """Return the names of the adapter's own options, without those of the library."""
    return frozenset(option_names(DeepAgent)) - {"env", "algorithm", "settings"}


def make_deep(algorithm: str) -> Callable[..., DeepAgent]:
    """Return a function `make(env, seed=..., **settings)` that makes a deep rival for a study.

    Options that are not the adapter's own are passed to the library.
    """
    own = _own_options()

    def make(env: Any, **options: Any) -> DeepAgent:
        ours = {name: options.pop(name) for name in [*options] if name in own}
        return DeepAgent(env, algorithm, options, **ours)

    make.__doc__ = f"{algorithm} of Stable-Baselines3, with the step in the observation."
    make.__name__ = algorithm
    return make
