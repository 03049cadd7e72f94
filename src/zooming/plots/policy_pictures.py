"""Draw a policy as lines or as maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.agents.agent import Agent
from zooming.analysis.optimal import Optimal
from zooming.partitions.cuts import Cut, View
from zooming.plots.look import COLORS, GRAY, LINES, drawing, panels
from zooming.plots.partitions import (
    ValueNames,
    add_colorbar,
    axis_label,
    names_of_values,
    set_ticks,
    wrap,
)
from zooming.plots.policy_axes import (
    FAINT,
    FEW_VISITS,
    MOST_DASHES,
    MOST_ROWS,
    N_OPTIMAL,
    axis_values,
    cell_borders,
    draw_dashes,
    grid,
)
from zooming.plots.policy_visits import SHADE, UNSEEN, have_visits, shade_unseen
from zooming.validation import Floats


@dataclass
class Shown:
    """The greedy actions of one step in all states of a plot."""

    agent: Agent
    step: int
    cut: Cut
    places: list[Floats]
    ends: list[tuple[float, float]]
    info: Callable[[Any], Mapping[str, Any]] | None

    def __post_init__(self) -> None:
        space = self.agent.axes
        self.states = grid(self.cut, self.places)
        one_each = [space.states.shaped(state) for state in self.states]
        infos = None if self.info is None else [self.info(observation) for observation in one_each]
        steps = np.full(len(self.states), self.step)
        played = self.agent.predict(space.states.shaped(self.states), state=steps, info=infos)[0]
        self.actions = space.actions.batch(played, "action")[0]
        seen = have_visits(self.agent, self.step, self.cut, self.places, self.ends)
        self.is_seen = np.ones(len(self.states), bool) if seen is None else seen
        self.is_pale = np.zeros(len(self.states), bool)
        if type(self.agent).visits is not Agent.visits:
            pairs = zip(one_each, self.actions, strict=True)
            self.is_pale[:] = [
                self.agent.visits(self.step, x, space.actions.shaped(a)) < FEW_VISITS
                for x, a in pairs
            ]

    def best(self, optimal: Optimal, states: Floats) -> Floats:
        """Return the optimal actions [n, n_action] in some states."""
        return np.array(
            [np.atleast_1d(optimal.action(self.step, state)) for state in states], np.float64
        )


@dataclass
class Picture:
    """The policy of several steps, with everything needed to draw it."""

    view: View
    n_state: int
    across: list[int]
    action_axes: list[int]  # numbered in the view
    drawn: list[Shown]
    ends: list[tuple[float, float]]
    value_names: ValueNames
    optimal: Optimal | None
    horizon: int

    @property
    def part(self) -> str:
        """Text for the title on how many of the steps are drawn. It is empty if all are."""
        return (
            f", {len(self.drawn)} of {self.horizon} steps" if len(self.drawn) < self.horizon else ""
        )

    # --- over one state axis ----------------------------------------------------------------------

    def lines(self, ax: Any) -> Any:
        rows = panels(
            ax, len(self.action_axes), 1, (5 - 1.2, 3.3 if len(self.action_axes) == 1 else 2.4)
        )
        for row, action in zip(rows[:, 0], self.action_axes, strict=True):
            with drawing(row, boxed=True) as one:
                self._lines(one, action)
        first = self.drawn[0].cut
        are_same = all(str(drawn.cut) == str(first) for drawn in self.drawn)
        where = f" at {first}" if are_same and str(first) else ""
        rows[0, 0].set_title("\n".join(wrap("policy" + where + self.part)))
        return rows

    def _lines(self, ax: Any, action: int) -> None:
        import matplotlib as mpl

        i, (left, right) = self.across[0], self.ends[0]
        is_whole, column = self.view.is_whole[i], action - self.n_state
        has_dashes = is_whole and len(self.drawn[0].states) <= MOST_DASHES
        shades = mpl.colormaps["viridis"](
            np.linspace(0.0, 0.75, len(self.drawn))
        )  # steps have an order
        cuts = {str(drawn.cut) for drawn in self.drawn}
        for k, (drawn, shade) in enumerate(zip(self.drawn, shades, strict=True)):
            name = f"step {drawn.step}" + (f", {drawn.cut}" if len(cuts) > 1 else "")
            x, played = drawn.states[:, i], drawn.actions[:, column]
            few = (
                drawn.states if is_whole else drawn.states[:: max(1, len(x) // 50)]
            )  # each optimal action takes a search
            best = None if self.optimal is None else drawn.best(self.optimal, few)[:, column]
            if has_dashes:
                draw_dashes(
                    ax, x, played, drawn.is_pale, best, shade, name, k, len(self.drawn), drawn.step
                )
                continue
            if best is not None:
                ax.plot(
                    few[:, i],
                    best,
                    color=shade,
                    linewidth=0.9,
                    linestyle="--",
                    label=f"_optimal {drawn.step}",
                )
            # Dashed lines are reserved for the optimum, if it is drawn.
            look = {"color": shade, "linestyle": LINES[k % len(LINES)] if best is None else "-"}
            look["drawstyle"] = "steps-mid" if is_whole else "default"
            pale = drawn.is_pale
            near = (
                pale | np.roll(pale, 1) | np.roll(pale, -1)
            )  # so that the pale part joins the other
            ax.plot(x, np.where(near, played, np.nan), alpha=FAINT, **look)
            ax.plot(x, np.where(pale, np.nan, played), label=name, **look)
        beyond = 0.5 if is_whole else 0.0
        reach = left - beyond, right + beyond
        is_seen = np.any([drawn.is_seen for drawn in self.drawn], axis=0)
        shade_unseen(ax, cell_borders(self.drawn[0].places[0], reach), is_seen)
        low, high = self._span(action)
        margin = 0.02 * (high - low)  # keeps a line at the border visible
        ax.set(xlim=reach, ylim=(low - margin, high + margin))
        ax.set(xlabel=axis_label(self.view.names, i), ylabel=axis_label(self.view.names, action))
        set_ticks(ax.xaxis, self.view, i, self.value_names)
        set_ticks(ax.yaxis, self.view, action, self.value_names)
        if has_dashes:
            for border in np.arange(left + 0.5, right):
                ax.axvline(border, color="0.9", linewidth=0.6, zorder=0)
        shown = ax.get_legend_handles_labels()
        handles = [one for one, label in zip(*shown, strict=True) if label != UNSEEN]
        if self.optimal is not None:
            look = (
                {"marker": "o", "markerfacecolor": "none", "linestyle": "none"}
                if has_dashes
                else {"linestyle": "--"}
            )
            handles += ax.plot([], [], color=GRAY, linewidth=0.9, label="optimal", **look)
        if any(drawn.is_pale.any() for drawn in self.drawn):
            handles += ax.plot([], [], color=GRAY, alpha=FAINT, label=f"under {FEW_VISITS} visits")
        handles += [one for one, label in zip(*shown, strict=True) if label == UNSEEN]
        ax.legend(
            handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5)
        )  # outside: lines may be anywhere

    def _span(self, action: int) -> tuple[float, float]:
        """Return the range of an action axis.

        An infinite end is replaced by the smallest or the largest drawn action.
        """
        low, high = float(self.view.low[action]), float(self.view.high[action])
        played = np.concatenate([drawn.actions[:, action - self.n_state] for drawn in self.drawn])
        low, high = (
            (low if np.isfinite(low) else played.min()),
            (high if np.isfinite(high) else played.max()),
        )
        half = 0.5 if self.view.is_whole[action] or low == high else 0.0
        return low - half, high + half

    # --- over two state axes ----------------------------------------------------------------------

    def maps(self, ax: Any) -> Any:
        kinds = ("learned",) if self.optimal is None else ("learned", "optimal")
        rows = [(action, kind) for action in self.action_axes for kind in kinds]
        found = panels(ax, len(rows), len(self.drawn))
        is_pale = any(drawn.is_pale.any() for drawn in self.drawn)
        for r, (action, kind) in enumerate(rows):
            norm, cmap, ticks = self._colors(action)
            for k, drawn in enumerate(self.drawn):
                with drawing(found[r, k], boxed=True) as one:
                    mesh = self._map(one, drawn, action, kind, norm=norm, cmap=cmap)
                    one.set_xlabel(
                        axis_label(self.view.names, self.across[0]) if r == len(rows) - 1 else ""
                    )
                    one.set_ylabel(axis_label(self.view.names, self.across[1]) if k == 0 else "")
                    if r == 0 or kind == "optimal" or len(kinds) == 2:
                        head = f"{'optimal, ' if kind == 'optimal' else ''}step {drawn.step}"
                        one.set_title(
                            "\n".join([head, *wrap(drawn.cut.caption)] if r == 0 else [head])
                        )
            bar = add_colorbar(mesh, list(found[r]), axis_label(self.view.names, action))
            if ticks is not None:
                bar.set_ticks(ticks[0], labels=ticks[1])
        notes = [f"pale: under {FEW_VISITS} visits"] if is_pale else []
        notes += [] if all(drawn.is_seen.all() for drawn in self.drawn) else [f"gray: {UNSEEN}"]
        if ax is None:
            text = "; ".join([f"policy{self.part}", *notes])
            found[0, 0].figure.suptitle(text, fontsize=10)
        elif notes:  # the caller's figure may have its own title
            below = found[-1, len(self.drawn) // 2]
            below.set_xlabel(f"{below.get_xlabel()}\n{'; '.join(notes)}")
        return found

    def _map(self, ax: Any, drawn: Shown, action: int, kind: str, **look: Any) -> Any:
        from matplotlib.colors import ListedColormap

        places, column = drawn.places, action - self.n_state
        if kind == "optimal":
            assert self.optimal is not None
            places = [
                axis_values(drawn.cut.view, i, end, N_OPTIMAL, N_OPTIMAL)
                for i, end in zip(self.across, self.ends, strict=True)
            ]
            values = drawn.best(self.optimal, grid(drawn.cut, places))[:, column]
        else:
            values = drawn.actions[:, column]
        x, y = (cell_borders(place, end) for place, end in zip(places, self._reach(), strict=True))
        shape = len(places[0]), len(places[1])
        mesh = ax.pcolormesh(x, y, values.reshape(shape).T, rasterized=True, **look)
        veils = (drawn.is_pale, "white", 1 - 1.6 * FAINT), (~drawn.is_seen, SHADE, 1.0)
        for is_veiled, color, alpha in veils if kind != "optimal" else ():
            if is_veiled.any():
                veil = np.ma.masked_where(~is_veiled, np.ones(is_veiled.shape)).reshape(shape).T
                shade = ListedColormap([color])
                ax.pcolormesh(x, y, veil, cmap=shade, alpha=alpha, rasterized=True)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        set_ticks(ax.xaxis, self.view, self.across[0], self.value_names)
        set_ticks(ax.yaxis, self.view, self.across[1], self.value_names)
        return mesh

    def _reach(self) -> list[tuple[float, float]]:
        """Return the drawn ranges of the two axes. Discrete axes extend by half a value."""
        half = [0.5 * self.view.is_whole[i] for i in self.across]
        return [(low - by, high + by) for (low, high), by in zip(self.ends, half, strict=True)]

    def _colors(self, action: int) -> tuple[Any, Any, tuple[list[float], list[str]] | None]:
        """Return (norm, colormap, ticks) of an action axis. `ticks` is (values, labels).

        `ticks` is None for a continuous axis, and for one with many values.
        """
        import matplotlib as mpl
        from matplotlib.colors import BoundaryNorm, ListedColormap, Normalize

        low, high = self._span(action)
        n = round(high - low)
        if not self.view.is_whole[action] or n > MOST_ROWS * 4:
            return Normalize(low, high), "viridis", None
        colors = (
            COLORS[:n] if n <= len(COLORS) else mpl.colormaps["viridis"](np.linspace(0.0, 1.0, n))
        )
        values = [low + 0.5 + k for k in range(n)]
        names = names_of_values(self.view, action, self.value_names)
        labels = [
            f"{value:.0f}" if names is None else str(names[k]) for k, value in enumerate(values)
        ]
        return (
            BoundaryNorm(low + np.arange(n + 1), n),
            ListedColormap(list(colors)),
            (values, labels),
        )
