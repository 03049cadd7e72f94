"""Check the paper's claims about its figures against the runs, and return a verdict on each.

Agents are compared seed by seed. A claim is confirmed if the whole 95 % interval is on its side,
refuted if the whole interval is on the other side, and undecided otherwise. Claims about partitions
are in `fineness`, claims about several figures in `overall`.
"""

from __future__ import annotations

import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from zooming.analysis.intervals import Interval, mean_interval
from zooming.plots.curve_data import Runs
from zooming.validation import Floats

if TYPE_CHECKING:
    from zooming.lab.paper.sweep import Evidence


N_TRAINED = 10  # runs that are trained again, for partitions, actions played and time
CLOSE = 0.05  # share of the optimum: a closer return counts as learned
SHORT = 0.01  # share of the optimum: a closer return is near-optimal, others are suboptimal


def final_returns(evidence: Evidence, name: str) -> Floats:
    """Return the mean return of each seed over about the last tenth of the episodes."""
    runs = evidence.runs[name]
    first = int(np.argmin(np.abs(runs.episode[:-1] - 0.9 * runs.episode[-1])))
    per_episode: Floats = (runs.total_return[:, -1] - runs.total_return[:, first]) / (
        runs.episode[-1] - runs.episode[first]
    )
    return per_episode


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
    env, net = (
        evidence.figure.preset.make().unwrapped,
        evidence.choices["net"].make(evidence.figure.preset.make(), 0),
    )
    points = _points(net)
    start, next_state = env.start_states(1)[0][0], np.empty(1)
    values = np.zeros(len(points))
    for step in reversed(range(env.horizon)):
        outcome = env.outcomes(step, 1)[0][0]
        states = points if step else start
        rewards = [
            [
                env.given(np.array([x]), np.array([a]), step, env.params, outcome, next_state)
                for a in points
            ]
            for x in states
        ]
        values = (np.array(rewards) + values).max(axis=1)
    return float(values[0])


def _points(net: Any) -> Floats:
    """Return the actions that a net on the unit interval plays."""
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
    points = _points(evidence.choices["net"].make(evidence.figure.preset.make(), 0))
    recorder = _Recorder(evidence.figure.preset.make())
    evidence.agent(name, run, recorder).learn(evidence.episodes, driver="python")
    played = np.array(recorder.played)
    cells = [np.abs(played[:, i, None] - points).argmin(axis=1) for i in (1, 2)]
    return len(np.unique(np.stack([played[:, 0], *cells], axis=1), axis=0))


def training_seconds(evidence: Evidence, name: str, run: int) -> float:
    evidence.agent(name, run).learn(1)  # compiles or loads the cache
    agent, began = evidence.agent(name, run), time.process_time()
    agent.learn(evidence.episodes)
    return time.process_time() - began


def paper_runs(evidence: Evidence) -> dict[str, Runs]:
    """Return the runs of the agents that the paper compares."""
    return {
        name: runs
        for name, runs in evidence.runs.items()
        if name in ("adaptive", "net", "no-movement", "median")
    }


def allowed_gap(evidence: Evidence) -> float:
    return SHORT * abs(evidence.optimal.return_)


def n_trained(evidence: Evidence) -> int:
    """Return how many runs are trained again, to examine their partitions."""
    return min(N_TRAINED, evidence.runs["adaptive"].n_seeds)


MUCH = 2.0  # a larger ratio of balls counts as much fewer
CAPTION = "caption"  # of the figure itself


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds (None if undecided), the finding, and its source in the paper."""

    claim: str
    holds: bool | None
    finding: str
    source: str = CAPTION

    def __str__(self) -> str:
        word = {True: "Confirmed", False: "Refuted", None: "Undecided"}[self.holds]
        return f"{word}: {self.claim} {self.finding}"


class Claim(ABC):
    """A claim of the paper about a figure."""

    @abstractmethod
    def check(self, evidence: Evidence) -> Verdict:
        """Return the verdict on these runs."""


@dataclass(frozen=True)
class AdaptiveBeats(Claim):
    """Claim: over all episodes, the adaptive agent returns more than another agent."""

    other: str = "net"
    source: str = "section 1.1"

    def check(self, evidence: Evidence) -> Verdict:
        ours, theirs = (
            evidence.runs[name].total_return[:, -1] / evidence.episodes
            for name in ("adaptive", self.other)
        )
        advantage = mean_interval(ours - theirs)
        finding = f"It returns {_difference_text(advantage)} per episode over all episodes."
        if self.other == "net":
            adaptive, net = (_learning_text(evidence, name) for name in ("adaptive", "net"))
            finding += f" It {adaptive}, the net {net}."
        verb = "learns faster" if self.other == "net" else "performs better"
        return Verdict(
            f"the adaptive agent {verb} than {agent_text(self.other)}.",
            sign(advantage),
            finding,
            self.source,
        )


@dataclass(frozen=True)
class EndsAhead(Claim):
    """Claim: in the last tenth of the episodes, the adaptive agent returns more than another."""

    other: str = "net"
    source: str = "section 1.1"

    def check(self, evidence: Evidence) -> Verdict:
        advantage = mean_interval(
            final_returns(evidence, "adaptive") - final_returns(evidence, self.other)
        )
        more = _difference_text(advantage)
        finding = f"In the last tenth of the episodes it returns {more} per episode."
        claim = (
            "ends better than the net"
            if self.other == "net"
            else f"learns a policy better than {agent_text(self.other)}"
        )
        return Verdict(f"the adaptive agent {claim}.", sign(advantage), finding, self.source)


@dataclass(frozen=True)
class FewerBalls(Claim):
    """Claim: the adaptive partition has at most half as many balls as the net."""

    source: str = "section 1.1"

    def check(self, evidence: Evidence) -> Verdict:
        ours, theirs = (
            evidence.runs[name].n_balls[:, -1].astype(np.float64) for name in ("adaptive", "net")
        )
        times = mean_interval(theirs / ours)
        balls = f"{ours.mean():,.0f} balls against {theirs.mean():,.0f}"
        finding = (
            f"{balls}: {times.mean:.2f} ({times.low:.2f} to {times.high:.2f}) times fewer; "
            f"the claim needs {MUCH:g}."
        )
        return Verdict(
            "the adaptive partition is much smaller.", sign(times, MUCH), finding, self.source
        )


@dataclass(frozen=True)
class NetExploresMore(Claim):
    """Claim: the net plays in more cells than the adaptive agent.

    Both are counted in cells of the net.
    """

    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        runs = range(n_trained(evidence))
        played = {
            name: np.array([n_cells_played(evidence, name, run) for run in runs])
            for name in ("adaptive", "net")
        }
        more = mean_interval(played["net"] - played["adaptive"])
        finding = (
            f"It plays in {played['net'].mean():,.0f} of its cells, the adaptive agent in "
            f"{played['adaptive'].mean():,.0f}: "
            f"{_difference_text(more, 0)}."
        )
        return Verdict(
            "the net explores more parts of the space.", sign(more), finding, self.source
        )


@dataclass(frozen=True)
class IsBest(Claim):
    """Claim: a heuristic has the largest return of all agents in the paper."""

    agent: str
    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        mine = evidence.runs[self.agent].total_return[:, -1] / evidence.episodes
        leads = {
            name: mean_interval(mine - runs.total_return[:, -1] / evidence.episodes)
            for name, runs in paper_runs(evidence).items()
            if name != self.agent
        }
        runner_up = min(leads, key=lambda name: leads[name].mean)
        finding = (
            f"It returns {_difference_text(leads[runner_up])} per episode than "
            f"{agent_text(runner_up)}, the best of the others."
        )
        signs = [sign(lead) for lead in leads.values()]
        return Verdict(
            f"{agent_text(self.agent)} performs best.", all_of(signs), finding, self.source
        )


@dataclass(frozen=True)
class NearOptimal(Claim):
    """Claim: a heuristic is near-optimal in the last tenth of the episodes."""

    agent: str
    source: str = "section 7.1"

    def check(self, evidence: Evidence) -> Verdict:
        gap, allowed = (
            mean_interval(evidence.optimal.return_ - final_returns(evidence, self.agent)),
            allowed_gap(evidence),
        )
        finding = (
            f"It is {_interval_text(gap)} below the optimum of {evidence.optimal.return_:.3f}; "
            f"the claim allows {allowed:.3f} (1 %)."
        )
        is_near = sign(Interval(-gap.mean, -gap.high, -gap.low), -allowed)
        return Verdict(f"{agent_text(self.agent)} is near-optimal.", is_near, finding, self.source)


@dataclass(frozen=True)
class NobodyIsOptimal(Claim):
    """Claim: every agent of the paper is suboptimal in the last tenth of the episodes."""

    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        gaps = {
            name: mean_interval(evidence.optimal.return_ - final_returns(evidence, name))
            for name in paper_runs(evidence)
        }
        nearest, allowed = min(gaps, key=lambda name: gaps[name].mean), allowed_gap(evidence)
        finding = (
            f"Nearest to the optimum of {evidence.optimal.return_:.3f} is {agent_text(nearest)}, "
            f"{_interval_text(gaps[nearest])} below; "
            f"the claim needs more than {allowed:.3f} (1 %)."
        )
        return Verdict(
            "no agent is optimal.",
            all_of([sign(gap, allowed) for gap in gaps.values()]),
            finding,
            self.source,
        )


@dataclass(frozen=True)
class NetFallsShort(Claim):
    """Claim: the net is too coarse.

    The best policy on its points returns less than the adaptive agent.
    """

    source: str = CAPTION

    def check(self, evidence: Evidence) -> Verdict:
        best = evidence.optimal.return_
        gaps = {name: best - final_returns(evidence, name) for name in ("adaptive", "net")}
        error = best - best_on_net(evidence)
        more = mean_interval(error - gaps["adaptive"])
        finding = (
            f"The best that its points allow is {error:.2f} below the optimum, the adaptive agent "
            "ends "
            f"{gaps['adaptive'].mean():.2f} below. The net itself ends {gaps['net'].mean():.2f} "
            "below it."
        )
        return Verdict(
            "the net suffers from its discretization error.", sign(more), finding, self.source
        )


@dataclass(frozen=True)
class SavesTime(Claim):
    """Claim: a run of the adaptive agent takes less processor time than a run of the net.

    Both use the same kernels. Some runs are trained again, one at a time, for an interval. The
    claim is undecided if the mean times of the study, which the report shows, say the opposite.
    """

    source: str = "section 4.1"

    def check(self, evidence: Evidence) -> Verdict:
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
        return Verdict("the adaptive agent saves time.", holds, f"{finding}.", self.source)


def _learning_text(evidence: Evidence, name: str) -> str:
    """Return a phrase on when the mean return first came close to the optimum."""
    runs = evidence.runs[name]
    mean = np.diff(runs.total_return.mean(axis=0)) / np.diff(runs.episode)
    close = np.flatnonzero(mean >= (1 - CLOSE) * evidence.optimal.return_)
    within = f"within {CLOSE:.0%} of the optimum"
    return (
        f"comes {within} after {runs.episode[close[0] + 1]:,} episodes"
        if len(close)
        else f"never comes {within}"
    )


def sign(interval: Interval, level: float = 0.0) -> bool | None:
    """Return True if the interval is above `level`, False if below, None if it contains `level`."""
    return True if interval.low > level else False if interval.high < level else None


def all_of(signs: list[bool | None]) -> bool | None:
    """Return True if all signs are True, False if one is False, otherwise None."""
    return True if all(signs) else False if False in signs else None


def _interval_text(interval: Interval) -> str:
    return f"{interval.mean:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _difference_text(interval: Interval, digits: int = 3) -> str:
    """Return a phrase such as `0.123 (0.100 to 0.146) more`."""
    factor, word = (1.0, "more") if interval.mean >= 0 else (-1.0, "less")
    low, high = sorted((factor * interval.low, factor * interval.high))
    return f"{abs(interval.mean):.{digits}f} ({low:.{digits}f} to {high:.{digits}f}) {word}"


def agent_text(name: str) -> str:
    """Return the name of an agent as it is written in a sentence."""
    return {
        "no-movement": "no movement",
        "median": "the median",
        "net": "the net",
        "adaptive": "the adaptive agent",
    }[name]


SHARPNESS, SURVEYS = (1, 10, 50), ("laplace", "quadratic")
LAWS, WEIGHTS = ("beta", "uniform", "shifting"), ("0", "0.25", "1")
T_95 = 2.16  # quantile of Student's t for 15 problems


@dataclass(frozen=True)
class Grows:
    """Claim: a measure grows with the sharpness of the survey, from problem to problem."""

    survey: str
    measure: str  # a key of the findings: [mean, low, high]
    claim: str
    source: str

    @property
    def problems(self) -> list[str]:
        return [f"oil-{self.survey}-{sharpness}" for sharpness in SHARPNESS]

    def check(self, found: Mapping[str, Mapping[str, Any]]) -> Verdict:
        """Return the verdict on this claim. `found` maps each problem to its findings."""
        numbers = [Interval(*found[problem][self.measure]) for problem in self.problems]
        grows = [sign(_difference(after, before)) for before, after in itertools.pairwise(numbers)]
        shown = ", ".join(f"{n.mean:.2f} ± {(n.high - n.low) / 2:.2f}" for n in numbers)
        finding = f"At lambda = {', '.join(map(str, SHARPNESS))} it is {shown} per episode."
        return Verdict(f"{self.claim} ({self.survey} survey).", all_of(grows), finding, self.source)


_GAP = "the gap between the adaptive agent and the net grows with the sharpness"
_ERROR = "the net ends further below the optimum the sharper the survey"


@dataclass(frozen=True)
class FollowsShape:
    """Claim: regret grows faster with the episodes where more pairs are nearly optimal.

    The exponent of the regret is regressed on the zooming dimension. The theorem's exponent for
    dimension d is (d + 1) / (d + 2). The covering dimension, 2 in all problems, predicts one
    exponent for all of them.
    """

    source: str = "section 4.1"

    @property
    def problems(self) -> list[str]:
        oil = [f"oil-{survey}-{sharpness}" for survey in SURVEYS for sharpness in SHARPNESS]
        return [*oil, *(f"ambulance-{law}-{weight}" for law in LAWS for weight in WEIGHTS)]

    def check(self, found: Mapping[str, Mapping[str, Any]]) -> Verdict:
        """Return the verdict on this claim. `found` maps each problem to its findings."""
        dimension, exponent = (
            np.array([found[problem][name] for problem in self.problems])
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
        return Verdict(
            "regret scales with the covering of the near-optimal pairs.",
            sign(Interval(slope, slope - half, slope + half)),
            finding,
            self.source,
        )


OVERALL = tuple(
    Grows(survey, measure, claim, source)
    for measure, claim, source in (
        ("gap", _GAP, "section 1.1"),
        ("net_error", _ERROR, "section 7.3"),
    )
    for survey in SURVEYS
)
SHAPE = FollowsShape()


def overall(findings: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """Return the verdicts on the claims whose figures all have findings."""
    found = {one["problem"]: one for one in findings}
    shaped = {name for name, one in found.items() if "exponent" in one}  # not in older files
    verdicts = [claim.check(found) for claim in OVERALL if found.keys() >= set(claim.problems)]
    return [*verdicts, *([SHAPE.check(found)] if shaped >= set(SHAPE.problems) else [])]


def _difference(one: Interval, other: Interval) -> Interval:
    """Return the interval of the difference of two independent means."""
    half = math.hypot((one.high - one.low) / 2, (other.high - other.low) / 2)
    return Interval(
        one.mean - other.mean, one.mean - other.mean - half, one.mean - other.mean + half
    )
