"""Environments from a user's own dynamics, with outcomes weighted by an array or by a function."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from zooming.envs import starts
from zooming.envs.compiled import CompiledEnv, Dynamics, Outcomes
from zooming.envs.functions import (
    DYNAMICS_FORM,
    GIVEN_FORM,
    WEIGH_FORM,
    as_vector,
    compile_as,
    compile_given,
    compose,
    draw_law,
    draw_trace,
    draw_weighed,
    is_python,
)
from zooming.envs.records import Records
from zooming.errors import ConfigurationError
from zooming.kernels import WEIGH
from zooming.kernels.loop.crossing import draw_start
from zooming.validation import Floats, check_int, known_options, short_repr


def try_in_python(env: CompiledEnv, dynamics: Dynamics, params: Floats, chance: Any) -> None:
    """Play one step in plain Python, where a wrong index raises an error."""
    rng, state = np.random.default_rng(0), _first_state(env)
    low, high = env.action_box.low, env.action_box.high
    after = np.full_like(state, np.nan)
    action = low.copy() if env.has_whole_actions else (low + high) / 2
    try:
        reward = getattr(dynamics, "py_func", dynamics)(
            state, action, 0, params, rng if chance is None else chance, after
        )
        if is_python(env.given):
            float(reward)
    except IndexError as error:
        raise ConfigurationError(
            f"{env.name}: {error}; the state has {len(state)} coordinates, the action {len(low)}, "
            f"and params {len(params)} numbers"
        ) from error
    except Exception as error:
        if not is_python(env.given):  # some functions run only when compiled: nothing to check
            return
        raise ConfigurationError(
            f"{env.name} raises {type(error).__name__} in its first step: {error}"
        ) from error
    missing = np.flatnonzero(np.isnan(after))
    if len(missing):
        raise ConfigurationError(
            f"{env.name} did not write next_state[{missing[0]}], or wrote NaN; write every "
            "coordinate: next_state[i] = ..."
        )


def _first_state(env: CompiledEnv) -> Floats:
    """Return a start state, drawn with seed 0."""
    state = np.empty(env.state_box.shape)
    draw_start()(env.crossing(np.random.default_rng(0)).handle, env.params, state)
    return state


def check_weights(env: CompiledEnv) -> None:
    """Raise ConfigurationError if `weigh` gives invalid weights at one start state and action."""
    action = (env.action_box.low + env.action_box.high) / 2
    states, actions = env.round_discrete(_first_state(env)[None], action[None])
    fault = weights_fault(env, 0, states[0], actions[0])
    if fault:
        raise ConfigurationError(f"{env.name}, step 0: {fault}")


def weights_fault(env: CompiledEnv, step: int, state: Floats, action: Floats) -> str:
    """Return a sentence on what is wrong with the weights of `weigh`, or "" if nothing is."""
    if env.weigh is None:
        return ""
    values, weights = env.outcomes(step, 1)
    weights = np.full_like(weights, np.nan)
    env.weigh(state, action, step, env.params, values, weights)
    where = f"in state {state.tolist()}, action {action.tolist()}, "
    for i, weight in enumerate(weights):
        if not (weight >= 0 and np.isfinite(weight)):
            return f"{where}weights[{i}] is {weight}; write every weight, a finite number >= 0"
    if weights.sum() > 0:
        return ""
    return f"{where}all weights are 0; at least one outcome must be possible"


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
    reward_range: tuple[float, float] | None = None,
    name: str | None = None,
    render_mode: str | None = None,
    compiled: bool | None = None,
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
    outcomes : (values, weights) or Records, optional
        The random outcomes and their probabilities, or records of them, which `zooming.solve`
        needs. The dynamics then take one of the values, a vector, in place of `rng`. Without
        chance: `([0.0], [1.0])`.
        If the law depends on state, action or step, give a function for the weights. The function
        `weights(state, action, step, params, values, weights)` is compiled, and fills `weights`
        [n] for the values [n, k]. Weights are numbers >= 0. They are divided by their sum.
    reward_range : (float, float), optional
        Lowest and highest reward of one step. Agents then use it by default.
    name : str, optional
        Name for messages. By default that of the function.
    render_mode : {"rgb_array"}, optional
        See `CompiledEnv.render`.
    compiled : bool, optional
        Whether the dynamics must compile. By default, dynamics of a given outcome that do not
        compile are called in Python, with a warning: the results are the same, about 500 times as
        slow. With False they are called in Python without a warning. Without `outcomes`, they
        must compile.

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
    if not callable(dynamics):
        form = DYNAMICS_FORM if outcomes is None else GIVEN_FORM
        raise ConfigurationError(
            f"dynamics={short_repr(dynamics)} is not a function; the first argument is {form}"
        )
    spaces, own = (observation_space, action_space, horizon), as_vector(params, "params")
    options = {
        "start": start, "params": own, "reward_range": reward_range, "name": name,
        "render_mode": render_mode,
    }  # fmt: skip
    if outcomes is None:
        if compiled is False:
            raise ConfigurationError(
                "compiled=False needs outcomes=: dynamics that draw with rng are always compiled"
            )
        env = CompiledEnv(dynamics, *spaces, **options)
        try_in_python(env, dynamics, own, None)
        return env
    declared = DeclaredEnv(dynamics, *spaces, outcomes=outcomes, is_compiled=compiled, **options)
    try_in_python(declared, dynamics, own, declared.first_outcome)
    check_weights(declared)
    return declared


class DeclaredEnv(CompiledEnv):
    """A compiled environment with outcomes from records, or weighted by an array or a function.

    The parameters hold the user's, then what `draw` reads.
    """

    def __init__(
        self,
        dynamics: Dynamics,
        *spaces: Any,
        outcomes: Any,
        params: Floats,
        name: str | None,
        is_compiled: bool | None = None,
        **options: Any,
    ) -> None:
        horizon, first, weigh = spaces[2], len(params), None
        self.records = outcomes if isinstance(outcomes, Records) else None
        if self.records is not None:
            self._laws = self.records.laws(check_int(horizon, "horizon", 1))
        elif isinstance(outcomes, (tuple, list)) and len(outcomes) == 2 and callable(outcomes[1]):
            values, weigh = outcomes
            values = as_vector(values, "outcomes") if np.ndim(values) < 2 else values
            equal = np.full(len(values), 1 / max(len(values), 1))
            self._laws = [starts.check_weighted((values, equal), "outcomes")]
        else:
            self._laws = [starts.check_weighted(outcomes, "outcomes")]
        width = self._laws[0][0].shape[1]
        if self.records is not None and self.records.dependent:
            traces = self.records.traces(horizon)
            if not len(traces):
                raise ConfigurationError(
                    "dependent=True plays whole episodes again, but no episode of the records is "
                    "complete; fill in the missing values, or leave out dependent="
                )
            packed = np.concatenate([[-1.0, float(len(traces))], traces.ravel()])
            draw = draw_trace(first, int(horizon), width)
        elif weigh is not None:
            values = self._laws[0][0]
            packed = np.concatenate([[len(values), first + 2.0], values.ravel()])
            draw = draw_weighed(compile_as(weigh, WEIGH, WEIGH_FORM), first, width)
        else:
            packed = _pack_laws(self._laws, first)
            draw = draw_law(first, len(self._laws), width)
        given = compile_given(dynamics, is_compiled)
        super().__init__(
            compose(given, draw, width), *spaces, params=np.concatenate([params, packed]),
            given=given, draw=draw, n_noise=width, weigh=weigh,
            name=name or getattr(dynamics, "__name__", None), **options,
        )  # fmt: skip
        named = {"name": name, "is_compiled": is_compiled}
        self._made = (dynamics, *spaces), {"params": params, **named, **options}
        self.first_outcome: Floats = self._laws[0][0][0]

    def with_records(self, records: Records | None, **others: Any) -> DeclaredEnv:
        """Return the same environment with other records, or other options."""
        arguments, options = self._made
        return DeclaredEnv(*arguments, outcomes=records, **{**options, **others})

    def with_param(self, index: int, factor: float) -> DeclaredEnv:
        """Return the same environment with one of the user's parameters multiplied."""
        changed = self._made[1]["params"].copy()
        if index >= len(changed):
            raise ConfigurationError(
                f"params has {len(changed)} numbers, so none has index {index}"
            )
        changed[index] *= factor
        return self.with_records(self.records, params=changed)

    def where_recorded(self, outcome: Floats, step: int) -> str:
        return "" if self.records is None else self.records.where(outcome, step)

    def outcomes(self, step: int, n: int) -> Outcomes:
        if self.records is not None and self.records.dependent:
            raise ConfigurationError(
                f"{self.name}: the records are dependent in time, so no law of one step describes "
                "them, and nothing can be computed exactly. zooming.plan plans and values on whole "
                "episodes; zooming.evaluate(agent, env) samples"
            )
        return self._laws[step % len(self._laws)]


def with_records(env: CompiledEnv, records: Records) -> DeclaredEnv:
    """Return an environment with the same dynamics, whose noise is that of the records."""
    if isinstance(env, DeclaredEnv):
        return env.with_records(records)
    if env.given is None or env.start_kind == starts.FUNCTION:
        raise ConfigurationError(
            f"{env.name} cannot take records: its dynamics draw with rng, or its start is a "
            "function. Write zooming.compiled_env(dynamics, ..., outcomes=records)"
        )
    law = env.start_law
    found = DeclaredEnv(
        env.given, env.observation_space, env.action_space, env.horizon, outcomes=records,
        start=(law.states, law.weights) if len(law.states) else "uniform", params=env.params,
        reward_range=None, name=env.name, render_mode=None,
    )  # fmt: skip
    if found.n_noise != env.n_noise:
        raise ConfigurationError(
            f"{env.name} takes noise of {env.n_noise} numbers, but the records have "
            f"{found.n_noise} columns; name as many with noise="
        )
    return found


def _pack_laws(laws: list[Outcomes], first: int) -> Floats:
    """Return what `draw_law` reads: (place, number) of each law, then weights and values of each.

    A law that several steps share is stored once.
    """
    places: dict[int, tuple[int, int]] = {}
    parts: list[Floats] = []
    place = first + 2 * len(laws)
    for law in laws:
        values, weights = law
        if id(values) not in places:
            places[id(values)] = place, len(weights)
            parts += [np.cumsum(weights), values.ravel()]
            place += len(weights) + values.size
    head = np.array([places[id(values)] for values, _ in laws], np.float64).ravel()
    return np.concatenate([head, *parts])
