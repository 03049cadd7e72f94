"""Compare how fast agents learn: percent of the possible gain, regret, and time.

Run `python benchmarks/learning.py --seeds 20 --episodes 500 2000 --out out/learning.json`. Results
are kept in the file after each run, and the same command continues. `--set other-settings` takes
the same problems with other numbers, by which nothing was chosen; `--set foreign` takes the
problems of `foreign.py`, which are unlike the others; half of them only with `--final`. `--summary`
prints one line for each agent from what is there; `--against OLD.json` prints how far the mean is
above that of another file. Problems are in `problem_sets.py`. Agents are `Auto`, `Planner`,
`TreeQ`, `AdaptiveQ`, the paper's form of `AdaptiveQ` with the best of eight bonuses for each
problem ("published"), and the rule that practitioners use, whose numbers are searched by CMA-ES
("rule-search", see docs/lab/rivals.md).

Percent is 100 (V - V_random) / (V* - V_random) of the final policy, on 1,000 episodes that differ
from seed to seed. Regret is K V* minus the sum of returns, in units of V* - V_random. V* is that of
`zooming.solve`; its error, and that of sampling, may make a percentage exceed 100. The published
form is flattered a little: its bonus is chosen on the seeds that are reported.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import foreign
import zooming
from problem_sets import PROBLEMS, SETS
from zooming.agents.files.container import write_atomically
from zooming.lab.study.problems import agents_named

RULE = "rule-search"
AGENTS = ("Auto", "Planner", "TreeQ", "AdaptiveQ", "published", RULE)
BONUSES = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # of the published form
NOT_WORSE = 3.0  # percent below the rule, or the best constant action, that count as level
LEAST_REGRET = 1.0  # in units of V* - V_random: below, a regret is noise


def bounds(name: str) -> tuple[float, float]:
    """Return the one and the zero of the scale: V* and the value of random actions."""
    if name in foreign.FOREIGN:
        return foreign.reference(name)
    problem = PROBLEMS[name]
    random = zooming.Random(problem.make(), reward_range=(-1e9, 1e9), seed=12345)
    best = zooming.solve(problem.make(), problem.resolution).return_
    return best, float(np.mean(random.learn(5000).returns))


def make_agent(kind: str, env: Any, seed: int, episodes: int) -> Any:
    """Make an agent of `AGENTS` for so many episodes; `published:c` has the bonus c."""
    name, _, bonus = kind.partition(":")
    if name == RULE:
        return agents_named(name)[0].make(env, seed, episodes)
    if name == "published":
        return zooming.AdaptiveQ.as_published(env, float(bonus), seed=seed)
    return getattr(zooming, name)(env, seed=seed)


def run(name: str, agent: str, episodes: int, seed: int, best: float, random: float) -> Any:
    """Return (percent, regret, microseconds of processor time a step, late loss) of one run.

    The percentage of the published form is not computed; it is 0. The late loss is what the last
    fifth of the episodes loses, in percent of V* - V_random.
    """
    env, gain = PROBLEMS[name].make(), best - random
    make_agent(agent, PROBLEMS[name].make(), seed, episodes).learn(2)  # compile
    began = time.process_time()
    policy = make_agent(agent, env, seed, episodes)
    returns = policy.learn(episodes).returns
    seconds = time.process_time() - began
    regret = (episodes * best - float(returns.sum())) / gain
    late = 100 * (best - float(returns[-(episodes // 5) :].mean())) / gain
    percent = 0.0
    if not agent.startswith("published"):
        value = zooming.evaluate(policy, PROBLEMS[name].make(), 1000, seed=1000 + seed).mean
        percent = 100 * (value - random) / gain
    return percent, regret, 1e6 * seconds / (episodes * policy.horizon), late


def rows_of(results: dict[str, Any], name: str, agent: str, episodes: int) -> list[Any]:
    """Return the runs of an agent, one row for each seed; of "published", those of its best c."""
    kinds = [f"published:{c:g}" for c in BONUSES] if agent == "published" else [agent]
    found = [
        [row for key, row in results.items() if key.startswith(f"{name}/{kind}/{episodes}/")]
        for kind in kinds
    ]
    return min(found, key=lambda rows: mean_regret(rows) if rows else math.inf)


def mean_regret(rows: list[Any]) -> float:
    return max(LEAST_REGRET, statistics.mean(row[1] for row in rows))


def table(results: dict[str, Any], names: list[str], agents: list[str], episodes: int) -> str:
    """Return the results at one number of episodes: medians over seeds, worst in brackets."""
    lines = [f"{episodes:,} episodes: percent, median (worst); regret, mean; us a step"]
    lines.append(f"{'':22}" + "".join(f"{agent:>28}" for agent in agents))
    means: dict[str, list[Any]] = {agent: [] for agent in agents}
    for name in names:
        cells = []
        for agent in agents:
            rows = rows_of(results, name, agent, episodes)
            if not rows:
                cells.append(f"{'-':>28}")
                continue
            percents, regrets, times = zip(*(row[:3] for row in rows), strict=True)
            means[agent].append((statistics.mean(percents), mean_regret(rows)))
            cells.append(
                f"{statistics.median(percents):9.1f} ({min(percents):5.1f})"
                f"{statistics.mean(regrets):7.0f}{statistics.median(times):6.1f}"
            )
        lines.append(f"{name:22}" + "".join(cells))
    cells = []
    for agent in agents:
        if means[agent]:
            percent, regret = (list(part) for part in zip(*means[agent], strict=True))
            text = f"{statistics.mean(percent):.1f} ({min(percent):.1f})"
            cells.append(f"{text:>17}{statistics.geometric_mean(regret):7.0f}{'':4}")
        else:
            cells.append(f"{'-':>28}")
    lines.append(f"{'mean (least), geometric':22}" + "".join(cells))
    return "\n".join(lines)


def summary(results: dict[str, Any], which: str, agents: list[str], episodes: int) -> str:
    """Return one line for each agent: the table by which agents are judged.

    Operations: mean and least percent over the problems, geometric mean of regret, and on how many
    problems regret is below that of the rule. Paper: geometric mean and largest of the regret
    divided by that of the published form with its best bonus. Means are over seeds.
    """
    operations, paper = SETS[which]
    lines = [
        f"{which}, {episodes:,} episodes. Operations: mean / least percent, regret, below the "
        "rule. Paper: regret over the published form tuned, geometric mean / largest"
    ]
    for agent in agents:
        percents, regrets, ratios, below = [], [], [], []
        for name in operations:
            rows, rule = (rows_of(results, name, one, episodes) for one in (agent, RULE))
            if rows:
                percents.append(statistics.mean(row[0] for row in rows))
                regrets.append(mean_regret(rows))
            if rows and rule:
                below.append(mean_regret(rows) < mean_regret(rule))
        for name in paper:
            rows, tuned = (rows_of(results, name, one, episodes) for one in (agent, "published"))
            if rows and tuned:
                ratios.append(mean_regret(rows) / mean_regret(tuned))
        cells = [f"{agent:12}"]
        if percents:
            cells.append(f"{statistics.mean(percents):5.1f} / {min(percents):5.1f} %")
            cells.append(f"{statistics.geometric_mean(regrets):7.1f}")
            cells.append(f"{sum(below)} of {len(below)}")
        if ratios:
            cells.append(f"{statistics.geometric_mean(ratios):.3f} / {max(ratios):.2f}")
        lines.append("   ".join(cells))
    return "\n".join(lines)


def foreign_table(results: dict[str, Any], names: list[str], agent: str, episodes: int) -> str:
    """Return the results on foreign problems, and a line by which a change is judged.

    The mean is over the problems with V*, where a percentage below -100 counts as -100, with the
    standard error over seeds. Others are compared with the rule, which has 100 %.
    """
    lines = [
        f"{agent}, foreign, {episodes:,} episodes: percent, mean and worst seed; loss an episode",
        f"{'':15}{'rule':>7}{'const':>7}{'mean':>9}{'worst':>11}{'loss':>12}{'late':>12}{'us':>7}",
    ]
    means, rows_with_best = {}, {}
    for name in names:
        rows = rows_of(results, name, agent, episodes)
        if not rows:
            continue
        percents = [row[0] for row in rows]
        means[name] = statistics.mean(percents)
        if foreign.FOREIGN[name].best:
            rows_with_best[name] = percents
        known = "".join(f"{foreign.percent(name, which):7.1f}" for which in ("rule", "constant"))
        lines.append(
            f"{name:15}{known}{means[name]:9.1f}{min(percents):11.1f}"
            f"{100 * statistics.mean(row[1] for row in rows) / episodes:12.1f}"
            f"{statistics.mean(row[3] for row in rows):12.1f}"
            f"{statistics.median(row[2] for row in rows):7.0f}"
        )
    if not rows_with_best:
        return "\n".join(lines)
    of_seed = [
        statistics.mean(max(percent, -100.0) for percent in column)
        for column in zip(*rows_with_best.values(), strict=False)
    ]
    error = statistics.stdev(of_seed) / math.sqrt(len(of_seed)) if len(of_seed) > 1 else math.nan
    least = min(rows_with_best, key=lambda name: means[name])
    worst = min(rows_with_best, key=lambda name: min(rows_with_best[name]))
    level = [
        sum(means[name] >= foreign.percent(name, which) - NOT_WORSE for name in means)
        for which in ("rule", "constant")
    ]
    lines.append(
        f"mean {statistics.mean(of_seed):.2f} ± {error:.2f} of {len(of_seed)} seeds; least "
        f"{means[least]:.1f} ({least}); worst seed {min(rows_with_best[worst]):.1f} ({worst}); not "
        f"worse by {NOT_WORSE:g} % than the rule {level[0]}, than the constant {level[1]} of "
        f"{len(means)}"
    )
    return "\n".join(lines)


def difference(new: dict[str, Any], old: dict[str, Any], episodes: int, agent: str) -> str:
    """Return how far each mean percentage is above that of an older file, paired by seed.

    A percentage below -100 counts as -100. Problems without V* do not enter the mean.
    """
    by_problem: dict[str, dict[str, float]] = {}
    for key in new.keys() & old.keys():
        name, *rest = key.split("/")
        if rest[:2] == [agent, str(episodes)]:
            gain = max(new[key][0], -100.0) - max(old[key][0], -100.0)
            by_problem.setdefault(name, {})[rest[2]] = gain
    lines = [f"{agent}, {episodes:,} episodes: percent above the older file, mean ± standard error"]
    has_best = [
        name for name in by_problem if name not in foreign.FOREIGN or foreign.FOREIGN[name].best
    ]
    seeds = set.intersection(*(set(by_problem[name]) for name in has_best)) if has_best else set()
    rows = {name: list(found.values()) for name, found in sorted(by_problem.items())}
    rows["mean"] = [
        statistics.mean(by_problem[name][seed] for name in has_best) for seed in sorted(seeds)
    ]
    for name, gains in rows.items():
        if len(gains) > 1:
            error = statistics.stdev(gains) / math.sqrt(len(gains))
            lines.append(f"{name:22}{statistics.mean(gains):+9.2f} ± {error:.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--episodes", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--set", choices=SETS, default="train")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, help="by default all of the set")
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=AGENTS)
    parser.add_argument("--summary", action="store_true", help="run nothing, print what is there")
    parser.add_argument("--against", type=Path, help="an older file to compare with")
    parser.add_argument("--final", action="store_true", help="also the kept foreign problems")
    parser.add_argument("--out", type=Path, default=Path("out/learning.json"))
    options = parser.parse_args()
    operations, paper = SETS[options.set]
    problems = options.problems or [
        name for name in (*operations, *paper) if options.final or not is_kept(name)
    ]
    kept = [name for name in problems if is_kept(name)]
    if kept and not options.final:
        parser.error(f"{', '.join(kept)}: kept for the last look; give --final if this is it")
    os.makedirs(options.out.parent, exist_ok=True)
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in [] if options.summary else problems:
        if name not in results:
            results[name] = bounds(name)
        for episodes in options.episodes:
            for kind in kinds_on(name, options.agents):
                for seed in range(options.first, options.first + options.seeds):
                    key = f"{name}/{kind}/{episodes}/{seed}"
                    if key not in results:
                        results[key] = run(name, kind, episodes, seed, *results[name])
                        write_atomically(options.out, json.dumps(results).encode())
        print(name, flush=True)
    for episodes in options.episodes:
        if options.against:
            old = json.loads(options.against.read_text())
            print(f"\n{difference(results, old, episodes, options.agents[0])}")
        if options.set == "foreign":
            for agent in options.agents:
                print(f"\n{foreign_table(results, problems, agent, episodes)}")
            continue
        for group in (operations, paper):
            names = [name for name in problems if name in group]
            if names and not options.summary:
                print(f"\n{table(results, names, options.agents, episodes)}")
        print(f"\n{summary(results, options.set, options.agents, episodes)}")


def is_kept(name: str) -> bool:
    return name in foreign.FOREIGN and foreign.FOREIGN[name].kept


def kinds_on(name: str, agents: list[str]) -> list[str]:
    """Return the agents to run on a problem: the gallery has rules, papers have a tuned form."""
    is_paper = any(name in paper for _, paper in SETS.values())
    kinds = [agent for agent in agents if agent not in (RULE, "published")]
    if is_paper and "published" in agents:
        kinds += [f"published:{c:g}" for c in BONUSES]
    if not is_paper and name not in foreign.FOREIGN and RULE in agents:
        kinds.append(RULE)
    return kinds


if __name__ == "__main__":
    main()
