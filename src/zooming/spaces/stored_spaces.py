"""Rebuild spaces from the JSON of a file."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

MOST_STORED = 1_000  # axes of a MultiBinary in a file; agents take far fewer


def space_of(stored: dict[str, Any]) -> gym.Space[Any]:
    """Return the space that `Leaf.describe` or `Branch.describe` gave as JSON."""
    kind = stored["kind"]
    if kind == "Dict":
        # A list of pairs: Gymnasium would sort the keys of a dict.
        return gym.spaces.Dict([(key, space_of(part)) for key, part in stored["parts"]])
    if kind == "Tuple":
        return gym.spaces.Tuple([space_of(part) for _, part in stored["parts"]])
    if kind == "Box":
        dtype = np.dtype(stored["dtype"])
        return gym.spaces.Box(
            np.array(stored["low"], dtype), np.array(stored["high"], dtype), dtype=dtype.type
        )
    if kind == "Discrete":
        return gym.spaces.Discrete(
            stored["n"], start=stored["start"], dtype=np.dtype(stored["dtype"]).type
        )
    if kind == "MultiDiscrete":
        dtype = np.dtype(stored["dtype"])
        return gym.spaces.MultiDiscrete(
            np.array(stored["nvec"], dtype),
            dtype=dtype.type,
            start=np.array(stored["start"], dtype),
        )
    if kind == "MultiBinary":
        n_axes = math.prod(stored["n"]) if isinstance(stored["n"], list) else stored["n"]
        if n_axes > MOST_STORED:  # the only kind whose JSON is smaller than its arrays
            raise ValueError(f"MultiBinary has {n_axes} axes; agents have at most {MOST_STORED}")
        return gym.spaces.MultiBinary(stored["n"])
    raise ValueError(f"{kind} is not a kind of space")
