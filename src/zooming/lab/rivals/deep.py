"""PPO of Stable-Baselines3 as an agent."""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.problem import reset, take_step
from zooming.agents.training.history import History
from zooming.envs.compiled import find_compiled
from zooming.errors import ConfigurationError, OptionError
from zooming.kernels import LOW, WIDTH
from zooming.lab.rivals.grid_q import ActionGrid
from zooming.lab.rivals.rival import Rival, Transition, import_library
from zooming.spaces.flatten import CATEGORICAL, INTERVAL
from zooming.spaces.masks import Allowed
from zooming.validation import Floats, Ints, check_int, option_names, suggest

OWN = frozenset(option_names(Agent)) - {"env"}
_SET_HERE = ("policy", "env", "seed")  # options of the library that the adapter sets
_FOREVER = 2**60  # steps: the agent, not the library, decides when to stop
_ONE_AT_A_TIME = threading.RLock()


class _Played(gym.Env[Any, Any]):
    """The environment of an agent as its library sees it: scaled, with the step in the observation.

    It plays `n_left` episodes. A reset beyond them plays nothing.
    """

    def __init__(self, agent: DeepAgent, observations: gym.Space[Any], actions: Any) -> None:
        self.observation_space, self.action_space, self.agent = observations, actions, agent
        self.n_left = 0
        self.returns: list[float] = []
        self.n_steps: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if not self.n_left:
            return np.zeros(self.observation_space.shape or (), np.float32), {}
        agent, run = self.agent, self.agent.run
        env, own = find_compiled(agent.env) or agent.env, None
        if run.env_rng is None:
            own = seeds.derive_seed(agent.seed, "environment", np.uint32)
        else:
            env.unwrapped.np_random = run.env_rng
        self._env, (self._observation, self._info) = env, reset(env, own)
        run.env_rng = env.unwrapped.np_random
        self._step, self._total = 0, 0.0
        return agent.encode(0, agent.checked_state(0, self._observation)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        agent, step = self.agent, self._step
        played = agent.play(step, action, self._info)
        after, reward, terminated, truncated, self._info = take_step(self._env, played)
        given = self._observation, played, reward, after
        _, _, learned, state = agent.checked_transition(step, *given)
        self._observation, self._step, self._total = after, step + 1, self._total + float(reward)
        is_last = bool(terminated) or self._step == agent.horizon
        if is_last or truncated:
            self.n_left -= 1
            self.returns.append(self._total)
            self.n_steps.append(self._step)
            agent.set_n_episodes(agent.n_episodes + 1)
        span = agent.reward_range[1] - agent.reward_range[0]
        seen = agent.encode(self._step, state)
        return seen, learned / span, is_last, bool(truncated) and not is_last, {}


class DeepAgent(Rival):
    """PPO of Stable-Baselines3 with its default settings, and the step in the observation.

    An observation holds every state axis scaled to [-1, 1], or one-hot if it is categorical, and
    the step scaled to [-1, 1]. Rewards are divided by the span of `reward_range`. The end of the
    horizon is terminal. The discount is 1, because returns are not discounted. Everything else is
    the library's default. It learns by the loop of its library: `learn(episodes)`, and neither from
    `update` nor from logs. A second call of `learn` drops what a rollout has begun. Continuous
    actions are scaled to [-1, 1]. torch is set to one thread. The agent cannot be saved.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    **options
        Options of `Agent`; all others are arguments of the library's class.

    Raises
    ------
    ConfigurationError
        If the library is missing, or cannot play such actions.

    Examples
    --------
    >>> import gymnasium as gym
    >>> agent = DeepAgent(gym.make("zooming/Oil-v0"), n_steps=64, seed=0)
    >>> history = agent.learn(20)
    >>> len(history), agent.n_episodes
    (20, 20)
    """

    def __init__(self, env: Any, **options: Any) -> None:
        self.settings = {name: options.pop(name) for name in {*options} - OWN}
        super().__init__(env, **options)
        learner = import_library("sb3").PPO
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
        self._played = _Played(
            self,
            gym.spaces.Box(-1.0, 1.0, (n_seen,), np.float32),
            gym.spaces.Box(-1.0, 1.0, (axes.n_action,), np.float32)
            if self._grid is None
            else gym.spaces.Discrete(len(self._grid)),
        )
        self._generators: tuple[Any, Any] | None = None  # of numpy.random and torch
        self.model = self._make_model(learner)

    label = "sb3:PPO"  # the name in studies

    def learn(self, episodes: int, **options: Any) -> History:
        """Play episodes by the loop of the library. Other options of `Agent.learn` are refused."""
        if options:
            raise ConfigurationError(
                f"{self.label} learns by the loop of its library, and learn takes episodes only; "
                f"leave out {', '.join(options)}"
            )
        played, before = self._played, self.n_clipped
        played.n_left, played.returns, played.n_steps = check_int(episodes, "episodes", 1), [], []

        def goes_on(*_: Any) -> bool:
            return played.n_left > 0 and not (self.run.stop_flag and self.run.stop_flag.is_set())

        with self._own_generators():
            self.model.set_env(self.model.get_env(), force_reset=True)
            self.model.learn(_FOREVER, callback=goes_on, reset_num_timesteps=False)
        returns, n_steps = np.array(played.returns), np.array(played.n_steps)
        return History(
            returns, np.zeros(len(returns), np.int64), self, n_steps=n_steps,
            n_clipped=self.n_clipped - before,
        )  # fmt: skip

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Raise ConfigurationError: only the loop of the library explores."""
        raise ConfigurationError(
            f"{self.label} explores and learns in learn(episodes) only; predict plays its policy"
        )

    def _learn(self, seen: Transition) -> None:
        self.act(0, None)

    def play(self, step: int, action: Any, info: Mapping[str, Any] | None) -> Any:
        """Return the action of the environment that an action of the library stands for."""
        return self.axes.shaped_action(
            self._nearest(self._flat(action), self._feasible(step, info))
        )

    def encode(self, step: int, state: Floats) -> NDArray[np.float32]:
        """Return what the library sees of a step and a flat state."""
        found: NDArray[np.float32] = self._encode(np.array([step]), state[None])[0]
        return found

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        """Replace the global generators by those of the learner in the `with` block."""
        import torch

        torch.set_num_threads(1)  # each thread of Python has its own number
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

    def _policy(self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed) -> Floats:
        seen = self._encode(steps, states)
        found = self.model.policy.predict(seen, deterministic=deterministic)[0]
        return np.array([self._flat(one) for one in found])

    def option_values(self) -> dict[str, Any]:
        return {**super().option_values(), **self.settings}

    @property
    def nbytes(self) -> int:
        """Memory of the networks and of the filled part of the buffer, in bytes."""
        networks: int = sum(
            one.numel() * one.element_size() for one in self.model.policy.parameters()
        )
        buffer = self.model.rollout_buffer
        arrays = [one for one in vars(buffer).values() if isinstance(one, np.ndarray)]
        return networks + sum(one[: buffer.size()].nbytes for one in arrays)

    def _encode(self, steps: Ints, states: Floats) -> NDArray[np.float32]:
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
        if all(are_boxes):
            return None
        if any(are_boxes):
            raise ConfigurationError(
                f"{self.label} plays either continuous actions or whole numbers, but "
                f"{self.env_name} has axes of both kinds; take grid-q, which plays a grid"
            )
        return ActionGrid(self.axes, 100_000).actions

    def _check_settings(self, learner: Any) -> None:
        """Raise OptionError for a setting that the library's class does not accept."""
        taken = inspect.signature(learner).parameters
        known = [name for name in taken if name not in _SET_HERE and not name.startswith("_")]
        for name in self.settings:
            if name not in known:
                near = suggest(name, [*known, *OWN])
                raise OptionError(f"{self.label} has no option {name!r}{near}")

    def _make_model(self, learner: Any) -> Any:
        """Make the library's learner, with its own random generators."""
        ours: dict[str, Any] = {"gamma": 1.0, "device": "cpu"}
        seed = seeds.derive_seed(self.seed, "agent", np.uint32) >> 1
        before = random.getstate()
        with self._own_generators():
            model = learner("MlpPolicy", self._played, **{**ours, **self.settings, "seed": seed})
        random.setstate(before)
        return model
