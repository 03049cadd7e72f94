"""A compiled dynamics function as a Gymnasium environment.

`dynamics(state, action, step, params, rng, next_state) -> reward` writes the next state and returns
the reward. Both `env.step` and the kernel that plays whole episodes call this one function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import ArrayLike, NDArray

from zooming.envs import starts
from zooming.envs.functions import compile_as
from zooming.envs.rendered import RenderedEnv
from zooming.envs.starts import Start, Weighted
from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels import DYNAMICS, GIVEN
from zooming.kernels.crossing import Crossing, draw_start, play_step
from zooming.kernels.layout import ROUNDING
from zooming.validation import as_floats, check_int, clipped, known_options, shown

Floats = NDArray[np.float64]
Dynamics = Callable[..., float]
MOST_AXES = 10_000  # largest dimension of a built-in environment
Outcomes = Weighted  # random outcomes [n, k] and their weights [n]


class CompiledEnv(RenderedEnv):
    """A Gymnasium environment with compiled dynamics; `zooming.compiled_env` makes one from yours.

    The dynamics use vectors of `state_box` and `action_box`. For a Box this is the space itself.
    For Discrete(n, start=s) it is the box [s, s + n - 1], of which only integers are used;
    observations and actions are then plain integers.
    """

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
        name: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self.observation_space, self.state_box = _sides(observation_space, "observation_space")
        self.action_space, self.action_box = _sides(action_space, "action_space")
        self.has_whole_states = isinstance(observation_space, gym.spaces.Discrete)
        self.has_whole_actions = isinstance(action_space, gym.spaces.Discrete)
        self._state_ends = float(self.state_box.low[0]), float(self.state_box.high[0])
        self._action_ends = float(self.action_box.low[0]), float(self.action_box.high[0])
        self._as_number = np.dtype(self.observation_space.dtype).type
        self.horizon = check_int(horizon, "horizon", 1)
        self.name = str(name or getattr(dynamics, "__name__", "compiled"))
        self.dynamics = compile_as(
            dynamics, DYNAMICS, "dynamics(state, action, step, params, rng, next_state) -> reward"
        )
        form = "dynamics(state, action, step, params, outcome, next_state) -> reward"
        self.given = (
            None if given is None else compile_as(given, GIVEN, form)
        )  # for a given outcome
        self.start_law = starts.law_of(start, observation_space, self.state_box)
        self.start: Start = self.start_law.draw
        self.params = np.concatenate([_vector(params, "params"), self.start_law.packed])
        self._crossing: Crossing | None = None
        self._step = 0

    def crossing(self, generator: np.random.Generator | None = None) -> Crossing:
        """Return dynamics, start and generator (by default this environment's) for compiled code.

        Keep the object as long as its handle is used: the handle holds addresses into it.
        """
        own = self.np_random if generator is None else generator
        crossing = self._crossing
        if crossing is None or crossing.generator is not own:
            crossing = Crossing(own, self.dynamics, self.start)
            if generator is None:
                self._crossing = crossing
        return crossing

    @property
    def start_kind(self) -> str:
        """Kind of the start law, see `zooming.envs.starts`."""
        return self.start_law.kind

    def try_in_python(self, dynamics: Dynamics, params: Floats, chance: Any) -> None:
        """Play one step in plain Python, where a wrong index raises an error.

        `params` are the user's own, without what this class appends.
        """
        rng, state = np.random.default_rng(0), np.empty(self.state_box.shape)
        draw_start()(self.crossing(rng).handle, self.params, state)
        low, high = self.action_box.low, self.action_box.high
        after, written = np.full_like(state, np.nan), "write every coordinate: next_state[i] = ..."
        action = low.copy() if self.has_whole_actions else (low + high) / 2
        try:
            getattr(dynamics, "py_func", dynamics)(
                state, action, 0, params, rng if chance is None else chance, after
            )
        except IndexError as error:
            raise ConfigurationError(
                f"{self.name}: {error}; the state has {len(state)} coordinates, the action "
                f"{len(low)}, and params "
                f"{len(params)} numbers"
            ) from error
        except Exception:  # some functions run only when compiled; then this check is skipped
            return
        missing = np.flatnonzero(np.isnan(after))
        if len(missing):
            raise ConfigurationError(
                f"{self.name} did not write next_state[{missing[0]}], or wrote NaN; {written}"
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        state = np.empty(self.state_box.shape)
        draw_start()(self.crossing().handle, self.params, state)
        observation = self._observed(state, 0, "")
        self._state, self._step = state, 0
        if self.render_mode is not None:
            self._record()
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._state is None or self._step >= self.horizon:
            raise gym.error.ResetNeeded(f"{self.name}: no episode is under way; call reset() first")
        next_state = np.empty_like(self._state)
        checked = self._checked(action)
        reward = play_step()(
            self.crossing().handle, self._state, checked, self._step, self.params, next_state
        )
        observation = self._observed(next_state, self._step, "next ")
        before, self._state = self._state, next_state
        self._step += 1
        if self.render_mode is not None:
            self._record(before, checked, float(reward))
        return observation, float(reward), self._step >= self.horizon, False, {}

    def observations(self, states: Floats) -> NDArray[Any]:
        """Return a batch of observations for states [n, n_state] of the dynamics."""
        return (
            np.rint(states[:, 0]).astype(self.observation_space.dtype)
            if self.has_whole_states
            else states
        )

    def actions(self, batch: Any) -> Floats:
        """Return a batch of actions as an array [n, n_action] for the dynamics."""
        return np.ascontiguousarray(batch, np.float64).reshape(len(batch), -1)

    def playable(self, states: Floats, actions: Floats) -> tuple[Floats, Floats]:
        """Return the points, rounded to the nearest value where a space is Discrete."""
        if self.has_whole_states:
            states = np.clip(np.rint(states), self.state_box.low, self.state_box.high)
        if self.has_whole_actions:
            actions = np.clip(np.rint(actions), self.action_box.low, self.action_box.high)
        return states, actions

    def are_states(self, points: Floats) -> NDArray[np.bool_]:
        """Return which points [n, n_state] are states, up to rounding errors."""
        low, high = self.state_box.low, self.state_box.high
        if self.has_whole_states:
            found = np.abs(points - np.clip(np.rint(points), low, high)) <= ROUNDING
        else:
            slack = ROUNDING * (high - low)
            found = (points >= low - slack) & (points <= high + slack)
        return np.asarray(found.all(axis=1))

    def _observed(self, state: Floats, step: int, what: str) -> Any:
        """Return a state as an observation. Only Discrete states are checked here."""
        if not self.has_whole_states:
            return state.copy()
        value, low, high = float(state[0]), *self._state_ends  # 10 times faster than `are_states`
        if not (
            low - ROUNDING <= value <= high + ROUNDING and abs(value - round(value)) <= ROUNDING
        ):
            raise TransitionError(
                f"{self.name}, step {step}: {what}state = {value} is not a whole number from "
                f"{low:g} to {high:g}; "
                f"check the environment's space"
            )
        return self._as_number(round(value))

    def outcomes(self, step: int, n: int) -> Outcomes:
        """Return about n weighted random outcomes of a step; exact if there are finitely many."""
        raise ConfigurationError(
            f"{self.name} does not say what its random outcomes are, so that nothing about it can "
            "be computed exactly. "
            "Declare them: compiled_env(dynamics, ..., outcomes=(values, weights)); dynamics "
            "then take an outcome, not rng"
        )

    def start_states(self, n: int) -> Weighted:
        """Return start states [m, n_state] and their weights: all of them, or about n.

        For "uniform" on a box these are the midpoints of a grid; for a start function, independent
        draws with seed 0.
        """
        law = self.start_law
        if len(law.states):
            return law.states, law.weights
        if law.kind == starts.UNIFORM:
            return starts.midpoints(self.state_box, n)
        crossing, states = (
            self.crossing(np.random.default_rng(0)),
            np.empty((n, *self.state_box.shape)),
        )
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

    def reseed(self, seed: int) -> None:
        """Seed the generator like `reset(seed=seed)`, without a draw; call reset() next."""
        self._np_random, self._np_random_seed = seeding.np_random(seed)
        self.abandon()

    def abandon(self) -> None:
        """End the current episode; the next call must be reset()."""
        self._state = None

    def _checked(self, action: Any) -> Floats:
        """Return a validated action as a vector for the dynamics."""
        if self.has_whole_actions and isinstance(action, (int, np.integer)):  # fast path
            first, last = self._action_ends
            if first <= action <= last:
                return np.array([float(action)])
        low, high = self.action_box.low, self.action_box.high
        try:
            point = np.ascontiguousarray(action, np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise TransitionError(
                f"{self.name}, step {self._step}: action {shown(action)} is not in "
                f"{self.action_space}"
            ) from error
        if self.has_whole_actions:
            if point.size != 1 or not (
                low[0] <= point.flat[0] <= high[0] and float(point.flat[0]).is_integer()
            ):
                raise TransitionError(
                    f"{self.name}, step {self._step}: action = {action!r} is not a whole number "
                    f"from {low[0]:g} to "
                    f"{high[0]:g}; give a value of {self.action_space}"
                )
            return point.reshape(1)
        if point.shape != low.shape:
            raise TransitionError(
                f"{self.name}, step {self._step}: action has shape {point.shape}; expected "
                f"{low.shape}"
            )
        point, i = clipped(point, low, high)
        if i is not None:
            raise TransitionError(
                f"{self.name}, step {self._step}: action[{i}] = {point[i]} is outside [{low[i]}, "
                f"{high[i]}]; "
                f"clip it to the action space"
            )
        return point

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledEnv:
        # Compiled functions cannot be copied, so they are shared; generator and state are copied.
        twin = copy.copy(self)
        twin._np_random = copy.deepcopy(self._np_random, memo)
        twin.params = self.params.copy()
        twin._state = None if self._state is None else self._state.copy()
        twin._played, twin._pictures = self._played.copy(), None
        return twin

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, horizon {self.horizon}>"


class _DeclaredEnv(CompiledEnv):
    """A compiled environment with a finite set of weighted outcomes, the same at every step."""

    def __init__(
        self,
        dynamics: Dynamics,
        *spaces: Any,
        outcomes: Any,
        params: Floats,
        name: str | None,
        **options: Any,
    ) -> None:
        values, weights = starts.weighted(outcomes, "outcomes")
        # Append the outcomes and their cumulative weights to the parameters, for `_draw_one`.
        packed = np.concatenate([params, values.ravel(), np.cumsum(weights)])
        given = compile_as(
            dynamics, GIVEN, "dynamics(state, action, step, params, outcome, next_state) -> reward"
        )
        drawing = _draw_one(given, len(params), *values.shape)
        name = name or getattr(dynamics, "__name__", None)
        super().__init__(drawing, *spaces, params=packed, given=dynamics, name=name, **options)
        self._declared = values, weights

    def outcomes(self, step: int, n: int) -> Outcomes:
        return self._declared


def compiled_inside(env: Any) -> CompiledEnv | None:
    """Return the compiled environment inside wrappers that change nothing, or None."""
    while isinstance(env, gym.Wrapper) and type(env) in (OrderEnforcing, PassiveEnvChecker):
        env = env.env
    is_plain = (
        isinstance(env, CompiledEnv)
        and type(env).step is CompiledEnv.step
        and type(env).reset is CompiledEnv.reset
    )
    return env if is_plain else None


def fusible_inside(env: Any) -> CompiledEnv | None:
    """Return `compiled_inside(env)`, or None if it renders every step for a human."""
    inner = compiled_inside(env)
    return None if inner is None or inner.render_mode == "human" else inner


@known_options
def compiled_env(
    dynamics: Dynamics,
    observation_space: gym.spaces.Box | gym.spaces.Discrete,
    action_space: gym.spaces.Box | gym.spaces.Discrete,
    horizon: int,
    *,
    start: Any,
    params: ArrayLike = (),
    outcomes: Any = None,
    name: str | None = None,
    render_mode: str | None = None,
) -> CompiledEnv:
    """Return an environment with your dynamics that trains as fast as the built-in ones.

    State and action are float64 vectors in the units of their spaces. For a Discrete space the
    vector holds one integer, `int(state[0])`, and observations and actions are plain integers.

    Parameters
    ----------
    dynamics : callable
        `dynamics(state, action, step, params, rng, next_state)` writes the next state into
        `next_state` and returns the reward. It is compiled with Numba and may use floats, loops,
        `math`, and the methods of `rng`, a NumPy Generator.
    observation_space, action_space : gymnasium.spaces.Box or Discrete
        The spaces. A Box must be one-dimensional, of floats, with finite bounds.
    horizon : int
        Steps of an episode.
    start : state, (states, weights), "uniform" or callable
        Start state, or its distribution. A function `start(params, rng, state)` writes one; it is
        compiled, and `zooming.solve` and `zooming.evaluate` then work with draws and an error
        bound.
    params : array, optional
        Numbers for the dynamics, as a flat float64 vector. Row i, column j of a table with n
        columns is `params[n * i + j]`.
    outcomes : (values, weights), optional
        The random outcomes and their probabilities, which `zooming.solve` needs. The dynamics then
        take one of the values, a vector, in place of `rng`. Without chance: `([0.0], [1.0])`.
    name : str, optional
        Name for messages. By default that of the function.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Returns
    -------
    CompiledEnv
        A Gymnasium environment.

    Raises
    ------
    ConfigurationError
        If an argument is invalid, or a function does not compile.

    Examples
    --------
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
    spaces, own = (observation_space, action_space, horizon), _vector(params, "params")
    options = {"start": start, "params": own, "name": name, "render_mode": render_mode}
    if outcomes is not None:
        env: CompiledEnv = _DeclaredEnv(dynamics, *spaces, outcomes=outcomes, **options)
    else:
        env = CompiledEnv(dynamics, *spaces, **options)
    env.try_in_python(dynamics, own, None if outcomes is None else env.outcomes(0, 1)[0][0])
    return env


def _draw_one(given: Any, first: int, n: int, width: int) -> Any:
    """Return dynamics that draw one of the n outcomes stored from params[first] on."""
    weights = first + n * width

    def drawing(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
        share = rng.random()
        i = 0
        while i < n - 1 and share >= params[weights + i]:
            i += 1
        return given(
            state,
            action,
            step,
            params,
            params[first + i * width : first + (i + 1) * width],
            next_state,
        )

    return drawing


def _vector(values: Any, what: str) -> Floats:
    try:
        return as_floats(values).ravel()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{what}={shown(values)}: give a sequence of numbers") from error


def _sides(space: Any, where: str) -> tuple[gym.Space[Any], gym.spaces.Box]:
    """Return the space of the environment and the float64 box of the dynamics.

    A Box becomes float64, so that the agent gets exactly what the dynamics computed.
    """
    if isinstance(space, gym.spaces.Discrete):
        first = float(space.start)
        return space, gym.spaces.Box(first, first + float(space.n) - 1.0, (1,), np.float64)
    if (
        not isinstance(space, gym.spaces.Box)
        or len(space.shape) != 1
        or not np.issubdtype(space.dtype, np.floating)
    ):
        raise ConfigurationError(
            f"{where} of a compiled environment must be a one-dimensional Box of floats, or "
            f"Discrete, not {space}"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ConfigurationError(f"{where} is unbounded: {space}. Give finite bounds.")
    box = gym.spaces.Box(
        space.low.astype(np.float64), space.high.astype(np.float64), dtype=np.float64
    )
    return box, box
