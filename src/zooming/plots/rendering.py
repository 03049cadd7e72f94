"""Render an environment: one image, or a few lines of text, per step of an episode."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.envs.compiled import FRAMES_PER_SECOND, RenderedEnv, Scene
from zooming.validation import Floats

WIDTH, HEIGHT, DPI = 6.4, 4.0, 100  # 640 x 400 pixels; video formats require even numbers
MOST_RANGES = 8  # coordinates in one image
STATE, ACTION, QUIET = "#0072B2", "#D55E00", "0.6"
_LENGTH = 41  # characters per range in text


class Pictures:
    """Renderer of one environment. It stores the environment's window."""

    def __init__(self, env: RenderedEnv) -> None:
        self.env = env
        self._window: Any = None

    def render(
        self, mode: str, state: Floats, played: Sequence[tuple[Floats, Floats, float]]
    ) -> Any:
        """Render in Gymnasium's `mode`. `played` holds (state, action, reward) of each step."""
        scene = Scene(state, list(played), sys.modules[__name__])
        if mode == "ansi":
            return self.text(scene)
        if mode == "rgb_array":
            return self.frame(scene)
        self._show(scene)
        return None

    def text(self, scene: Scene) -> str:
        """Return the scene as text: a line of facts, then one line per coordinate.

        Marks: `o` state before, `O` state now, `a` action.
        """
        env = self.env
        lines = [f"{env.name}, {self._step(scene)}", self._facts(scene)]
        for label, low, high, marks in _ranges(env, scene):
            characters, values = ["-"] * _LENGTH, []
            for mark, value in marks:
                characters[round((_LENGTH - 1) * _share(value, low, high))] = _SIGNS[mark]
                values.append(f"{_SIGNS[mark]} {value:.4g}")
            lines.append(
                f"{label:>10} {low:6.4g} |{''.join(characters)}| {high:<6.4g} {', '.join(values)}"
            )
        return "\n".join(lines) + "\n"

    def frame(self, scene: Scene) -> NDArray[np.uint8]:
        """Return the image as an array [height, width, 3]. No display is needed."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            from zooming.plots.look import drawing
        except ImportError as error:
            raise ImportError(
                "pictures of an environment need matplotlib: pip install 'zooming[lab]'; "
                'render_mode="ansi" does not'
            ) from error
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
        canvas = FigureCanvasAgg(figure)
        upper, lower = (
            figure.add_axes((0.11, 0.40, 0.86, 0.43)),
            figure.add_axes((0.11, 0.12, 0.86, 0.14)),
        )
        with drawing(upper):
            self.env.draw(upper, scene)
        with drawing(lower):
            self._draw_rewards(lower, scene)
        figure.text(0.02, 0.945, self.env.name, fontsize=11, weight="bold")
        figure.text(0.97, 0.945, self._step(scene), fontsize=10, ha="right")
        figure.text(0.02, 0.885, self._facts(scene), fontsize=9)
        canvas.draw()  # type: ignore[no-untyped-call]
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            import matplotlib.pyplot as plt

            plt.close(self._window.figure)
            self._window = None

    def _show(self, scene: Scene) -> None:
        """Show the image in a matplotlib window, or print the text if no window can be opened."""
        plt = _windows()
        if plt is None:
            print(self.text(scene), flush=True)
            return
        frame = self.frame(scene)
        if self._window is None or not plt.fignum_exists(
            self._window.figure.number
        ):  # the user may have closed it
            figure = plt.figure(self.env.name, figsize=(WIDTH, HEIGHT), dpi=DPI)
            ax = figure.add_axes((0, 0, 1, 1))
            ax.axis("off")
            self._window = ax.imshow(frame)
        self._window.set_data(frame)
        plt.pause(1 / FRAMES_PER_SECOND)

    def _draw_rewards(self, ax: Any, scene: Scene) -> None:
        rewards = [reward for *_, reward in scene.played]
        ax.bar(
            np.arange(len(rewards)),
            rewards,
            width=0.7,
            color=[*[QUIET] * (len(rewards) - 1), ACTION][-len(rewards) :],
        )
        ax.axhline(0, color="0.3", linewidth=0.8)
        ax.set_xlim(-0.6, self.env.horizon - 0.4)
        ax.set_ylim(
            1.1 * min([*rewards, 0.0]),
            1.1 * max([*rewards, 0.0]) or float(min([*rewards, 0.0]) == 0.0),
        )
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.yaxis.get_major_locator().set_params(nbins=2)
        ax.set_xlabel("step", labelpad=1)
        ax.set_ylabel("reward")

    def _step(self, scene: Scene) -> str:
        return f"{len(scene.played)} of {self.env.horizon} steps played"

    def _facts(self, scene: Scene) -> str:
        """Return a line with the reward and the return so far."""
        if not scene.played:
            return ""
        total = sum(reward for *_, reward in scene.played)
        so_far = 0.0 if abs(total) < 1e-12 else total
        return f"reward {scene.played[-1][2]:.4g}, return {so_far:.4g}"


_SIGNS = {"before": "o", "action": "a", "now": "O"}
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
    rows = []
    is_moved = bool(scene.played)
    for i in range(len(scene.state)):
        marks = [("before", scene.before[i])] if is_moved else []
        rows.append(
            (
                _label("state", i, len(scene.state)),
                env.state_box,
                i,
                [*marks, ("now", scene.state[i])],
            )
        )
    for i in range(env.action_box.shape[0]):
        played = [] if scene.action is None else [("action", scene.action[i])]
        rows.append((_label("action", i, env.action_box.shape[0]), env.action_box, i, played))
    return [
        (
            label,
            float(box.low[i]),
            float(box.high[i]),
            [(what, float(value)) for what, value in marks],
        )
        for label, box, i, marks in rows
    ]


def _label(side: str, i: int, n: int) -> str:
    return side if n == 1 else f"{side}[{i}]"


def _share(value: float, low: float, high: float) -> float:
    """Return the position of a value in its range, from 0 to 1."""
    return (
        min(1.0, max(0.0, (value - low) / (high - low)))
        if high > low and np.isfinite(value)
        else 0.5
    )


def _windows() -> Any:
    """Return matplotlib.pyplot if it can open a window, else None."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.backends import registry
    except ImportError:
        return None
    kind = registry.BackendFilter.INTERACTIVE
    found = registry.backend_registry.list_builtin(kind)  # type: ignore[no-untyped-call]
    interactive = [name.lower() for name in found]
    return plt if plt.get_backend().lower() in interactive else None
