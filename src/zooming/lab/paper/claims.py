"""Check the paper's claims about its figures against the runs, and return a verdict on each.

Agents are compared seed by seed. A claim is confirmed if the whole 95 % interval is on its side,
refuted if the whole interval is on the other side, and undecided otherwise. A check is a function
that takes the evidence of a figure, and returns (whether the claim holds, the finding).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.heuristics import Random
from zooming.analysis.intervals import Interval, mean_interval
from zooming.partitions.view import Partition
from zooming.plots.curves import Runs
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.lab.paper.sweep import Evidence

N_TRAINED = 10  # runs that are trained again, for partitions, actions played and time
SHORT = 0.01  # share of the optimum: a closer return is near-optimal, others are suboptimal
MUCH = 2.0  # a larger ratio of balls counts as much fewer
NEAR = 0.1  # largest distance, in each coordinate, that counts as near
EFFECT = 0.8  # standard deviations: a large effect by Cohen's convention
AT = 0.05  # tolerance for the position of the finest place
FOLLOWS = 0.5  # a larger rank correlation counts as following
T_95 = 2.16  # quantile of Student's t for 15 problems
_GRID = (np.arange(64) + 0.5) / 64
_TEXTS = {
    "no-movement": "no movement",
    "median": "the median",
    "net": "the net",
    "adaptive": "the adaptive agent",
}  # the agents of the paper, as they are written in a sentence

Finding = tuple[bool | None, str]


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds (None if undecided), the finding, and its source in the paper."""

    claim: str
    holds: bool | None
    finding: str
    source: str

    def __str__(self) -> str:
        word = {True: "Confirmed", False: "Refuted", None: "Undecided"}[self.holds]
        return f"{word}: {self.claim} {self.finding}"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about a figure: its text, its source, and the check with arguments."""

    text: str
    source: str
    test: Callable[..., Finding]
    arguments: tuple[Any, ...] = ()

    def check(self, evidence: Evidence) -> Verdict:
        """Return the verdict on these runs."""
        return Verdict(self.text, *self.test(evidence, *self.arguments), self.source)


def sign(interval: Interval, level: float = 0.0) -> bool | None:
    """Return True if the interval is above `level`, False if below, None if it contains `level`."""
    return True if interval.low > level else False if interval.high < level else None


def all_of(signs: list[bool | None]) -> bool | None:
    """Return True if all signs are True, False if one is False, otherwise None."""
    return True if all(signs) else False if False in signs else None


# --- claims on returns, balls and time ------------------------------------------------------------


def beats(evidence: Evidence, other: str = "net") -> Finding:
    """Check: over all episodes, the adaptive agent returns more than another agent."""
    advantage = mean_interval(_per_episode(evidence, "adaptive") - _per_episode(evidence, other))
    finding = f"It returns {_difference_text(advantage)} per episode over all episodes."
    return sign(advantage), finding


def ends_ahead(evidence: Evidence, other: str = "net") -> Finding:
    """Check: in the last tenth of the episodes, the adaptive agent returns more than another."""
    ours, theirs = (final_returns(evidence, name) for name in ("adaptive", other))
    advantage = mean_interval(ours - theirs)
    more = _difference_text(advantage)
    return sign(advantage), f"In the last tenth of the episodes it returns {more} per episode."


def fewer_balls(evidence: Evidence) -> Finding:
    """Check: the adaptive partition has at most half as many balls as the net."""
    ours, theirs = (
        evidence.runs[name].n_balls[:, -1].astype(np.float64) for name in ("adaptive", "net")
    )
    times = mean_interval(theirs / ours)
    finding = (
        f"{ours.mean():,.0f} balls against {theirs.mean():,.0f}: {times.mean:.2f} "
        f"({times.low:.2f} to {times.high:.2f}) times fewer; the claim needs {MUCH:g}."
    )
    return sign(times, MUCH), finding


def saves_time(evidence: Evidence) -> Finding:
    """Check: a run of the adaptive agent takes less processor time than a run of the net.

    Both use the same kernels. Some runs are trained again, one at a time, for an interval. The
    claim is undecided if the mean times of the study, which the report shows, say the opposite.
    """
    runs = range(n_trained(evidence))
    ours, theirs = (
        np.array([training_seconds(evidence, name, run) for run in runs])
        for name in ("adaptive", "net")
    )
    times = mean_interval(np.log2(theirs / ours))
    mean, low, high = (2**bound for bound in (times.mean, times.low, times.high))
    finding = (
        f"A run of the net takes {mean:.2f} ({low:.2f} to {high:.2f}) times as long, in "
        f"{len(runs)} runs that were trained again, one at a time"
    )
    holds, known = sign(times), evidence.seconds
    ratio = known.get("net", np.nan) / (known.get("adaptive") or np.nan)
    if np.isfinite(ratio):
        finding += f"; by the ms a run of the whole study, {ratio:.2f} times as long"
        holds = holds if holds is (ratio > 1) else None
    return holds, f"{finding}."


def net_explores_more(evidence: Evidence) -> Finding:
    """Check: the net plays in more cells than the adaptive agent, counted in cells of the net."""
    runs = range(n_trained(evidence))
    ours, theirs = (
        np.array([n_cells_played(evidence, name, run) for run in runs])
        for name in ("adaptive", "net")
    )
    more = mean_interval(theirs - ours)
    finding = (
        f"It plays in {theirs.mean():,.0f} of its cells, the adaptive agent in "
        f"{ours.mean():,.0f}: {_difference_text(more, 0)}."
    )
    return sign(more), finding


def is_best(evidence: Evidence, agent: str) -> Finding:
    """Check: a heuristic has the largest return of all agents in the paper."""
    leads = {
        name: mean_interval(_per_episode(evidence, agent) - _per_episode(evidence, name))
        for name in evidence.runs
        if name in _TEXTS and name != agent
    }
    runner_up = min(leads, key=lambda name: leads[name].mean)
    finding = (
        f"It returns {_difference_text(leads[runner_up])} per episode than "
        f"{_TEXTS[runner_up]}, the best of the others."
    )
    return all_of([sign(lead) for lead in leads.values()]), finding


def near_optimal(evidence: Evidence, agent: str) -> Finding:
    """Check: a heuristic is near-optimal in the last tenth of the episodes."""
    best = evidence.optimal.return_
    gap, allowed = mean_interval(best - final_returns(evidence, agent)), SHORT * abs(best)
    finding = (
        f"It is {_interval_text(gap)} below the optimum of {best:.3f}; "
        f"the claim allows {allowed:.3f} (1 %)."
    )
    return sign(Interval(-gap.mean, -gap.high, -gap.low), -allowed), finding


def nobody_is_optimal(evidence: Evidence) -> Finding:
    """Check: every agent of the paper is suboptimal in the last tenth of the episodes."""
    best = evidence.optimal.return_
    gaps = {
        name: mean_interval(best - final_returns(evidence, name))
        for name in evidence.runs
        if name in _TEXTS
    }
    nearest, allowed = min(gaps, key=lambda name: gaps[name].mean), SHORT * abs(best)
    finding = (
        f"Nearest to the optimum of {best:.3f} is {_TEXTS[nearest]}, "
        f"{_interval_text(gaps[nearest])} below; the claim needs more than {allowed:.3f} (1 %)."
    )
    return all_of([sign(gap, allowed) for gap in gaps.values()]), finding


def net_falls_short(evidence: Evidence) -> Finding:
    """Check: the best policy on the points of the net returns less than the adaptive agent."""
    best = evidence.optimal.return_
    adaptive, net = (best - final_returns(evidence, name) for name in ("adaptive", "net"))
    error = best - best_on_net(evidence)
    finding = (
        f"The best that its points allow is {error:.2f} below the optimum, the adaptive agent ends "
        f"{adaptive.mean():.2f} below. The net itself ends {net.mean():.2f} below it."
    )
    return sign(mean_interval(error - adaptive)), finding


def final_returns(evidence: Evidence, name: str) -> Floats:
    """Return the mean return of each seed over about the last tenth of the episodes."""
    runs = evidence.runs[name]
    first = int(np.argmin(np.abs(runs.episode[:-1] - 0.9 * runs.episode[-1])))
    per_episode: Floats = (runs.total_return[:, -1] - runs.total_return[:, first]) / (
        runs.episode[-1] - runs.episode[first]
    )
    return per_episode


def _per_episode(evidence: Evidence, name: str) -> Floats:
    """Return the mean return of each seed over all episodes."""
    found: Floats = evidence.runs[name].total_return[:, -1] / evidence.episodes
    return found


def growth_exponent(runs: Runs) -> float:
    """Return e such that the mean regret grew like K^e over the last three quarters of K."""
    mean = runs.regret.mean(axis=0)
    first = int(np.argmin(np.abs(runs.episode - runs.episode[-1] / 4)))
    rise = mean[-1] / mean[first] if min(mean[-1], mean[first]) > 0 else math.nan
    return float(math.log(rise) / math.log(runs.episode[-1] / runs.episode[first]))


def best_on_net(evidence: Evidence) -> float:
    """Return the largest return of a policy whose actions are points of the net.

    The problem must be deterministic with x' = a.
    """
    env, points = evidence.figure.preset.make().unwrapped, _net_points(evidence)
    start, next_state = env.start_states(1)[0][0], np.empty(1)
    values = np.zeros(len(points))
    for step in reversed(range(env.horizon)):
        outcome = env.outcomes(step, 1)[0][0]
        rewards = [
            [
                env.given(np.array([x]), np.array([a]), step, env.params, outcome, next_state)
                for a in points
            ]
            for x in (points if step else start)
        ]
        values = (np.array(rewards) + values).max(axis=1)
    return float(values[0])


def _net_points(evidence: Evidence) -> Floats:
    """Return the actions that the net plays."""
    net: Any = evidence.choices["net"].make(evidence.figure.preset.make(), 0)
    low, high = (np.unique(side[:, 1]) for side in (net.partition(0).low, net.partition(0).high))
    points: Floats = (
        np.arange(len(low)) * net.spacing if net.points == "multiples" else (low + high) / 2
    )
    return points


class _Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that records every (step, state, action)."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.played: list[tuple[float, float, float]] = []

    def reset(self, **options: Any) -> Any:
        found = self.env.reset(**options)
        self._step, self._state = 0, float(found[0][0])
        return found

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self.played.append((self._step, self._state, float(action[0])))
        self._step, self._state = self._step + 1, float(found[0][0])
        return found


def n_cells_played(evidence: Evidence, name: str, run: int) -> int:
    """Return in how many cells of the net, over all steps, an agent played in one run."""
    points, recorder = _net_points(evidence), _Recorder(evidence.figure.preset.make())
    evidence.agent(name, run, recorder).learn(evidence.episodes, driver="python")
    played = np.array(recorder.played)
    cells = [np.abs(played[:, i, None] - points).argmin(axis=1) for i in (1, 2)]
    return len(np.unique(np.stack([played[:, 0], *cells], axis=1), axis=0))


def training_seconds(evidence: Evidence, name: str, run: int) -> float:
    """Return the processor seconds of one run."""
    evidence.agent(name, run).learn(1)  # compiles or loads the cache
    agent, began = evidence.agent(name, run), time.process_time()
    agent.learn(evidence.episodes)
    return time.process_time() - began


def n_trained(evidence: Evidence) -> int:
    """Return how many runs are trained again, to examine their partitions."""
    return min(N_TRAINED, evidence.runs["adaptive"].n_seeds)


def _interval_text(interval: Interval) -> str:
    return f"{interval.mean:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _difference_text(interval: Interval, digits: int = 3) -> str:
    """Return a phrase such as `0.123 (0.100 to 0.146) more`."""
    factor, word = (1.0, "more") if interval.mean >= 0 else (-1.0, "less")
    low, high = sorted((factor * interval.low, factor * interval.high))
    return f"{abs(interval.mean):.{digits}f} ({low:.{digits}f} to {high:.{digits}f}) {word}"


# --- claims on where partitions are fine ----------------------------------------------------------


def fine_near(evidence: Evidence, state: float, action: float) -> Finding:
    """Check: the partition is finer around a given point than at random points."""
    return _compare_sizes(
        evidence, lambda x, a: np.maximum(abs(x - state), abs(a - action)) <= NEAR
    )


def fine_along_diagonal(evidence: Evidence) -> Finding:
    """Check: the partition is finer near action = state, which means to stay."""
    return _compare_sizes(evidence, lambda x, a: abs(x - a) <= NEAR)


def finest_at(evidence: Evidence, state: float, action: float) -> Finding:
    """Check: the partition is finest at a given point, the optimum."""
    places = np.array([_finest_center(balls) for balls in _partitions(evidence)])
    away = mean_interval(np.abs(places - [state, action]).max(axis=1))
    found, optimal = places.mean(axis=0), _optimal_pair(evidence)
    finding = (
        f"It is finest at ({found[0]:.2f}, {found[1]:.2f}), {away.mean:.2f} ({away.low:.2f} to "
        f"{away.high:.2f}) away; the claim allows {AT:g}. The optimal policy is at "
        f"({optimal[0]:.2f}, {optimal[1]:.2f}) there."
    )
    return sign(Interval(-away.mean, -away.high, -away.low), -AT), finding


def follows_optimum(evidence: Evidence) -> Finding:
    """Check: in states that occur, the partition is fine where Q* is high and coarse elsewhere."""
    step = evidence.figure.step
    states = _sample_states(evidence.figure.preset.make(), step)
    points = np.stack([np.repeat(states, len(_GRID)), np.tile(_GRID, len(states))], axis=1)
    q = evidence.optimal.q_values(step, points[:, :1], points[:, 1:])
    best = np.repeat(evidence.optimal.values(step, states[:, None]), len(_GRID))
    sizes = [ball_sides(balls, points) for balls in _partitions(evidence)]
    agreement = mean_interval(np.array([rank_correlation(best - q, size) for size in sizes]))
    finding = (
        "The rank correlation of a ball's size and of what its points lose against the "
        f"optimum is {agreement.mean:.2f} ({agreement.low:.2f} to {agreement.high:.2f}, "
        f"{n_trained(evidence)} runs); the claim needs more than {FOLLOWS:g}."
    )
    return sign(agreement, FOLLOWS), finding


def _partitions(evidence: Evidence) -> list[Partition]:
    runs = range(n_trained(evidence))
    return [evidence.train_again("adaptive", run).partition(evidence.figure.step) for run in runs]


def _compare_sizes(
    evidence: Evidence, is_near: Callable[[Floats, Floats], NDArray[np.bool_]]
) -> Finding:
    """Check: balls are smaller at points that are near a place than at random points.

    The effect is the difference of mean log2 sizes, in standard deviations over the points.
    """
    points = np.stack(np.meshgrid(_GRID, _GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    near = is_near(points[:, 0], points[:, 1])
    sizes = [np.log2(ball_sides(balls, points)) for balls in _partitions(evidence)]
    halvings = np.array([size.mean() - size[near].mean() for size in sizes])
    effect = mean_interval(
        [
            more / size.std() if np.ptp(size) else 0.0
            for more, size in zip(halvings, sizes, strict=True)
        ]
    )
    finding = (
        f"A ball there has {2 ** -halvings.mean():.0%} of the side of one at a random point, "
        f"which is {effect.mean:.1f} ({effect.low:.1f} to {effect.high:.1f}) standard deviations; "
        f"the claim needs {EFFECT:g}."
    )
    return sign(effect, EFFECT), finding


def _finest_center(balls: Partition) -> Floats:
    """Return the median center of the smallest balls."""
    sides = (balls.high - balls.low).max(axis=1)
    smallest = sides == sides.min()
    middle: Floats = np.median((balls.low + balls.high)[smallest] / 2, axis=0)
    return middle


def _optimal_pair(evidence: Evidence) -> tuple[float, float]:
    """Return (state, action) of the optimal policy at the figure's step, if x' = a."""
    action = evidence.figure.preset.make().unwrapped.start_states(1)[0][0]
    for step in range(evidence.figure.step + 1):
        state, action = action, np.asarray(evidence.optimal.action(step, action), np.float64)
    return float(state[0]), float(action[0])


def ball_sides(balls: Partition, points: Floats) -> Floats:
    """Return the longest side of the ball that contains each point."""
    top = balls.high.max(axis=0)
    inside = (
        (balls.low[None] <= points[:, None])
        & ((points[:, None] < balls.high[None]) | (balls.high[None] == top))
    ).all(axis=2)
    found: Floats = (balls.high - balls.low).max(axis=1)[inside.argmax(axis=1)]
    return found


def _sample_states(env: object, step: int, n: int = 64) -> Floats:
    """Return n sorted states that random actions reach at a step."""
    agent, found = Random(env, seed=0), list[float]()
    for _ in range(n):
        state, _ = agent.env.reset(seed=0) if not found else agent.env.reset()
        for h in range(step):
            state = agent.env.step(agent.act(h, state))[0]
        found.append(float(state[0]))
    return np.sort(np.array(found))


def rank_correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; 0 if x or y is constant."""
    import polars as pl

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(pl.select(pl.corr(pl.Series(x), pl.Series(y), method="spearman")).item())


# --- claims on several figures --------------------------------------------------------------------

SHARPNESS, SURVEYS = (1, 10, 50), ("laplace", "quadratic")
_SHARPER = {survey: [f"oil-{survey}-{s}" for s in SHARPNESS] for survey in SURVEYS}
ALL_PROBLEMS = [name for names in _SHARPER.values() for name in names] + [
    f"ambulance-{law}-{weight}"
    for law in ("beta", "uniform", "shifting")
    for weight in ("0", "0.25", "1")
]
Findings = Mapping[str, Mapping[str, Any]]  # by problem


def overall(findings: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdicts on the claims whose figures all have findings."""
    found, verdicts = {one["problem"]: one for one in findings}, []
    for measure, claim, source in (
        (
            "gap",
            "the gap between the adaptive agent and the net grows with the sharpness",
            "section 1.1",
        ),
        (
            "net_error",
            "the net ends further below the optimum the sharper the survey",
            "section 7.3",
        ),
    ):
        for survey, problems in _SHARPER.items():
            if found.keys() >= set(problems):
                text = f"{claim} ({survey} survey)."
                verdicts.append(Verdict(text, *_grows(found, problems, measure), source))
    if all("exponent" in found.get(name, ()) for name in ALL_PROBLEMS):  # not in older files
        text = "regret scales with the covering of the near-optimal pairs."
        verdicts.append(Verdict(text, *follows_shape(found), "section 4.1"))
    return verdicts


def _grows(found: Findings, problems: list[str], measure: str) -> Finding:
    """Check: a measure grows with the sharpness of the survey, from problem to problem."""
    numbers = [Interval(*found[problem][measure]) for problem in problems]
    halves = [(one.high - one.low) / 2 for one in numbers]
    grows = []
    for i, k in itertools.pairwise(range(len(numbers))):
        rise, half = numbers[k].mean - numbers[i].mean, math.hypot(halves[k], halves[i])
        grows.append(sign(Interval(rise, rise - half, rise + half)))  # of independent means
    shown = ", ".join(f"{n.mean:.2f} ± {half:.2f}" for n, half in zip(numbers, halves, strict=True))
    finding = f"At lambda = {', '.join(map(str, SHARPNESS))} it is {shown} per episode."
    return all_of(grows), finding


def follows_shape(found: Findings) -> Finding:
    """Check: regret grows faster with the episodes where more pairs are nearly optimal.

    The exponent of the regret is regressed on the zooming dimension. The theorem's exponent for
    dimension d is (d + 1) / (d + 2). The covering dimension, 2 in all problems, predicts one
    exponent for all of them.
    """
    dimension, exponent = (
        np.array([found[problem][name] for problem in ALL_PROBLEMS])
        for name in ("zooming_dimension", "exponent")
    )
    away = dimension - dimension.mean()
    slope = float((away * exponent).sum() / (away**2).sum())
    rest = exponent - exponent.mean() - slope * away
    n = len(rest)
    half = T_95 * math.sqrt((rest**2).sum() / (n - 2) / (away**2).sum())
    finding = (
        f"Over {n} problems of dimension {dimension.min():.2f} to {dimension.max():.2f}, the "
        f"exponent grows by {slope:.2f} ({slope - half:.2f} to {slope + half:.2f}) per "
        f"dimension; it is {exponent.mean():.2f} on average. The covering dimension is 2 "
        "everywhere, so it explains no difference."
    )
    return sign(Interval(slope, slope - half, slope + half)), finding
