"""Off-policy evaluation: estimate the return of a policy from the log of another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from zooming.agents.agent import Agent
from zooming.agents.env_facts import check_env
from zooming.agents.learning_problem import LearningProblem
from zooming.agents.rules import as_function
from zooming.analysis.intervals import t_quantile
from zooming.errors import ConfigurationError
from zooming.logs.estimate import Estimate
from zooming.logs.fitted import FittedModel
from zooming.logs.trajectories import Played, Trajectories, read_episodes
from zooming.logs.weighting import effective_samples, importance_weights, weighted_sums
from zooming.validation import Floats, check_choice, check_float, check_int

MODEL, IMPORTANCE, DOUBLY_ROBUST = METHODS = ("model", "importance", "doubly robust")
UNSUPPORTED = ("nan", "raise")
LEAST_SUPPORT = 0.9  # share of the policy's steps near which the log must have data
LEAST_EFFECTIVE = 10.0  # effective samples below which there is no answer
MOST_EPISODES = 2000  # of a regression; from more, as many are drawn

_SAME = "the process that made the log is the one to come: same dynamics, rewards and starts"
_MARKOV = "the logged state and the step decide what follows: nothing hidden influenced the actions"
_SMOOTH = (
    "rewards and transitions vary smoothly, so that nearby logged steps stand for the policy's"
)
_WIDER = "of bias, the interval includes only the difference to twice as many neighbors"
_PROPENSITY = "the propensities are those of the policy that made the log"
_BALL = (
    "on continuous axes the policy is taken to play uniformly within {radius:g} of the range "
    "around its action"
)
_EITHER = "the propensities or the regression are right; not both need to be"


def evaluate_on(
    log: Any,
    policy: Any,
    *,
    env: Any = None,
    method: str | None = None,
    propensity: str | None = None,
    level: float = 0.95,
    radius: float = 0.1,
    unsupported: str = "nan",
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

    docs/offline.md describes the methods, and how often their intervals were right.

    Parameters
    ----------
    log : data frame, dict, path or Minari dataset
        The log, as for `learn_from`. It must fit in memory.
    policy : Agent or function
        An agent, whose `predict` counts, or a function `policy(step, observation)` that returns an
        action.
    env : gymnasium.Env, optional
        The environment, for its spaces and horizon; it is not played. Only for a policy that is no
        agent.
    method : {"model", "importance", "doubly robust"}, optional
        By regression on the transitions, by weights of the logged episodes, or both. By default
        "doubly robust" if propensities are given, otherwise "model".
    propensity : str, optional
        Column with the probability of each logged action, for continuous actions its density in the
        units of the environment. `zooming.record(..., propensities=True)` writes one.
    level : float, default 0.95
        Confidence of the interval.
    radius : float, default 0.1
        What counts as near, as a share of the range of each axis.
    unsupported : {"nan", "raise"}, default "nan"
        What to do if the log has no data near 10 % of the policy's steps, or less than 10 effective
        samples: return NaN with the reason, or raise an error.
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
        Mean, interval, effective samples, support and assumptions.

    Raises
    ------
    ConfigurationError
        If an argument is wrong, the log cannot be read, or there is no answer and `unsupported` is
        "raise".
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
    method = (MODEL if propensity is None else DOUBLY_ROBUST) if method is None else method
    check_choice("method", method, METHODS)
    check_choice("unsupported", unsupported, UNSUPPORTED)
    check_choice("bad", bad, ("refuse", "skip"))
    _check_share(level, "level")
    _check_share(radius, "radius")
    check_int(resamples, "resamples", 20)
    check_int(seed, "seed", 0)
    if method != MODEL and propensity is None:
        raise ConfigurationError(
            f"method={method!r} needs the propensities of the logged actions; name their column, "
            'propensity=..., or take method="model"'
        )
    names = {
        "episode": episode, "step": step, "state": state, "action": action, "reward": reward,
        "next_state": next_state, "terminated": terminated,
        "propensity": None if method == MODEL else propensity,
    }  # fmt: skip
    found = read_episodes(log, problem, names, bad)
    if method != MODEL and not found.are_whole():
        raise ConfigurationError(
            f"method={method!r} needs whole episodes, and some stop before the horizon without "
            'being terminated; take method="model"'
        )
    generator = np.random.default_rng(seed)
    if len(found) > MOST_EPISODES and method != IMPORTANCE:
        found = found.part(np.sort(generator.choice(len(found), MOST_EPISODES, replace=False)))
    played = Played(policy, problem)
    answer = _Answer(found, played, radius, level, resamples, generator)
    estimate = answer.estimate(method)
    if estimate.reason is not None and unsupported == "raise":
        raise ConfigurationError(f"evaluate_on has no answer: {estimate.reason}")
    return estimate


class _Answer:
    """One call of `evaluate_on`, with its arguments checked."""

    def __init__(
        self,
        log: Trajectories,
        played: Played,
        radius: float,
        level: float,
        resamples: int,
        generator: np.random.Generator,
    ) -> None:
        self.log, self.played, self.radius, self.level = log, played, radius, level
        n = len(log)
        drawn = generator.multinomial(n, np.full(n, 1.0 / n), resamples).T.astype(np.float64)
        self.counts: Floats = np.concatenate([np.ones((n, 1)), drawn], axis=1)
        some = log
        if n > MOST_EPISODES:  # importance sampling asks the model for the support only
            some = log.part(np.sort(generator.choice(n, MOST_EPISODES, replace=False)))
        model = self.model = FittedModel(some, played, radius)
        self.reason = (
            f"the log has data near {model.support:.0%} of the policy's steps only; record a log "
            "with more random actions, or evaluate a policy nearer to the logged one"
            if model.support < LEAST_SUPPORT
            else None
        )

    def estimate(self, method: str) -> Estimate:
        """Return the estimate of a method."""
        if method == MODEL:
            return self._model_estimate()
        weights = importance_weights(self.log, self.played, self.radius)
        effective = effective_samples(weights)
        common = (_SAME, _MARKOV, _PROPENSITY, _BALL.format(radius=self.radius))
        if method == IMPORTANCE:
            means = weighted_sums(weights, self.log.rewards[:, :, None], self.counts)
            return self._estimate(method, means, effective, common)
        if self.reason is not None:  # no regression where there is no data
            nothing = np.full(2, np.nan)
            return self._estimate(method, nothing, effective, (*common, _EITHER, _WIDER))
        means = self._doubly_robust(weights, self.counts, self.model.k)
        rough = self._doubly_robust(weights, self.counts[:, :1], self.model.wide)
        bias = abs(float(means[0] - rough[0]))
        return self._estimate(method, means, effective, (*common, _EITHER, _WIDER), bias)

    def _doubly_robust(self, weights: Floats, counts: Floats, k: int) -> Floats:
        """Return the doubly robust estimates by regressions on k neighbors."""
        log = self.log
        values = self.model.values(counts, k)
        after = np.stack([*values[1:], np.zeros(counts.shape)], axis=1)
        errors = log.rewards[:, :, None] + after - self.model.q_values(values, counts, k)
        gains = np.where(log.has_step[:, :, None], errors, 0.0)
        own = (counts * values[0]).sum(axis=0) / len(log)
        return np.asarray(own + weighted_sums(weights, gains, counts))

    def _model_estimate(self) -> Estimate:
        assumptions, effective = (_SAME, _MARKOV, _SMOOTH, _WIDER), self.model.effective_samples
        if self.reason is not None:
            return self._estimate(MODEL, np.full(2, np.nan), effective, assumptions)
        means = np.einsum("ic,ic->c", self.counts, self.model.values(self.counts)[0])
        rough = self.model.values(self.counts[:, :1], self.model.wide)[0].sum()
        n = len(self.log)
        bias = abs(float(means[0] - rough)) / n
        return self._estimate(MODEL, means / n, effective, assumptions, bias)

    def _estimate(
        self,
        method: str,
        means: Floats,
        effective: float,
        assumptions: tuple[str, ...],
        bias: float = 0.0,
    ) -> Estimate:
        """Return the result from the estimate and its bootstrap samples."""
        reason, mean, spread = self.reason, float(means[0]), float("nan")
        if reason is None and effective < LEAST_EFFECTIVE:
            reason = (
                f"the evidence amounts to {effective:.1f} episodes, fewer than "
                f"{LEAST_EFFECTIVE:g}; record more episodes, or with more random actions"
            )
        if reason is None:
            known = means[1:][np.isfinite(means[1:])]
            if math.isnan(mean) or len(known) < len(means) / 2:
                reason = "at some steps no logged action is near the policy's"
            else:
                freedom = max(1, int(effective) - 1)
                spread = t_quantile((1 + self.level) / 2, freedom) * float(known.std()) + bias
        if reason is not None:
            mean = spread = float("nan")
        return Estimate(
            method, mean, (mean - spread, mean + spread), self.level, effective,
            self.model.support, len(self.log), float(self.log.rewards.sum() / len(self.log)),
            assumptions, reason,
        )  # fmt: skip


def _problem(policy: Any, env: Any, horizon: int | None) -> LearningProblem:
    """Return the problem of a policy: its own, or that of the environment."""
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
            "a function or a rule as policy needs env=, for the spaces and the horizon of the log"
        )
    check_env(env)
    return LearningProblem(env, "evaluate_on", horizon=horizon)


def _check_share(value: Any, name: str) -> None:
    if not 0 < check_float(value, name, 0.0, 1.0) < 1:
        raise ConfigurationError(f"{name}={value!r}: give a number between 0 and 1")
