"""Collect the data of the page: results of finished studies, and a replay of one run per agent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zooming.analysis.intervals import Interval, mean_interval
from zooming.analysis.regret import optimum_error
from zooming.analysis.solve import check_solvable
from zooming.app.report import findings
from zooming.app.report.replays import collect_replays, q_star
from zooming.envs.compiled import CompiledEnv
from zooming.errors import ConfigurationError, ZoomingError
from zooming.plots import COLORS
from zooming.plots.curve_data import Runs, read_study
from zooming.study.problems import Problem
from zooming.study.store import MANIFEST, Store
from zooming.study.stored import read_json, read_manifest
from zooming.study.study import Study
from zooming.study.summary import FEW_SEEDS, Row
from zooming.study.tune import TUNED
from zooming.study.values import value_policies
from zooming.validation import Floats, check_float, check_int, count_noun

MOST_SEEDS_SHOWN = 100  # as markers


def collect(folder: Path, n_valued: int = 0) -> dict[str, Any]:
    """Return all data of the page for the folder of a study, a tuning or a reproduction.

    The policies of the first `n_valued` runs of each agent are valued exactly, which gives the
    expected regret.
    """
    problems: list[dict[str, Any]] = []
    manifests: list[dict[str, Any]] = []
    studies = list(_studies(folder))
    for where, names, extra in studies:
        study = Study.stored(where)
        rows, configuration = study.summary(where), study.configuration
        if n_valued:
            value_policies(where, n_valued)
        for problem in configuration.problems:
            runs = read_study(where, problem.name)
            ours = [row for row in rows if row.problem == problem.name]
            is_solved, why_not = ours[0].optimum is not None, _why_not_made(problem)
            optimal = (
                problem.optimal(configuration.optimum) if is_solved and why_not is None else None
            )
            if optimal is not None:
                runs = {
                    label: replace(one, error=optimum_error(optimal)) for label, one in runs.items()
                }
            agents = [
                _agent(row, names, i, runs[row.agent], row.agent == _winner(runs))
                for i, row in enumerate(ours)
            ]
            options = ", ".join(f"{key}={value!r}" for key, value in problem.options.items())
            made_by = f"{problem.env_id}({options})"
            if why_not is None:
                replays, unshown, cuts = collect_replays(
                    problem, configuration, names, with_estimates=not is_solved
                )
            else:
                replays, unshown, cuts = [], [], []
                made_by += f". It cannot be made again here, so no run is replayed: {why_not}"
            problems.append({
                "name": problem.name, "heading": extra.get("heading", problem.name),
                "optimum": ours[0].optimum,
                "why_unsolved": None if is_solved else why_not or _why_unsolved(problem),
                "made_by": made_by, "why_not_made": why_not,
                "verdicts": extra.get("verdicts", []), "agents": agents, "replays": replays,
                "unshown": unshown,
                "tried": [tried for tuned in extra.get("tuned", []) for tried in tuned["tried"]],
                "scales": extra.get("scales"),
                "q_star": None if optimal is None or not replays else q_star(optimal, cuts),
            })  # fmt: skip
        manifests.append(findings.replace_non_finite(read_manifest(where / MANIFEST)))
    first = Store.of_folder(studies[0][0]).configuration
    overall = findings.overall(folder / findings.FINDINGS)
    size = (len(problems), "problem"), (first.episodes, "episode"), (first.n_seeds, "seed")
    return {
        "title": findings.title(folder, len(problems)),
        "size": ", ".join(count_noun(n, what) for n, what in size),
        "score": findings.count_confirmed(
            [*(verdict for problem in problems for verdict in problem["verdicts"]), *overall]
        ),
        "overall": overall,
        "episodes": first.episodes,
        "n_seeds": first.n_seeds,
        "few_seeds": first.n_seeds < FEW_SEEDS,
        "problems": problems,
        "manifests": manifests,
    }


def _studies(folder: Path) -> Iterator[tuple[Path, dict[str, str], dict[str, Any]]]:
    """Yield (folder, {label: agent name to show}, further findings) of each study."""
    if (folder / MANIFEST).exists():
        yield folder, {}, {}
        return
    path, evaluations = folder / findings.FINDINGS, sorted(folder.glob(f"evaluation/*/{MANIFEST}"))
    if not path.exists():
        if not evaluations:
            raise ConfigurationError(
                f"{folder} holds neither a study (zooming run, tune) nor a reproduction (zooming "
                "reproduce)"
            )
        yield from (
            (where, {}, {"tuned": tuned}) for where, tuned in _evaluations(folder, evaluations)
        )
        return
    for found in findings.figures(path):
        yield folder / "evaluation" / found["problem"], found["agents"], found


def _evaluations(folder: Path, manifests: list[Path]) -> list[tuple[Path, list[dict[str, Any]]]]:
    """Return (folder, values tried) of each evaluation of a tuning, in the order of problems."""
    path, remedy = folder / TUNED, "delete it, and zooming tune makes it again"
    if not path.exists():  # the tuning is not finished
        return [(manifest.parent, []) for manifest in manifests]
    content = read_json(path, remedy)
    try:
        tuned = [{"problem": one["problem"], "tried": [*_tried_rows(one)]} for one in content]
        named = [(one["problem"], one["evaluation"]["agent"]) for one in content]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{path} is damaged ({error!r}); {remedy}") from error
    found = []
    for manifest in manifests:
        configuration = Study.stored(manifest.parent).configuration
        name, labels = (
            configuration.problems[0].name,
            [agent.label for agent in configuration.agents],
        )
        if labels == [
            label for problem, label in named if problem == name
        ]:  # else it belongs to an earlier tuning
            found.append((manifest.parent, [one for one in tuned if one["problem"] == name]))
    if not found:
        raise ConfigurationError(
            f"{path} is of another tuning than the evaluations beside it; {remedy}"
        )
    return sorted(found, key=lambda one: tuned.index(one[1][0]))


def _tried_rows(tuned: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one row per value that was tried for one agent."""
    for tried in tuned["tried"]:
        interval = tried["interval"] or dict.fromkeys(("mean", "low", "high"), tried["mean_return"])
        value = check_float(tried["value"], "value", -math.inf, math.inf)
        yield {
            "agent": str(tuned["agent"]),
            "value": f"{tuned['option']}={value:.4g}",
            "mean_return": [
                check_float(interval[part], part, -math.inf, math.inf)
                for part in ("mean", "low", "high")
            ],
            "n_seeds": check_int(tried["n_seeds"], "n_seeds", 1),
            "is_best": (tried["value"], tried["mean_return"])
            == (tuned["value"], tuned["tuning_return"]),
        }


def _winner(runs: dict[str, Runs]) -> str | None:
    """Return the agent that beats every other, paired by seed, at the 95 % level, or None."""
    totals = {label: ours.total_return[:, -1] for label, ours in runs.items()}
    best = max(totals, key=lambda label: totals[label].mean())
    others = [total for label, total in totals.items() if label != best]
    is_clear = (
        len(totals[best]) > 1
        and others
        and all(mean_interval(totals[best] - total).low > 0 for total in others)
    )
    return best if is_clear else None


def _agent(row: Row, names: dict[str, str], i: int, runs: Runs, is_winner: bool) -> dict[str, Any]:
    mean_return = runs.total_return / runs.episode
    regret = None if runs.optimum is None else runs.regret
    expected = runs.expected_regret if regret is not None and runs.policy_values.size else None
    objective = (
        mean_return if regret is None else regret
    )  # the quantity by which agents are compared
    return {
        "label": row.agent,
        "name": names.get(row.agent, row.agent),
        "color": COLORS[i % len(COLORS)],
        "is_winner": is_winner,
        "final_return": _as_list(row.final_return, row.mean_return),
        "regret": None if regret is None else _last_interval(regret),
        "expected_regret": None if expected is None else _last_interval(expected),
        "mean_return": _last_interval(mean_return),
        "advantage": _as_list(row.advantage, None),
        "n_balls": row.n_balls,
        "nbytes": row.nbytes,
        "n_clipped": row.n_clipped,
        "milliseconds": _as_number(1e3 * row.seconds),
        "n_valued": 0 if expected is None else len(expected),
        "curve": {
            "episode": runs.episode.tolist(),
            "returns": learning_curve(runs),
            "objective": _band(objective),
            "expected": None
            if expected is None
            else {"episode": runs.checkpoints.tolist(), **_band(expected)},
        },
        "seeds": [
            [int(runs.n_balls[k, -1]), round(float(objective[k, -1]), 4)]
            for k in range(min(runs.n_seeds, MOST_SEEDS_SHOWN))
        ],
    }  # fmt: skip


def learning_curve(
    runs: Runs, scaled: Callable[[Floats], Floats] = lambda returns: returns, n_bins: int = 40
) -> dict[str, list[Any]]:
    """Return mean returns over at most `n_bins` bins. All bins but the last have equal length.

    `scaled` converts the returns to another unit.
    """
    episode, total = (
        np.concatenate([[0], runs.episode]),
        np.pad(runs.total_return, ((0, 0), (1, 0))),
    )
    edges = [0]
    for k in range(1, len(episode)):
        if episode[k] - episode[edges[-1]] >= runs.episode[-1] / n_bins or k == len(episode) - 1:
            edges.append(k)
    means = np.diff(total[:, edges], axis=1) / np.diff(episode[edges])
    middle = (episode[edges][:-1] + episode[edges][1:] + 1) / 2
    return {"episode": middle.tolist(), **_band(scaled(means))}


def _band(samples: np.ndarray[Any, Any]) -> dict[str, list[Any]]:
    """Return the mean and 95 % interval over the seeds of each column."""
    if len(samples) < 2:
        mean = np.round(samples.mean(axis=0), 4).tolist()
        return {"mean": mean, "low": mean, "high": mean}
    bands = [mean_interval(column) for column in samples.T]
    return {
        part: [round(getattr(band, part), 4) for band in bands] for part in ("mean", "low", "high")
    }


def _last_interval(samples: np.ndarray[Any, Any]) -> list[float]:
    """Return the mean and 95 % interval of the last column."""
    band = _band(samples[:, -1:])
    return [band[part][0] for part in ("mean", "low", "high")]


def _as_list(interval: Interval | None, mean: float | None) -> list[float] | None:
    if interval is not None:
        return [interval.mean, interval.low, interval.high]
    return None if mean is None else [mean, mean, mean]


def _as_number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


def _why_not_made(problem: Problem) -> str | None:
    """Return why the environment of a problem cannot be made, or None if it can."""
    try:
        problem.make()
    except ZoomingError as error:
        return str(error)
    except Exception as error:  # a user's environment may raise anything
        return f"{type(error).__name__}: {error}"
    return None


def _why_unsolved(problem: Problem) -> str:
    """Return why a problem has no known optimum."""
    env = problem.make()
    if not isinstance(env.unwrapped, CompiledEnv):
        return (
            f"{problem.env_id} is not a compiled environment; zooming.compiled_env makes one, "
            "whose law is known"
        )
    try:
        check_solvable(env)
    except ConfigurationError as error:
        return str(error)
    return "zooming.solve could not certify one"
