"""Pictures: each function takes data and a matplotlib Axes (or makes one) and returns the Axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.errors import SpaceError
from zooming.history import History
from zooming.intervals import Interval
from zooming.optimal import Optimal
from zooming.partition import Partition
from zooming.regret import Regret

Floats = NDArray[np.float64]
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # Okabe and Ito: safe for color-blind readers


def partition(
    balls: Partition,
    ax: Any = None,
    *,
    axes: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    colorbar: bool = True,
    cmap: str = "viridis",
    limits: tuple[float, float] | None = None,
) -> Any:
    """The active balls of a step, colored by their Q, from the first of the `limits` to the second.

    With more than two dimensions it is a slice along `axes` (by default the first state and the first action axis), through the
    point `at` (by default the middle of the space).
    """
    names = list(balls.names)
    horizontal, vertical = axes or (0, next(i for i, name in enumerate(names) if name.startswith("action")))
    if horizontal == vertical or not {horizontal, vertical} <= set(range(len(names))):
        raise SpaceError(f"axes={axes}: give two different axes out of {dict(enumerate(names))}")
    low, high = balls.low.min(axis=0), balls.high.max(axis=0)
    point = (low + high) / 2 if at is None else np.asarray(at, np.float64)
    if point.shape != low.shape or not ((low <= point) & (point <= high)).all():
        raise SpaceError(
            f"at={at!r}: give one point of the space, {len(names)} numbers between {low.tolist()} and {high.tolist()}"
        )
    others = [i for i in range(len(names)) if i not in (horizontal, vertical)]
    inside = (balls.low <= point) & ((point < balls.high) | (balls.high == high))
    shown = inside[:, others].all(axis=1)
    ax = _axes(ax)
    drawn = _boxes(balls.low[shown][:, [horizontal, vertical]], balls.high[shown][:, [horizontal, vertical]], cmap=cmap)
    drawn.set_array(balls.q_value[shown])
    if limits:
        drawn.set_clim(*limits)
    ax.add_collection(drawn)
    ax.set_xlim(low[horizontal], high[horizontal])
    ax.set_ylim(low[vertical], high[vertical])
    ax.set_xlabel(_label(names, horizontal))
    ax.set_ylabel(_label(names, vertical))
    ax.set_title(f"step {balls.step}: {len(balls)} balls" + (f", a slice through {int(shown.sum())}" if others else ""))
    if colorbar:
        ax.figure.colorbar(drawn, ax=ax, label="Q")
    return ax


def partition_over_optimum(
    balls: Partition,
    optimal: Optimal,
    ax: Any = None,
    *,
    colorbar: bool = True,
    limits: tuple[float, float] | None = None,
    n: int = 101,
) -> Any:
    """The borders of the balls over Q* in color, for one state and one action axis: fine where Q* is high, if all is well."""
    if balls.low.shape[1] != 2:
        raise SpaceError(f"this picture is for one state and one action axis; the partition has {balls.low.shape[1]} axes")
    low, high = balls.low.min(axis=0), balls.high.max(axis=0)
    x, a = (np.linspace(low[i], high[i], n) for i in (0, 1))
    grid = np.stack(np.meshgrid(x, a), axis=-1).reshape(-1, 2)
    q = optimal.q_values(balls.step, grid[:, :1], grid[:, 1:]).reshape(n, n)
    ax = _axes(ax)
    drawn = ax.pcolormesh(x, a, q, shading="gouraud", cmap="viridis", rasterized=True)
    if limits:
        drawn.set_clim(*limits)
    ax.add_collection(_boxes(balls.low, balls.high, facecolor="none", edgecolor="black"))
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="state", ylabel="action")
    ax.set_title(f"step {balls.step}: {len(balls)} balls over Q*")
    if colorbar:
        ax.figure.colorbar(drawn, ax=ax, label="Q*")
    return ax


def regret(
    regrets: Sequence[Regret],
    ax: Any = None,
    *,
    label: str | None = None,
    color: str | None = None,
    exponent: Interval | None = None,
    bound: Callable[[int], float] | None = None,
) -> Any:
    """Cumulative regret on logarithmic axes: mean of the runs and the band of their middle 90 %.

    `exponent` (from `zooming.regret_exponent`) draws the fitted growth, `bound` a function of K such as a partial
    `zooming.theory.regret_bound`.
    """
    if not regrets or not all(len(r.per_episode) == len(regrets[0].per_episode) > 1 for r in regrets):
        raise SpaceError("give regrets of one length, at least one, with at least two episodes")
    ax = _axes(ax)
    n = len(regrets[0].per_episode)
    k = np.unique(np.geomspace(1, n, 200).astype(np.int64))
    curves = np.array([r.cumulative[k - 1] for r in regrets])
    mean = np.where(curves.mean(axis=0) > 0, curves.mean(axis=0), np.nan)  # noise may push early regret below zero
    (line,) = ax.plot(k, mean, label=label, color=color, linewidth=1.6)
    if len(curves) > 1:
        bottom, top = np.quantile(curves, (0.05, 0.95), axis=0)
        ax.fill_between(k, np.maximum(bottom, np.nanmin(mean) / 10), top, color=line.get_color(), alpha=0.2, linewidth=0)
    if exponent is not None:
        fitted = mean[-1] * (k / n) ** exponent.mean
        text = f"K^{exponent.mean:.2f} ({exponent.low:.2f} to {exponent.high:.2f})"
        ax.plot(k[k >= n / 10], fitted[k >= n / 10], color=line.get_color(), linestyle=":", linewidth=2.5, label=text)
    if bound is not None:
        ax.plot(k, [bound(int(episodes)) for episodes in k], color="0.35", linestyle="--", linewidth=1, label="bound")
    ax.set(xscale="log", yscale="log", xlabel="episodes K", ylabel="regret R(K)")
    if label or exponent or bound:
        ax.legend(loc="upper left", frameon=False)
    return ax


def returns(
    histories: Sequence[History],
    ax: Any = None,
    *,
    label: str | None = None,
    optimum: float | None = None,
    window: int | None = None,
    color: str | None = None,
) -> Any:
    """The learning curve: mean return of the histories over `window` episodes, with the band of their middle 90 %."""
    if not histories or not all(len(history) == len(histories[0]) > 0 for history in histories):
        raise SpaceError("give histories of one length, at least one, with at least one episode")
    ax = _axes(ax)
    curves = np.array([history.returns for history in histories])
    n = window or max(1, curves.shape[1] // 40)
    summed = np.cumsum(np.pad(curves, ((0, 0), (1, 0))), axis=1)
    smooth = (summed[:, n:] - summed[:, :-n]) / n
    episode = np.arange(n, curves.shape[1] + 1)
    (line,) = ax.plot(episode, smooth.mean(axis=0), label=label, color=color, linewidth=1.6)
    if len(curves) > 1:
        bottom, top = np.quantile(smooth, (0.05, 0.95), axis=0)
        ax.fill_between(episode, bottom, top, color=line.get_color(), alpha=0.2, linewidth=0)
    if optimum is not None:
        ax.axhline(optimum, color="0.35", linestyle="--", linewidth=1, label="optimum")
    ax.xaxis.get_major_locator().set_params(nbins=5)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("episode")
    ax.set_ylabel("return" if n == 1 else f"return, mean of {n:,} episodes")
    if label or optimum is not None:
        ax.legend(loc="lower right", frameon=False)
    return ax


def _boxes(low: Floats, high: Floats, **options: Any) -> Any:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    boxes = [Rectangle((corner[0], corner[1]), side[0], side[1]) for corner, side in zip(low, high - low, strict=True)]
    return PatchCollection(boxes, **{"edgecolor": "white", "linewidth": 0.4, **options})


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'zooming[study]'") from error
    return plt.subplots(figsize=(5, 4), layout="constrained")[1]


def _label(names: list[str], axis: int) -> str:
    kind = names[axis].split("[")[0]
    return kind if sum(name.startswith(kind) for name in names) == 1 else names[axis]
