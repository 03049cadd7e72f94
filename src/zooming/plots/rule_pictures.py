"""Plot a policy as rules: the action over one state axis, or a map of boxes over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.errors import ConfigurationError
from zooming.partitions.cuts import view_of
from zooming.partitions.view import some_steps
from zooming.plots.look import COLORS, GRAY, drawing, panels
from zooming.plots.partitions import add_colorbar, axis_label, set_ticks
from zooming.validation import count_noun

if TYPE_CHECKING:
    from zooming.export.rules import PolicyRule, Rules

MOST_STEPS_DRAWN = 6
OPACITY = {"unvisited": 0.25, "guess": 0.45, "unsure": 0.6, "likely": 0.8}  # otherwise 1
PALE = "pale: less sure"


def rules(found: Rules, step: int | None = None, ax: Any = None) -> Any:
    """Draw the rules of a policy: one picture per step and action axis.

    Over one state axis, each rule is a bar at the height of its action. A thin line shows the
    policy that the rules replace. Over more state axes, each rule is a box in the plane of the
    first two axes, with its action as number and color. The other axes are cut in their middle.
    Rules that the agent is less sure of are paler. Ticks of integers and categories are integers.

    Parameters
    ----------
    found : Rules
        What `agent.explain` returned.
    step : int, optional
        The step to draw. By default at most six of the steps.
    ax : Axes or several, optional
        Where to draw: one per picture, or one that is divided. By default new ones.

    Returns
    -------
    Axes or array of Axes
        An array [action axes, steps] if there are several pictures.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> from matplotlib.figure import Figure
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0", horizon=2), seed=0)
    >>> ax = rules(agent.explain(0), ax=Figure().subplots())
    >>> ax.get_title()
    'step 0: 1 rule'
    """
    from matplotlib.ticker import MaxNLocator

    if step is not None and step not in found.steps:
        raise ConfigurationError(f"step={step} is not among the explained steps {found.steps}")
    steps = [found.steps[i] for i in some_steps(len(found.steps), MOST_STEPS_DRAWN)]
    steps = steps if step is None else [step]
    n_rows, is_flat = len(found.action_names), len(found.state_names) == 1
    view = view_of(found.policy.agent.axes)
    axes = panels(ax, n_rows, len(steps), (3.8, 2.9) if len(steps) == 1 else (2.7, 2.4))
    for r in range(n_rows):
        span = _span(found, steps, r)
        for k, h in enumerate(steps):
            own = [rule for rule in found.rules if rule.step == h]
            with drawing(axes[r, k], boxed=True) as one:
                draw = _draw_bars if is_flat else _draw_boxes
                drawn = draw(one, found, h, own, r, span)
                ends = {"xlim": one.get_xlim(), "ylim": one.get_ylim()}
                set_ticks(one.xaxis, view, 0, None)
                set_ticks(one.yaxis, view, 1 + r if is_flat else 1, None)
                one.set(**ends)  # ticks may have widened them
                title = f"step {h}: {count_noun(len(own), 'rule')}"
                one.set_title(title if r == 0 else "")
                one.set_xlabel(axis_label(found.state_names, 0) if r == n_rows - 1 else "")
                up = (
                    axis_label(found.action_names, r)
                    if is_flat
                    else axis_label(found.state_names, 1)
                )
                one.set_ylabel(up if k == 0 else "")
        if not is_flat:
            bar = add_colorbar(drawn, list(axes[r]), axis_label(found.action_names, r))
            if view.is_whole[len(found.state_names) + r]:
                bar.set_ticks(MaxNLocator(nbins=8, integer=True))
    if any(rule.sure in OPACITY for rule in found.rules):
        below = axes[-1, len(steps) // 2]
        below.set_xlabel(f"{below.get_xlabel()}\n{PALE}")
    return axes[0, 0] if axes.size == 1 else axes


def _span(found: Rules, steps: list[int], r: int) -> tuple[float, float]:
    """Return the smallest and largest action that is drawn, with a margin."""
    shown = np.concatenate([found.regions[h].actions[:, r] for h in steps])
    shown = np.append(shown, [rule.action[r] for rule in found.rules if rule.step in steps])
    low, high = float(shown.min()), float(shown.max())
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _draw_bars(
    ax: Any, found: Rules, step: int, own: list[PolicyRule], r: int, span: tuple[float, float]
) -> None:
    regions = found.regions[step]
    first, last = regions.first[0], regions.last[0]
    order = np.argsort(regions.points[:, 0])
    borders = np.append(np.maximum(regions.low[order, 0], first), last)
    played = regions.actions[order, r]
    if found.loss is not None:
        ax.stairs(played, borders, baseline=None, color=GRAY, linewidth=0.9, label="policy")
    for rule in own:
        left, right = max(rule.low[0], first), min(rule.high[0], last)
        ax.plot(
            [left, right], [rule.action[r]] * 2, color=COLORS[0], linewidth=3.5,
            alpha=OPACITY.get(rule.sure, 1.0), solid_capstyle="butt",
            label="rules" if rule is own[0] else "_",
        )  # fmt: skip
        if left > first:
            ax.axvline(left, color="0.85", linewidth=0.6, zorder=0)
    ax.set(xlim=(first, last), ylim=span)
    if found.loss is not None and step == found.steps[0]:
        ax.legend(loc="best")


def _draw_boxes(
    ax: Any, found: Rules, step: int, own: list[PolicyRule], r: int, span: tuple[float, float]
) -> Any:
    import matplotlib as mpl
    from matplotlib.patches import Rectangle

    regions = found.regions[step]
    first, last = regions.first, regions.last
    middle = (first + last) / 2
    shades = mpl.cm.ScalarMappable(mpl.colors.Normalize(*span), "viridis")
    for rule in own:
        low, high = np.maximum(rule.low, first), np.minimum(rule.high, last)
        if not ((low[2:] <= middle[2:]) & (middle[2:] < high[2:])).all():
            continue
        width, height = high[0] - low[0], high[1] - low[1]
        color = tuple(shades.to_rgba(np.array([rule.action[r]]))[0])
        alpha = OPACITY.get(rule.sure, 1.0)
        ax.add_patch(
            Rectangle(
                (low[0], low[1]), width, height, facecolor=color, alpha=alpha, edgecolor="white"
            )
        )
        if width > 0.14 * (last[0] - first[0]) and height > 0.06 * (last[1] - first[1]):
            is_dark = alpha * sum(color[:3]) + 3 * (1 - alpha) < 1.5
            text = f"{round(rule.action[r], 12):.3g}"
            ax.text(
                low[0] + width / 2, low[1] + height / 2, text, ha="center", va="center", fontsize=7,
                color="white" if is_dark else "black",
            )  # fmt: skip
    ax.set(xlim=(first[0], last[0]), ylim=(first[1], last[1]))
    return shades
