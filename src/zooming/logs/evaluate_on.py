"""Off-policy evaluation: estimate the return of a policy from the log of another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zooming.agents.base.agent import Agent
from zooming.agents.base.env_facts import check_env
from zooming.agents.base.problem import LearningProblem
from zooming.agents.base.rules import as_function
from zooming.errors import ConfigurationError
from zooming.logs import fitted
from zooming.logs.estimators import Answer, Estimate
from zooming.logs.trajectories import Played, read_episodes
from zooming.spaces.axes import axes_of
from zooming.validation import check_choice, check_float, check_int


def evaluate_on(
    log: Any,
    policy: Any,
    *,
    env: Any = None,
    propensity: str | None = None,
    level: float = 0.95,
    radius: float = 0.1,
    ordered: bool | Iterable[str] | None = None,
    resamples: int = 50,
    seed: int = 0,
    horizon: int | None = None,
    episode: str | None = None,
    step: str | None = None,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    reward: str | None = None,
    next_state: str | Sequence[str] | None = None,
    terminated: str | None = None,
    bad: str = "refuse",
) -> Estimate:
    """Estimate the mean return of a policy from a log that another policy made.

    docs/offline.md describes the methods, and where their intervals may miss the truth.

    Parameters
    ----------
    log : data frame, dict or path
        The log, as for `learn_from`. It must fit in memory.
    policy : Agent or function
        An agent, whose `predict` counts, or a function `policy(step, observation)` that returns an
        action.
    env : gymnasium.Env, optional
        The environment, for its spaces and horizon. It is not played. Only for a policy that is
        not an agent.
    propensity : str, optional
        Column with the probability of each logged action, for continuous actions its density in the
        units of the environment. `zooming.record(..., propensities=True)` writes one. The estimate
        is then doubly robust: the errors of the regression are corrected by weights of the logged
        episodes. By default it is the regression alone.
    level : float, default 0.95
        Confidence of the interval.
    radius : float, default 0.1
        Largest distance that counts as near, as a share of the range of each axis. It is rounded
        to whole steps on integer axes. Different categories are never near.
    ordered : bool or names of axes, optional
        Discrete axes whose neighboring values are similar, as for agents. True means all of them.
        By default the agent's own setting, otherwise none. Integer boxes always have an order.
    resamples : int, default 50
        Bootstrap samples of the episodes, for the interval.
    seed : int, default 0
        Seed of the bootstrap.
    horizon : int, optional
        Steps of an episode, if the environment does not say. Not for agents.
    episode, step, reward, terminated : str, optional
        Names of columns, as for `learn_from`.
    state, action, next_state : str or sequence of str, optional
        Names of columns, as for `learn_from`.
    bad : {"refuse", "skip"}, default "refuse"
        What to do if rows have faults: raise an error that names them, or leave out their episodes.

    Returns
    -------
    Estimate
        Mean, interval, effective samples, support, assumptions, and the count of left-out episodes.
        The mean is NaN if the log has data near less than 90 % of the policy's steps, or less than
        10 effective samples. `reason` then says what helps.

    Raises
    ------
    ConfigurationError
        If an argument is wrong, or the log cannot be read.
    TransitionError
        If rows have faults and `bad` is "refuse", or a propensity is not positive.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Newsvendor-v0")
    >>> rule = env.unwrapped.rule
    >>> log = zooming.record(env, rule, 400, noise=0.2, seed=0)
    >>> found = zooming.evaluate_on(log, rule, env=env)
    >>> low, high = found.interval
    >>> low < zooming.evaluate(rule, env, exact=True).mean < high
    True
    """
    problem = _problem(policy, env, horizon)
    axes = problem.axes
    kinds = None
    if ordered is not None:
        given = axes_of(axes.states, axes.actions, ordered, axes.names)
        kinds = [axis.kind for axis in given]
    check_choice("bad", bad, ("refuse", "skip"))
    _check_share(level, "level")
    _check_share(radius, "radius")
    check_int(resamples, "resamples", 20)
    check_int(seed, "seed", 0)
    names = {
        "episode": episode, "step": step, "state": state, "action": action, "reward": reward,
        "next_state": next_state, "terminated": terminated,
        "propensity": propensity,
    }  # fmt: skip
    found = read_episodes(log, problem, names, bad)
    if propensity is not None and not found.are_whole():
        raise ConfigurationError(
            "weights need whole episodes, and some of the log stop before "
            f"{problem.horizon} steps without `terminated`; leave out propensity="
        )
    generator = np.random.default_rng(seed)
    most = fitted.MOST_EPISODES
    if len(found) > most:
        found = found.part(np.sort(generator.choice(len(found), most, replace=False)))
    played = Played(policy, problem, kinds)
    return Answer(found, played, radius, level, resamples, generator).estimate()


def _problem(policy: Any, env: Any, horizon: int | None) -> LearningProblem:
    """Return the problem of an agent, or of the environment if the policy is a function."""
    if isinstance(policy, Agent):
        if env is not None or horizon is not None:
            raise ConfigurationError(
                f"{type(policy).__name__} knows its spaces and its horizon; leave out env= and "
                "horizon="
            )
        return policy.problem
    as_function(policy)
    if env is None:
        raise ConfigurationError(
            "env= is missing: a function does not say what states and actions are, nor how long an "
            "episode is; give the environment of the log (it is not played)"
        )
    check_env(env)
    return LearningProblem(env, "evaluate_on", horizon=horizon)


def _check_share(value: Any, name: str) -> None:
    if not 0 < check_float(value, name, 0.0, 1.0) < 1:
        raise ConfigurationError(f"{name}={value!r}: give a number between 0 and 1")
