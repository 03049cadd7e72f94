"""Draw one image per figure of the paper: curves, regret, both partitions, and the scales tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zooming import plots
from zooming.agents.files import container as files
from zooming.analysis.intervals import mean_interval
from zooming.lab.paper.sweep import ADAPTIVE, HEURISTICS, NET, Evidence
from zooming.plots.curve_data import Runs
from zooming.plots.look import GRAY, MARKERS, drawing, line
from zooming.validation import count_noun

SUFFIXES = (".png", ".pdf")  # one to view, one for publications
DPI = 200
_TEXT = 11.0


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
    runs, learners = evidence.runs, _learners(evidence.runs)
    plots.learning_curves(runs, returns, optimum=evidence.optimal)
    plots.regret(runs, regret, scale="linear", exponent=False)
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


def _learners(runs: Mapping[str, Runs]) -> dict[str, Runs]:
    return {name: one for name, one in runs.items() if name not in HEURISTICS}


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
