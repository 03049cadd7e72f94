"""Draw an episode of an environment: each coordinate in its range, and the rewards so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.envs.compiled import CompiledEnv
from zooming.plots.style import drawing
from zooming.validation import Floats

WIDTH, HEIGHT, DPI = 6.4, 4.0, 100  # 640 x 400 pixels; video formats require even numbers
MOST_RANGES = 8  # coordinates in one image
MARKS = (  # of the state before the last action, of that action, and of the state
    {"marker": "o", "markerfacecolor": "white", "color": "#0072B2", "label": "state before"},
    {"marker": "s", "color": "#D55E00", "label": "action"},
    {"marker": "o", "color": "#0072B2", "label": "state"},
)


def draw_episode(
    env: CompiledEnv, state: Floats, played: Sequence[tuple[Floats, Floats, float]]
) -> NDArray[np.uint8]:
    """Return the image as an array [height, width, 3]. No display is needed.

    `played` holds (state, action, reward) of each step.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures of an environment need matplotlib: pip install 'zooming[lab]'"
        ) from error
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    rewards = [reward for *_, reward in played]
    with drawing(figure.add_axes((0.2, 0.40, 0.7, 0.43))) as upper:
        _draw_ranges(upper, env, state, played)
    with drawing(figure.add_axes((0.11, 0.12, 0.86, 0.14))) as lower:
        lower.bar(np.arange(len(rewards)), rewards, width=0.7, color="0.6")
        lower.axhline(0, color="0.3", linewidth=0.8)
        lower.set(xlim=(-0.6, env.horizon - 0.4), xlabel="step", ylabel="reward")
    text = f"{env.name}, {len(rewards)} of {env.horizon} steps, return {sum(rewards):.4g}"
    figure.text(0.02, 0.93, text, fontsize=11, parse_math=False)
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]


def _draw_ranges(ax: Any, env: CompiledEnv, state: Floats, played: Sequence[Any]) -> None:
    """Draw coordinates of state and action, at most eight, as positions in their ranges."""
    before, action, _ = played[-1] if played else (state, None, 0.0)
    rows: list[tuple[str, float, float, list[Any]]] = []  # label, ends, values of MARKS
    states, actions = [before, None, state], [None, action, None]
    for side, box, points in (
        ("state", env.state_box, states),
        ("action", env.action_box, actions),
    ):
        for i in range(min(box.shape[0], MOST_RANGES // 2)):
            values = [None if point is None else point[i] for point in points]
            rows.append((f"{side}[{i}]", float(box.low[i]), float(box.high[i]), values))
    for y, (_, low, high, values) in enumerate(rows):
        ax.plot([0, 1], [y, y], color="0.6", linewidth=2, zorder=1)
        for place, end, side in ((-0.03, low, "right"), (1.03, high, "left")):
            ax.text(place, y, f"{end:.4g}", ha=side, va="center", fontsize=8, color="0.35")
        for mark, value in zip(MARKS, values, strict=True):
            if value is not None:
                share = (value - low) / (high - low) if high > low else 0.5
                ax.plot([share], [y], linestyle="none", clip_on=False, zorder=4, **mark)
    ax.set_yticks(range(len(rows)), [label for label, *_ in rows])
    ax.tick_params(axis="y", pad=30)
    ax.set(xticks=[], xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5))
    kinds = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    ax.legend(kinds.values(), kinds, loc="upper center", bbox_to_anchor=(0.5, -0.05), ncols=3)
