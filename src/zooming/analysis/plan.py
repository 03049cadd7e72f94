"""Plan with equations and records, and say from the records alone how good the plan is.

The plan is the best policy for the law of the records, see `envs.state_grid.GridPolicy`. Three
numbers judge it. Let the n complete episodes of the records be cut into folds, let p_-f be the plan
without the episodes of fold f, and R(p, e) the return of p on the recorded noise of episode e:

    out of sample    mean of R(p_-f(e), e), with a t interval over the episodes e,
    in sample        mean of R(p, e): too good, because p has seen e; the difference is optimism,
    bound            mean of max_p R(p, e), each episode known in advance: nobody earns more.

The plans of the folds share episodes, so the t interval is too short. With F folds, each plan is
made of (F - 1) / F of the episodes, and the interval is widened as if there were so many only. In
a comparison on the same episodes their noise cancels, and the plans themselves differ between
records as much. So there the variance of the mean is s^2 / n (1 + F / (F - 1)), as Nadeau and
Bengio (2003) correct it for folds. Episodes are played whole, so the first two are honest for noise
that is dependent in time, too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.auto.auto import Auto
from zooming.agents.base.agent import Policy
from zooming.agents.base.status import plain, plain_ends
from zooming.agents.resolver import Resolver, largest_change, planning_laws, solve_plan
from zooming.analysis.evaluate import as_policy
from zooming.analysis.intervals import Interval, mean_interval
from zooming.envs.compiled import CompiledEnv, find_compiled
from zooming.envs.declared import DeclaredEnv
from zooming.envs.records import Records, rank
from zooming.envs.state_grid import MOST_AXES, GridPolicy, bad_transition, usual_cells
from zooming.errors import ConfigurationError
from zooming.kernels.loop.jit import call_in_thread
from zooming.kernels.solve.policies import advance
from zooming.progress import counted
from zooming.validation import (
    Floats,
    Ints,
    check_float,
    check_int,
    count_noun,
    known_options,
    short_repr,
)

FEW = 30  # episodes below which a plan is doubted
MOST_BOUND = 200  # episodes for the perfect-information bound
MOST_STARTS = 64  # start states that are played one by one
LEARNED_EPISODES = 2000  # that Auto learns if the states have too many axes for a grid
DOUBT = 3.3  # standard errors beyond which something is said to depend
FAR = 20.0  # ranges from the 5 % to the 95 % quantile between a value and the median: a typo?
DEPENDS = 0.001  # probability below which noise is said to depend on a state or an action
Choose = Callable[[int, Floats], Floats]


@dataclass(frozen=True)
class PlanValue(Interval):
    """The value of a plan out of sample, with its 95 % interval; see `zooming.plan`.

    It can be called: `plan.value(step, observation)` is V of the plan in one state.

    Attributes
    ----------
    mean, low, high
        Mean return over recorded episodes that the plan had not seen, and its interval.
    in_sample
        The same for episodes that it has seen: too good.
    bound
        Mean of the best return of each episode, known in advance: nobody earns more.
    """

    in_sample: float = math.nan
    bound: float = math.nan
    _agent: Any = field(default=None, repr=False, compare=False)

    @property
    def optimism(self) -> float:
        """How much better the plan looks on the records that made it."""
        return self.in_sample - self.mean

    def __call__(self, step: int, observation: Any) -> float:
        return float(self._agent.value(step, observation))

    def __float__(self) -> float:
        return self.mean


@dataclass(frozen=True)
class Comparison:
    """A plan against a rule on the same recorded episodes; see `Plan.compare`.

    `difference` is the mean of (plan - rule) with its 95 % interval, the plan out of sample; `plan`
    and `rule` are the mean returns; `worst` are the episodes on which the plan lost most.
    """

    difference: Interval
    plan: float
    rule: float
    worst: list[tuple[int, float]]

    def __str__(self) -> str:
        one = self.difference
        worst = ", ".join(f"{k} ({plain(x)})" for k, x in self.worst[:3]) or "none"
        better = "the plan is better" if one.low > 0 else "no difference is certain"
        verdict = "the rule is better" if one.high < 0 else better
        return (
            f"plan {plain(self.plan)}, rule {plain(self.rule)}: difference {one}, {verdict}. Worst "
            f"episodes of the plan: {worst}"
        )


@dataclass(frozen=True)
class Change:
    """What a plan earns if `what` is true instead; see `Plan.sensitivity`.

    `value` is the mean return of the plan, NaN if it cannot be played, and `replanned` that of a
    plan made for it, if that is better.
    """

    what: str
    value: float
    replanned: float
    note: str = ""

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"{self.what}: {plain(self.value)}, replanned {plain(self.replanned)}{note}"


class Plan:
    """A plan made of equations and records, returned by `zooming.plan`.

    Attributes
    ----------
    value : PlanValue
        Its value out of sample, with interval, in-sample value and bound. Called with a step and an
        observation, it returns V.
    warnings : list of str
        What seems wrong with the records.
    agent : Resolver or Auto
        The agent that plays the plan. It goes on learning where it is used.
    returns : array
        Return of each complete episode of the records, out of sample.
    """

    def __init__(self, env: DeclaredEnv, agent: Any, folds: int, advance: Any) -> None:
        assert env.records is not None
        self.env, self.agent, self.records = env, agent, env.records
        self.horizon, self.env_name, self.axes = agent.horizon, agent.env_name, agent.axes
        self.traces = self.records.traces(self.horizon)
        self._starts = _starts(env, len(self.traces))
        self._folds = np.random.default_rng(0).permutation(len(self.traces)) % folds
        self.returns = np.empty(len(self.traces))
        self._numbers = _complete(self.records, self.horizon)
        for fold in range(folds):
            left_out = self._folds == fold
            # Incomplete episodes count for the law.
            keep = np.ones(len(self.records.cut(self.horizon)[0]), bool)
            keep[self._numbers[left_out]] = False
            choose = self._make(self.records.take(keep, self.horizon))
            self.returns[left_out] = self._play(choose, left_out)
            advance(1)
        own = self._play(choices(self.env, self.agent))
        interval = _widened(mean_interval(self.returns), math.sqrt(folds / (folds - 1)))
        bound = self._bound()
        advance(1)
        more = {"in_sample": float(own.mean()), "bound": bound, "_agent": agent}
        self.value = PlanValue(**vars(interval), **more)
        self.warnings = _doubts(self.records, self.horizon) + self._unused()

    # --- how good ---------------------------------------------------------------------------------

    def compare(self, rule: Any, records: Records | None = None) -> Comparison:
        """Compare with a rule on the same recorded episodes, the plan out of sample.

        Parameters
        ----------
        rule : function, Plan or agent
            A function `rule(step, observation)` that returns an action, another plan of the same
            records, or an agent.
        records : Records, optional
            Other records, which the plan has not seen, to compare on. By default its own, with
            plans made without the episodes that they are valued on.

        Returns
        -------
        Comparison
            Difference with its interval, both means, and the episodes on which the plan lost most.
        """
        wider, numbers = 1.0, self._numbers
        if records is not None:
            traces, numbers = records.traces(self.horizon), _complete(records, self.horizon)
            starts = _starts(self.env, len(traces))
            ours, theirs = (
                play_traces(self.env, traces, starts, choices(self.env, one))
                for one in (self, rule)
            )
        else:
            is_paired = isinstance(rule, Plan) and np.array_equal(rule.traces, self.traces)
            ours, folds = self.returns, int(self._folds.max()) + 1
            wider = math.sqrt(1.0 + folds / (folds - 1))
            theirs = rule.returns if is_paired else self._play(choices(self.env, rule))
        away = ours - theirs
        order = np.argsort(away, kind="stable")
        worst = [(int(numbers[k]), float(away[k])) for k in order[:5] if away[k] < 0]
        difference = _widened(mean_interval(away), wider)
        return Comparison(difference, float(ours.mean()), float(theirs.mean()), worst)

    def needs(self, gain: float) -> int:
        """Return about how many more episodes of records shrink the loss by noise to `gain`.

        The loss of a plan from n episodes is taken as c / n. Plans from a quarter of the episodes
        are valued on the others, and c follows from the difference to `value`. It is a rough
        number: of 60 episodes, it may be 0 or four times too large.

        Parameters
        ----------
        gain : float
            Loss to accept, in units of the return.

        Returns
        -------
        int
            Number of episodes; 0 if the loss seems smaller already.
        """
        check_float(gain, "gain", 1e-300, math.inf)
        n = len(self.traces)
        if n < 8:
            raise ConfigurationError(
                f"{count_noun(n, 'complete episode')} are too few to tell; record at least 8"
            )
        quarter = np.random.default_rng(1).permutation(n) % 4
        totals, counts = np.zeros(n), np.zeros(n)
        for part in range(4):
            choose = self._make(self._some(quarter == part))
            rest = quarter != part
            totals[rest] += self._play(choose, rest)
            counts[rest] += 1
        found = totals / counts
        n_quarter, n_own = n / 4, n * (1 - 1 / (self._folds.max() + 1))
        loss = max(0.0, float(self.returns.mean() - found.mean()))
        slope = loss / (1 / n_quarter - 1 / n_own)
        return int(max(0, math.ceil(slope / gain - n)))

    def sensitivity(self, params: Mapping[str, int] | None = None) -> list[Change]:
        """Return what the plan earns if the noise or the numbers of the dynamics are others.

        The noise is 10 % smaller or larger; the last third of the records is the truth; each
        named parameter is 10 % smaller or larger.

        Parameters
        ----------
        params : dict, optional
            {name: index in params} of the numbers to change.

        Returns
        -------
        list of Change
            One per change. Print them.
        """
        found, choose, n = [], choices(self.env, self.agent), len(self.traces)
        for factor in (0.9, 1.1):
            what = _changed(", ".join(self.records.names), factor)
            found.append(self._change(what, choose, self.records.scaled(factor), self.env))
        last = np.arange(n) >= n - n // 3
        if last.sum() >= 2 and (~last).sum() >= 2:
            late = self._play(self._make(self._some(~last)), last)
            again = self._play(self._make(self._some(last)), last)
            away = largest_change(self.traces, int(last.sum()))
            note = f"the noise of the last third differs by {away:.1f} standard errors"
            note += ", so its law seems to change" if away > DOUBT else ""
            what = "the last third is the truth, planned on the others"
            best = max(late.mean(), again.mean())
            found.append(Change(what, float(late.mean()), float(best), note))
        for name, index in (params or {}).items():
            for factor in (0.9, 1.1):
                model = self.env.with_param(check_int(index, f"params[{name!r}]", 0), factor)
                found.append(self._change(_changed(name, factor), choose, self.records, model))
        return found

    def _change(self, what: str, choose: Choose, records: Records, model: DeclaredEnv) -> Change:
        """Return what the plan, and a new one, earn on other records or with another model."""
        traces = records.traces(self.horizon)
        try:
            value = play_traces(model, traces, self._starts, choose).mean()
            again = play_traces(model, traces, self._starts, self._make(records, model)).mean()
        except ConfigurationError as error:
            return Change(what, math.nan, math.nan, str(error))
        return Change(what, float(value), float(max(value, again)))

    def _some(self, mask: NDArray[np.bool_]) -> Records:
        """Return the records of some complete episodes."""
        return self.records.take(self._numbers[mask], self.horizon)

    def _make(self, records: Records, model: DeclaredEnv | None = None) -> Choose:
        """Return the actions of a plan for other records, made as this one."""
        model = model or self.env
        if isinstance(self.agent, Auto):
            return choices(self.env, _learn(model.with_records(records)))
        laws = planning_laws(model, records, self.horizon)
        usual = usual_cells(model, sum(len(weights) for _, weights in laws))
        policy = GridPolicy.of(model, self.horizon, self.agent.resolution or usual)
        solve_plan(policy, model, records)
        return lambda step, states: policy.actions(np.full(len(states), step), states)

    def _play(self, choose: Choose, mask: Any = slice(None)) -> Floats:
        """Return the returns on the episodes of a mask, by default on all."""
        starts = [states[mask] for states in self._starts]
        return play_traces(self.env, self.traces[mask], starts, choose)

    def _unused(self) -> list[str]:
        """Return a sentence for each column that changes no return of random actions."""
        rng, names = np.random.default_rng(0), self.records.names
        low, high = self.env.action_box.low, self.env.action_box.high
        shape = self.horizon, len(self.traces), len(low)
        drawn = low + rng.random(shape) * (high - low)
        drawn = np.rint(drawn) if self.env.has_whole_actions else drawn
        found = []
        for k in range(len(names) if len(names) > 1 else 0):
            other = self.traces.copy()
            other[:, :, k] = np.roll(other[:, :, k], 1, axis=0)
            try:
                earned = [
                    play_traces(self.env, noise, self._starts, lambda step, x: drawn[step])
                    for noise in (self.traces, other)
                ]
            except ConfigurationError:  # the values of two episodes do not go together
                continue
            if (earned[0] == earned[1]).all() and (other != self.traces).any():
                found.append(f"the dynamics do not seem to use {names[k]}: leave the column out")
        return found

    def _bound(self) -> float:
        """Return the mean over episodes of the best return with the episode known in advance."""
        env = self.env
        if env.state_box.shape[0] > MOST_AXES or env.action_box.shape[0] > MOST_AXES:
            return math.nan
        n = min(len(self.traces), MOST_BOUND)
        chosen = np.unique(np.linspace(0, len(self.traces) - 1, n).astype(int))
        resolution = None if isinstance(self.agent, Auto) else self.agent.plan.resolution
        policy = GridPolicy.of(env, self.horizon, resolution)
        grid = policy.grid(env, [(trace[None], np.ones(1)) for trace in self.traces[0]])
        best, total = policy.best, 0.0
        for k in chosen:
            grid.outcomes = [(row[None], np.ones(1)) for row in self.traces[k]]
            best = call_in_thread(partial(grid.solve, best))
            total += float(np.mean([grid.value(0, states[k]) for states in self._starts]))
        return total / len(chosen)

    # --- the policy -------------------------------------------------------------------------------

    def predict(self, observation: Any, state: Any = None, *args: Any, **options: Any) -> Any:
        """Return (action, next step), see `Agent.predict`."""
        return self.agent.predict(observation, state, *args, **options)

    def policy(self) -> Policy:
        """Return a function that plays the plan and keeps the step, see `Agent.policy`."""
        found: Policy = self.agent.policy()
        return found

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        """Return Q of an action now, with the plan from the next step on."""
        return float(self.agent.q_value(step, observation, action))

    def explain(self, *args: Any, **options: Any) -> Any:
        """Return the plan as rules, see `zooming.explain`."""
        return self.agent.explain(*args, **options)

    def export(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the plan as Python, JSON, C or SQL, see `Agent.export`."""
        found: Path = self.agent.export(path, **options)
        return found

    def show(self, path: str | os.PathLike[str] = "plan.html", **options: Any) -> Path:
        """Write an HTML page on which a person moves the state, see `Agent.show`."""
        found: Path = self.agent.show(path, **options)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent that plays the plan. `zooming.load` reads it, and it goes on learning."""
        self.agent.save(path)

    def __str__(self) -> str:
        v = self.value
        mean, low, high = plain_ends(v.mean, v.low, v.high)
        lines = [
            f"plan for {self.env_name}: {count_noun(len(self.traces), 'complete episode')} of "
            f"{self.horizon} steps, {self._law()}",
            f"value out of sample: {mean} (95 % interval {low} to {high})",
            f"in sample: {plain(v.in_sample)}; with perfect information: {plain(v.bound)}",
            *(f"warning: {one}" for one in self.warnings),
        ]
        return "\n".join(lines)

    def _law(self) -> str:
        how, chance = self.records.choice(self.horizon)
        named = {"pooled": "one law", "step": "one law per step", "season": "one law per season"}
        kept = ", valued on whole episodes" if self.records.dependent else ""
        return named[how] + ("" if math.isnan(chance) else f" (p = {chance:.2g})") + kept

    def __repr__(self) -> str:
        mean, low, high = plain_ends(self.value.mean, self.value.low, self.value.high)
        return f"Plan({self.env_name}, value {mean} ({low} to {high}))"


@known_options
def plan(
    env: Any,
    *,
    folds: int = 10,
    resolution: int | None = None,
    names: Any = None,
    progress_bar: bool = False,
) -> Plan:
    """Plan for an environment whose noise is recorded, and estimate what the plan earns.

    With up to three state axes and three action axes, the plan is solved on a grid. With more,
    `Auto` learns it in the simulator that equations and records make. With three, both are tried,
    and the one that earns more on the records is the plan.

    Parameters
    ----------
    env : CompiledEnv
        An environment of `zooming.compiled_env(..., outcomes=records)`.
    folds : int, default 10
        Number of parts into which the episodes are cut for the value out of sample.
    resolution : int, optional
        Cells per state axis.
    names : dict or sequence, optional
        Names of the axes, see `Agent`. By default those of `env.metadata["names"]`, if any.
    progress_bar : bool, default False
        Show a progress bar. Needs rich.

    Returns
    -------
    Plan
        The plan with its value. Print it.

    Raises
    ------
    ConfigurationError
        If the environment has no records, or fewer than two complete episodes of them.

    Examples
    --------
    >>> import gymnasium as gym, numpy as np, zooming
    >>> def day(state, action, step, params, outcome, next_state):
    ...     level = min(state[0] + action[0], 20.0)
    ...     sold = min(level, outcome[0])
    ...     next_state[0] = level - sold
    ...     return 3.0 * sold - (level - state[0]) - 0.2 * next_state[0]
    >>> stock = gym.spaces.Box(0.0, 20.0, dtype="float64")
    >>> demand = zooming.Records(np.random.default_rng(0).poisson(5.0, (60, 4)))
    >>> shop = zooming.compiled_env(day, stock, stock, 4, start=[0.0], outcomes=demand)
    >>> plan = zooming.plan(shop, folds=4)
    >>> plan.value.low < plan.value.mean <= plan.value.in_sample < plan.value.bound
    True
    >>> plan.compare(lambda step, stock: [max(0.0, 5.0 - stock[0])]).difference.low > 0.0
    True
    """
    inner = find_compiled(env)
    if not isinstance(inner, DeclaredEnv) or inner.records is None:
        raise ConfigurationError(
            f"{short_repr(env)} has no records of its noise; give an environment of "
            "zooming.compiled_env(dynamics, ..., outcomes=zooming.Records(...)). If its law is "
            "known, zooming.solve finds the optimum"
        )
    n = len(inner.records.traces(inner.horizon))
    if n < 2:
        raise ConfigurationError(
            f"the records have {count_noun(n, 'complete episode')} of {inner.horizon} steps; a "
            "plan is valued on at least 2"
        )
    folds = min(check_int(folds, "folds", 2), n)
    names = (getattr(env, "metadata", None) or {}).get("names") if names is None else names
    with counted("plan", folds + 2, progress_bar) as advance:
        agent = _best_agent(inner, names, resolution)
        advance(1)
        return Plan(inner, agent, min(folds, 3) if isinstance(agent, Auto) else folds, advance)


def _best_agent(env: DeclaredEnv, names: Any, resolution: int | None) -> Any:
    """Return the agent of a plan: one with a grid, or Auto, whichever earns more on the records."""
    assert env.records is not None
    n_axes, agents = max(env.state_box.shape[0], env.action_box.shape[0]), []
    if n_axes <= MOST_AXES:
        solved = Resolver(env, resolution=resolution, names=names, seed=0)
        solved.title = "Plan"
        solved.learn_records(env.records)
        agents.append(solved)
    if n_axes >= MOST_AXES and (resolution is None or not agents):  # a grid would be coarse
        agents.append(_learn(env, names))
    if len(agents) == 1:
        return agents[0]
    traces = env.records.traces(env.horizon)
    starts = _starts(env, len(traces))
    return max(agents, key=lambda one: play_traces(env, traces, starts, choices(env, one)).mean())


def play_traces(env: CompiledEnv, traces: Floats, starts: list[Floats], choose: Choose) -> Floats:
    """Return the return of a policy on recorded noise, for each episode [n, H, n_columns].

    Returns are means over the start states, each an array [n, n_state].
    """
    total = np.zeros(len(traces))
    for first in starts:
        states = np.array(first)
        for step in range(traces.shape[1]):
            actions = np.ascontiguousarray(choose(step, states), np.float64)
            after, rewards = np.empty_like(states), np.empty(len(states))
            noise = np.ascontiguousarray(traces[:, step])
            played = env.given, env.params, step, states, actions, noise, after, rewards
            call_in_thread(partial(advance(), *played))
            bad = np.flatnonzero(~(np.isfinite(rewards) & env.are_states(after)))
            if len(bad):
                k = int(bad[0])
                fault = bad_transition(env, step, noise[k : k + 1], states[k], actions[k])
                raise fault or ConfigurationError(f"{env.name}, step {step}: a value is not finite")
            total += rewards / len(starts)
            states = env.round_discrete(after, actions)[0]
            states = np.clip(states, env.state_box.low, env.state_box.high)
    return total


def choices(env: CompiledEnv, policy: Any) -> Choose:
    """Return the actions of a function, a plan or an agent."""
    asked, _ = as_policy(policy.agent if isinstance(policy, Plan) else policy, env, None)

    def choose(step: int, states: Floats) -> Floats:
        steps = np.full(len(states), step)
        return env.actions(asked.predict(env.observations(states), steps)[0])

    return choose


def _complete(records: Records, horizon: int) -> Ints:
    """Return the numbers of the complete episodes of records."""
    return np.flatnonzero(np.isfinite(records.cut(horizon)[0]).all(axis=(1, 2)))


def _starts(env: CompiledEnv, n: int) -> list[Floats]:
    """Return start states for n episodes: each possible one, or one drawn for each episode."""
    states, weights = env.start_states(MOST_STARTS)
    equal = np.allclose(weights, weights[0])
    if len(states) <= MOST_STARTS and equal and env.start_kind != "function":
        return [np.tile(state, (n, 1)) for state in states]
    drawn = np.random.default_rng(0).choice(len(states), n, p=weights / weights.sum())
    return [states[drawn]]


def _widened(interval: Interval, factor: float) -> Interval:
    """Return an interval that is `factor` times as wide."""
    half = factor * (interval.high - interval.mean)
    return Interval(interval.mean, interval.mean - half, interval.mean + half, interval.level)


def _changed(name: str, factor: float) -> str:
    return f"{name} {abs(factor - 1):.0%} {'larger' if factor > 1 else 'smaller'}"


def _learn(env: CompiledEnv, names: Any = None) -> Any:
    agent = Auto(env, names=names, seed=0)
    agent.learn(LEARNED_EPISODES)
    return agent


def _doubts(records: Records, horizon: int) -> list[str]:
    """Return one sentence per sign that the records do not carry the plan."""
    values, hidden = records.cut(horizon)
    traces, found = records.traces(horizon), []
    n = len(traces)
    if n < FEW:
        found.append(
            f"only {count_noun(n, 'complete episode')}: below {FEW}, the interval of the value is "
            "rough"
        )
    if n < len(values):
        found.append(
            f"{count_noun(len(values) - n, 'episode')} of {len(values)} have missing values: the "
            "law uses them, the value does not"
        )
    if hidden.any():
        most = values[~np.isnan(values)].max()
        found.append(
            f"{hidden.mean():.0%} of the values are censored: what lies beyond {most:g} was never "
            "seen and is not known; returns on censored episodes take the values as they are"
        )
    for name, column in zip(records.names, np.moveaxis(values, 2, 0), strict=True):
        seen = column[~np.isnan(column)]
        low, middle, high = np.quantile(seen, [0.05, 0.5, 0.95])
        one = seen[abs(seen - middle).argmax()]
        if abs(one - middle) > FAR * (high - low) > 0.0:
            found.append(
                f"{name} has the value {plain(one)}, far from the others (90 % are between "
                f"{plain(low)} and {plain(high)}): correct it if it is a typo"
            )
    if records.by is not None:
        known = np.isfinite(values).all(axis=2).sum(axis=0)  # episodes with a value at each step
        counts = dict.fromkeys(records.by, 0)
        for season, n_known in zip(records.by, known.tolist(), strict=True):
            counts[season] += n_known
        once = [str(one) for one, n in counts.items() if n <= 1]
        if once:
            found.append(f"the season {once[0]} is covered once: its law is one value")
    for noise, name, chance in records.dependence(horizon):
        if chance < DEPENDS:
            found.append(
                f"{noise} seems to depend on {name} (F test, p = {chance:.1g}): a plan takes noise "
                "as the same for every state and action, so its value is wrong where they change. "
                "Give the law as a function of them, outcomes=(values, function), or learn with "
                "zooming.Auto"
            )
    for k, name in enumerate(records.names):
        size, z = _memory(traces[:, :, k])
        if abs(z) > DOUBT and not records.dependent:
            found.append(
                f"{name} seems to depend on its value one step before (rank correlation "
                f"{size:.2f}): the plan does not use that. The value out of sample is right all "
                "the same. Put the last value into the state to use it; give dependent=True to "
                "simulate it"
            )
    away = largest_change(traces, n // 3) if n >= 9 else 0.0
    if away > DOUBT:
        found.append(
            f"the noise of the last third differs from the rest by {away:.1f} standard errors: "
            "its law seems to change; plan on the last records"
        )
    error = records.condensed_by(horizon)
    if error > 0.02:
        found.append(
            f"the law was condensed: a value is off by {error:.1%} of a standard deviation"
        )
    return found


def _memory(values: Floats) -> tuple[float, float]:
    """Return the rank correlation of noise with that of the step before, and its z value."""
    if values.shape[1] < 2:
        return 0.0, 0.0
    ranks = np.column_stack([rank(values[:, h]) for h in range(values.shape[1])])
    ranks -= ranks.mean(axis=0)
    now, before = ranks[:, 1:], ranks[:, :-1]
    scale = math.sqrt(float((now**2).sum() * (before**2).sum()))
    if scale == 0.0:
        return 0.0, 0.0
    products = (now * before).sum(axis=1)  # one per episode: episodes are independent
    spread = math.sqrt(float((products**2).sum()))
    return float(products.sum()) / scale, float(products.sum()) / (spread or 1.0)
