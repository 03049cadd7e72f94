"""The command `zooming reproduce`: run the paper's experiments, draw figures, check claims."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import rich.box
import rich.progress
import tyro

from zooming import plots
from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.errors import ConfigurationError
from zooming.lab.paper.claims import Verdict, growth_exponent, overall
from zooming.lab.paper.figures import Figure, figures_named
from zooming.lab.paper.sweep import ADAPTIVE, CENTERS, HEURISTICS, NET, UNTUNED, Evidence, sweep
from zooming.lab.report import FINDINGS
from zooming.lab.study import engines
from zooming.lab.study.engines import Stopped, raise_on_sigterm
from zooming.lab.study.run_command import make_table, say_how_to_continue, wide_console
from zooming.lab.study.store import LOCK, lock
from zooming.plots.style import GRAY, MARKERS, drawing, line
from zooming.validation import count_noun

FULL_SEEDS, QUICK_SEEDS = 200, 20
FEWEST_EPISODES = 20
PICTURES = "figures"
SUFFIXES = (".png", ".pdf")  # one to view, one for publications
DPI = 200
_TEXT = 11.0


def reproduce(
    figures: tyro.conf.Positional[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="[FIGURE ...]")]
    ] = (),
    *,
    out: str,
    quick: bool = False,
    seeds: int | None = None,
    episodes: int = 2000,
    entropy: int = 0,
    workers: int | None = None,
) -> None:
    """Reproduce the figures of the paper, with true regret, and check the claims about them.

    Repeat the command to resume a stopped reproduction. zooming report DIR makes a page of it.

    Args:
        figures: numbers from 1 to 15, or names of problems (see zooming list). By default all.
        out: folder of the runs, figures/*.png, figures/*.pdf and findings.json.
        quick: use 20 seeds instead of 200, and a less accurate optimum.
        seeds: number of runs of each agent at each scale of the bonus. By default 200 as in the
            paper, 20 with --quick.
        episodes: number of episodes of each run.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        workers: number of processes. By default one per core.
    """
    began = time.perf_counter()
    chosen, folder = figures_named(figures), Path(out)
    n_seeds = seeds if seeds is not None else QUICK_SEEDS if quick else FULL_SEEDS
    settings: dict[str, Any] = {
        "seeds": n_seeds,
        "episodes": episodes,
        "entropy": entropy,
        "optimum": "rough" if quick else "fine",
    }
    for option, given, least in (("seeds", n_seeds, 2), ("episodes", episodes, FEWEST_EPISODES)):
        if given < least:
            raise ConfigurationError(
                f"--{option} {given}: give at least {least}; the claims cannot be tested with fewer"
            )
    engines.check_engine("local", workers, None)
    findings = _findings(folder, settings)
    left = [figure for figure in chosen if not _is_done(figure, folder, findings)]
    if left:
        print(
            f"{len(left)} of {len(chosen)} figures to do, {n_seeds} seeds, {episodes} episodes each"
        )
        _make(folder)
        with raise_on_sigterm() as stop, lock(folder):
            try:
                findings = _findings(folder, settings)  # again: another process may have written it
                evidence = sweep(
                    left, folder, episodes=episodes, n_seeds=n_seeds, entropy=entropy,
                    optimum=settings["optimum"],
                    workers=workers, progress_bar=True,
                )  # fmt: skip
                (folder / PICTURES).mkdir(exist_ok=True)
                drawn = rich.progress.track(evidence, "claims and pictures", transient=True)
                for name, finding in (_draw(one, folder) for one in drawn):
                    findings["figures"][name] = finding
                    findings["overall"] = [
                        _verdict_entry(verdict) for verdict in overall(findings["figures"].values())
                    ]
                    files.write_atomically(
                        folder / FINDINGS, json.dumps(findings, indent=1).encode()
                    )
            except Stopped as stopped:
                say_how_to_continue(stopped)
            except KeyboardInterrupt:
                say_how_to_continue(Stopped(0, 0, stop[0] if stop else 130))
    show([findings["figures"][figure.name] for figure in chosen], findings.get("overall", []))
    print(
        f"{time.perf_counter() - began:.1f} s; pictures in {folder / PICTURES}; zooming report "
        f"{out} makes a page"
    )


def _findings(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the content of findings.json, or empty findings if there is no such file.

    Raise ConfigurationError if the file is damaged, or was written with other settings.
    """
    path = folder / FINDINGS
    if not path.exists():
        return {"settings": settings, "figures": {}}
    try:
        known: dict[str, Any] = json.loads(path.read_text())
        there, done = known["settings"], known["figures"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is damaged ({error}); delete it, and the same command makes it again"
        ) from error
    if there != settings:
        differences = [
            f"{key}: there {there.get(key)}, here {settings[key]}"
            for key in settings
            if there.get(key) != settings[key]
        ]
        raise ConfigurationError(
            f"{folder} holds another reproduction ({'; '.join(differences)}); choose another --out"
        )
    return {"settings": there, "figures": done, "overall": known.get("overall", [])}


def _make(folder: Path) -> None:
    """Create the folder. Raise ConfigurationError if it has other files or cannot be written."""
    try:
        ours = {FINDINGS, PICTURES, LOCK, "tuning", "evaluation", "report.html"}
        if folder.exists() and any(path.name not in ours for path in folder.iterdir()):
            raise ConfigurationError(
                f"{folder} is not empty and holds no reproduction; choose another --out"
            )
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {folder}: {error.strerror}. Choose another --out"
        ) from error


def _is_done(figure: Figure, folder: Path, findings: dict[str, Any]) -> bool:
    """Return whether a figure already has its findings and its image files."""
    is_drawn = all((folder / PICTURES / f"{figure.name}{suffix}").exists() for suffix in SUFFIXES)
    return figure.name in findings["figures"] and is_drawn


def _draw(evidence: Evidence, folder: Path) -> tuple[str, dict[str, Any]]:
    """Check the claims of one figure, draw it, and return (name, findings)."""
    verdicts = [claim.check(evidence) for claim in evidence.figure.claims]
    draw(evidence, folder / PICTURES / f"{evidence.figure.name}.png")
    return evidence.figure.name, _figure_entry(evidence, verdicts)


def _figure_entry(evidence: Evidence, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the entry of a figure for findings.json."""
    regrets = {name: mean_interval(runs.regret[:, -1]) for name, runs in evidence.runs.items()}
    return {
        "heading": evidence.figure.heading,
        "problem": evidence.figure.problem,
        "optimum": evidence.optimal.return_,
        "error": evidence.optimal.return_error,
        "best_scale": evidence.best,
        "agents": {choice.label: name for name, choice in evidence.choices.items()},
        "regret": {name: _as_list(regret) for name, regret in regrets.items()},
        "scores": {
            name: [[scale, *_as_list(mean_interval(values))] for scale, values in scores.items()]
            for name, scores in evidence.scores.items()
        },
        "n_balls": {
            name: float(runs.n_balls[:, -1].mean()) for name, runs in evidence.runs.items()
        },
        "gap": _as_list(
            mean_interval(
                (evidence.runs[NET].regret - evidence.runs[ADAPTIVE].regret)[:, -1]
                / evidence.episodes
            )
        ),
        "zooming_dimension": evidence.optimal.zooming_dimension(),
        "exponent": growth_exponent(evidence.runs[ADAPTIVE]),
        "verdicts": [_verdict_entry(verdict) for verdict in verdicts],
    }


def _verdict_entry(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "sentence": str(verdict)}


def _as_list(interval: Interval) -> list[float]:
    return [interval.mean, interval.low, interval.high]


def show(found: Sequence[dict[str, Any]], overall: Sequence[dict[str, Any]] = ()) -> None:
    """Print a table of regrets, then the verdicts on each figure and on several figures."""
    from rich.markup import escape

    console = wide_console()
    table = make_table(
        "regret after all episodes, ± half a 95 % interval; balls of both; claims that hold",
        ["problem"], ADAPTIVE, NET, "of centers", "untuned", "balls", "hold",
        box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for one in found:
        bounds = (one["regret"][name] for name in (ADAPTIVE, NET, CENTERS, UNTUNED))
        regrets = [f"{mean:,.0f} ± {(high - low) / 2:,.0f}" for mean, low, high in bounds]
        balls = f"{one['n_balls'][ADAPTIVE]:,.0f}/{one['n_balls'][NET]:,.0f}"
        held = sum(verdict["holds"] is True for verdict in one["verdicts"])
        table.add_row(one["problem"], *regrets, balls, f"{held}/{len(one['verdicts'])}")
    console.print(table)
    for one in found:
        console.print(f"[bold]{escape(one['heading'])}[/]")
        for verdict in one["verdicts"]:
            console.print(f"  {escape(verdict['sentence'])}", highlight=False)
    if overall:
        console.print("[bold]Several figures[/]")
    for verdict in overall:
        console.print(f"  {escape(verdict['sentence'])}", highlight=False)


# --- pictures ------------------------------------------------------------------------------------


def draw(evidence: Evidence, path: Path) -> None:
    """Draw one figure and write it to `path`, a PNG, and to a PDF of the same name."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(14.0, 7.6), dpi=DPI)
    # Positions are explicit because automatic layout would draw everything twice.
    upper = canvas.add_gridspec(1, 3, left=0.045, right=0.98, wspace=0.2, top=0.8, bottom=0.5)
    lower = canvas.add_gridspec(1, 3, left=0.045, right=0.98, wspace=0.2, top=0.4, bottom=0.06)
    _curves(evidence, [canvas.add_subplot(upper[i]) for i in range(3)])
    _partitions_and_scales(evidence, [canvas.add_subplot(lower[i]) for i in range(3)])
    canvas.suptitle(evidence.figure.heading, fontsize=17, fontweight="bold", y=0.98)
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(
        handles, [_label(evidence, label) for label in labels], ncol=len(labels),
        fontsize=_TEXT - 1.5, handlelength=2.2, columnspacing=1.2, frameon=False,
        loc="upper center", bbox_to_anchor=(0.5, 0.94),
    )  # fmt: skip
    for suffix in SUFFIXES:
        canvas.savefig(files.writable_path(path.with_suffix(suffix)))


def _curves(evidence: Evidence, panels: Sequence[Any]) -> None:
    """Draw returns, regret and balls over the episodes."""
    returns, regret, balls = panels
    runs = evidence.runs
    learners = {name: one for name, one in runs.items() if name not in HEURISTICS}
    plots.learning_curves(runs, returns, optimum=evidence.optimal)
    plots.regret(runs, regret, scale="linear")
    # Scale to the learners; the regret of a heuristic can be much larger.
    regret.set_ylim(
        0, 1.12 * max(float(one.regret.mean(axis=0).max()) for one in learners.values())
    )
    plots.partition_sizes(learners, balls)
    _finish(returns, "return of an episode", "episode")
    _finish(regret, "cumulative regret", "episode")
    _finish(balls, "active balls, all steps", "episode")


def _partitions_and_scales(evidence: Evidence, panels: Sequence[Any]) -> None:
    step = evidence.figure.step
    for ax, name in zip(panels, (ADAPTIVE, NET), strict=False):
        balls = evidence.train_again(name, 0).partition(step)
        plots.partition(balls, ax, optimal=evidence.optimal)
        _finish(
            ax,
            f"{name}: {count_noun(len(balls), 'ball')} at h = {step + 1}, over Q*",
            "state",
            "action",
        )
        bar = ax.collections[0].colorbar
        bar.ax.tick_params(labelsize=_TEXT - 1)
        bar.set_label("")
    _finish(
        _scales(evidence, panels[-1]),
        "tuning: mean return at each scale of the bonus",
        "scale c of the bonus",
    )


def _finish(ax: Any, title: str, x: str, y: str = "") -> None:
    """Set title, labels and text size of a panel, and remove its legend."""
    ax.set_title("")  # the centered one
    ax.set_title(title, fontsize=_TEXT + 1, loc="left")
    ax.set_xlabel(x, fontsize=_TEXT)
    ax.set_ylabel(y, fontsize=_TEXT)
    ax.tick_params(labelsize=_TEXT - 1)
    if ax.get_legend() is not None:
        ax.get_legend().remove()


def _label(evidence: Evidence, name: str) -> str:
    """Return the entry of an agent in the legend: name, scale of the bonus, and regret."""
    runs = evidence.runs.get(name)
    if runs is None:
        return f"optimum\n{evidence.optimal.return_:.3f}"
    scale = f", c = {evidence.best[name]:g}" if name in evidence.best else ""
    final = mean_interval(runs.regret[:, -1])
    return f"{name}{scale}\nR = {final.mean:,.0f} ± {(final.high - final.low) / 2:,.0f}"


def _scales(evidence: Evidence, ax: Any) -> Any:
    """Draw the mean return of each learner at each scale of the bonus. The best scale is filled."""
    with drawing(ax) as ax:
        names = list(evidence.runs)
        for name, scores in evidence.scores.items():
            i = names.index(name)
            intervals = [mean_interval(values) for values in scores.values()]
            means = np.array([interval.mean for interval in intervals])
            half = np.array([interval.high - interval.mean for interval in intervals])
            style: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], **line(i)}
            ax.errorbar(
                list(scores), means, half, markersize=5, capsize=2, markerfacecolor="white", **style
            )
            best = evidence.best[name]
            ax.plot([best], [means[list(scores).index(best)]], markersize=10, zorder=5, **style)
        ax.axhline(evidence.optimal.return_, color=GRAY, linestyle=(0, (1, 1)), linewidth=1.2)
        ax.set_xscale("symlog", linthresh=0.001)  # 0 is one of the scales
        ax.set_xticks([0, 0.001, 0.01, 0.1, 1], ["0", "0.001", "0.01", "0.1", "1"])
        ax.set_xticks([], minor=True)
        ax.set_xlim(
            -0.0003, 1.4 * max(scale for scores in evidence.scores.values() for scale in scores)
        )
    return ax
