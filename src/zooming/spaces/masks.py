"""Read the feasible actions from an environment's `info`, as arrays that the kernels read.

`info["action_mask"]` has the form of Gymnasium's `action_space.sample(mask=...)`: an array for
Discrete, one array per component for MultiDiscrete, 0, 1 or 2 (either) per entry for MultiBinary,
and a tuple or dict of these for Tuple and Dict. None, or a missing key, allows everything.
`info["action_low"]` and `info["action_high"]` have the form of an action. They bound boxes and
ordered values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels import ATOMS, FIRST_VALUE, LOW, WIDTH, read_mask
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, Branch, Leaf, as_numbers
from zooming.validation import Floats, short_repr

MASK, LEAST, MOST = "action_mask", "action_low", "action_high"
_MOST_VALUES = 2**16  # of an axis with a mask, which has one entry per value


@dataclass(frozen=True)
class Feasible:
    """The feasible actions: `allowed` for the kernels, and bounds in the environment's units.

    The mask of an axis has `n_values` entries, 0 for an interval. Its entry k is for the value
    `first` + k.
    """

    allowed: Floats
    low: Floats
    high: Floats
    first: Floats
    n_values: Floats

    def between(self, action: Floats) -> Floats:
        """Return the flat action clipped to the bounds. This removes rounding errors."""
        return np.minimum(np.maximum(action, self.low), self.high)

    def nearest(self, action: Floats) -> Floats:
        """Return the feasible flat action nearest to `action`, within the bounds and the mask."""
        found = self.between(action)
        for i in np.flatnonzero(self.n_values):
            values = self.first[i] + np.flatnonzero(
                self.allowed[i, FIRST_VALUE : FIRST_VALUE + int(self.n_values[i])]
            )
            found[i] = values[np.abs(values - found[i]).argmin()]
        return found


Allowed = Sequence[Feasible | None]  # the feasible actions of each state; None: all


def has_mask(info: Any) -> bool:
    """Return whether an info dict restricts actions.

    Call this fast check first: most info dicts do not restrict actions.
    """
    try:
        return bool(info) and (MASK in info or LEAST in info or MOST in info)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"info is {short_repr(info)}; give the dict that came with the observation"
        ) from error


def split_info(info: Any, n: int, is_batch: bool) -> list[Mapping[str, Any] | None]:
    """Return the info of each of n observations, given a list or a vector environment's dict."""
    if not is_batch:
        if info is not None and not isinstance(info, Mapping):
            raise ConfigurationError(
                f"info is {info!r}; for one observation give the dict that came with it"
            )
        return [info]
    if info is None:
        return [None] * n
    if isinstance(info, Mapping):
        wanted = {key: info[key] for key in info if key.lstrip("_") in (MASK, LEAST, MOST)}
        return [_row_of(wanted, k, n) for k in range(n)]
    infos = list(info)
    if len(infos) != n:
        raise ConfigurationError(
            f"info has {len(infos)} entries for {n} observations; give one dict per environment"
        )
    for k, one in enumerate(infos):
        if one is not None and not isinstance(one, Mapping):
            raise ConfigurationError(
                f"info[{k}] is {one!r}; give the dict of each environment, or None"
            )
    return infos


def _row_of(infos: Mapping[str, Any], k: int, n: int) -> dict[str, Any]:
    """Return the info of environment k. An entry is left out if its flag `_key` is false."""
    found = {}
    for key, value in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        if not isinstance(value, Mapping) and len(value) != n:
            raise ConfigurationError(
                f"info[{key!r}] has {len(value)} entries for {n} observations; give one per "
                "environment"
            )
        if f"_{key}" not in infos or infos[f"_{key}"][k]:
            found[key] = _row_of(value, k, n) if isinstance(value, Mapping) else value[k]
    return found


def feasible(axes: Axes, info: Mapping[str, Any], where: str) -> Feasible:
    """Return the actions that `info` allows.

    Raise TransitionError if `info` is malformed or allows nothing.
    """
    quick = _read_one_mask(axes, info)
    if quick is not None:
        return quick
    n_values = axes.table[axes.n_state :, ATOMS].astype(np.int64)
    if n_values.max() > _MOST_VALUES:
        name = axes.names[axes.n_state + int(n_values.argmax())]
        raise TransitionError(
            f"{where}: {name} has {n_values.max():,} values; feasible actions are supported up to "
            f"{_MOST_VALUES:,}"
        )
    allowed = np.zeros((axes.n_action, FIRST_VALUE + int(n_values.max())))
    allowed[:, 1] = 1.0
    for row, n in zip(allowed, n_values, strict=True):
        row[FIRST_VALUE : FIRST_VALUE + n] = 1.0
    low, high = axes.low[axes.n_state :].copy(), axes.high[axes.n_state :].copy()
    _read_mask(axes, axes.actions, info.get(MASK), allowed, f"{where}: info[{MASK!r}]")
    _read_bounds(axes.actions, info.get(LEAST), low, np.maximum, f"{where}: info[{LEAST!r}]")
    _read_bounds(axes.actions, info.get(MOST), high, np.minimum, f"{where}: info[{MOST!r}]")
    for i in range(axes.n_action):
        _narrow(axes, i, allowed[i], int(n_values[i]), low, high, where)
    return Feasible(allowed, low, high, axes.low[axes.n_state :], axes.table[axes.n_state :, ATOMS])


def _read_one_mask(axes: Axes, info: Mapping[str, Any]) -> Feasible | None:
    """Return what a valid mask of a Discrete action allows, fast, or None for anything else."""
    if not isinstance(axes.action_space, gym.spaces.Discrete) or LEAST in info or MOST in info:
        return None
    mask, n = info[MASK], int(axes.action_space.n)
    is_array = isinstance(mask, np.ndarray) and mask.shape == (n,) and mask.dtype.kind in "biu"
    if not is_array or n > _MOST_VALUES or axes.table[-1, ATOMS] != n:  # bounds= excludes values
        return None
    allowed = np.empty((1, FIRST_VALUE + n))
    allowed[0, FIRST_VALUE:] = mask
    if read_mask(allowed[0]) < 1:
        return None
    return Feasible(allowed, axes.low[-1:], axes.high[-1:], axes.low[-1:], axes.table[-1:, ATOMS])


def _narrow(
    axes: Axes, i: int, row: Floats, n_values: int, low: Floats, high: Floats, where: str
) -> None:
    """Narrow one axis to its bounds and mask. Raise TransitionError if no value is left."""
    axis, place = axes[axes.n_state + i], axes.table[axes.n_state + i]
    if n_values:
        mask = row[FIRST_VALUE : FIRST_VALUE + n_values]
        values = axis.low + np.arange(n_values)
        mask[(values < low[i]) | (values > high[i])] = 0.0
        found = np.flatnonzero(mask)
        if not len(found):
            raise TransitionError(
                f"{where}: no value of {axis.name} is feasible; an environment must leave at "
                f"least one action from {axis.low:g} to {axis.high:g}"
            )
        low[i], high[i] = values[found[0]], values[found[-1]]
        row[:2] = (found[[0, -1]] + 0.5) / n_values
        return
    if axis.single:
        low[i], high[i] = _inner_single(low[i], np.inf), _inner_single(high[i], -np.inf)
    if not low[i] <= high[i]:
        raise TransitionError(
            f"{where}: no value of {axis.name} is feasible: it must be at least {low[i]} and at "
            f"most {high[i]}"
        )
    if axis.squash:
        row[:2] = axes.to_unit_cube(np.array([low[i], high[i]])[:, None], axes.n_state + i)[:, 0]
        row[:2] = np.where(np.isfinite(row[:2]), row[:2], [0.0, 1.0])
    else:
        row[:2] = np.clip((np.array([low[i], high[i]]) - place[LOW]) / place[WIDTH], 0.0, 1.0)


def _inner_single(end: float, direction: float) -> float:
    """Round an end to the nearest float32 on its feasible side, towards `direction`."""
    single = np.float32(end)
    is_outside = float(single) < end if direction > 0 else float(single) > end
    return float(np.nextafter(single, np.float32(direction)) if is_outside else single)


def _read_mask(axes: Axes, node: Leaf | Branch, mask: Any, allowed: Floats, what: str) -> None:
    if mask is None:
        return
    if isinstance(node, Branch):
        for key, part in _parts(node, mask, what):
            _read_mask(axes, node.parts[key], part, allowed, f"{what}[{key!r}]")
        return
    if node.kind == INTERVAL or isinstance(node.space, gym.spaces.Box):
        raise TransitionError(
            f"{what}: {node.name} is a Box, which has no mask; give info[{LEAST!r}] and "
            f"info[{MOST!r}]"
        )
    if isinstance(node.space, gym.spaces.MultiBinary):
        entries = as_numbers(mask, what).ravel()
        if len(entries) != len(node.low) or not np.isin(entries, (0, 1, 2)).all():
            raise _mask_error(mask, what, f"{len(node.low)} entries of 0, 1 or 2 (either)")
        masks = [[entry != 1, entry != 0] for entry in entries]
    else:
        sizes = (node.high - node.low + 1).astype(int).tolist()
        is_one = isinstance(node.space, gym.spaces.Discrete)
        masks = [mask] if is_one else _per_component(mask, sizes, what)
        for one, size in zip(masks, sizes, strict=True):
            entries = as_numbers(one, what)
            if entries.shape != (size,) or not np.isin(entries, (0, 1)).all():
                raise _mask_error(one, what, f"{size} entries of 0 or 1")
    for i, one in enumerate(masks):
        axis = axes[axes.n_state + node.first + i]
        # A mask has all values of the space, `allowed` only those within bounds=.
        left = slice(int(axis.low - node.low[i]), int(axis.high - node.low[i]) + 1)
        row = allowed[node.first + i, FIRST_VALUE : FIRST_VALUE + left.stop - left.start]
        row *= np.asarray(one, np.float64)[left]


def _per_component(mask: Any, sizes: list[int], what: str) -> list[Any]:
    if isinstance(mask, np.ndarray) and mask.shape == (sum(sizes),) and mask.dtype != object:
        return np.split(mask, np.cumsum(sizes)[:-1])
    found = _flattened(mask)
    if not isinstance(mask, (tuple, list)) or len(found) != len(sizes):
        raise _mask_error(
            mask, what, f"one array for each of its {len(sizes)} components, of {sizes} entries"
        )
    return found


def _flattened(mask: Any) -> list[Any]:
    """Return the masks of the components of a MultiDiscrete as a flat list."""
    nested = (tuple, list, np.ndarray)
    if isinstance(mask, (tuple, list)) and any(isinstance(part, nested) for part in mask):
        return [one for part in mask for one in _flattened(part)]
    return [mask]


def _mask_error(mask: Any, what: str, expected: str) -> TransitionError:
    shape = getattr(mask, "shape", None)
    given = f"has shape {shape}" if shape is not None and len(shape) != 1 else f"is {mask!r}"
    return TransitionError(f"{what} {given}; expected {expected}")


def _read_bounds(node: Leaf | Branch, bound: Any, ends: Floats, nearer: Any, what: str) -> None:
    if bound is None:
        return
    if isinstance(node, Branch):
        for key, part in _parts(node, bound, what):
            _read_bounds(node.parts[key], part, ends, nearer, f"{what}[{key!r}]")
        return
    given = as_numbers(bound, what)
    if given.size not in (1, len(node.low)) or np.isnan(given).any():
        raise TransitionError(f"{what} is {bound!r}; expected numbers of the shape {node.shape}")
    if node.kind == CATEGORICAL:
        # Categories may be bounded too: their values are integers.
        given = np.where(np.isfinite(given), np.rint(given), given)
    ends[node.first : node.last] = nearer(ends[node.first : node.last], given.ravel())


def _parts(node: Branch, given: Any, what: str) -> list[tuple[Any, Any]]:
    """Return the given (key, entry) pairs: all parts of a Tuple, or some keys of a Dict."""
    if isinstance(node.space, gym.spaces.Dict):
        if not isinstance(given, Mapping) or not set(given) <= set(node.parts):
            raise TransitionError(
                f"{what} is {given!r}; expected a dict with some of the keys {list(node.parts)}"
            )
        return list(given.items())
    if not isinstance(given, (tuple, list)) or len(given) != len(node.parts):
        raise TransitionError(
            f"{what} is {given!r}; expected {len(node.parts)} parts, None where every value "
            "is feasible"
        )
    return list(enumerate(given))
