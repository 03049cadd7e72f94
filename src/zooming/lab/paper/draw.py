"""Draw one image per figure of the paper: curves, regret, both partitions, and the verdicts."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zooming import plots, theory
from zooming.agents.files import container as files
from zooming.analysis.intervals import mean_interval
from zooming.analysis.regret import regret_exponent
from zooming.errors import ConfigurationError
from zooming.lab.paper.claims import Verdict
from zooming.lab.paper.sweep import ADAPTIVE, HEURISTICS, NET, Evidence
from zooming.plots.curve_data import Runs
from zooming.plots.look import COLORS, GRAY, MARKERS, drawing, format_number, line
from zooming.validation import count_noun

SUFFIXES = (".png", ".pdf")  # one to view, one for publications
DPI = 200
_WIDTH, _TITLE, _ENTRY, _TOP, _GAP, _BOTTOM, _LINE = 14.0, 0.5, 0.52, 2.45, 1.0, 2.9, 0.23  # inches
_MOST_ENTRIES = 6  # per line of the legend
_CLAIM, _FINDING = 52, 106  # characters per line of the table
_TEXT = 11.0
_DIMENSION = 2  # of the state-action space
_MARKS = {True: ("✓", COLORS[2]), False: ("✗", COLORS[1]), None: ("?", GRAY)}


def draw(evidence: Evidence, verdicts: Sequence[Verdict], path: Path) -> None:
    """Draw one figure and write it to `path`, a PNG, and to a PDF of the same name."""
    from matplotlib.figure import Figure as Canvas

    rows = [_row(verdict) for verdict in verdicts]
    n_entries = len(evidence.runs) + 1
    heading = _TITLE + _ENTRY * math.ceil(n_entries / _MOST_ENTRIES) + 0.4
    below = 0.75 + _LINE * (
        2 + sum(max(len(claim), len(finding)) + 0.25 for _, claim, finding in rows)
    )
    height = heading + _TOP + _GAP + _BOTTOM + below
    canvas = Canvas(figsize=(_WIDTH, height), dpi=DPI)
    # Positions are explicit because automatic layout would draw everything twice.
    top = 1 - heading / height
    upper = canvas.add_gridspec(
        1, 4, left=0.045, right=0.98, wspace=0.27, top=top, bottom=top - _TOP / height
    )
    lower = canvas.add_gridspec(
        1,
        3,
        left=0.045,
        right=0.98,
        wspace=0.2,
        top=(below + _BOTTOM) / height,
        bottom=below / height,
    )
    _curves(evidence, [canvas.add_subplot(upper[i]) for i in range(4)])
    _partitions_and_scales(evidence, [canvas.add_subplot(lower[i]) for i in range(3)])
    canvas.suptitle(
        evidence.figure.heading, fontsize=17, fontweight="bold", y=1 - 0.14 / height, va="top"
    )
    handles, labels = _legend(evidence, canvas.axes[0])
    canvas.legend(
        handles, labels, fontsize=_TEXT, handlelength=2.6, loc="upper center", frameon=False,
        columnspacing=1.6,
        bbox_to_anchor=(0.5, 1 - _TITLE / height),
        ncol=math.ceil(n_entries / math.ceil(n_entries / _MOST_ENTRIES)),
    )  # fmt: skip
    _table(canvas, rows, _notes(evidence), (below - 0.62) / height, height)
    for suffix in SUFFIXES:
        canvas.savefig(files.writable_path(path.with_suffix(suffix)))


def _curves(evidence: Evidence, panels: Sequence[Any]) -> None:
    """Draw returns, distance to the optimum, regret and balls over the episodes."""
    returns, distance, regret, balls = panels
    runs, learners = evidence.runs, _learners(evidence.runs)
    plots.learning_curves(runs, returns, optimum=evidence.optimal)
    expected = _shows_expected(evidence)
    plots.distance_to_optimum(runs, distance, optimum=evidence.optimal, expected=expected)
    plots.regret(runs, regret, scale="linear", exponent=False)
    # Scale to the learners; the regret of a heuristic can be much larger.
    regret.set_ylim(
        0, 1.12 * max(float(one.regret.mean(axis=0).max()) for one in learners.values())
    )
    plots.partition_sizes(learners, balls)
    _finish(returns, "return of an episode", "episode")
    _finish(
        distance, f"distance to the optimum, {'expected' if expected else 'realized'}", "episode"
    )
    _finish(regret, "cumulative regret, realized", "episode")
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


def _shows_expected(evidence: Evidence) -> bool:
    """Return whether to draw expected distances to the optimum instead of realized ones.

    They are drawn if outcomes are random and the runs have exact policy values. On a deterministic
    problem, the returns of all seeds tell more than exact values of a few runs.
    """
    _, chances = evidence.optimal.grid.env.outcomes(0, 2)
    return len(chances) > 1 and all(runs.policy_values.size for runs in evidence.runs.values())


def _learners(runs: Mapping[str, Runs]) -> dict[str, Runs]:
    return {name: one for name, one in runs.items() if name not in HEURISTICS}


def _legend(evidence: Evidence, ax: Any) -> tuple[list[Any], list[str]]:
    """Return handles and labels of the legend: agent, scale of the bonus, regret and its growth."""
    handles, labels = ax.get_legend_handles_labels()
    named = []
    for label in labels:
        runs = evidence.runs.get(label)
        if runs is None:
            named.append(f"optimum\n{evidence.optimal.return_:.3f}")
            continue
        scale = f", c = {evidence.best[label]:g}" if label in evidence.best else ""
        final = mean_interval(runs.regret[:, -1])
        regret = f"R = {final.mean:,.0f}" + (
            f" ± {(final.high - final.low) / 2:,.0f}" if final.mean else ""
        )
        named.append(f"{label}{scale}\n{regret}{_growth(runs)}")
    return handles, named


def _growth(runs: Runs) -> str:
    try:
        return f", $\\sim K^{{{regret_exponent(runs.regrets()).mean:.2f}}}$"
    except ConfigurationError:  # no regret, or it is negative
        return ""


def _notes(evidence: Evidence) -> list[str]:
    """Return the notes below the table."""
    runs, learners = evidence.runs[ADAPTIVE], _learners(evidence.runs)
    highest = max(float(one.regret[:, -1].mean()) for one in learners.values())
    off = [
        name
        for name in evidence.runs
        if name not in learners and evidence.runs[name].regret[:, -1].mean() > 1.12 * highest
    ]

    def bound(constant: str) -> str:
        horizon = evidence.optimal.horizon
        value = theory.regret_bound(
            horizon, evidence.episodes, dimension=_DIMENSION, constant=constant
        )
        return f"{theory.bound_name(horizon, constant)} {format_number(value)}"

    seen = f"Lines are means over {runs.n_seeds} seeds, bands their 95 % intervals"
    valued = len(runs.policy_values) if _shows_expected(evidence) else 0
    lines = [
        f"{seen}; the expected distance is that of the greedy policy, in {valued} runs."
        if valued
        else f"{seen}.",
        f"Theorem 4.1 after {evidence.episodes:,} episodes: "
        f"{', '.join(map(bound, ('printed', 'derived')))}.",
    ]
    if off:
        lines[1] += f" The regret of {' and '.join(off)} leaves its panel."
    lines[0] += " A distance within the solver's error is not drawn."
    return lines


def _row(verdict: Verdict) -> tuple[bool | None, list[str], list[str]]:
    """Return a row of the table: verdict, lines of the claim, lines of the finding.

    Only the first sentence of the finding is shown.
    """
    finding = re.split(r"(?<=\.)\s+(?=[A-Z])|;\s", verdict.finding)[0]
    claim = f"{verdict.claim[:1].upper()}{verdict.claim[1:].rstrip('.')}"
    return verdict.holds, textwrap.wrap(claim, _CLAIM), textwrap.wrap(finding.rstrip("."), _FINDING)


def _table(
    canvas: Any, rows: Sequence[Any], notes: Sequence[str], top: float, height: float
) -> None:
    """Draw the table of claims with check marks, and the notes below it."""
    y = top
    for holds, claim, finding in rows:
        mark, color = _MARKS[holds]
        canvas.text(0.014, y, mark, fontsize=_TEXT + 4, fontweight="bold", color=color, va="top")
        canvas.text(0.034, y, "\n".join(claim), fontsize=_TEXT, va="top", fontweight="bold")
        canvas.text(0.395, y, "\n".join(finding), fontsize=_TEXT, va="top")
        y -= _LINE * (max(len(claim), len(finding)) + 0.25) / height
    canvas.text(
        0.014,
        y - 0.06 / height,
        "\n".join(notes),
        fontsize=_TEXT - 1,
        va="top",
        color=GRAY,
        linespacing=1.4,
    )


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
