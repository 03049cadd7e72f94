"""Gymnasium environments with compiled dynamics.

`dynamics(state, action, step, params, rng, next_state) -> reward` writes the next state and returns
the reward. The kernel that plays whole episodes calls this one function. If the random outcome of a
step is known apart from its effect, the dynamics do what these two do, one after the other, and
`env.step` calls them, to tell the outcome in `info["outcome"]`:

    draw(state, action, step, params, rng, outcome) -> 0.0, or NaN if there is no law,
    given(state, action, step, params, outcome, next_state) -> reward.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import ArrayLike, NDArray

from zooming.envs import starts
from zooming.envs.functions import (
    DYNAMICS_FORM,
    GIVEN_FORM,
    WEIGH_FORM,
    as_vector,
    box_of,
    compile_as,
    error_of,
)
from zooming.envs.gymnasium_parts import generator_of, set_generator
from zooming.envs.starts import Start, Weighted
from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels import DYNAMICS, GIVEN, WEIGH
from zooming.kernels.boxes.layout import BOUND_TOLERANCE
from zooming.kernels.loop.crossing import Crossing, draw_start, play_step
from zooming.methods import UpperMethod
from zooming.validation import Floats, check_int, check_range, clip_rounding, short_repr

Dynamics = Callable[..., float]
MODES = ("rgb_array",)
FRAMES_PER_SECOND = 2  # episodes are short, and each step takes time to read
MOST_AXES = 10_000  # largest dimension of a built-in environment
Outcomes = Weighted  # random outcomes [n, k] and their weights [n]


class CompiledEnv(gym.Env[Any, Any]):
    """A Gymnasium environment with compiled dynamics. `compiled_env` makes one of your dynamics.

    The dynamics use vectors of `state_box` and `action_box`. For a Box this is the space itself.
    For Discrete(n, start=s) it is the box [s, s + n - 1], of which only integers are used.
    Observations and actions are then plain integers.

    `given` are the dynamics for a given outcome, a vector of `n_noise` numbers, and `draw` draws
    one. `weigh`, if there is one, fills in the weights of the outcomes for a state, an action and a
    step. `reward_range` is (lowest, highest) reward, or
    None if it is unknown. `resolution` is the number of cells per axis with which `zooming.solve`
    begins, or None to let `solve` choose.
    """

    # Gymnasium's name and type
    metadata = {"render_modes": list(MODES), "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012
    resolution: int | None = None

    def __init__(
        self,
        dynamics: Dynamics,
        observation_space: gym.spaces.Box | gym.spaces.Discrete,
        action_space: gym.spaces.Box | gym.spaces.Discrete,
        horizon: int,
        *,
        start: Any,
        params: ArrayLike = (),
        given: Dynamics | None = None,
        draw: Dynamics | None = None,
        n_noise: int = 1,
        weigh: Callable[..., None] | None = None,
        reward_range: tuple[float, float] | None = None,
        name: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in MODES:
            raise ConfigurationError(f"render_mode={render_mode!r}: choose 'rgb_array' or None")
        self.render_mode = render_mode
        self._state: Floats | None = None
        # (state, action, reward) of each step of the episode, with a render mode only
        self._played: list[tuple[Floats, Floats, float]] = []
        self.observation_space, self.state_box = box_of(observation_space, "observation_space")
        self.action_space, self.action_box = box_of(action_space, "action_space")
        self.has_whole_states = isinstance(observation_space, gym.spaces.Discrete)
        self.has_whole_actions = isinstance(action_space, gym.spaces.Discrete)
        self._state_ends = float(self.state_box.low[0]), float(self.state_box.high[0])
        self._action_ends = float(self.action_box.low[0]), float(self.action_box.high[0])
        self._as_number = np.dtype(self.observation_space.dtype).type
        self.horizon = check_int(horizon, "horizon", 1)
        self.name = str(name or getattr(dynamics, "__name__", "compiled"))
        self.dynamics = compile_as(dynamics, DYNAMICS, DYNAMICS_FORM)
        self._draw_outcome, self.n_noise = draw, n_noise
        self.given = None if given is None else compile_as(given, GIVEN, GIVEN_FORM)
        self.weigh = None if weigh is None else compile_as(weigh, WEIGH, WEIGH_FORM)
        self.reward_range = None if reward_range is None else check_range(reward_range)
        self.start_law = starts.make_law(start, observation_space, self.state_box)
        self.start: Start = self.start_law.draw
        self.params = np.concatenate([as_vector(params, "params"), self.start_law.packed])
        self._crossings: dict[bool, Crossing] = {}
        self._step = 0

    def crossing(
        self, generator: np.random.Generator | None = None, *, told: bool = False
    ) -> Crossing:
        """Return a crossing: dynamics, start and generator packed for compiled code.

        By default the generator is the environment's own. With `told`, the crossing has
        `draw_outcome` in place of the dynamics. Keep the object as long as its handle is used,
        because the handle holds addresses into it.
        """
        own = self.np_random if generator is None else generator
        crossing = self._crossings.get(told)
        if crossing is None or crossing.generator is not own:
            crossing = Crossing(own, self.draw_outcome if told else self.dynamics, self.start)
            if generator is None:
                self._crossings = {**self._crossings, told: crossing}  # a copy has the same
        return crossing

    @property
    def tells_outcomes(self) -> bool:
        """Whether `info["outcome"]` of a step is the random outcome."""
        return self._draw_outcome is not None and self.given is not None

    @property
    def draw_outcome(self) -> Any:
        """The function that draws an outcome, compiled on first use; None if there is none."""
        draw = self._draw_outcome
        return None if draw is None else compile_as(draw, DYNAMICS, DYNAMICS_FORM)

    @property
    def start_kind(self) -> str:
        """Kind of the law of the start state, see `zooming.envs.starts`."""
        return self.start_law.kind

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        state = np.empty(self.state_box.shape)
        draw_start()(self.crossing().handle, self.params, state)
        observation = self._observe(state, 0, "")
        self._state, self._step, self._played = state, 0, []
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._state is None or self._step >= self.horizon:
            raise gym.error.ResetNeeded(f"{self.name}: no episode is under way; call reset() first")
        next_state = np.empty_like(self._state)
        checked = self._check_action(action)
        now, told, info = (self._state, checked, self._step, self.params), self.tells_outcomes, {}
        handle = self.crossing(told=told).handle
        if told:
            info["outcome"] = outcome = np.empty(self.n_noise)
            reward = play_step()(handle, *now, outcome)
            if reward == 0.0:
                next_state.fill(np.nan)  # reveals a coordinate that the dynamics do not write
                reward = self.given(*now, outcome, next_state)  # type: ignore[misc]
                if np.isnan(reward) and (raised := error_of(self.given)) is not None:
                    raise raised
        else:
            reward = play_step()(handle, *now, next_state)
        observation = self._observe(next_state, self._step, "next ")
        before, self._state = self._state, next_state
        self._step += 1
        if self.render_mode is not None:
            self._played.append((before, checked, float(reward)))
        return observation, float(reward), self._step >= self.horizon, False, info

    def render(self) -> Any:
        """Return a picture of the episode as pixels: state, action and rewards."""
        if self.render_mode is None:
            gym.logger.warn(
                f"{self.name} was made without a render mode. Make it with "
                'render_mode="rgb_array": gymnasium.make(..., render_mode="rgb_array")'
            )
            return None
        if self._state is None:
            raise gym.error.ResetNeeded(
                f"{self.name}: no episode is under way; call reset() before render()"
            )
        return self._draw(self._state, self._played)

    _draw = UpperMethod()

    def _check_action(self, action: Any) -> Floats:
        """Return a validated action as a vector for the dynamics."""
        low, high = self.action_box.low, self.action_box.high
        where = f"{self.name}, step {self._step}: action"
        if self.has_whole_actions and isinstance(action, (int, np.integer)):  # fast path
            first, last = self._action_ends
            if first <= action <= last:
                return np.array([float(action)])
        try:
            point = np.ascontiguousarray(action, np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise TransitionError(
                f"{where} {short_repr(action)} is not in {self.action_space}"
            ) from error
        if self.has_whole_actions:
            value = float(point.flat[0]) if point.size == 1 else np.nan
            if not (low[0] <= value <= high[0] and value.is_integer()):
                raise TransitionError(
                    f"{where} = {action!r} is not a whole number from {low[0]:g} to {high[0]:g}; "
                    f"give a value of {self.action_space}"
                )
            return point.reshape(1)
        if point.shape != low.shape:
            raise TransitionError(f"{where} has shape {point.shape}; expected {low.shape}")
        point, i = clip_rounding(point, low, high)
        if i is not None:
            raise TransitionError(
                f"{where}[{i}] = {point[i]} is outside [{low[i]}, {high[i]}]; clip it to the "
                "action space"
            )
        return point

    def observations(self, states: Floats) -> NDArray[Any]:
        """Convert states [n, n_state] of the dynamics to a batch of observations."""
        if not self.has_whole_states:
            return states
        return np.rint(states[:, 0]).astype(self.observation_space.dtype)

    def actions(self, batch: Any) -> Floats:
        """Convert a batch of actions to an array [n, n_action] for the dynamics."""
        return np.ascontiguousarray(batch, np.float64).reshape(len(batch), -1)

    def round_discrete(self, states: Floats, actions: Floats) -> tuple[Floats, Floats]:
        """Return states and actions, rounded to the nearest value where a space is Discrete."""
        if self.has_whole_states:
            states = np.clip(np.rint(states), self.state_box.low, self.state_box.high)
        if self.has_whole_actions:
            actions = np.clip(np.rint(actions), self.action_box.low, self.action_box.high)
        return states, actions

    def are_states(self, points: Floats) -> NDArray[np.bool_]:
        """Return for each point [n, n_state] whether it is a state, up to rounding errors."""
        low, high = self.state_box.low, self.state_box.high
        if self.has_whole_states:
            found = np.abs(points - np.clip(np.rint(points), low, high)) <= BOUND_TOLERANCE
        else:
            slack = BOUND_TOLERANCE * (high - low)
            found = (points >= low - slack) & (points <= high + slack)
        return np.asarray(found.all(axis=1))

    def _observe(self, state: Floats, step: int, what: str) -> Any:
        """Convert a state to an observation. Only Discrete states are checked here."""
        if not self.has_whole_states:
            return state.copy()
        value, low, high = float(state[0]), *self._state_ends  # 10 times faster than `are_states`
        if not (
            low - BOUND_TOLERANCE <= value <= high + BOUND_TOLERANCE
            and abs(value - round(value)) <= BOUND_TOLERANCE
        ):
            raise TransitionError(
                f"{self.name}, step {step}: {what}state = {value} is not a whole number from "
                f"{low:g} to {high:g}; check the environment's space"
            )
        return self._as_number(round(value))

    def outcomes(self, step: int, n: int) -> Outcomes:
        """Return the random outcomes of a step and their weights; of a density, about n.

        If the environment has `weigh`, it replaces the weights for each state and action.
        """
        raise ConfigurationError(
            f"{self.name} declares no random outcomes, so nothing about it can be computed "
            "exactly. Declare them: compiled_env(dynamics, ..., outcomes=(values, "
            "weights)); dynamics then take an outcome, not rng"
        )

    def where_recorded(self, outcome: Floats, step: int) -> str:
        """Return a phrase that says where an outcome was recorded, or "" if it was not."""
        return ""

    def start_states(self, n: int) -> Weighted:
        """Return start states [m, n_state] and their weights: all if finitely many, else about n.

        For "uniform" on a box, they are the midpoints of a grid. For a start function, they are
        independent draws with seed 0.
        """
        law = self.start_law
        if len(law.states):
            return law.states, law.weights
        if law.kind == starts.UNIFORM:
            return starts.midpoints(self.state_box, n)
        crossing = self.crossing(np.random.default_rng(0))
        states = np.empty((n, *self.state_box.shape))
        for state in states:
            draw_start()(crossing.handle, self.params, state)
        if not self.are_states(states).all():
            bad = states[~self.are_states(states)][0].tolist()
            raise ConfigurationError(
                f"{self.name}: start wrote the state {bad}, which is not in "
                f"{self.observation_space}; check it"
            )
        found = np.unique(states, axis=0)
        return (found, np.ones(1)) if len(found) == 1 else (states, np.full(n, 1 / n))

    def abandon(self) -> None:
        """End the current episode. reset() must be called before the next step."""
        self._state = None

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledEnv:
        # Compiled functions cannot be copied, so they are shared; generator and state are copied.
        twin = copy.copy(self)
        generator, seed = generator_of(self)
        set_generator(twin, copy.deepcopy(generator, memo), seed)
        twin.params = self.params.copy()
        twin._state = None if self._state is None else self._state.copy()
        twin._played = self._played.copy()
        return twin

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, horizon {self.horizon}>"


def find_compiled(env: Any) -> CompiledEnv | None:
    """Return the compiled environment if all wrappers leave the problem unchanged, else None."""
    while isinstance(env, gym.Wrapper) and type(env) in (OrderEnforcing, PassiveEnvChecker):
        env = env.env
    is_plain = (
        isinstance(env, CompiledEnv)
        and type(env).step is CompiledEnv.step
        and type(env).reset is CompiledEnv.reset
    )
    return env if is_plain else None
