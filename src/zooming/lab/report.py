"""The command `zooming report`: write one HTML file of tables and pictures, without a script.

The data are the results of finished studies. Only their files are read: no environment is made.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming import notebook, plots
from zooming.agents.base.status import plain
from zooming.agents.files import container as files
from zooming.errors import ConfigurationError
from zooming.lab.study.run_command import NUMBERS, READING, cells_of, clipped_texts
from zooming.lab.study.store import MANIFEST, Store, read_json, read_manifest
from zooming.lab.study.study import FEW_SEEDS, Row, Study, find_optima, read_study
from zooming.plots.curves import Runs
from zooming.spaces.names import printable_names
from zooming.validation import count_noun
from zooming.version import __version__

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
    files.writable_path(path)
    page = make_page(Path(folder))
    files.write_atomically(path, page.encode())
    print(f"{path}: {len(page) / 1e6:.1f} MB; open it in a browser")


def make_page(folder: Path) -> str:
    """Return the page of a study or a reproduction. Every string of the data is escaped."""
    studies, sections, manifests, verdicts = list(_studies(folder)), [], [], []
    for where, names, found in studies:
        study, optima = Study.stored(where), find_optima(Store.of_folder(where))
        rows = study.summary(where)
        for problem in study.configuration.problems:
            runs, optimum = read_study(where, problem.name), optima[problem.name]
            if optimum is not None:
                runs = {label: replace(one, error=optimum.error) for label, one in runs.items()}
            options = ", ".join(f"{key}={value!r}" for key, value in problem.options.items())
            ours = [row for row in rows if row.problem == problem.name]
            sections += [
                f"<h2>{_text(found.get('heading', problem.name))}</h2>",
                f'<p class="quiet">{_text(f"{problem.env_id}({options})")}</p>',
                _list(found.get("verdicts", [])),
                _table(ours, names),
                *(f'<p class="warn">{_text(text)}</p>' for text in clipped_texts(ours)),
                _picture({names.get(label, label): one for label, one in runs.items()}),
            ]
        verdicts += found.get("verdicts", [])
        manifests.append(json.dumps(read_manifest(where / MANIFEST), indent=1))
    first = Store.of_folder(studies[0][0]).configuration
    n_problems = len(studies) if len(studies) > 1 else len(first.problems)
    title, overall = f"Agents compared on {count_noun(n_problems, 'problem')}", []
    if (folder / FINDINGS).exists():
        title = "Adaptive discretization: the paper's figures, reproduced"
        overall = read_findings(folder / FINDINGS)[1]
    size = (n_problems, "problem"), (first.episodes, "episode"), (first.n_seeds, "seed")
    few = "Few seeds: intervals this wide or missing say little. "
    body = [
        f"<p><b>{count_confirmed([*verdicts, *overall])}</b></p>",
        f"<p>{', '.join(count_noun(n, what) for n, what in size)}</p>",
        _list(overall),
        f'<p class="quiet">{few if first.n_seeds < FEW_SEEDS else ""}{READING} Regret is the '
        "solved optimum minus the returns, added up: where there is chance it can be negative. "
        "ms/run is the mean processor time of learning in the study.</p>",
        *sections,
        *(f"<h2>Configuration</h2><pre>{_text(one)}</pre>" for one in manifests),
        f'<p class="quiet">Made by zooming {__version__}. Everything is in this file.</p>',
    ]
    return notebook.page(title, "".join(body))


def _text(text: str) -> str:
    return html.escape(text)


def _list(verdicts: Sequence[dict[str, Any]]) -> str:
    items = "".join(f"<li>{_text(one['sentence'])}</li>" for one in verdicts)
    return f"<ul>{items}</ul>" if items else ""


def _table(rows: Sequence[Row], names: dict[str, str]) -> str:
    """Return the summary of a problem, one row per agent."""
    optimum = rows[0].optimum
    known = "The optimum is not known, so there is no regret."
    if optimum is not None:
        known = f"The optimum is {plain(optimum, 5)}."
    lines: list[tuple[str, ...]] = [("agent", *NUMBERS)]
    lines += [(names.get(row.agent, row.agent), *cells_of(row)) for row in rows]
    cells = ["".join(f"<td>{_text(cell)}</td>" for cell in line) for line in lines]
    cells[0] = cells[0].replace("td>", "th>")
    body = "".join(f"<tr>{one}</tr>" for one in cells)
    return f'<p>{known}</p><div class="wide"><table>{body}</table></div>'


def _picture(runs: dict[str, Runs]) -> str:
    """Return the learning curves and, if the optimum is known, the regret, as an image."""
    from matplotlib.figure import Figure

    drawn = dict(zip(printable_names(runs), runs.values(), strict=True))
    # A regret of one episode is no curve.
    is_solved = all(one.optimum is not None and one.episode[-1] > 1 for one in drawn.values())
    canvas = Figure(figsize=(11.0 if is_solved else 5.5, 3.8), dpi=110, layout="constrained")
    left, *right = canvas.subplots(1, 1 + is_solved, squeeze=False)[0]
    plots.learning_curves(drawn, left)
    for ax in right:
        plots.regret(drawn, ax, scale="linear")
        # The axis ends at the learners. The regret of an agent without balls may be much larger.
        learners = [one.regret.mean(axis=0).max() for one in drawn.values() if one.n_balls.any()]
        if max(learners, default=0.0) > 0.0:
            ax.set_ylim(top=1.12 * max(learners))
    if (legend := left.get_legend()) is not None:  # below, where it lies on no curve
        handles, labels = left.get_legend_handles_labels()
        title = legend.get_title().get_text()
        for ax in (left, *right):
            ax.get_legend().remove()
        canvas.legend(
            handles, labels, loc="outside lower center", ncols=4, title=title, frameon=False
        )
    what = "Learning curves and regret" if is_solved else "Learning curves"
    return notebook.picture(canvas, what)


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


def read_findings(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the entries of all figures of a reproduction, and the verdicts on several figures.

    Raise ConfigurationError if the file is damaged.
    """
    content = read_json(path, REMEDY)
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
