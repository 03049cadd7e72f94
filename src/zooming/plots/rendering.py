"""Render an environment: one image per step of an episode."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.envs.compiled import RenderedEnv, Scene
from zooming.validation import Floats

WIDTH, HEIGHT, DPI = 6.4, 4.0, 100  # 640 x 400 pixels; video formats require even numbers
MOST_RANGES = 8  # coordinates in one image
STATE, ACTION, QUIET = "#0072B2", "#D55E00", "0.6"


def render_scene(
    env: RenderedEnv, state: Floats, played: Sequence[tuple[Floats, Floats, float]]
) -> NDArray[np.uint8]:
    """Return the image as an array [height, width, 3]. No display is needed.

    `played` holds (state, action, reward) of each step.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        from zooming.plots.look import drawing
    except ImportError as error:
        raise ImportError(
            "pictures of an environment need matplotlib: pip install 'zooming[lab]'"
        ) from error
    scene = Scene(state, list(played), sys.modules[__name__])
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    with drawing(figure.add_axes((0.11, 0.40, 0.86, 0.43))) as upper:
        env.draw(upper, scene)
    with drawing(figure.add_axes((0.11, 0.12, 0.86, 0.14))) as lower:
        _draw_rewards(lower, [reward for *_, reward in scene.played], env.horizon)
    steps = f"{len(scene.played)} of {env.horizon} steps played"
    figure.text(0.02, 0.945, env.name, fontsize=11, weight="bold")
    figure.text(0.97, 0.945, steps, fontsize=10, ha="right")
    figure.text(0.02, 0.885, _facts(scene), fontsize=9)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _draw_rewards(ax: Any, rewards: list[float], horizon: int) -> None:
    colors = [*[QUIET] * (len(rewards) - 1), ACTION][-len(rewards) :]
    ax.bar(np.arange(len(rewards)), rewards, width=0.7, color=colors)
    ax.axhline(0, color="0.3", linewidth=0.8)
    ax.set_xlim(-0.6, horizon - 0.4)
    low, high = min([*rewards, 0.0]), max([*rewards, 0.0])
    ax.set_ylim(1.1 * low, 1.1 * high or float(low == 0.0))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.yaxis.get_major_locator().set_params(nbins=2)
    ax.set_xlabel("step", labelpad=1)
    ax.set_ylabel("reward")


def _facts(scene: Scene) -> str:
    """Return a line with the reward and the return so far."""
    if not scene.played:
        return ""
    total = sum(reward for *_, reward in scene.played)
    so_far = 0.0 if abs(total) < 1e-12 else total
    return f"reward {scene.played[-1][2]:.4g}, return {so_far:.4g}"


_MARKERS = {
    "before": {"marker": "o", "markerfacecolor": "white", "color": STATE, "label": "state before"},
    "action": {"marker": "s", "color": ACTION, "label": "action"},
    "now": {"marker": "o", "color": STATE, "label": "state"},
}


def mark(ax: Any, what: str, x: Any, y: Any) -> None:
    """Draw markers of one kind: "before", "action" or "now"."""
    ax.plot(x, y, linestyle="none", markersize=6, clip_on=False, zorder=4, **_MARKERS[what])


def legend(ax: Any) -> None:
    """Add a legend below the Axes, with one entry for each kind of marker."""
    kinds = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ax.legend(
        kinds.values(), kinds, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=6,
        columnspacing=1.2, handletextpad=0.3,
        handlelength=1.5,
    )  # fmt: skip


def draw_ranges(env: RenderedEnv, ax: Any, scene: Scene) -> None:
    """Draw at most eight coordinates of state and action, each as a position in its range.

    It is the method `draw` of environments that define none.
    """
    rows = _ranges(env, scene)
    n_state, n_action = len(scene.state), env.action_box.shape[0]
    n_first = min(n_state, max(MOST_RANGES // 2, MOST_RANGES - n_action))  # some of both are shown
    shown = [*rows[:n_first], *rows[n_state : n_state + MOST_RANGES - n_first]]
    for y, (_, low, high, marks) in enumerate(shown):
        ax.plot([0, 1], [y, y], color=QUIET, linewidth=2, solid_capstyle="round", zorder=1)
        for where, value, side in ((-0.03, low, "right"), (1.03, high, "left")):
            ax.text(where, y, f"{value:.4g}", ha=side, va="center", fontsize=8, color="0.35")
        for what, value in marks:
            mark(ax, what, _share(value, low, high), y)
    ax.set_yticks(range(len(shown)), [label for label, *_ in shown])
    ax.set_xticks([])
    ax.set_xlim(-0.11, 1.11)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("none")
    ax.tick_params(left=False)
    if len(shown) < len(rows):
        ax.set_title(f"{len(shown)} of {len(rows)} coordinates", loc="right", pad=2)
    legend(ax)


def _ranges(
    env: RenderedEnv, scene: Scene
) -> list[tuple[str, float, float, list[tuple[str, float]]]]:
    """Return (label, low, high, [(mark, value)]) of each coordinate, state before action."""
    states = {"before": scene.before, "now": scene.state} if scene.played else {"now": scene.state}
    actions = {} if scene.action is None else {"action": scene.action}
    rows = []
    for side, box, points in (
        ("state", env.state_box, states),
        ("action", env.action_box, actions),
    ):
        n = box.shape[0]
        for i in range(n):
            marks = [(what, float(point[i])) for what, point in points.items()]
            label = side if n == 1 else f"{side}[{i}]"
            rows.append((label, float(box.low[i]), float(box.high[i]), marks))
    return rows


def _share(value: float, low: float, high: float) -> float:
    """Return the position of a value in its range, from 0 to 1."""
    if not (high > low and np.isfinite(value)):
        return 0.5
    return min(1.0, max(0.0, (value - low) / (high - low)))
