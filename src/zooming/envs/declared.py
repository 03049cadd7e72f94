"""Environments from a user's own dynamics, with outcomes weighted by an array or by a function."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from zooming.envs import starts
from zooming.envs.compiled import GIVEN_FORM, WEIGH_FORM, CompiledEnv, Dynamics, Outcomes
from zooming.envs.functions import as_vector, compile_as
from zooming.errors import ConfigurationError
from zooming.kernels import GIVEN, WEIGH
from zooming.kernels.loop.crossing import draw_start
from zooming.kernels.solve.laws import draw_index
from zooming.validation import Floats


def try_in_python(env: CompiledEnv, dynamics: Dynamics, params: Floats, chance: Any) -> None:
    """Play one step in plain Python, where a wrong index raises an error.

    `params` are the user's own, without those that `CompiledEnv` appends. `chance` is the outcome
    for the dynamics, or None if they take a generator.
    """
    rng, state = np.random.default_rng(0), np.empty(env.state_box.shape)
    draw_start()(env.crossing(rng).handle, env.params, state)
    low, high = env.action_box.low, env.action_box.high
    after, written = np.full_like(state, np.nan), "write every coordinate: next_state[i] = ..."
    action = low.copy() if env.has_whole_actions else (low + high) / 2
    try:
        getattr(dynamics, "py_func", dynamics)(
            state, action, 0, params, rng if chance is None else chance, after
        )
    except IndexError as error:
        raise ConfigurationError(
            f"{env.name}: {error}; the state has {len(state)} coordinates, the action "
            f"{len(low)}, and params "
            f"{len(params)} numbers"
        ) from error
    except Exception:  # some functions run only when compiled; then this check is skipped
        return
    missing = np.flatnonzero(np.isnan(after))
    if len(missing):
        raise ConfigurationError(
            f"{env.name} did not write next_state[{missing[0]}], or wrote NaN; {written}"
        )


def check_weights(env: CompiledEnv) -> None:
    """Raise ConfigurationError if `weigh` gives invalid weights at one start state and action."""
    state, action = (
        np.empty(env.state_box.shape),
        (env.action_box.low + env.action_box.high) / 2,
    )
    if env.weigh is not None:
        draw_start()(env.crossing(np.random.default_rng(0)).handle, env.params, state)
        fault = weights_fault(
            env, 0, *(point[0] for point in env.round_discrete(state[None], action[None]))
        )
        if fault:
            raise ConfigurationError(f"{env.name}, step 0: {fault}")


def weights_fault(env: CompiledEnv, step: int, state: Floats, action: Floats) -> str:
    """Return a sentence on what is wrong with the weights of `weigh`, or "" if nothing is."""
    values, weights = env.outcomes(step, 1)
    if env.weigh is None:
        return ""
    weights = np.full_like(weights, np.nan)
    env.weigh(state, action, step, env.params, values, weights)
    where = f"in state {state.tolist()}, action {action.tolist()}, "
    for i, weight in enumerate(weights):
        if not (weight >= 0 and np.isfinite(weight)):
            return f"{where}weights[{i}] is {weight}; write every weight, a finite number >= 0"
    return (
        ""
        if weights.sum() > 0
        else f"{where}all weights are 0; at least one outcome must be possible"
    )


def compiled_env(
    dynamics: Dynamics,
    observation_space: gym.spaces.Box | gym.spaces.Discrete,
    action_space: gym.spaces.Box | gym.spaces.Discrete,
    horizon: int,
    *,
    start: Any,
    params: ArrayLike = (),
    outcomes: Any = None,
    reward_range: tuple[float, float] | None = None,
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
        Start state, or its distribution. A function `start(params, rng, state)` writes a start
        state into `state`. It is compiled. `zooming.solve` and `zooming.evaluate` then use draws
        of it and report the error.
    params : array, optional
        Numbers for the dynamics, as a flat float64 vector. Row i, column j of a table with n
        columns is `params[n * i + j]`.
    outcomes : (values, weights), optional
        The random outcomes and their probabilities, which `zooming.solve` needs. The dynamics then
        take one of the values, a vector, in place of `rng`. Without chance: `([0.0], [1.0])`.
        If the law depends on state, action or step, give a function for the weights. The function
        `weights(state, action, step, params, values, weights)` is compiled, and fills `weights`
        [n] for the values [n, k]. Weights are numbers >= 0. They are divided by their sum.
    reward_range : (float, float), optional
        Lowest and highest reward of one step. Agents then use it by default.
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

    A law that depends on the action: the higher the price, the fewer of 5 customers buy.

    >>> def sell(state, action, step, params, outcome, next_state):
    ...     sold = min(state[0], outcome[0])
    ...     next_state[0] = state[0] - sold
    ...     return sold * action[0]
    >>> def customers(state, action, step, params, values, weights):
    ...     buys = 1.0 - action[0] / 10.0  # probability that a customer buys
    ...     ways = 1.0  # 5 choose i
    ...     for i in range(6):
    ...         weights[i] = ways * buys**i * (1.0 - buys) ** (5 - i)
    ...         ways *= (5.0 - i) / (i + 1.0)
    >>> stock = gym.spaces.Box(0.0, 8.0, dtype="float64")
    >>> price, law = gym.spaces.Box(0.0, 10.0, dtype="float64"), (range(6), customers)
    >>> env = zooming.compiled_env(sell, stock, price, 3, start=[8.0], outcomes=law)
    >>> optimal = zooming.solve(env, 80)
    >>> round(optimal.return_, 2), optimal.action(2, [1.0]).round(2)  # price of the last piece
    (35.79, array([6.99]))
    """
    spaces, own = (observation_space, action_space, horizon), as_vector(params, "params")
    options = {
        "start": start,
        "params": own,
        "reward_range": reward_range,
        "name": name,
        "render_mode": render_mode,
    }
    if outcomes is not None:
        env: CompiledEnv = _DeclaredEnv(dynamics, *spaces, outcomes=outcomes, **options)
    else:
        env = CompiledEnv(dynamics, *spaces, **options)
    try_in_python(env, dynamics, own, None if outcomes is None else env.outcomes(0, 1)[0][0])
    check_weights(env)
    return env


class _DeclaredEnv(CompiledEnv):
    """A compiled environment with a finite set of outcomes, weighted by an array or a function."""

    def __init__(
        self,
        dynamics: Dynamics,
        *spaces: Any,
        outcomes: Any,
        params: Floats,
        name: str | None,
        **options: Any,
    ) -> None:
        weigh = (
            outcomes[1]
            if isinstance(outcomes, (tuple, list)) and len(outcomes) == 2 and callable(outcomes[1])
            else None
        )
        if weigh is not None:
            values = as_vector(outcomes[0], "outcomes") if np.ndim(outcomes[0]) < 2 else outcomes[0]
            outcomes = values, np.full(len(values), 1 / max(len(values), 1))
        values, weights = starts.check_weighted(outcomes, "outcomes")
        given = compile_as(dynamics, GIVEN, GIVEN_FORM)
        # Append the outcomes, and their cumulative weights if fixed, to the parameters.
        if weigh is None:
            packed = np.concatenate([params, values.ravel(), np.cumsum(weights)])
            drawing = _draw_one(given, len(params), *values.shape)
        else:
            packed = np.concatenate([params, values.ravel()])
            drawing = _draw_weighed(
                given, compile_as(weigh, WEIGH, WEIGH_FORM), len(params), *values.shape
            )
        name = name or getattr(dynamics, "__name__", None)
        super().__init__(
            drawing, *spaces, params=packed, given=dynamics, weigh=weigh, name=name, **options
        )
        self._declared = values, weights

    def outcomes(self, step: int, n: int) -> Outcomes:
        return self._declared


# Both are cached: the same function again, so that `compile_as` compiles it once in a process.
@functools.cache
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


@functools.cache
def _draw_weighed(given: Any, weigh: Any, first: int, n: int, width: int) -> Any:
    """Return dynamics that weigh the n outcomes stored from params[first] on, and draw one."""

    def drawing(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
        values = params[first : first + n * width].reshape((n, width))
        weights = np.empty(n)
        weigh(state, action, step, params, values, weights)
        i = draw_index(weights, rng)
        return given(state, action, step, params, values[i], next_state) if i >= 0 else np.nan

    return drawing
