"""One picture per figure of the paper: rewards, partition sizes, true regret, both partitions over Q*, and the scales tried."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zooming import files, plots, theory
from zooming.intervals import mean_interval
from zooming.paper.claims import Verdict
from zooming.paper.sweep import ADAPTIVE, HEURISTICS, NET, Evidence
from zooming.plots.look import MARKERS, drawing, line

_WIDTH = 180  # characters of a sentence below the picture
_PANELS, _HEADING, _LINE = 7.4, 0.95, 0.19  # inches: the panels, title and legend above them, a line of text below
_DIMENSION = 2  # of states and actions together


def draw(evidence: Evidence, verdicts: Sequence[Verdict], path: Path) -> None:
    """Writes the picture of one figure, with what came of the paper's claims below it."""
    from matplotlib.figure import Figure as Canvas

    lines = [line for verdict in verdicts for line in textwrap.wrap(str(verdict), _WIDTH)]
    below = 0.35 + _LINE * len(lines)
    height = _PANELS + _HEADING + below
    canvas = Canvas(figsize=(13, height), dpi=110)
    # Placed by hand: laying it out automatically would draw everything twice.
    place = {"left": 0.05, "right": 0.985, "wspace": 0.22, "hspace": 0.3}
    panels = canvas.subplots(2, 3, gridspec_kw={**place, "bottom": (below + 0.45) / height, "top": 1 - _HEADING / height})
    learners = {name: runs for name, runs in evidence.runs.items() if name not in HEURISTICS}
    optimal, step = evidence.optimal, evidence.figure.step
    _titled(plots.learning_curves(evidence.runs, panels[0, 0], optimum=optimal), "observed rewards")
    _titled(plots.partition_sizes(learners, panels[0, 1]), "size of the partitions")
    bound = functools.partial(_bound, optimal.horizon)
    _titled(plots.regret(evidence.runs, panels[0, 2], bound=bound), "true regret, and the theorem's bound")
    for ax, name in zip(panels[1], (ADAPTIVE, NET), strict=False):
        balls = evidence.trained(name, 0).partition(step)
        plots.partition(balls, ax, optimal=optimal)
        _titled(ax, f"{name}: {len(balls)} balls at step {step} (h = {step + 1}), over Q*")
    _titled(_scales(evidence, panels[1, 2]), "the scales tried, on seeds of their own")
    canvas.suptitle(evidence.figure.heading, fontsize=13, fontweight="bold", y=1 - 0.12 / height, va="top")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    for ax in panels[0, :2]:
        ax.get_legend().remove()  # one legend for all
    above: dict[str, Any] = {
        "loc": "upper center",
        "bbox_to_anchor": (0.5, 1 - 0.36 / height),
        "ncol": len(handles),
        "frameon": False,
    }
    canvas.legend(handles, labels, fontsize=9, handlelength=3, **above)
    note = f"Lines are means over {evidence.runs[ADAPTIVE].n_seeds} seeds, bands their 95 % intervals."
    canvas.text(0.012, below / height, "\n".join([note, *lines]), fontsize=9, va="top", linespacing=1.35)
    canvas.savefig(files.writable(path))


def _titled(ax: Any, title: str) -> None:
    ax.set_title(title, fontsize=10)


def _bound(horizon: int, episodes: int) -> float:
    return theory.regret_bound(horizon, episodes, dimension=_DIMENSION)


def _scales(evidence: Evidence, ax: Any) -> Any:
    """Mean return per episode of both learning algorithms at each scale of the bonus."""
    with drawing(ax) as ax:
        for i, (name, scores) in enumerate(evidence.scores.items()):
            intervals = [mean_interval(values) for values in scores.values()]
            means = np.array([interval.mean for interval in intervals])
            half = np.array([interval.high - interval.mean for interval in intervals])
            best = evidence.best[name]
            label = f"{name}, best at c = {best:g}"
            ax.errorbar(list(scores), means, half, marker=MARKERS[i], markersize=4, capsize=2, label=label, **line(i))
        ax.axhline(evidence.optimal.return_, color="0.35", linestyle=(0, (1, 1)), linewidth=1.2, label="optimum")
        ax.set_xscale("symlog", linthresh=0.001)  # 0 is one of the scales
        ax.set(xlabel="scale c of the bonus", ylabel="mean return of all episodes")
        ax.legend(loc="best")
    return ax
