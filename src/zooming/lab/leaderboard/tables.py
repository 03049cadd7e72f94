"""Write a leaderboard as tables: CSV and Parquet for programs, Markdown for people."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval
from zooming.lab.leaderboard import compare
from zooming.lab.leaderboard.compare import Loss, Standing
from zooming.lab.leaderboard.measures import Result, Scale, mean_or_interval, paired
from zooming.lab.leaderboard.plan import GROUPS, OTHER
from zooming.validation import count_noun, import_frames


@dataclass(frozen=True, eq=False)
class Finished:
    """The results of a leaderboard, for each number of episodes whose runs are all finished.

    `refused` maps (problem, agent) to the reason why there is no result. `absent` maps an agent to
    the reason why it has no result at all.
    """

    reference: str
    scales: dict[str, Scale]
    episodes: tuple[int, ...]
    results: Sequence[Result]
    refused: dict[tuple[str, str], str]
    absent: dict[str, str]

    @property
    def title(self) -> str:
        """Title of the page and of the table."""
        agents = dict.fromkeys(one.agent for one in self.results)
        return (
            f"Leaderboard: {count_noun(len(agents), 'agent')} on "
            f"{count_noun(len(self.scales), 'problem')}"
        )

    @property
    def size(self) -> str:
        """Numbers of episodes and of seeds, as text."""
        counts = ", ".join(f"{episodes:,}" for episodes in self.episodes)
        most = max(one.n_seeds for one in self.results)
        return f"{counts} episodes, up to {count_noun(most, 'seed')}"

    @property
    def groups(self) -> list[str]:
        """Names of the groups that have problems."""
        return [group for group in (*GROUPS, OTHER) if self.problems_of(group)]

    def problems_of(self, group: str) -> list[str]:
        """Return the problems of a group."""
        return [name for name, scale in self.scales.items() if scale.group == group]

    def at(self, episodes: int) -> list[Result]:
        """Return the results with this number of episodes."""
        return [one for one in self.results if one.episodes == episodes]

    def of(self, problem: str, episodes: int) -> list[Result]:
        """Return the results on one problem with this number of episodes."""
        return [one for one in self.at(episodes) if one.problem == problem]

    def find(self, problem: str, agent: str, episodes: int) -> Result | None:
        """Return the result of one cell, or None if the cell is empty."""
        return next((one for one in self.of(problem, episodes) if one.agent == agent), None)

    def against(self, result: Result, part: str = "regret") -> Interval | None:
        """Return a measure of a result minus the reference's, paired by seed.

        Return None for the reference itself, if the reference has no result, and with one seed.
        """
        reference = self.find(result.problem, self.reference, result.episodes)
        if reference is None or reference is result:
            return None
        return paired(getattr(result, part), getattr(reference, part))

    @functools.cache  # noqa: B019  # one object lives as long as the command
    def standings(self, group: str, episodes: int) -> list[compare.Standing]:
        """Return the standings of a group at one number of episodes."""
        names = self.problems_of(group)
        here = [one for one in self.at(episodes) if one.problem in names]
        return compare.standings(here, names, self.reference)

    @functools.cache  # noqa: B019
    def losses(self, episodes: int) -> list[compare.Loss]:
        """Return the problems that the reference loses at one number of episodes."""
        return compare.losses(self.at(episodes), self.scales, self.reference)


CSV, PARQUET, TABLE, SUMMARY = (
    "leaderboard.csv",
    "leaderboard.parquet",
    "leaderboard.md",
    "summary.md",
)
TITLES = {"operations": "Operations problems", "paper": "Problems of the paper", "other": "Others"}
KNOWN = {  # what an agent is told that others are not
    "rule-search": "rule-search is told the shape of the rule that people use on the problem, and "
    "searches its numbers.",
}
READING = """\
Numbers are in units of the possible gain V\\* − V_random of a problem. Regret is what all episodes
of learning lost against the optimum; the loss is regret per episode, in percent. The final policy
is valued on 1,000 episodes: 0 % is random, 100 % optimal. The error of V\\* and of sampling may
bring it above 100. "After" is the number of episodes before returns are at 95 % of the gain, "–" if
they never are. ± is half a 95 % interval over the seeds. Tuned agents have the best of 11 bonuses
for each problem, chosen on other seeds; those runs are not counted."""


def write_tables(folder: Path, finished: Finished) -> None:
    """Write the four tables of a leaderboard into its folder."""
    pl = import_frames("polars", "a leaderboard")
    frame = pl.DataFrame(list(rows(finished)), infer_schema_length=None)
    content = io.BytesIO()
    frame.write_parquet(content)
    files.write_atomically(folder / PARQUET, content.getvalue())
    files.write_atomically(folder / CSV, frame.write_csv().encode())
    files.write_atomically(folder / SUMMARY, summary(finished).encode())
    whole = f"# {finished.title}\n\n{READING}\n\n{summary(finished)}\n{details(finished)}"
    files.write_atomically(folder / TABLE, whole.encode())


def rows(finished: Finished) -> Iterator[dict[str, Any]]:
    """Yield one row per problem, number of episodes and agent. Empty cells have a reason."""
    for result in finished.results:
        scale = finished.scales[result.problem]
        yield {
            "group": scale.group,
            "problem": result.problem,
            "episodes": result.episodes,
            "agent": result.agent,
            "library": result.library,
            "settings": json.dumps(result.settings, default=str),
            "seeds": result.n_seeds,
            **_spread("regret", mean_or_interval(result.regret)),
            **_spread("percent", mean_or_interval(result.percent)),
            "episodes_to_95": result.reached,
            "cpu_seconds": result.cpu_seconds,
            "bytes": result.nbytes,
            **_spread(f"regret_minus_{finished.reference}", finished.against(result)),
            **_spread(f"percent_minus_{finished.reference}", finished.against(result, "percent")),
            "optimum": scale.optimum,
            "optimum_error": scale.error,
            "random": scale.random,
            "reason": None,
        }
    for (problem, agent), reason in finished.refused.items():
        yield {
            "group": finished.scales[problem].group,
            "problem": problem,
            "agent": agent,
            "reason": reason,
        }


def _spread(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {
        name: None if interval is None else interval.mean,
        f"{name}_low": None if interval is None else interval.low,
        f"{name}_high": None if interval is None else interval.high,
    }


def summary(finished: Finished) -> str:
    """Return the standings of all groups and numbers of episodes, and the reference's losses."""
    parts = [f"{finished.title}, {finished.size}.", say_libraries(finished.results)]
    for group in finished.groups:
        for episodes in finished.episodes:
            n_problems = len(finished.problems_of(group))
            found = finished.standings(group, episodes)
            parts.append(
                f"### {TITLES[group]}, {episodes:,} episodes\n\n"
                + _standings_table(found, n_problems, finished.reference)
            )
    parts.append(f"### Where {finished.reference} loses\n\n" + _losses(finished))
    if finished.absent or finished.refused:
        parts.append("### Not played\n\n" + "\n".join(_refusals(finished)))
    return "\n\n".join(filter(None, parts)) + "\n"


def say_libraries(results: Sequence[Result]) -> str:
    """Return names and versions of other libraries that the agents come from, or ""."""
    found = dict.fromkeys((one.agent, one.library) for one in results if one.library)
    listed = "; ".join(f"{agent} uses {library}" for agent, library in found)
    return f"Libraries: {listed}." if listed else ""


def _standings_table(found: Sequence[Standing], n_problems: int, reference: str) -> str:
    lines = [
        "| agent | problems | loss, % | rank by loss | final policy, % | rank by policy | "
        f"{reference} better / level / worse | CPU s | kB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        cells = [
            one.agent,
            str(one.n_problems) if one.n_problems < n_problems else "all",
            _pm(one.loss, 1),
            _rank(one.rank_loss),
            _pm(one.percent, 1),
            _rank(one.rank_percent),
            "–" if one.record is None else str(one.record),
            _seconds(one.cpu_seconds),
            f"{one.nbytes / 1e3:,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _losses(finished: Finished) -> str:
    lines = []
    for episodes in finished.episodes:
        found = finished.losses(episodes)
        n = len(finished.scales)
        lines.append(
            f"- {episodes:,} episodes: on {len(found)} of {n} problems another agent has less "
            "regret" + (", the 95 % interval of the difference excludes 0." if found else ".")
        )
        lines += [f"  - {say_loss(one)}" for one in found]
    known = say_known([one for episodes in finished.episodes for one in finished.losses(episodes)])
    return "\n".join(lines) + (f"\n\n{known}" if known else "")


def say_loss(one: Loss) -> str:
    """Return a sentence about a problem on which the reference loses."""
    half = (one.regret.high - one.regret.low) / 2
    others = f" Also: {', '.join(one.others)}." if one.others else ""
    return (
        f"{one.problem}, to {one.agent}: regret {one.ours.regret.mean():,.1f} against "
        f"{one.theirs.regret.mean():,.1f} (difference {one.regret.mean:,.1f} ± {half:,.1f}); "
        f"{one.why}.{others}"
    )


def say_known(found: Sequence[Loss]) -> str:
    """Return sentences on prior knowledge of the problem that the winning agents were given."""
    agents = dict.fromkeys(one.agent for one in found)
    return " ".join(KNOWN[agent] for agent in agents if agent in KNOWN)


def _refusals(finished: Finished) -> Iterator[str]:
    for agent, reason in finished.absent.items():
        yield f"- {agent}: {reason}"
    for (problem, agent), reason in finished.refused.items():
        if agent not in finished.absent:
            yield f"- {agent} on {problem}: {reason}"


def details(finished: Finished) -> str:
    """Return one table per problem and number of episodes."""
    parts = []
    for name, scale in finished.scales.items():
        share = 100 * scale.error / scale.gain
        lines = [
            f"## {name}",
            f"V\\* = {scale.optimum:.5g} (within {share:.1f} % of the gain), V_random = "
            f"{scale.random:.5g}.",
        ]
        for episodes in finished.episodes:
            lines.append(_problem_table(finished, name, episodes))
        parts.append("\n\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _problem_table(finished: Finished, problem: str, episodes: int) -> str:
    lines = [
        f"| {episodes:,} episodes | settings | regret | minus {finished.reference} | final policy, "
        "% | after | CPU s | bytes | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in sorted(finished.of(problem, episodes), key=lambda one: one.regret.mean()):
        against = finished.against(one)
        cells = [
            one.agent,
            say_settings(one),
            _pm(mean_or_interval(one.regret), 1),
            "–" if against is None else _pm(against, 1, sign=True),
            _pm(mean_or_interval(one.percent), 1),
            "–" if one.reached is None else f"{one.reached:,}",
            _seconds(one.cpu_seconds),
            f"{one.nbytes:,.0f}",
            str(one.n_seeds),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def say_settings(result: Result) -> str:
    """Return the settings of an agent and its library as text."""
    settings = ", ".join(f"{key}={value}" for key, value in result.settings.items())
    return "; ".join(filter(None, [settings or "default", result.library]))


def _pm(interval: Interval, digits: int, sign: bool = False) -> str:
    form = f"{'+' if sign else ''},.{digits}f"
    half = (interval.high - interval.low) / 2
    return f"{interval.mean:{form}}" + (f" ± {half:,.{digits}f}" if half > 0 else "")


def _rank(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{interval.mean:.1f} ({interval.low:.1f} to {interval.high:.1f})"


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.3g}"
