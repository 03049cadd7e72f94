"""Convert Gymnasium spaces to trees: leaves (Box, Discrete, ...) under branches (Tuple, Dict).

A leaf has one or more axes. It converts values to flat numbers and back, with exact dtype and
shape.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.errors import SpaceError, TransitionError
from zooming.validation import Floats, as_floats, short_repr

INTERVAL, ORDERED, CATEGORICAL = "interval", "ordered", "categorical"  # kinds of axes
SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of these"
LARGEST_WHOLE = 2**52  # of an integer axis: beyond it, x + 1/2 is not a float


@dataclass(frozen=True)
class Leaf:
    """A space without parts. Its axes have the numbers first .. first + len(low) - 1."""

    name: str
    space: gym.Space[Any]
    first: int
    low: Floats
    high: Floats
    kind: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.low)

    @property
    def names(self) -> list[str]:
        if isinstance(self.space, gym.spaces.Discrete):
            return [self.name]
        return [f"{self.name}[{i}]" for i in range(len(self.low))]

    def leaves(self) -> Iterator[Leaf]:
        yield self

    def flat(self, value: Any, what: str) -> Floats:
        """Return one value as a new flat vector. `what` names the value in error messages."""
        if self.kind == INTERVAL:  # fast path for most environments
            array = as_numbers(value, what)
            if array.size != len(self.low):
                raise SpaceError(f"{what} has shape {array.shape}; expected {self.shape}")
            return array if array.ndim == 1 else array.ravel()
        found = np.empty(len(self.low))
        self.write(value, found, what)
        return found

    def write(self, value: Any, flat: Floats, what: str) -> None:
        """Write one value into its entries of `flat`."""
        if (
            isinstance(value, (int, np.integer))
            and len(self.low) == 1
            and -LARGEST_WHOLE <= value <= LARGEST_WHOLE
        ):
            flat[self.first] = value  # fast path for integers
            return
        array = as_numbers(value, what)
        if array.size != len(self.low):
            raise SpaceError(f"{what} has shape {array.shape}; expected {self.shape}")
        flat[self.first : self.last] = array.reshape(-1)
        if self.kind != INTERVAL and not (
            isinstance(value, np.ndarray) and value.dtype.kind in "iu"
        ):
            self._check_whole(array.reshape(1, -1))

    def batch(self, values: Any, what: str) -> tuple[Floats, bool]:
        """Return one value or a batch as [n, n_axes], and whether it was a batch."""
        array, n = as_numbers(values, what), len(self.low)
        if array.shape == self.shape:
            found, is_batch = array.reshape(1, n), False
        elif array.ndim == len(self.shape) + 1 and array.shape[1:] == self.shape:
            found, is_batch = array.reshape(len(array), n), True
        elif array.size == n and array.ndim <= 1:
            found, is_batch = array.reshape(1, n), False
        else:
            raise SpaceError(
                f"{what} has shape {array.shape}; expected {self.shape}, or a batch of these"
            )
        if self.kind != INTERVAL:
            self._check_whole(found)
        return found, is_batch

    def shaped(self, flat: Floats) -> Any:
        """Return the value, or a batch, from its entries of `flat`, with exact dtype and shape."""
        if flat.ndim == 1 and isinstance(self.space, gym.spaces.Discrete):
            return self.dtype.type(round(flat[self.first]))
        part = flat[..., self.first : self.last]
        if self.kind != INTERVAL:
            part = np.rint(part)
        array = part.astype(self.dtype).reshape(part.shape[:-1] + self.shape)
        return array[()] if isinstance(self.space, gym.spaces.Discrete) else array

    def _check_whole(self, found: Floats) -> None:
        bad = np.argwhere(np.isfinite(found) & (found != np.rint(found)))
        if len(bad):
            k, i = bad[0]
            raise TransitionError(
                f"{self.names[i]} = {found[k, i]} is not a whole number from {self.low[i]:g} to "
                f"{self.high[i]:g}; check the environment's space"
            )

    def describe(self) -> dict[str, Any]:
        """Return the space as JSON values."""
        space, kind = self.space, type(self.space).__name__
        if isinstance(space, gym.spaces.MultiBinary):
            n: Any = space.n
            is_number = isinstance(n, (int, np.integer))
            return {"kind": kind, "n": int(n) if is_number else [int(size) for size in n]}
        if isinstance(space, gym.spaces.Box):
            sizes = {"low": space.low.tolist(), "high": space.high.tolist()}
        elif isinstance(space, gym.spaces.Discrete):
            sizes = {"n": int(space.n), "start": int(space.start)}
        else:
            assert isinstance(space, gym.spaces.MultiDiscrete)
            sizes = {"nvec": space.nvec.tolist(), "start": np.asarray(space.start).tolist()}
        return {"kind": kind, **sizes, "dtype": str(self.dtype)}


@dataclass(frozen=True)
class Branch:
    """A Tuple or Dict space, with its parts by key."""

    name: str
    space: gym.Space[Any]
    parts: dict[Any, Any]  # Leaf or Branch
    n_axes: int

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts.values():
            yield from part.leaves()

    def flat(self, value: Any, what: str) -> Floats:
        found = np.empty(self.n_axes)
        self.write(value, found, what)
        return found

    def write(self, value: Any, flat: Floats, what: str) -> None:
        for key, part in self.parts.items():
            part.write(self.entry(value, key, what), flat, f"{what}{_index(key)}")

    def batch(self, values: Any, what: str) -> tuple[Floats, bool]:
        found = [
            part.batch(self.entry(values, key, what), f"{what}{_index(key)}")
            for key, part in self.parts.items()
            if any(len(leaf.low) for leaf in part.leaves())  # an empty part has no batch size
        ]
        n, is_batch = len(found[0][0]), found[0][1]
        if any((len(rows), batched) != (n, is_batch) for rows, batched in found):
            raise SpaceError(
                f"{what}: its parts are batches of different lengths, "
                f"{[len(rows) for rows, _ in found]}"
            )
        return np.concatenate([rows for rows, _ in found], axis=1), is_batch

    def shaped(self, flat: Floats) -> Any:
        values = {key: part.shaped(flat) for key, part in self.parts.items()}
        return values if isinstance(self.space, gym.spaces.Dict) else tuple(values.values())

    def entry(self, value: Any, key: Any, what: str) -> Any:
        """Return the part of a value under a key. Raise SpaceError if it is missing."""
        if isinstance(self.space, gym.spaces.Dict):
            if not isinstance(value, dict) or key not in value:
                raise SpaceError(
                    f"{what} is {short_repr(value)}; expected a dict with the keys "
                    f"{list(self.parts)}"
                )
        elif not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(self.parts):
            raise SpaceError(
                f"{what} is {short_repr(value)}; expected a tuple of {len(self.parts)} parts"
            )
        return value[key]

    def describe(self) -> dict[str, Any]:
        return {
            "kind": type(self.space).__name__,
            "parts": [[key, part.describe()] for key, part in self.parts.items()],
        }


Node = Leaf | Branch


def build_tree(space: gym.Space[Any], name: str, where: str, first: int = 0) -> Node:
    """Return a space as a tree of leaves and branches.

    Raise SpaceError if a space is not supported.
    """
    if isinstance(space, (gym.spaces.Tuple, gym.spaces.Dict)):
        all_parts: Any = space.spaces
        is_dict = isinstance(space, gym.spaces.Dict)
        items = all_parts.items() if is_dict else enumerate(all_parts)
        parts: dict[Any, Node] = {}
        before = first
        for key, part in items:
            parts[key] = build_tree(part, f"{name}{_index(key)}", f"{where}{_index(key)}", first)
            first += sum(len(leaf.low) for leaf in parts[key].leaves())
        return Branch(name, space, parts, first - before)
    dtype, shape, kind = np.dtype(space.dtype), space.shape or (), CATEGORICAL
    if isinstance(space, gym.spaces.Box):
        if dtype not in (np.float32, np.float64) and dtype.kind not in "iu":
            raise SpaceError(
                f"{where} is a Box of {dtype}; boxes of float32, float64 and integers are "
                "supported. Wrap the environment."
            )
        low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
        kind = INTERVAL if dtype.kind == "f" else ORDERED
    elif isinstance(space, gym.spaces.Discrete):
        low = np.array([float(space.start)])
        high = low + float(space.n) - 1
    elif isinstance(space, gym.spaces.MultiDiscrete):
        low = np.asarray(space.start, np.float64).ravel()
        high = low + space.nvec.astype(np.float64).ravel() - 1
    elif isinstance(space, gym.spaces.MultiBinary):
        low, high = np.zeros(math.prod(shape)), np.ones(math.prod(shape))
    else:
        raise SpaceError(
            f"{where} is {type(space).__name__}; supported are {SUPPORTED}. Wrap the environment "
            "so that it is one of these."
        )
    return Leaf(name, space, first, low, high, kind, dtype, shape)


def as_numbers(values: Any, what: str) -> Floats:
    """Return numbers, lists or arrays as a new float64 array.

    Raise SpaceError if they are not real numbers.
    """
    if type(values) is np.ndarray and values.dtype.kind == "f":
        return np.array(values, np.float64, order="C")
    try:
        array = np.asarray(values)
        is_real = array.dtype.kind in "fiub" or all(
            isinstance(value, numbers.Real) for value in array.ravel().tolist()
        )
        if is_real:
            return as_floats(array)
    except (TypeError, ValueError) as error:
        raise SpaceError(
            f"{what} is not an array of numbers: {short_repr(values)} ({error})"
        ) from error
    raise SpaceError(f"{what} is not an array of real numbers: {short_repr(values)}")


def _index(key: Any) -> str:
    return f'["{key}"]' if isinstance(key, str) else f"[{key!r}]"
