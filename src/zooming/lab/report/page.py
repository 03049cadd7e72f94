"""The command `zooming report`: write one HTML file with all data, styles and scripts inline.

The data are the results of finished studies. Only their files are read: no environment is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.export.pages import fill_page, plotly_script
from zooming.lab.study.store import MANIFEST, Store, read_json, read_manifest
from zooming.lab.study.study import FEW_SEEDS, Row, Study, find_optima, read_study
from zooming.plots import COLORS
from zooming.plots.curves import N_BINS, Runs, bin_returns
from zooming.validation import count_noun

PACKAGE = "zooming.lab.report"
FINDINGS = "findings.json"
REMEDY = "delete it, and zooming reproduce makes it again"


def report(
    folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    target: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")] = None,
    out: str | None = None,
) -> None:
    """Write an HTML page of a study or reproduction: tables, learning curves and regret.

    The page works without a network.

    Args:
        folder: folder of a finished zooming run or zooming reproduce.
        target: file to write. By default report.html in the folder.
        out: the same as an option.
    """
    path = Path(target or out or Path(folder) / "report.html")
    if not Path(folder).is_dir():
        raise ConfigurationError(
            f"there is no folder {folder}; zooming run ... --out {folder} makes one"
        )
    if path.is_dir():
        raise ConfigurationError(
            f"cannot write {path}: it is a folder; give the page a name: {path}/report.html"
        )
    try:
        files.writable_path(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    page = render_page(collect(Path(folder)))
    files.write_atomically(path, page.encode())
    print(f"{path}: {len(page) / 1e6:.1f} MB; open it in a browser")


def render_page(data: dict[str, Any]) -> str:
    """Return the HTML of the data from `collect`. Strings are inserted as data, never as markup."""
    return fill_page(PACKAGE, data, PLOTLY=plotly_script())


def collect(folder: Path) -> dict[str, Any]:
    """Return all data of the page for the folder of a study or a reproduction."""
    problems: list[dict[str, Any]] = []
    manifests: list[dict[str, Any]] = []
    studies = list(_studies(folder))
    for where, names, extra in studies:
        study = Study.stored(where)
        rows, optima = study.summary(where), find_optima(Store.of_folder(where))
        for problem in study.configuration.problems:
            runs, optimum = read_study(where, problem.name), optima[problem.name]
            if optimum is not None:
                runs = {label: replace(one, error=optimum.error) for label, one in runs.items()}
            ours = [row for row in rows if row.problem == problem.name]
            options = ", ".join(f"{key}={value!r}" for key, value in problem.options.items())
            problems.append({
                "name": problem.name, "heading": extra.get("heading", problem.name),
                "optimum": ours[0].optimum, "made_by": f"{problem.env_id}({options})",
                "verdicts": extra.get("verdicts", []),
                "agents": [
                    _agent(row, names, i, runs[row.agent], row.agent == _winner(runs))
                    for i, row in enumerate(ours)
                ],
            })  # fmt: skip
        manifests.append(_replace_non_finite(read_manifest(where / MANIFEST)))
    first = Store.of_folder(studies[0][0]).configuration
    together = read_findings(folder / FINDINGS)[1] if (folder / FINDINGS).exists() else []
    size = (len(problems), "problem"), (first.episodes, "episode"), (first.n_seeds, "seed")
    return {
        "title": "Adaptive discretization: the paper's figures, reproduced"
        if (folder / FINDINGS).exists()
        else f"Agents compared on {count_noun(len(problems), 'problem')}",
        "size": ", ".join(count_noun(n, what) for n, what in size),
        "score": count_confirmed(
            [*(verdict for problem in problems for verdict in problem["verdicts"]), *together]
        ),
        "overall": together,
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
    path, evaluations = folder / FINDINGS, sorted(folder.glob(f"evaluation/*/{MANIFEST}"))
    if not path.exists():
        instead = f"; give a study in it: {evaluations[0].parent}" if evaluations else ""
        raise ConfigurationError(
            f"{folder} holds neither a study (zooming run) nor a reproduction (zooming "
            f"reproduce){instead}"
        )
    for found in read_findings(path)[0]:
        yield folder / "evaluation" / found["problem"], found["agents"], found


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
    middle, returns, _ = bin_returns(runs, N_BINS)
    objective = mean_return if regret is None else regret  # by which agents are compared
    return {
        "label": row.agent,
        "name": names.get(row.agent, row.agent),
        "color": COLORS[i % len(COLORS)],
        "is_winner": is_winner,
        "final_return": _as_list(row.final_return, row.mean_return),
        "regret": None if regret is None else _last_interval(regret),
        "mean_return": _last_interval(mean_return),
        "advantage": _as_list(row.advantage, None),
        "n_balls": row.n_balls,
        "nbytes": row.nbytes,
        "n_clipped": row.n_clipped,
        "milliseconds": _as_number(1e3 * row.seconds),
        "curve": {
            "episode": runs.episode.tolist(),
            "returns": {"episode": middle.tolist(), **_band(returns)},
            "objective": _band(objective),
        },
    }


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


def read_findings(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the entries of all figures of a reproduction, and the verdicts on several figures.

    Raise ConfigurationError if the file is damaged.
    """
    content = _replace_non_finite(read_json(path, REMEDY))
    try:
        found, overall = list(content["figures"].values()), content.get("overall", [])
        for one in found:
            texts = [one["problem"], one.get("heading", ""), *one["agents"].values()]
            if (
                not all(isinstance(text, str) for text in texts)
                or Path(one["problem"]).name != one["problem"]
            ):
                raise ValueError("the name of a problem or an agent is not valid")
        for verdict in [*overall, *(v for one in found for v in one.get("verdicts", []))]:
            is_verdict = verdict["holds"] in (True, False, None)
            if not isinstance(verdict["sentence"], str) or not is_verdict:
                raise ValueError("an entry of the verdicts is not a verdict")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{path} is damaged ({error!r}); {REMEDY}") from error
    if not found:
        raise ConfigurationError(f"{path} holds no figure; zooming reproduce continues it")
    return found, overall


def count_confirmed(verdicts: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that counts the confirmed claims, or "" if there are no claims."""
    if not verdicts:
        return ""
    holds = [verdict["holds"] for verdict in verdicts]
    rest = [(holds.count(False), "refuted"), (holds.count(None), "undecided")]
    others = ", ".join(f"{n} {word}" for n, word in rest if n)
    return f"{holds.count(True)} of {len(holds)} claims confirmed" + (
        f"; {others}" if others else ""
    )


def _replace_non_finite(content: Any) -> Any:
    """Return JSON content with NaN and infinities as strings. Strict JSON has neither."""
    if isinstance(content, dict):
        return {key: _replace_non_finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_replace_non_finite(value) for value in content]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content
