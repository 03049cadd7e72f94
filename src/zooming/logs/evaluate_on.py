"""Off-policy evaluation: estimate the return of a policy from the log of another one.

The estimate is that of fitted Q evaluation (`fitted`), with a bootstrap over episodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from zooming.agents.base.agent import Agent
from zooming.agents.base.policies import as_function
from zooming.agents.base.problem import LearningProblem, check_env
from zooming.agents.base.status import plain
from zooming.analysis.intervals import Interval, t_quantile
from zooming.errors import ConfigurationError
from zooming.logs import fitted
from zooming.logs.fitted import FittedModel, Trajectories
from zooming.logs.learn import Checker
from zooming.logs.reading import COLUMN_OPTIONS, open_log
from zooming.spaces.axes import axes_of
from zooming.spaces.flatten import CATEGORICAL, ORDERED
from zooming.validation import (
    Floats,
    check_choice,
    check_float,
    check_int,
    count_noun,
    known_options,
)

LEAST_SUPPORT = 0.9  # share of the policy's steps near which the log must have data
LEAST_INSIDE = 0.5  # share of these at which the regression must not extrapolate
LEAST_EFFECTIVE = 10.0  # effective samples below which there is no answer
MORE = 5  # times as many episodes are advised where the log has too few
FEWEST_ADVISED = 100  # episodes of a new log
SETTLED = 1.1  # factor of the change with twice as many neighbors, for chance

ASSUMPTIONS = (
    "dynamics, rewards and starts in the future are the same as when the log was made",
    "the logged state and the step decide what follows: nothing hidden influenced the actions",
    "rewards and transitions vary smoothly, so that nearby logged steps stand for the policy's",
    "the interval covers bias only as far as the change with half and twice as many neighbors "
    "shows it; a kink is covered, a peak narrower than the noise of the log is not",
)


@dataclass(frozen=True)
class Estimate:
    """The result of `zooming.evaluate_on`. `print` shows it with its assumptions.

    Attributes
    ----------
    mean : float
        Estimated mean return of the policy; NaN if there is no answer.
    interval : (float, float)
        Confidence interval; NaN if there is no answer.
    level : float
        Confidence of the interval.
    effective_samples : float
        Number of equally weighted episodes that would be as informative.
    support : float
        Share of the policy's steps near which the log has data.
    n_episodes : int
        Episodes that were used.
    logged_mean : float
        Mean return of the log itself.
    assumptions : tuple of str
        The assumptions of the estimate.
    reason : str or None
        Why there is no answer, and what to do about it.
    n_dropped, n_dropped_rows : int
        Episodes with faults, which were left out (`bad="skip"`), and their rows.
    """

    mean: float
    interval: tuple[float, float]
    level: float
    effective_samples: float
    support: float
    n_episodes: int
    logged_mean: float
    assumptions: tuple[str, ...] = ASSUMPTIONS
    reason: str | None = None
    n_dropped: int = 0
    n_dropped_rows: int = 0

    def __str__(self) -> str:
        low, high = self.interval
        found = f"no answer: {self.reason}"
        if self.reason is None:
            found = str(Interval(self.mean, low, high, self.level))
        logged = f"{plain(self.logged_mean)} in {self.n_episodes:,} episodes"
        if self.n_dropped:
            dropped = count_noun(self.n_dropped, "episode")
            rows = count_noun(self.n_dropped_rows, "row")
            logged += f"; {dropped} with faults left out ({rows})"
        lines = [
            found,
            f"the log itself: {logged}",
            f"effective samples: {self.effective_samples:.1f}",
            f"support: the log has data near {self.support:.1%} of the policy's steps",
            "assumptions:",
            *(f"  {one}" for one in self.assumptions),
        ]
        return "\n".join(lines)


@known_options
def evaluate_on(
    log: Any,
    policy: Any,
    *,
    env: Any = None,
    level: float = 0.95,
    radius: float = 0.1,
    ordered: bool | Iterable[str] | None = None,
    resamples: int = 50,
    seed: int = 0,
    horizon: int | None = None,
    bad: str = "refuse",
    **columns: Any,
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
    bad : {"refuse", "skip"}, default "refuse"
        What to do if rows have faults: raise an error that names them, or leave out their episodes.
    **columns : str or sequence of str
        Names of columns, as for `learn_from`: episode, step, state, action, reward, next_state,
        terminated.

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
        If rows have faults and `bad` is "refuse".

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
    kinds = axes.kinds
    if ordered is not None:
        kinds = [axis.kind for axis in axes_of(axes.states, axes.actions, ordered, axes.names)]
    check_choice("bad", bad, ("refuse", "skip"))
    _check_share(level, "level")
    _check_share(radius, "radius")
    check_int(resamples, "resamples", 20)
    check_int(seed, "seed", 0)
    for name in columns:
        check_choice("a column", name, COLUMN_OPTIONS)
    log_read = read_episodes(log, problem, columns, bad)
    generator = np.random.default_rng(seed)
    most = fitted.MOST_EPISODES
    if len(log_read) > most:
        log_read = log_read.part(np.sort(generator.choice(len(log_read), most, replace=False)))
    n = len(log_read)
    drawn = generator.multinomial(n, np.full(n, 1.0 / n), resamples).T.astype(np.float64)
    counts = np.concatenate([np.ones((n, 1)), drawn], axis=1)
    return _Answer(FittedModel(log_read, policy, problem, kinds, radius), counts, level).estimate()


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


# --- the episodes of a log ------------------------------------------------------------------------


def read_episodes(
    log: Any, problem: LearningProblem, options: dict[str, Any], bad: str
) -> Trajectories:
    """Read the episodes of a log. With `bad="skip"`, episodes with faults are left out."""
    source = open_log(log, problem.axes, options)
    wanted = SimpleNamespace(  # any finite reward will do
        axes=problem.axes, horizon=problem.horizon, reward_range=problem.reward_range,
        rewards="clip",
    )  # fmt: skip
    checker = Checker(wanted)
    parts: list[Any] = []
    n_before = n_dropped = n_rows = 0
    for rows in source.episodes(problem.horizon):
        found = checker.feed(rows)
        runs, is_kept = checker.runs, checker.is_kept
        place = np.arange(len(runs)) - np.flatnonzero(np.diff(runs, prepend=0))[runs - 1]
        is_good = is_kept.copy()
        is_good[is_kept] &= found.steps == place[is_kept]
        bad_runs = np.unique(runs[~is_good])
        n_dropped += len(bad_runs)
        is_chosen = ~np.isin(runs[is_kept], bad_runs)
        _, names = np.unique(runs[is_kept][is_chosen], return_inverse=True)
        parts.append((n_before + names, *(column[is_chosen] for column in found)))
        n_rows += len(names)
        n_before += int(names.max(initial=-1)) + 1
    checker.refuse(source, bad, "evaluated")
    if n_before < 2:
        raise ConfigurationError(
            f"{source.name} has {n_before} whole episodes without faults; give at least 2"
        )
    at, steps, states, actions, rewards, after, is_terminated = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )

    def spread(values: Any) -> Any:
        """Arrange rows as an array over episodes and steps."""
        found = np.zeros((n_before, problem.horizon, *values.shape[1:]), values.dtype)
        found[at, steps] = values
        return found

    return Trajectories(
        spread(states), spread(actions), spread(rewards), spread(after),
        spread(np.ones(n_rows, bool)), spread(is_terminated | (steps == problem.horizon - 1)),
        n_dropped, checker.n_rows - n_rows,
    )  # fmt: skip


# --- the estimate ---------------------------------------------------------------------------------


class _Answer:
    """Compute the estimate and its interval, or the reason why there is none.

    `counts` [n, 1 + resamples] is how often each episode was drawn: once, then in each resample.
    """

    def __init__(self, model: FittedModel, counts: Floats, level: float) -> None:
        self.model, self.log, self.counts, self.level = model, model.log, counts, level
        # A neighborhood of half as many points in d dimensions is narrower by this factor.
        self.growth = float(0.5 ** (1.0 / max(1, int((model.kinds != CATEGORICAL).sum()))))

    def estimate(self) -> Estimate:
        log, model, mean, spread = self.log, self.model, math.nan, math.nan
        reason = self._reason()
        if reason is None:
            model.choose_ridge()
            means = self._means(self.counts)
            known = means[1:][np.isfinite(means[1:])]
            freedom = max(1, int(model.effective_samples) - 1)
            sampling = t_quantile((1 + self.level) / 2, freedom) * float(known.std())
            others = [self._means(self.counts[:, :1], factor)[0] for factor in fitted.WIDTHS]
            changes = np.abs(np.array(others) - means[0])  # with half and twice as many neighbors
            if math.isnan(means[0]) or len(known) < len(means) / 2:
                reason = "few bootstrap samples have an answer; record twice as many episodes"
            elif changes[0] > max(sampling, SETTLED * self.growth * changes[1]):
                # At a kink, twice as many neighbors change the estimate 2^(1/d) times as much as
                # half as many. If they change it less, and half as many by more than the sampling
                # error, the neighborhoods are too wide for `_bias`, as over many steps.
                reason = (
                    "the estimate depends on the number of neighbors by more than chance, and not "
                    "as at a single kink: rewards or values are sharper than the log shows; "
                    f"record {MORE * len(log):,} episodes of this policy with "
                    f"noise={model.radius / 2:g}"
                )
            else:
                mean, spread = float(means[0]), sampling + self._bias(changes)
        return Estimate(
            mean, (mean - spread, mean + spread), self.level, model.effective_samples,
            model.support, len(log), float(log.rewards.sum() / len(log)), reason=reason,
            n_dropped=log.n_dropped, n_dropped_rows=log.n_dropped_rows,
        )  # fmt: skip

    def _means(self, counts: Floats, factor: float = 1.0) -> Floats:
        """Return the estimate for each column of `counts`.

        The regression has `factor` times the usual number of neighbors.
        """
        starts = self.model.values(counts, factor)[0]
        return np.asarray(np.einsum("ic,ic->c", counts, starts) / len(self.log))

    def _bias(self, changes: Floats) -> float:
        """Return how far a regression may be off, from the changes with other numbers of neighbors.

        In d dimensions, a neighborhood of k points has a width proportional to k^(1/d), and so has
        the bias at a kink: it is c times the change of the estimate, c = 1 / (1 - 2^(-1/d)) for
        half as many and 1 / (2^(1/d) - 1) for twice as many. The bias of a smooth function falls
        faster, so that each is an upper bound, and the smaller one is enough.
        """
        factors = np.abs(1.0 / (1.0 - np.array([self.growth, 1.0 / self.growth])))
        return float(max(changes.max(), (factors * changes).min()))

    def _reason(self) -> str | None:
        """Return why the log does not answer, and what to record, or None."""
        model = self.model
        if model.support < LEAST_SUPPORT:
            why = (
                f"the log has data near {model.support:.0%} of the policy's steps only: at the "
                "others nobody did anything like it"
            )
        elif model.inside < LEAST_INSIDE:
            why = (
                f"{1 - model.inside:.0%} of the policy's steps have logged steps near them, but "
                "not on all sides, as in a log without noise: it cannot tell what another action "
                "would earn"
            )
        elif model.effective_samples < LEAST_EFFECTIVE:
            why = (
                "near the policy's actions, the logged episodes amount to "
                f"{model.effective_samples:.1f} of {len(self.log):,}: that many do what the policy "
                f"does, and an estimate needs {LEAST_EFFECTIVE:g}"
            )
        else:
            return None
        return f"{why}; {self._advice()}"

    def _advice(self) -> str:
        """Return which log of the policy would give an answer."""
        model, n = self.model, max(FEWEST_ADVISED, len(self.log))
        axes, kinds = model.axes, model.kinds
        if (kinds == CATEGORICAL).any():  # each category needs data of its own
            n = max(n, min(MORE * n, fitted.MOST_EPISODES))
        noise = order = ""
        if (model.reach[axes.n_state :] > 0).any():
            noise = f" with noise={model.radius:g}"
            own = np.array([axis.kind for axis in axes_of(axes.states, axes.actions)])
            is_given = (own == CATEGORICAL) & (kinds == ORDERED)  # ordered by `ordered=` alone
            names = [axes.names[i] for i in np.flatnonzero(is_given)]
            order = f" and ordered={names}" if names else ""
        return f"record {n:,} or more episodes of this policy{noise}{order}"
