"""A compiled dynamics function as a Gymnasium environment.

The function is the whole problem: `dynamics(state, action, step, params, rng, next_state) -> reward` writes the next state
and returns the reward. `env.step` calls it, and so does the kernel that plays whole episodes without coming back to Python:
one truth, two drivers.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numba
import numpy as np
from gymnasium.utils import seeding
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import ArrayLike, NDArray

from zooming.checks import clipped, whole
from zooming.errors import SpaceError, TransitionError
from zooming.kernels import DYNAMICS, GIVEN, PLAIN, START

Floats = NDArray[np.float64]
Dynamics = Callable[..., float]
Start = Callable[..., None]
Outcomes = tuple[Floats, Floats]  # values [n, k] of what chance decides, and their weights [n]


class CompiledEnv(gym.Env[Any, Any]):
    """A Gymnasium environment whose rule is one compiled function; `zooming.compiled_env` makes one from yours."""

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's name and type for it

    def __init__(
        self,
        dynamics: Dynamics,
        observation_space: gym.spaces.Box | gym.spaces.Discrete,
        action_space: gym.spaces.Box | gym.spaces.Discrete,
        horizon: int,
        *,
        start: ArrayLike | str | Start,
        params: ArrayLike = (),
        given: Dynamics | None = None,
        name: str | None = None,
    ) -> None:
        # Finitely many states and actions, which are whole numbers: then `zooming.solve` is exact.
        self.is_finite = _are_finite(observation_space, action_space)
        if self.is_finite and not _is_whole_start(start):
            raise SpaceError(f"start={start!r}: with Discrete spaces give one whole number, or a function that writes one")
        self.observation_space: gym.spaces.Box = _float64_box(observation_space, "observation_space")
        self.action_space: gym.spaces.Box = _float64_box(action_space, "action_space")
        self.horizon = whole(horizon, "horizon", 1)
        self.name = name or getattr(dynamics, "__name__", "compiled")
        self.dynamics = _compile(dynamics, DYNAMICS, "dynamics(state, action, step, params, rng, next_state) -> reward")
        form = "dynamics(state, action, step, params, outcome, next_state) -> reward"
        self.given = None if given is None else _compile(given, GIVEN, form)  # the dynamics for a given outcome
        self.start_kind = "function" if callable(start) else "uniform" if isinstance(start, str) else "fixed"
        self.start, self.params = _starting(start, _vector(params, "params"), self.observation_space)
        self._state: Floats | None = None
        self._step = 0
        if type(self) in (CompiledEnv, _DeclaredEnv):
            self._try(dynamics)

    def _try(self, dynamics: Dynamics) -> None:
        """Plays one step in plain Python, where a wrong index is an error and not somebody else's memory."""
        rng, state = np.random.default_rng(0), np.full(self.observation_space.shape, np.nan)
        self.start(self.params, rng, state)
        low, high = self.action_space.low, self.action_space.high
        after, written = np.full_like(state, np.nan), "write every coordinate: next_state[i] = ..."
        try:
            getattr(dynamics, "py_func", dynamics)(state, (low + high) / 2, 0, self.params.copy(), rng, after)
        except IndexError as error:
            raise SpaceError(f"{self.name}: {error}; the state has {len(state)} coordinates, the action {len(low)}") from error
        except Exception:  # it may need to be compiled to run at all: then only the compiled form tells
            return
        missing = np.flatnonzero(np.isnan(after))
        if len(missing):
            raise SpaceError(f"{self.name} did not write next_state[{missing[0]}], or wrote NaN; {written}")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        state = np.empty(self.observation_space.shape)
        self.start(self.params, self.np_random, state)
        self._state, self._step = state, 0
        return state.copy(), {}

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        if self._state is None or self._step >= self.horizon:
            raise gym.error.ResetNeeded(f"{self.name}: no episode is under way; call reset() first")
        next_state = np.full_like(self._state, np.nan)  # a coordinate that the dynamics forget to write is found
        checked = self._checked(action)
        reward = self.dynamics(self._state, checked, self._step, self.params, self.np_random, next_state)
        self._state = next_state
        self._step += 1
        return next_state.copy(), float(reward), self._step >= self.horizon, False, {}

    def outcomes(self, step: int, n: int) -> Outcomes:
        """What chance may decide at a step, as about n weighted outcomes for `given`; exact if it is a finite set."""
        raise SpaceError(
            f"{self.name} does not say what its random outcomes are, so that nothing about it can be computed exactly. "
            f"Declare them: compiled_env(dynamics, ..., outcomes=(values, weights)); dynamics then take an outcome, not rng"
        )

    def start_states(self, n: int) -> Outcomes:
        """Start states [m, n_state] and their weights: the one there is, or about n.

        For "uniform" the midpoints of a grid; for a start function of your own, draws (seed 0).
        """
        if self.start_kind == "uniform":
            low, high = self.observation_space.low, self.observation_space.high
            per_axis = max(1, round(n ** (1 / len(low))))
            axes = [a + (b - a) * (np.arange(per_axis) + 0.5) / per_axis for a, b in zip(low, high, strict=True)]
            grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
            return grid, np.full(len(grid), 1 / len(grid))
        rng, states = np.random.default_rng(0), np.empty((n, *self.observation_space.shape))
        for state in states:
            self.start(self.params, rng, state)
        found = np.unique(states, axis=0)
        return (found, np.ones(1)) if len(found) == 1 else (states, np.full(n, 1 / n))

    def reseed(self, seed: int) -> None:
        """Starts the generator anew, as `reset(seed=seed)` does, without drawing a state; the next call must be reset()."""
        self._np_random, self._np_random_seed = seeding.np_random(seed)
        self.abandon()

    def abandon(self) -> None:
        """Ends the episode at hand: the next call must be reset()."""
        self._state = None

    def _checked(self, action: Any) -> Floats:
        low, high = self.action_space.low, self.action_space.high
        point = np.ascontiguousarray(action, np.float64)
        if point.shape != low.shape:
            raise TransitionError(f"{self.name}, step {self._step}: action has shape {point.shape}; expected {low.shape}")
        point, i = clipped(point, low, high)
        if i is not None:
            raise TransitionError(
                f"{self.name}, step {self._step}: action[{i}] = {point[i]} is outside [{low[i]}, {high[i]}]; "
                f"clip it to the action space"
            )
        return point

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledEnv:
        # Compiled functions cannot be copied and need not be; a copy has a generator and a state of its own.
        twin = copy.copy(self)
        twin._np_random = copy.deepcopy(self._np_random, memo)
        twin.params = self.params.copy()
        twin._state = None if self._state is None else self._state.copy()
        return twin

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, horizon {self.horizon}>"


class _DeclaredEnv(CompiledEnv):
    """A compiled environment whose chance is a finite set of weighted outcomes, the same at every step."""

    def __init__(
        self, dynamics: Dynamics, *spaces: Any, outcomes: Any, params: ArrayLike, name: str | None, **options: Any
    ) -> None:
        values, weights = _declared(outcomes)
        own = _vector(params, "params")
        # Behind the problem's own parameters: the outcomes, then their cumulative weights, where `draw_one` finds them.
        packed = np.concatenate([own, values.ravel(), np.cumsum(weights)])
        given = _compile(dynamics, GIVEN, "dynamics(state, action, step, params, outcome, next_state) -> reward")
        drawing = _draw_one(given, len(own), *values.shape)
        name = name or getattr(dynamics, "__name__", None)
        super().__init__(drawing, *spaces, params=packed, given=dynamics, name=name, **options)
        self._declared = values, weights

    def outcomes(self, step: int, n: int) -> Outcomes:
        return self._declared


def compiled_inside(env: Any) -> CompiledEnv | None:
    """The compiled environment behind wrappers that change nothing, or None if it must be driven step by step."""
    while isinstance(env, gym.Wrapper) and type(env) in (OrderEnforcing, PassiveEnvChecker):
        env = env.env
    is_plain = isinstance(env, CompiledEnv) and type(env).step is CompiledEnv.step and type(env).reset is CompiledEnv.reset
    return env if is_plain else None


def compiled_env(
    dynamics: Dynamics,
    observation_space: gym.spaces.Box | gym.spaces.Discrete,
    action_space: gym.spaces.Box | gym.spaces.Discrete,
    horizon: int,
    *,
    start: ArrayLike | str | Start,
    params: ArrayLike = (),
    outcomes: Any = None,
    name: str | None = None,
) -> CompiledEnv:
    """Your own dynamics as an environment that trains at the speed of the built-in ones.

    `dynamics(state, action, step, params, rng, next_state)` writes the next state into `next_state` and returns the reward; it
    is compiled with Numba, so it may use floats, loops, `math`, and the methods of `rng`, a NumPy Generator. State and action
    are float64 vectors in the units of the two boxes. `start` is a state, "uniform", or a compiled
    `start(params, rng, state)` that writes one. A space Discrete(n) becomes the box [0, n-1], and its values vectors of one
    whole number: `int(state[0])`. Then both spaces are Discrete, and the agent is `zooming.MetricQ`, which plays whole numbers.

    With `outcomes=(values, weights)` the dynamics take, in the place of `rng`, one of the `values` (a vector), drawn with the
    given weights: then `zooming.solve` can compute the optimum. Without chance there is one: `outcomes=([0.0], [1.0])`.

    >>> import gymnasium as gym, zooming
    >>> def thermostat(state, action, step, params, rng, next_state):
    ...     next_state[0] = 0.8 * state[0] + 0.2 * action[0]
    ...     return 1.0 - abs(state[0] - params[0]) / 30.0
    >>> heat = gym.spaces.Box(0.0, 30.0, dtype="float64")
    >>> env = zooming.compiled_env(thermostat, heat, heat, horizon=4, start=[15.0], params=[21.0])
    >>> history = zooming.AdaptiveQ(env, seed=0).learn(200)
    >>> len(history.returns)
    200
    """
    spaces = observation_space, action_space, horizon
    if outcomes is not None:
        return _DeclaredEnv(dynamics, *spaces, start=start, params=params, outcomes=outcomes, name=name)
    return CompiledEnv(dynamics, *spaces, start=start, params=params, name=name)


def _declared(outcomes: Any) -> Outcomes:
    try:
        values, weights = (np.array(part, np.float64) for part in outcomes)
    except (TypeError, ValueError) as error:
        raise SpaceError(f"outcomes={outcomes!r}: give (values, weights), one weight per value") from error
    values = values.reshape(len(values), -1) if values.ndim else values
    if values.ndim != 2 or weights.shape != (len(values),) or not len(values):
        raise SpaceError(
            f"outcomes: {values.shape} values and {weights.shape} weights; give one weight per value, at least one"
        )
    if not (np.isfinite(values).all() and (weights > 0).all() and abs(weights.sum() - 1) < 1e-9):
        raise SpaceError("outcomes: values must be finite and weights positive, with sum 1")
    return values, weights


def _draw_one(given: Any, first: int, n: int, width: int) -> Any:
    """Dynamics that draw one of the n outcomes behind params[first] and play it."""
    weights = first + n * width

    def drawing(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
        share = rng.random()
        i = 0
        while i < n - 1 and share >= params[weights + i]:
            i += 1
        return given(state, action, step, params, params[first + i * width : first + (i + 1) * width], next_state)

    return drawing


def fixed_start(params: Any, rng: Any, state: Any) -> None:
    """The start state stands behind the other parameters."""
    first = params.shape[0] - state.shape[0]
    for i in range(state.shape[0]):
        state[i] = params[first + i]


def uniform_start(params: Any, rng: Any, state: Any) -> None:
    """Uniform between the low and the high corner that stand behind the other parameters."""
    n = state.shape[0]
    first = params.shape[0] - 2 * n
    for i in range(n):
        state[i] = params[first + i] + rng.random() * (params[first + n + i] - params[first + i])


def _starting(start: Any, params: Floats, space: gym.spaces.Box) -> tuple[Start, Floats]:
    if callable(start):
        return _compile(start, START, "start(params, rng, state)"), params
    if isinstance(start, str):
        if start != "uniform":
            raise SpaceError(f'start={start!r}: give a state, "uniform", or a function start(params, rng, state)')
        params = np.concatenate([params, space.low, space.high])
        return _compile(uniform_start, START, "start"), params
    try:
        state = np.asarray(start, np.float64)
        state = np.full(space.shape, state) if state.ndim == 0 else state
        if state.shape != space.shape:
            raise ValueError(f"it has shape {state.shape}")
    except (TypeError, ValueError) as error:
        raise SpaceError(f"start={start!r} is not a state of {space.shape[0]} coordinates ({error})") from error
    if not space.contains(state.astype(np.float64)):
        raise SpaceError(f"start={start!r} lies outside the observation space {space}")
    return _compile(fixed_start, START, "start"), np.concatenate([params, state])


def _vector(values: Any, what: str) -> Floats:
    try:
        return np.array(values, np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise SpaceError(f"{what}={values!r}: give a sequence of numbers") from error


def _are_finite(states: Any, actions: Any) -> bool:
    finite = [isinstance(space, gym.spaces.Discrete) for space in (states, actions)]
    if any(finite) and not all(finite):
        raise SpaceError(
            "a compiled environment has two boxes, or two Discrete spaces; write the Discrete one as a Box of floats"
        )
    return all(finite)


def _is_whole_start(start: Any) -> bool:
    if callable(start) or isinstance(start, str):
        return callable(start)
    return bool((np.asarray(start, np.float64) == np.rint(np.asarray(start, np.float64))).all())


def _float64_box(space: Any, where: str) -> gym.spaces.Box:
    """float64, so that the agent sees exactly the state that the dynamics computed."""
    if isinstance(space, gym.spaces.Discrete):
        first = float(space.start)
        return gym.spaces.Box(first, first + float(space.n) - 1.0, (1,), np.float64)
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
        raise SpaceError(f"{where} of a compiled environment must be a one-dimensional Box of floats, or Discrete, not {space}")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise SpaceError(f"{where} is unbounded: {space}. Give finite bounds.")
    return gym.spaces.Box(space.low.astype(np.float64), space.high.astype(np.float64), dtype=np.float64)


@functools.cache
def _compile(function: Any, signature: Any, form: str) -> Any:
    python = getattr(function, "py_func", function)
    if PLAIN:
        return python
    # Numba's disk cache sees neither globals nor other files, so that only our own functions, which use none, are kept there.
    is_ours = Path(python.__code__.co_filename).parent == Path(__file__).parent and python.__closure__ is None
    try:
        return numba.njit(signature, cache=is_ours, error_model="numpy", nogil=True)(python)
    except (numba.core.errors.NumbaError, TypeError) as error:
        name = getattr(python, "__name__", repr(python))
        raise SpaceError(f"{name} does not compile as {form} (does it return the reward?). Numba says: {error}") from error
