"""Spaces, horizon, reward range and seed of an agent, and input validation shared by all agents."""

from __future__ import annotations

import numbers
import operator
import threading
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import NormalizeReward, TimeLimit
from numpy.typing import NDArray

from zooming.envs.compiled import CompiledEnv
from zooming.errors import ConfigurationError, TransitionError, ZoomingError
from zooming.kernels import LOW
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import INTERVAL
from zooming.validation import as_float, check_int, check_range, clipped, known_options, shown

UNIT = (0.0, 1.0)  # the reward range if none is given, and the environment states none
REWARDS = ("refuse", "clip")  # choices for a reward outside the range


class Setting:
    """Base of `Agent`: axes, horizon, rewards, seed and episode count, and checks of all inputs."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" in cls.__dict__:
            cls.__init__ = known_options(cls.__init__)  # type: ignore[method-assign]

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
        seed: int | None = None,
    ) -> None:
        check_env(env)
        self.axes = Axes(
            env.observation_space,
            env.action_space,
            bounds=bounds,
            ordered=ordered,
            squash=squash,
            weights=weights,
        )
        self.horizon = horizon_of(env, horizon)
        self.reward_range = (
            (stated_range(env) or UNIT) if reward_range is None else check_range(reward_range)
        )
        if rewards not in REWARDS:
            raise ConfigurationError(
                f"rewards={rewards!r}: choose one of {', '.join(map(repr, REWARDS))}"
            )
        self.rewards = rewards
        self.clipping = np.array([rewards == "clip", 0])  # whether to clip, number clipped
        self.is_told_of_clipping = False
        self.seed = _seed(seed)
        self.env = env
        self.stored_env: dict[str, Any] | None = None  # from a file, if loaded without env
        self.env_name = name_of(env)
        self._n_episodes = 0
        self.env_rng: np.random.Generator | None = None  # of the environment; set by learn()
        self.learner = 0  # thread that runs learn(), 0 if none does
        self.latest_run: Any = None  # the `Pauses` of a running or failed learn()
        self.stop_flag: threading.Event | None = None  # set by learn_many when it is interrupted

    @property
    def n_episodes(self) -> int:
        """Number of episodes begun: updates of step 0, by learn() or by hand.

        For an agent of your own learn() counts. An episode that an interrupt stopped at a split is
        continued by the next learn() and counts when it is finished.
        """
        return self._n_episodes

    def drop_paused(self) -> None:
        """Drop an episode paused for a split. Most agents have none."""

    def _take_n_episodes(self, n: int) -> None:
        """Set the number of episodes, from learn() or a file. Agents that count ignore it."""
        self._n_episodes = n

    @property
    def env_generator(self) -> dict[str, Any] | None:
        """State of the environment's generator before the next episode; None before learn()."""
        return None if self.env_rng is None else dict(self.env_rng.bit_generator.state)

    @env_generator.setter
    def env_generator(self, state: dict[str, Any] | None) -> None:
        self.env_rng = None if state is None else generator_at(state)

    # --- checks -----------------------------------------------------------------------------------

    def checked_state(self, step: int, observation: Any) -> NDArray[np.float64]:
        """Return the observation as a float64 vector inside its bounds.

        Rounding errors are clipped. TransitionError if it is not a state.
        """
        step = self._check_step(step)
        return self._checked(step, self._flat_state(step, observation), 0)

    def checked_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]:
        """Return (state, action, reward, next state), each validated like `checked_state`.

        With `rewards="clip"` a reward outside the range is clipped and counted. TransitionError if
        a value is invalid.
        """
        checked = self._checked_transition(step, observation, action, reward, next_observation)
        if checked[2] != as_float(reward):
            self._count_clipped()
        return checked

    def _checked_transition(
        self, step: int, observation: Any, action: Any, reward: float, next_observation: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]:
        """Return the same as `checked_transition`, without counting clipped rewards."""
        step = self._check_step(step)
        reward = self._check_reward(step, reward)
        state = self._checked(step, self._flat_state(step, observation), 0)
        played = self._checked(step, self._flat_action(step, action), self.axes.n_state)
        return (
            state,
            played,
            reward,
            self._checked(step, self._flat_state(step, next_observation, "next "), 0, "next "),
        )

    def _flat_state(self, step: int, observation: Any, what: str = "") -> NDArray[np.float64]:
        """Return `Axes.flat_state`; errors name the environment and the step."""
        try:
            return self.axes.flat_state(observation)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {what}{error}") from error

    def _flat_action(self, step: int, action: Any) -> NDArray[np.float64]:
        try:
            return self.axes.flat_action(action)
        except ZoomingError as error:
            raise type(error)(f"{self.env_name}, step {step}: {error}") from error

    def _checked(
        self, step: int, point: NDArray[np.float64], first_axis: int, what: str = ""
    ) -> NDArray[np.float64]:
        axes = slice(first_axis, first_axis + len(point))
        point, i = clipped(point, self.axes.table[axes, LOW], self.axes.ends[axes])
        if i is not None:
            raise self._bad_coordinate(
                step, first_axis + i, float(self.axes.from_unit_cube(point, first_axis)[i]), what
            )
        return point

    def _check_step(self, step: Any, is_vector: bool = False) -> int:
        try:
            whole = operator.index(step)
        except TypeError as error:
            raise TransitionError(
                f"step {shown(step)} is not a whole number; steps run from 0 to {self.horizon - 1}"
            ) from error
        if not 0 <= whole < self.horizon:
            reset = (
                ". A vector environment must reset in the same step: "
                "autoreset_mode=AutoresetMode.SAME_STEP"
            )
            raise TransitionError(
                f"step {shown(step)} is outside the episode: steps run from 0 to "
                f"{self.horizon - 1} (horizon {self.horizon})"
                f"{reset if is_vector else ''}"
            )
        return whole

    def _check_reward(self, step: int, reward: Any) -> float:
        """Return the reward, clipped if the agent clips; TransitionError if it is invalid."""
        low, high = self.reward_range
        is_number = isinstance(reward, numbers.Real) or (
            isinstance(reward, np.ndarray) and reward.shape == ()
        )
        if not is_number:
            raise TransitionError(
                f"{self.env_name}, step {step}: reward {shown(reward)} is not a number"
            )
        number = as_float(reward)
        if low <= number <= high:
            return number
        if self.rewards == "clip" and np.isfinite(number):
            return low if number < low else high
        raise self._bad_reward(step, number)

    def _bad_reward(self, step: int, reward: float) -> TransitionError:
        low, high = self.reward_range
        rescale = (
            f"give {type(self).__name__}(..., reward_range=(low, high)), which "
            f"zooming.reward_range(env, horizon={self.horizon}) proposes, or "
            f'rewards="clip", or rescale the reward'
        )
        fix = rescale if np.isfinite(reward) else "check the environment"
        return TransitionError(
            f"{self.env_name}, step {step}: reward {reward} is outside the reward range [{low}, "
            f"{high}]; {fix}"
        )

    @property
    def n_clipped(self) -> int:
        """Number of rewards that were clipped; 0 with `rewards="refuse"`."""
        return int(self.clipping[1])

    def _count_clipped(self) -> None:
        self.clipping[1] += 1
        self.tell_of_clipping()

    def tell_of_clipping(self) -> None:
        """Warn once per agent, when the first reward was clipped."""
        if self.clipping[1] and not self.is_told_of_clipping:
            self.is_told_of_clipping = True
            low, high = self.reward_range
            warnings.warn(
                f"{self.env_name}: a reward outside the reward range [{low}, {high}] was clipped, "
                "and so will be others; "
                "agent.n_clipped counts them, and zooming.reward_range(env, "
                f"horizon={self.horizon}) proposes a wider range",
                stacklevel=2,
            )

    def _clipped_in_words(self) -> str:
        return f", {self.n_clipped:,} rewards clipped" if self.n_clipped else ""

    def _bad_coordinate(
        self, step: int, axis: int, value: float, what: str = ""
    ) -> TransitionError:
        name, low, high = self.axes.names[axis], self.axes[axis].low, self.axes[axis].high
        fault, fix = f"outside [{low}, {high}]", "the environment's space, or clip the value"
        if self.axes[axis].squash and not np.isfinite(value):  # a squashed axis has no bounds
            fault, fix = "not finite", "the environment"
        if self.axes[axis].kind != INTERVAL:
            fault, fix = f"not a whole number from {low:g} to {high:g}", "the environment's space"
        return TransitionError(
            f"{self.env_name}, step {step}: {what}{name} = {value} is {fault}; check {fix}"
        )


def check_env(env: Any) -> None:
    """Raise ConfigurationError if `env` is not an environment, or is a vector environment."""
    if isinstance(env, (str, type)) or not hasattr(env, "observation_space"):
        example = env if isinstance(env, str) and not env.endswith("Policy") else "zooming/Oil-v0"
        raise ConfigurationError(
            f"{env!r} is not an environment; give an instance, for example "
            f'gymnasium.make("{example}")'
        )
    if isinstance(env, gym.vector.VectorEnv) or hasattr(
        env, "num_envs"
    ):  # Gymnasium's or Stable-Baselines3's
        raise ConfigurationError(
            f"{type(env).__name__} is a vector environment of "
            f"{getattr(env, 'num_envs', 'several')}; an agent learns on one: "
            "give gymnasium.make(...) instead. zooming.learn_many learns many seeds at once, and "
            "agent.predict takes a "
            f"vector environment's observations"
        )


def reset(env: Any, seed: int | None) -> tuple[Any, Mapping[str, Any]]:
    """Return the (observation, info) of `env.reset`; ConfigurationError for Gym's old interface."""
    try:
        answer = env.reset(seed=seed)
    except TypeError as error:
        if "seed" in str(error) and "unexpected keyword" in str(error):
            raise ConfigurationError(
                f"{name_of(env)}: reset takes no seed; {_NEW_RESET}"
            ) from error
        raise
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping)):
        raise ConfigurationError(
            f"{name_of(env)}: reset gave {_shown(answer)}, not (observation, info); {_NEW_RESET}"
        )
    return answer


def bad_step(env: Any, answer: Any) -> ConfigurationError:
    """Return the error for a `step` that did not give five values."""
    old = "the old interface of Gym; " if isinstance(answer, tuple) and len(answer) == 4 else ""
    return ConfigurationError(
        f"{name_of(env)}: step gave {_shown(answer)}, {old}give five: observation, reward, "
        "terminated (the task has ended), "
        f"truncated (it was cut off), info"
    )


def _shown(answer: Any) -> str:
    return f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"


_NEW_RESET = (
    "write def reset(self, *, seed=None, options=None), call super().reset(seed=seed), "
    "and return observation, {}"
)


def horizon_of(env: Any, horizon: int | None) -> int:
    """Return the steps of an episode: `horizon` if given, otherwise the environment's.

    Warn if the environment's episodes are shorter than the given horizon.
    """
    # Compiled environments have a horizon; others may have a spec. A TimeLimit may shorten it.
    inner = getattr(env, "unwrapped", env)
    own = inner.horizon if isinstance(inner, CompiledEnv) else None
    limits = [getattr(getattr(env, "spec", None), "max_episode_steps", None)]
    wrapper = env
    while isinstance(wrapper, gym.Wrapper):
        limits.append(
            getattr(wrapper, "_max_episode_steps", None) if isinstance(wrapper, TimeLimit) else None
        )
        wrapper = wrapper.env
    said = [n for n in (own, *limits) if n is not None]
    if horizon is not None and said and check_int(horizon, "horizon", 1) > min(said):
        message = (
            f"horizon={horizon}, but an episode of {name_of(env)} ends after {min(said)} "
            "steps: values will be too optimistic"
        )
        warnings.warn(message, stacklevel=4)
    found = horizon if horizon is not None else min(said) if said else None
    if found is None:
        raise ConfigurationError(
            f"the environment {name_of(env)} does not say how long an episode is. Give "
            "horizon=..., "
            f"or make the environment with gymnasium.make(..., max_episode_steps=...)"
        )
    return check_int(found, "horizon", 1)


def generator_at(state: dict[str, Any]) -> np.random.Generator:
    """Return a PCG64 generator, Gymnasium's kind, with the given state."""
    if state["bit_generator"] != "PCG64":
        raise ConfigurationError(
            f"the environment uses a {state['bit_generator']} generator; only Gymnasium's own, "
            "PCG64, can be continued"
        )
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator


def stated_range(env: Any) -> tuple[float, float] | None:
    """Return the reward range that an environment states, or None.

    The outermost `reward_range` counts, and none behind a wrapper that changes rewards. Old Gym's
    (-inf, inf) states nothing.
    """
    while True:
        stated = getattr(env, "reward_range", None)
        if isinstance(stated, (tuple, list, np.ndarray)) and tuple(stated) != (-np.inf, np.inf):
            return check_range(stated, f"{name_of(env)}: reward_range")
        if not isinstance(env, gym.Wrapper) or isinstance(
            env, (gym.RewardWrapper, NormalizeReward)
        ):
            return None
        env = env.env


def _seed(seed: Any) -> int:
    if seed is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]  # one integer when none was given
    return check_int(seed, "seed", 0, most=None)


def name_of(env: Any) -> str:
    """Return the name of an environment for error messages."""
    spec = getattr(env, "spec", None)
    if spec is not None:
        return str(spec.id)
    inner = env.unwrapped if isinstance(env, gym.Env) else env
    return str(getattr(inner, "name", None) or type(inner).__name__)
