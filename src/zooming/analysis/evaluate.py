"""Estimate the value of a learned policy from sampled episodes, or compute it exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.base.policies import as_function
from zooming.agents.base.problem import check_env, horizon_of, name_of, reset, take_step
from zooming.agents.base.status import plain_ends
from zooming.analysis.intervals import mean_interval
from zooming.analysis.solve import check_solvable
from zooming.envs.compiled import CompiledEnv, find_compiled
from zooming.envs.starts import FUNCTION, N_STARTS, UNIFORM
from zooming.envs.state_grid import bad_transition, weigher
from zooming.errors import ConfigurationError, TransitionError, ZoomingError
from zooming.kernels.loop.crossing import draw_start, play_step
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.solve.backups import spread_states
from zooming.spaces.flatten import build_tree
from zooming.spaces.masks import has_mask
from zooming.validation import check_int, clip_rounding, known_options, short_repr


class FunctionPolicy:
    """A function `policy(step, observation)` with the `predict` of an agent on an environment."""

    def __init__(self, function: Any, env: Any, horizon: int | None = None) -> None:
        self._function = as_function(function)
        self.env, self.horizon = env, horizon_of(env, horizon)
        self._actions = build_tree(env.action_space, "action", "action_space")

    def predict(self, observation: Any, state: Any = None, *, info: Any = None) -> tuple[Any, Any]:
        """Return (action, next step). A batch has an array of steps as `state`."""
        if not isinstance(state, np.ndarray):
            step = 0 if state is None else int(state)
            return self._action(step, observation, info), step + 1
        pairs = zip(state.tolist(), observation, strict=True)
        return np.array([self._action(step, one, None) for step, one in pairs]), state + 1

    def _action(self, step: int, observation: Any, info: Any) -> Any:
        """Return the action in the form of its space. Raise ConfigurationError if outside."""
        action = self._function(step, observation, info)
        wrong = f"step {step}: the policy returned {short_repr(action)}, which is not in "
        wrong += str(self.env.action_space)
        try:
            flat = self._actions.flat(action, "action")
        except ZoomingError as error:
            raise ConfigurationError(f"{wrong}: {error}") from error
        for leaf in self._actions.leaves():
            values, part = flat[leaf.first : leaf.last], slice(leaf.first, leaf.last)
            flat[part], bad = clip_rounding(values, leaf.low, leaf.high)
            if bad is not None:
                raise ConfigurationError(wrong)
        return self._actions.shaped(flat)


def as_policy(policy: Any, env: Any, horizon: int | None) -> tuple[Any, Any]:
    """Return (policy, environment), where the policy has `predict` and `horizon`."""
    if hasattr(policy, "predict") and not isinstance(policy, type):
        if not hasattr(policy, "horizon"):
            raise ConfigurationError(
                f"{short_repr(policy)} has predict but no horizon, so it is not an agent; give a "
                "function of step and observation: evaluate(lambda step, observation: "
                "policy.predict(observation)[0], env)"
            )
        if horizon is not None:
            raise ConfigurationError(
                f"{type(policy).__name__} knows its horizon; leave out horizon="
            )
        env = _env_of(policy) if env is None else env
        if isinstance(policy, Agent) and env is policy.env:
            env = policy.run.free_env(env)  # a copy, if another thread learns on it
        check_env(env)
        return policy, env
    if not callable(policy):
        raise ConfigurationError(
            f"{short_repr(policy)} is not an agent; write evaluate(agent, env), the agent first, "
            "or evaluate(policy, env) with a function policy(step, observation)"
        )
    if env is None:
        raise ConfigurationError("a function as policy needs an environment: evaluate(policy, env)")
    check_env(env)
    return FunctionPolicy(policy, env, horizon), env


def _env_of(agent: Any) -> Any:
    """Return the agent's environment. Raise ConfigurationError if it has none."""
    env = getattr(agent, "env", None)
    if env is None and hasattr(agent, "env_name"):
        raise ConfigurationError(
            f"this agent was loaded without its environment ({agent.env_name}); give one: "
            "evaluate(agent, env), or load the agent with it: zooming.load(path, env=env)"
        )
    if env is None:
        raise ConfigurationError(f"{short_repr(agent)} has no env; give one: evaluate(policy, env)")
    return env


N_OUTCOMES = {1: 400, 2: 100, 3: 40}  # outcomes that replace a density, by number of state axes
MOST_STATES = 20_000_000
SAMPLED = "To sample instead, leave out exact=True: evaluate(agent, env, episodes=1000)"
N_BATCHES = 8  # batches of drawn starts; the interval is over their means


@dataclass(frozen=True)
class Evaluation:
    """The expected return of a greedy policy, with an interval; see `zooming.evaluate`.

    The interval of a sampled value is a 95 % confidence interval over the episodes. The interval of
    an exact value extends to both sides by the sum of two differences:

    - the difference to the value with half as many outcomes (0 for a finite set of outcomes);
    - the error of the start distribution: 0 for one state or (states, weights), the difference to
      about half as many points along each axis for "uniform", and the half-width of a 95 %
      confidence interval over the draws of a start function.

    Attributes
    ----------
    mean
        The expected return.
    low, high
        Ends of the interval.
    exact
        Whether the value was computed, not sampled.
    returns
        Returns of the sampled episodes; empty if exact.
    n_drawn
        Number of start states drawn from a start function; 0 if the starts are known or sampled.
    """

    mean: float
    low: float
    high: float
    exact: bool
    returns: NDArray[np.float64] = field(repr=False, compare=False)
    n_drawn: int = 0

    def __str__(self) -> str:
        over = f", over {self.n_drawn:,} drawn starts" if self.n_drawn else ""
        how = (
            f"computed{over}" if self.exact else f"95% interval over {len(self.returns):,} episodes"
        )
        mean, low, high = plain_ends(self.mean, self.low, self.high)
        return f"{mean} ({low} to {high}, {how})"


@known_options
def evaluate(
    agent: Any,
    env: Any = None,
    episodes: int = 1000,
    *,
    seed: int = 0,
    exact: bool = False,
    resolution: int | None = None,
    horizon: int | None = None,
) -> Evaluation:
    """Return the value of a policy from the environment's start.

    An agent plays its greedy policy (`predict`), and does not learn from the evaluation. On a
    compiled environment it plays all episodes side by side.

    Parameters
    ----------
    agent
        An agent, a rule of a gallery problem, or a function `policy(step, observation)` that
        returns an action, as for `warm_start` and `evaluate_on`.
    env
        The environment; by default the agent's own. A function needs one.
    episodes
        Number of sampled episodes, at least 2. Not used if `exact`.
    seed
        Seed of the generator that the episodes share. Not used if `exact`.
    exact
        Compute the value instead of sampling it, by following every state that the policy can
        reach. Requires a compiled environment with declared outcomes and 1 to 3 state axes.
    resolution
        Number of outcomes per step that replace a density, at least 4. The default is 400, 100 or
        40 for 1, 2 or 3 state axes. Used only if `exact`.
    horizon
        Steps of an episode, for a function, if the environment does not say. Not for agents.

    Returns
    -------
    Evaluation
        The mean return and its interval.

    Raises
    ------
    ConfigurationError
        If there is no environment, the policy is neither an agent nor a function of step and
        observation, an argument is invalid, or the value cannot be computed.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0")
    >>> agent = zooming.AdaptiveQ(env, seed=0)
    >>> history = agent.learn(2000)
    >>> print(zooming.evaluate(agent, env, exact=True))
    4.7189 (4.7189 to 4.7189, computed)
    >>> print(zooming.evaluate(lambda step, observation: [0.7], env, exact=True))
    4.5561 (4.5561 to 4.5561, computed)
    """
    agent, env = as_policy(agent, env, horizon)
    if not exact:
        check_int(episodes, "episodes", 2)
        check_int(seed, "seed", 0, None)
        returns = _play(agent, env, episodes, seed)
        if not np.isfinite(returns).all():
            raise TransitionError(
                f"{name_of(env)}: a reward was not a finite number; check the environment"
            )
        interval = mean_interval(returns)
        return Evaluation(interval.mean, interval.low, interval.high, False, returns)
    try:
        inner = check_solvable(env)
    except ConfigurationError as error:
        raise ConfigurationError(f"exact=True: {error}. {SAMPLED}") from error
    n = N_OUTCOMES[inner.state_box.shape[0]] if resolution is None else resolution
    n = check_int(n, "resolution", 4)
    starts = inner.start_states(N_STARTS)
    rough, mean = (_policy_value(agent, inner, k, *starts) for k in (n // 2, n))
    start_error, n_drawn = 0.0, 0
    if inner.start_kind == UNIFORM:
        # Not just half as many along each axis: a border of balls that falls between the same
        # points of both would go unseen.
        n_axes = inner.state_box.shape[0]
        fewer = inner.start_states((round(N_STARTS ** (1 / n_axes)) // 2 - 1) ** n_axes)
        start_error = abs(mean - _policy_value(agent, inner, n, *fewer))
    elif inner.start_kind == FUNCTION and len(starts[0]) > 1:
        n_drawn = len(starts[0])
        found = [
            _policy_value(agent, inner, n, batch, np.full(len(batch), 1 / len(batch)))
            for batch in np.split(starts[0], N_BATCHES)
        ]
        start_error = mean_interval(found).high - float(np.mean(found))
    half = abs(mean - rough) + start_error
    return Evaluation(mean, mean - half, mean + half, True, np.empty(0), n_drawn)


def _play(agent: Any, env: Any, episodes: int, seed: int) -> NDArray[np.float64]:
    """Play episodes with the greedy policy, side by side if they can be. Return the returns."""
    inner = None if isinstance(agent, FunctionPolicy) else find_compiled(env)
    if inner is not None and inner.render_mode is None:
        found = _play_together(agent, inner, episodes, seed)
        if found is not None:
            return found
    returns = np.zeros(episodes)
    for episode in range(episodes):
        observation, info = reset(env, seed if episode == 0 else None)
        state = None
        for _ in range(agent.horizon):
            masked = info if has_mask(info) else None
            action, state = _predict(agent, env, observation, state, masked)
            observation, reward, terminated, truncated, info = take_step(env, action)
            returns[episode] += float(reward)
            if terminated or truncated:
                break
    return returns


def _play_together(
    agent: Any, env: CompiledEnv, episodes: int, seed: int
) -> NDArray[np.float64] | None:
    """Play all episodes step by step, with one call of `predict` a step, and return their returns.

    Return None if something is wrong: then one episode after another tells what. The environment
    itself is not touched.
    """
    crossing, play = env.crossing(np.random.default_rng(seed)), play_step()
    states, returns = np.empty((episodes, *env.state_box.shape)), np.zeros(episodes)
    for state in states:
        draw_start()(crossing.handle, env.params, state)
    low, high = env.action_box.low, env.action_box.high
    for step in range(min(agent.horizon, env.horizon)):
        try:
            actions, _ = agent.predict(env.observations(states), state=np.full(episodes, step))
        except ZoomingError:
            return None
        played, after = env.actions(actions), np.full_like(states, np.nan)
        if played.shape[1:] != low.shape or not ((low <= played) & (played <= high)).all():
            return None
        for k in range(episodes):
            returns[k] += play(crossing.handle, states[k], played[k], step, env.params, after[k])
        if not env.are_states(after).all():
            return None
        states = after
    return returns


def _predict(
    agent: Any, env: Any, observation: Any, state: Any, info: Any = None
) -> tuple[Any, Any]:
    """Call `agent.predict`. Errors name this environment, not the one that the agent learned on."""
    try:
        action, after = agent.predict(observation, state=state, info=info)
        return action, after
    except ZoomingError as error:
        learned_on = getattr(agent, "env_name", None)
        if learned_on is None:  # a function
            raise
        said = str(error).removeprefix(f"{learned_on}, ")
        raise type(error)(f"{name_of(env)}, {said} (the agent is for {learned_on})") from error


def _policy_value(
    agent: Any,
    env: CompiledEnv,
    n_outcomes: int,
    states: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """Return the expected return from weighted start states.

    The weighted set of reachable states is computed step by step. There is no interpolation: the
    policy jumps at the borders of its balls, and a value interpolated across a border is wrong. The
    set stays small, because equal states are merged and the policy has one action per ball.
    """
    total = 0.0
    for step in range(min(agent.horizon, env.horizon)):
        actions, _ = _predict(agent, env, env.observations(states), np.full(len(states), step))
        outcomes, chances = env.outcomes(step, n_outcomes)
        if len(states) * len(chances) > MOST_STATES:
            can_be_fewer = n_outcomes > 4 and len(env.outcomes(step, 4)[1]) < len(chances)
            advice = "Give a smaller resolution=, at least 4. " if can_be_fewer else ""
            raise ConfigurationError(
                f"the policy reaches more than {MOST_STATES:,} states of {env.name} at step "
                f"{step}, with {len(chances)} outcomes each. {advice}{SAMPLED}"
            )
        after = np.full((len(states) * len(chances), states.shape[1]), np.nan)
        spread, played = np.empty(len(after)), env.actions(actions)
        is_weighed = env.weigh is not None
        arguments = (
            env.given, weigher(env), is_weighed, env.params, step, outcomes, chances.copy(), states,
            weights, played, after, spread,
        )  # fmt: skip
        reward = call_in_thread(partial(spread_states(), *arguments))  # functions cross
        is_good = env.are_states(after)
        if not (is_good.all() and np.isfinite(reward)):
            # If only the sum of rewards is not finite, any state may be the cause.
            first = 0 if is_good.all() else int(np.flatnonzero(~is_good)[0]) // len(chances)
            for i in range(first, len(states)):
                fault = bad_transition(env, step, outcomes, states[i], played[i])
                if fault is not None:
                    raise fault
            raise ConfigurationError(
                f"{env.name}, step {step}: rewards add up to {reward}; rescale them"
            )
        total += reward
        if is_weighed:
            after, spread = after[spread > 0], spread[spread > 0]
        after = np.rint(after) if env.has_whole_states else after
        # NumPy sorts numbers ten times as fast as rows.
        rows, axis = (after.ravel(), None) if after.shape[1] == 1 else (after, 0)
        states, place = np.unique(rows, axis=axis, return_inverse=True)
        states = states.reshape(-1, after.shape[1])
        weights = np.asarray(np.bincount(place.ravel(), spread, len(states)), np.float64)
    return total


def value_at_pause(pauses: Any) -> float:
    """Return the exact value of the policy that is learned, for the checkpoints of `learn`."""
    return evaluate(pauses.agent, pauses.agent.env, exact=True).mean
