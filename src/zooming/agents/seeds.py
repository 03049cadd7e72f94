"""Named random streams of one seed. Global generators are never used."""

from __future__ import annotations

import zlib

import numpy as np


def seed_sequence(seed: int, name: str) -> np.random.SeedSequence:
    """Return the stream `name` of a seed, which does not depend on other streams."""
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),))


def derive_seed(seed: int, name: str, dtype: type[np.unsignedinteger] = np.uint64) -> int:
    """Return the first integer of a stream, to seed a generator or an environment."""
    return int(seed_sequence(seed, name).generate_state(1, dtype)[0])
