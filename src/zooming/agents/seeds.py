"""Named random streams from one seed; the global generators are never touched."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, name: str) -> np.random.SeedSequence:
    """The stream `name` of a seed: the same whatever other streams exist."""
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),))


def word(seed: int, name: str, dtype: type[np.unsignedinteger] = np.uint64) -> int:
    """One number from a stream, for generators and environments that are seeded with an integer."""
    return int(stream(seed, name).generate_state(1, dtype)[0])
