"""Convert Gymnasium spaces to axes of the unit cube, and back. Only this module converts units.

The axes of the state come first, then those of the action. An interval maps x to (x - low) / (high
- low). The k-th of m integers becomes (k + 1/2) / m. A squashed (unbounded) axis maps x to x / (1 +
|x|) first. The linear maps are kernels (`kernels.to_unit`, `kernels.play_action`), so that all
drivers round in the same way. This module builds their table.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.errors import SpaceError
from zooming.kernels import ATOMS, bend, unbend
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, LARGEST_WHOLE, ORDERED, Node, build_tree
from zooming.validation import Floats, as_float, check_float, short_repr

MAX_AXES = 48  # a split has a bit mask of axes
LONGEST_NAME = 60  # characters
COLUMNS = ("episode", "step", "reward", "terminated")  # of logs, besides the axes


@dataclass
class Axis:
    """One axis, with its ends in the environment's units and its weight in the metric."""

    path: str  # place in the spaces, such as state[0]
    kind: str
    low: float
    high: float
    single: bool = False  # float32
    weight: float = 1.0
    clips: bool = False  # whether values beyond the ends count as the ends
    squash: float | None = None  # scale, if the axis is unbounded and squashed
    name: str = ""  # the path, unless a user gives the axis a name

    def __post_init__(self) -> None:
        self.name = self.name or self.path


class Axes:
    """The axes of a (state, action) pair: kinds, bounds, names, and the form of actions.

    The options are those of `Agent`. The name of a space means all of its axes.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        The spaces of the environment.
    bounds, ordered, squash, weights, names
        As for `Agent`.

    Examples
    --------
    >>> import gymnasium as gym
    >>> gas = gym.spaces.Box(-1.0, 1.0, (2,))
    >>> gears = gym.spaces.Dict({"gear": gym.spaces.Discrete(3), "gas": gas})
    >>> axes = Axes(gym.spaces.Box(0.0, 10.0), gears, weights={"action": 0.5})
    >>> axes.names
    ['state[0]', 'action["gas"][0]', 'action["gas"][1]', 'action["gear"]']
    >>> axes.kinds
    ['interval', 'interval', 'interval', 'categorical']
    >>> axes.low.tolist(), axes.high.tolist()
    ([0.0, -1.0, -1.0, 0.0], [10.0, 1.0, 1.0, 2.0])
    >>> axes.shaped_action(np.array([0.5, -0.5, 2.0]))
    {'gas': array([ 0.5, -0.5], dtype=float32), 'gear': np.int64(2)}
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
    ) -> None:
        self.state_space, self.action_space = observation_space, action_space
        self.states = build_tree(observation_space, "state", "observation_space")
        self.actions = build_tree(action_space, "action", "action_space")
        ordered = ordered if isinstance(ordered, bool) else _names_of(ordered)
        self._axes = axes_of(self.states, self.actions, ordered, names)
        self.n_state = sum(len(leaf.low) for leaf in self.states.leaves())
        self.n_action = len(self._axes) - self.n_state
        self.names = [axis.name for axis in self._axes]
        self.paths = [axis.path for axis in self._axes]
        if not self.n_state or not self.n_action:
            raise SpaceError(
                f"the {'state' if not self.n_state else 'action'} has no axes: its space is empty"
            )
        if len(self) > MAX_AXES:
            raise SpaceError(
                f"{self.n_state} state and {self.n_action} action axes are too many: at most "
                f"{MAX_AXES} axes are supported. Give the agent fewer features (a wrapper)."
            )
        _set_bounds(self._axes, bounds)
        _set_squash(self._axes, squash)
        for axis in self._axes:
            _check_axis(axis)
        _set_weights(self._axes, weights)
        self._tabulate()
        # The options that rebuild these axes, as JSON. They refer to axes by path.
        self.options: dict[str, Any] = {
            "bounds": None, "ordered": ordered, "squash": squash,
            "weights": None if weights is None else self.weights,
            "names": None if names is None else self.names,
        }  # fmt: skip
        if bounds is not None:
            clipped = {axis.path: [axis.low, axis.high] for axis in self._axes if axis.clips}
            self.options["bounds"] = clipped
        if not isinstance(ordered, bool):
            path_of = dict(zip(self.names, self.paths, strict=True))
            self.options["ordered"] = [path_of.get(one, one) for one in ordered]
        if not isinstance(squash, bool):
            squashed = {one.path: one.squash for one in self._axes if one.squash is not None}
            self.options["squash"] = squashed

    def __len__(self) -> int:
        return len(self._axes)

    def __getitem__(self, i: int) -> Axis:
        return self._axes[i]

    @property
    def kinds(self) -> list[str]:
        return [axis.kind for axis in self._axes]

    @property
    def weights(self) -> list[float]:
        return [axis.weight for axis in self._axes]

    @property
    def n_wide(self) -> int:
        """Number of axes that a split may halve: not categorical, several values, weight > 0."""
        return sum(
            axis.kind != CATEGORICAL and axis.weight > 0 and axis.low < axis.high
            for axis in self._axes
        )

    @property
    def are_plain(self) -> bool:
        """Whether no axis is clipped or squashed. The fused driver requires this."""
        return not self._bent

    @property
    def are_cubes(self) -> bool:
        """Whether halving every axis of a ball makes cubes."""
        return all(axis.kind == INTERVAL and axis.weight == 1.0 for axis in self._axes)

    @property
    def n_values(self) -> list[int]:
        """Number of categories per axis; 1 for axes that are not categorical or have weight 0."""
        return [
            int(axis.high - axis.low) + 1 if axis.kind == CATEGORICAL and axis.weight > 0 else 1
            for axis in self._axes
        ]

    @property
    def action_ends(self) -> tuple[Floats, Floats]:
        """Lowest and highest flat action.

        On squashed axes these are 0 and 1, as in `flat_action`.
        """
        squashed = np.array([bool(axis.squash) for axis in self._axes[self.n_state :]])
        low, high = self.low[self.n_state :], self.high[self.n_state :]
        return np.where(squashed, 0.0, low), np.where(squashed, 1.0, high)

    @property
    def are_intervals(self) -> list[bool]:
        """Whether each axis is a continuous interval with a positive weight."""
        n_atoms = self.table[:, ATOMS]
        return [axis.weight > 0 and n == 0 for axis, n in zip(self._axes, n_atoms, strict=True)]

    def cells(self) -> list[Floats]:
        """Return the borders of the initial partition, in which each category is a cell."""
        return [np.arange(1, n) / n for n in self.n_values]

    # --- values as numbers, and back --------------------------------------------------------------

    def flat_state(self, observation: Any) -> Floats:
        """Return one observation (any array, list or nested value) as a new float64 vector."""
        flat = self.states.flat(observation, "observation")
        return self.to_unit_cube(flat, 0) if self._bent else flat

    def flat_action(self, action: Any) -> Floats:
        """Return one action as a new float64 vector."""
        flat = self.actions.flat(action, "action")
        return self.to_unit_cube(flat, self.n_state) if self._bent else flat

    def flat_states(self, observations: Any) -> tuple[Floats, bool]:
        """Return one observation or a batch as [n, n_state], and whether it was a batch."""
        flat, is_batch = self.states.batch(observations, "observation")
        return self.to_unit_cube(flat, 0), is_batch

    def shaped_action(self, flat: Floats) -> Any:
        """Return a flat action, or a batch, with dtype, shape and structure of the action space."""
        if self.has_plain_actions:
            return flat
        return self.actions.shaped(self.from_unit_cube(flat, self.n_state))

    def to_unit_cube(self, flat: Floats, first: int) -> Floats:
        """Clip and squash flat values of the axes from `first` on, in place, and return them."""
        if self._bent:
            bend(flat.reshape(-1, flat.shape[-1]), self._bends, first)
        return flat

    def from_unit_cube(self, flat: Floats, first: int) -> Floats:
        """Convert flat values of the axes from `first` on to the environment's units."""
        if not self._bent:
            return flat
        flat = flat.copy()
        unbend(flat.reshape(-1, flat.shape[-1]), self._bends, first)
        return flat

    def describe(self) -> list[list[Any]]:
        """Return [path, low, high, kind] of each axis, for files."""
        return [[axis.path, axis.low, axis.high, axis.kind] for axis in self._axes]

    def _tabulate(self) -> None:
        """Set `table`, one row per axis with the columns of `kernels.boxes.layout`, and `ends`.

        `ends` holds the exact upper bounds. LOW + WIDTH may differ from them by rounding. `sides`
        has (lower, upper bound) of each axis in Python's floats, for the checks of each step.
        """
        weights = [axis.weight for axis in self._axes if axis.kind != CATEGORICAL]
        largest = max(weights, default=0.0) or 1.0
        rows, ends = [], []
        for axis in self._axes:
            weight = axis.weight / largest  # d_max = 1: only ratios of weights matter
            if axis.kind != INTERVAL:
                n_values = axis.high - axis.low + 1
                rows.append((axis.low - 0.5, n_values, weight, n_values, 0.0))
                ends.append(axis.high + 0.5)
            elif axis.squash:
                rows.append((0.0, 1.0, weight, 0.0, 0.0))
                ends.append(1.0)
            else:
                rows.append((axis.low, axis.high - axis.low, weight, 0.0, float(axis.single)))
                ends.append(axis.high)
        self.table = np.array(rows)
        self.ends = np.array(ends)
        self.sides = [(float(row[0]), float(end)) for row, end in zip(rows, ends, strict=True)]
        self.low = np.array([axis.low for axis in self._axes])
        self.high = np.array([axis.high for axis in self._axes])
        self._bent = [i for i, axis in enumerate(self._axes) if axis.clips or axis.squash]
        self._bends = np.array([_bend(axis) for axis in self._axes])
        # Float64 vectors go to the kernels unchanged. Others are converted first, because a
        # refused call costs 0.3 ms.
        n, bent = self.n_state, self._bent
        self.has_plain_states = _is_plain(self.state_space) and all(i >= n for i in bent)
        self.has_plain_actions = _is_plain(self.action_space) and all(i < n for i in bent)


def axes_of(
    states: Node, actions: Node, ordered: bool | Iterable[str] = False, names: Any = None
) -> list[Axis]:
    """Return the axes of two spaces with their names. Those named in `ordered` are ordered."""
    axes = [
        Axis(path, leaf.kind, low, high, single=leaf.dtype == np.float32)
        for node in (states, actions)
        for leaf in node.leaves()
        for path, low, high in zip(leaf.names, leaf.low.tolist(), leaf.high.tolist(), strict=True)
    ]
    _set_names(axes, names)
    _set_order(axes, ordered)
    return axes


def _is_plain(space: gym.Space[Any]) -> bool:
    return isinstance(space, gym.spaces.Box) and space.dtype == np.float64 and len(space.shape) == 1


def _bend(axis: Axis) -> tuple[float, float, float, float]:
    """Return the row of `kernels.bend`: scale (0: clip only), ends, largest squashed action."""
    largest = float(np.finfo(np.float32 if axis.single else np.float64).max)
    if axis.squash or axis.clips:
        return axis.squash or 0.0, axis.low, axis.high, largest
    return 0.0, -math.inf, math.inf, largest


# --- options --------------------------------------------------------------------------------------


def _find(axes: list[Axis], name: Any, option: str) -> list[Axis]:
    """Return the axes that a name or a path stands for: one axis, or all axes of a space.

    `option` is the name of the argument in error messages.
    """
    part = f"{name}["
    found = [one for one in axes if str(name) in (one.name, one.path) or one.path.startswith(part)]
    if not found:
        close = difflib.get_close_matches(str(name), [axis.name for axis in axes], 1, 0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise SpaceError(
            f"{option}: no axis is named {name!r}; {hint}the axes are {_join_names(axes)}"
        )
    return found


def _pairs(
    axes: list[Axis], given: Any, option: str, form: str, hint: str = ""
) -> list[tuple[Axis, Any]]:
    """Return (axis, value) for {axis: value}, or for one value per axis. `form` says this."""
    if isinstance(given, Mapping):
        return [(axis, one) for name, one in given.items() for axis in _find(axes, name, option)]
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
    if len(listed) != len(axes):
        raise SpaceError(
            f"{option}={short_repr(given)}: give {form} for each of {_join_names(axes)}{hint}"
        )
    return list(zip(axes, listed, strict=True))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _set_names(axes: list[Axis], names: Mapping[str, str] | Iterable[str] | None) -> None:
    """Name axes. Raise SpaceError unless all names are different and none is another's path."""
    if names is None:
        return
    if isinstance(names, Mapping):
        for path in names:
            found = _find(axes, path, "names")
            if len(found) > 1:
                raise SpaceError(f"names: {path!r} is several axes; name {_join_names(found)}")
    hint = ". (names={} ignores those of env.metadata.)"
    for axis, name in _pairs(axes, names, "names", "{axis: name}, or one name", hint):
        if not (isinstance(name, str) and name.strip() and name.isprintable()):
            raise SpaceError(f"names: {axis.path} cannot be named {short_repr(name)}; give a text")
        if len(name) > LONGEST_NAME:
            raise SpaceError(
                f"names: {short_repr(name)} has {len(name)} characters; at most {LONGEST_NAME} "
                "are shown"
            )
        means_others = name != axis.path and re.match(r"(state|action)(\[|$)", name)
        if means_others or name.casefold() in COLUMNS:
            others = "other axes" if means_others else "another column of a log"
            raise SpaceError(
                f"names: {axis.path} cannot be named {name!r}, which means {others}; "
                f"take another word"
            )
        axis.name = name
    seen: dict[str, Axis] = {}
    for axis in axes:
        other = seen.setdefault(axis.name.casefold(), axis)
        if other is not axis:
            raise SpaceError(
                f"names: {other.path} is named {other.name!r} and {axis.path} {axis.name!r}; give "
                "each axis a name of its own (upper and lower case count as equal)"
            )


def _set_order(axes: list[Axis], ordered: bool | Iterable[str]) -> None:
    """Make the named discrete axes ordered. True means all of them."""
    if isinstance(ordered, bool):
        chosen = [axis for axis in axes if ordered and axis.kind == CATEGORICAL]
    else:
        chosen = [axis for name in _names_of(ordered) for axis in _find(axes, name, "ordered")]
    for axis in chosen:
        if axis.kind == INTERVAL:
            raise SpaceError(
                f"ordered: {axis.name} is an interval; only discrete axes can be made ordered"
            )
        axis.kind = ORDERED


def _set_bounds(axes: list[Axis], bounds: Mapping[str, Any] | None) -> None:
    """Set the ends of axes. They must lie within the space, and values beyond them are clipped."""
    if bounds is not None and not isinstance(bounds, Mapping):
        raise SpaceError(
            f"bounds={bounds!r}: give {{axis: (low, high)}}, for example "
            '{"state[1]": (-3.0, 3.0)}'
        )
    for name, pair in (bounds or {}).items():
        try:
            low, high = (as_float(end) for end in pair)
        except (TypeError, ValueError) as error:
            raise SpaceError(
                f"bounds of {name}: {short_repr(pair)} is not a pair (low, high)"
            ) from error
        for axis in _find(axes, name, "bounds"):
            is_finite = math.isfinite(low) and math.isfinite(high)
            fault = None
            if axis.kind == CATEGORICAL:
                fault = f"categories have no bounds; make it ordered=[{axis.name!r}]"
            elif not (is_finite and axis.low <= low <= high <= axis.high):
                inside = f"[{axis.low}, {axis.high}]"
                fault = f"({low}, {high}) must be finite and lie within {inside}"
            elif axis.kind == ORDERED and not (low.is_integer() and high.is_integer()):
                fault = f"({low}, {high}) must be whole numbers"
            if fault is not None:
                raise SpaceError(f"bounds of {axis.name}: {fault}")
            axis.low, axis.high, axis.clips = low, high, True


def _set_squash(axes: list[Axis], squash: bool | float | Mapping[str, float]) -> None:
    """Set the scale by which unbounded axes are squashed."""
    unbounded = [one for one in axes if not (math.isfinite(one.low) and math.isfinite(one.high))]
    if isinstance(squash, Mapping):
        scales = [(axis, s) for name, s in squash.items() for axis in _find(axes, name, "squash")]
    elif isinstance(squash, bool):
        scales = [(axis, 1.0) for axis in unbounded if squash]
    else:
        scale = check_float(squash, "squash", 0.0, math.inf)
        scales = [(axis, scale) for axis in unbounded]
    for axis, scale in scales:
        if axis not in unbounded or axis.kind != INTERVAL:
            raise SpaceError(
                f"squash: {axis.name} runs from {axis.low} to {axis.high}; only an unbounded "
                "axis can be squashed"
            )
        if not (_is_number(scale) and 0 < as_float(scale) < math.inf):
            raise SpaceError(
                f"squash of {axis.name}: {short_repr(scale)} is not a scale; give a positive "
                "number, about the size of usual values"
            )
        axis.squash = as_float(scale)


def _set_weights(axes: list[Axis], weights: Mapping[str, float] | Iterable[float] | None) -> None:
    """Set the weights of axes in the metric."""
    if weights is None:
        return
    for axis, weight in _pairs(axes, weights, "weights", "{axis: weight}, or one number"):
        if not (_is_number(weight) and 0 <= as_float(weight) < math.inf):
            raise SpaceError(
                f"weight of {axis.name}: {short_repr(weight)} is not a finite number >= 0 (0: "
                "the axis does not matter)"
            )
        axis.weight = float(weight)
    if not any(axis.weight > 0 for axis in axes):
        raise SpaceError(
            "weights: every axis has weight 0; give at least one axis a positive weight"
        )


def _check_axis(axis: Axis) -> None:
    """Raise SpaceError with advice if an axis cannot be mapped to the unit interval."""
    low, high = axis.low, axis.high
    if axis.squash:
        return
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpaceError(
            f"unbounded: axis {axis.name} runs from {low} to {high}. Give the agent its usual "
            f"range, bounds={{{axis.name!r}: (low, high)}} (values beyond count as the ends), or "
            "squash=True"
        )
    if axis.kind != INTERVAL:
        if max(-low, high) >= LARGEST_WHOLE:
            raise SpaceError(
                f"axis {axis.name} runs from {low:g} to {high:g}: whole numbers of this size "
                "are not exact as floats. Give the agent its usual range, "
                f"bounds={{{axis.name!r}: (low, high)}}, or numbers below 2^52 (a wrapper)"
            )
        return
    if not low < high:
        raise SpaceError(
            f"axis {axis.name} runs from {low} to {high}: it has no width. Drop it from the space "
            "(a wrapper)."
        )
    width = high - low
    if not (math.isfinite(width) and math.isfinite(1.0 / width)):
        raise SpaceError(
            f"axis {axis.name} runs from {low} to {high}: its width is beyond floating point. "
            "Rescale the axis."
        )


def _join_names(axes: list[Axis]) -> str:
    return ", ".join(axis.name for axis in axes)


def _names_of(names: Any) -> list[str]:
    """Return the axis names in `ordered`, one name or several, as a list."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise SpaceError(f"ordered={names!r}: give True or the names of axes")
    return list(names)
