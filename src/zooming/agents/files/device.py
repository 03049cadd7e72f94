"""The state of a learner in C (`export.learner`): its rows, the facts in its header, its blocks.

A block has two slots of equal size. A slot is, with the low byte first: MAGIC, its length, version
and build (2 bytes each), a sequence number, the facts, the learner, and the CRC-32 of all of that.
The newest slot with the right CRC counts. The device writes the other one, so a power cut at any
byte leaves a whole slot.

The facts are everything that a new `AdaptiveQ` needs but the environment. What learning never reads
is not on the device: `depth` of balls, and the visits of balls that were split.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import Any

import numpy as np

from zooming import kernels
from zooming.agents.files import registry
from zooming.errors import CheckpointError, ConfigurationError
from zooming.kernels import ACTIVE, NO_PARENT, STORED_BALL
from zooming.kernels.boxes.layout import LOW, SINGLE, WIDTH

MAGIC, VERSION = b"ZOOM", 2
BUILDS = ("double", "float", "int")
_HEAD = struct.Struct("<4sIHHI")  # magic, length, version, build, sequence
# horizon, axes of the state, of the action, max_balls; 1 for ties "first", cap "horizon", and
# clipped rewards; steps per partition, or 0 for 1; bonus, reward_range, units of Q per 1; memory
_FACTS = struct.Struct("<HBBHBBBBddddI")
_AXIS = struct.Struct(
    "<ddBB"
)  # low, width, 1: float32, 1: values beyond the ends count as the ends
_CRC = struct.Struct("<I")
ONE = {"double": 2**24, "float": 2**24, "int": 2**16}  # cuts are multiples of 1 / ONE
INNER = {"double": 128, "float": 128, "int": 15}  # marks the first byte, or half byte, of `cuts`
FINEST = 2**16  # parts of a unit of Q in which the integer build keeps the mean reward
OLDEST = 32767  # largest age of a ball in the integer build, whose clock has 16 bits


def layout(
    number: str, n_axes: int, together: int
) -> tuple[np.dtype[Any], np.dtype[Any], struct.Struct]:
    """Return the dtypes of a row and of two siblings in a block, and what comes before the rows."""
    is_int = number == "int"
    value = {"double": "<f8", "float": "<f4", "int": "<i2"}[number]
    word, n_kept = ("<u2", (n_axes + 1) // 2) if is_int else ("<u4", n_axes)
    row = np.dtype([("value", value), ("visits", word), ("last", word), ("cuts", "u1", (n_kept,))])
    return row, np.dtype([("row", row, (2,)), ("parent", "<u2")]), struct.Struct(
        ("<IIHH" if is_int else "<QIHH")
        + ({"double": "d", "float": "f", "int": "i"}[number] if together > 1 else "")
    )  # fmt: skip


def packed(agent: Any, number: str, none: int, units: float) -> bytes:
    """Return what an agent knows as a block of the build `number` has it.

    `none` is the parent of roots. `units` is the number of units of Q per 1 in the integer build.
    """
    table, core, n_axes = agent.table, agent.table.core, len(agent.axes)
    n = table.rows_in_use
    rows, episode = table.rows[:n], int(core["episode"][0])
    inner = rows["child"] != ACTIVE
    last, sides = table.stats[:n, -n_axes - 1], table.stats[:n, -n_axes:]
    cuts = np.zeros((n, n_axes), np.int64)
    used = ~inner & (sides > 0).all(axis=1)
    cuts[used] = np.rint(-np.log2(sides[used]))
    if cuts.max() > (14 if number == "int" else 24):
        raise ConfigurationError(
            f"number={number!r}: a ball was cut {cuts.max()} times along an axis, which this type "
            'cannot hold; export with number="double"'
        )
    row, pair, head = layout(number, n_axes, agent.steps_per_partition)
    value, visits, random = rows["value"], rows["n_visits"].astype(np.int64), int(core["random"][0])
    if number == "int":
        value = np.clip(np.rint(value * units), -32767, 32767)
        visits = np.minimum(visits, 65535)
        last = episode - np.minimum(episode - last, OLDEST)
        random = (random ^ random >> 32) & 0xFFFFFFFF or 1  # its generator has 32 bits, not all 0
    found = np.zeros(n, row)
    found["value"] = value
    cut = np.where(inner, rows["cut"], 0.0) * ONE[number]
    found["visits"] = np.where(inner, cut.astype(np.int64), visits)
    found["last"] = np.where(inner, rows["child"], last.astype(np.int64)) & (
        0xFFFF if number == "int" else 0xFFFFFFFF
    )
    if number == "int":
        for axis in range(n_axes):
            found["cuts"][:, axis // 2] |= (cuts[:, axis] << 4 * (axis % 2)).astype(np.uint8)
        found["cuts"][inner, 0] = 15 | rows["axis"][inner] << 4
    else:
        found["cuts"] = cuts
        found["cuts"][inner, 0] = 128 | rows["axis"][inner]
    pairs = np.zeros(n // 2, pair)
    parent = rows["parent"][::2]
    pairs["row"], pairs["parent"] = found.reshape(-1, 2), np.where(parent < 0, none, parent)
    n_balls = int(core["n_balls"][0])
    mean = float(core["mean_reward"][0])
    means = [round(mean * units * FINEST) if number == "int" else mean][
        : agent.steps_per_partition - 1
    ]
    return head.pack(random, episode & 0xFFFFFFFF, n, n_balls, *means) + pairs.tobytes()


def facts_of(agent: Any, units: float) -> bytes:
    """Return the facts of an agent, which its header and its blocks contain."""
    core, axes = agent.table.core, agent.axes
    head = _FACTS.pack(
        agent.horizon, axes.n_state, axes.n_action, agent.max_balls, agent.ties == "first",
        agent.cap == "horizon", agent.rewards == "clip", int(core["shared"][0]),
        float(core["bonus"][0]), *agent.reward_range, units, int(core["memory"][0]),
    )  # fmt: skip
    return head + b"".join(
        _AXIS.pack(axes.table[i, LOW], axes.table[i, WIDTH], axes[i].single, axes[i].clips)
        for i in range(len(axes))
    )


def is_block(content: bytes) -> bool:
    """Return whether the bytes of a file are a block of a device."""
    half = len(content) // 2
    return len(content) % 2 == 0 and (
        content.startswith(MAGIC) or content[half : half + 4] == MAGIC
    )


def load_block(path: str | os.PathLike[str], content: bytes, env: Any) -> Any:
    """Return the `AdaptiveQ` that a device's block holds.

    Raise CheckpointError if no slot is whole, or if the block does not fit `env`.
    """
    if env is None:
        raise CheckpointError(
            f"{path} is the block of a device, which does not name its environment; give it: "
            "zooming.load(path, env)"
        )
    half = len(content) // 2
    slots = [_slot(path, content[start : start + half]) for start in (0, half)]
    whole = [slot for slot in slots if slot is not None]
    if not whole:
        raise CheckpointError(f"{path}: both slots of the block are damaged or empty")
    first = whole[0]
    newest = whole[-1] if (whole[-1][0] - first[0]) & 0xFFFFFFFF < 1 << 31 else first
    return _agent_of(path, env, BUILDS[newest[1]], newest[2])


def _slot(path: Any, slot: bytes) -> tuple[int, int, bytes] | None:
    """Return (sequence, build, facts and learner) of a slot, or None if it is not whole."""
    if len(slot) < _HEAD.size + _CRC.size:
        return None
    magic, length, version, build, sequence = _HEAD.unpack_from(slot)
    if magic != MAGIC or not _HEAD.size + _CRC.size <= length <= len(slot):
        return None
    body = slot[: length - _CRC.size]
    if zlib.crc32(body) != _CRC.unpack_from(slot, len(body))[0]:
        return None
    if version != VERSION or build >= len(BUILDS):
        raise CheckpointError(
            f"{path}: version {version}, build {build} of a device's block; this zooming reads "
            f"version {VERSION}"
        )
    return sequence, build, body[_HEAD.size :]


def _agent_of(path: Any, env: Any, number: str, body: bytes) -> Any:
    (
        horizon, n_state, n_action, max_balls, first, full, clip, together, bonus, low, high, units,
        memory,
    ) = _FACTS.unpack_from(body)  # fmt: skip
    n_axes = n_state + n_action
    at = _FACTS.size
    axes = [_AXIS.unpack_from(body, at + i * _AXIS.size) for i in range(n_axes)]
    kind: Any = registry.find_class("AdaptiveQ")
    options = {
        "bonus": bonus, "horizon": horizon, "max_balls": max_balls, "reward_range": (low, high),
        "rewards": "clip" if clip else "refuse", "ties": "first" if first else "random",
        "cap": "horizon" if full else "remaining", "steps_per_partition": max(1, together),
        "memory": memory if memory < kernels.MAX_VISITS else None,
    }  # fmt: skip
    paths = [f"state[{i}]" for i in range(n_state)] + [f"action[{i}]" for i in range(n_action)]
    bounds = {
        name: (start, start + width)
        for name, (start, width, _, clips) in zip(paths, axes, strict=False)
        if clips
    }
    agent = kind(env, seed=0, **options, **({"bounds": bounds} if bounds else {}))
    found = agent.axes.table
    if (agent.axes.n_state, agent.axes.n_action) != (n_state, n_action):
        raise CheckpointError(
            f"{path} has {n_state} state and {n_action} action axes, but the environment has "
            f"{agent.axes.n_state} and {agent.axes.n_action}"
        )
    for i, (start, width, single, _) in enumerate(axes):
        if (found[i, LOW], found[i, WIDTH], found[i, SINGLE]) != (start, width, single):
            raise CheckpointError(
                f"{path}: {agent.axes.names[i]} is [{start:g}, {start + width:g}] on the device, "
                f"but [{found[i, LOW]:g}, {found[i, LOW] + found[i, WIDTH]:g}] in the environment"
            )
    _restore(path, agent, number, units, body[at + n_axes * _AXIS.size :])
    return agent


def _restore(path: Any, agent: Any, number: str, units: float, body: bytes) -> None:
    """Write the learner of a block into a new agent."""
    n_axes, core = len(agent.axes), agent.table.core.copy()
    _, pair, head = layout(number, n_axes, agent.steps_per_partition)
    random, episode, n, n_balls, *mean = head.unpack_from(body)
    if n % 2 or len(body) != head.size + n // 2 * pair.itemsize:
        raise CheckpointError(f"{path}: {len(body)} bytes do not hold {n} rows")
    pairs = np.frombuffer(body, pair, offset=head.size)
    rows = pairs["row"].reshape(-1)
    kept = rows["cuts"].astype(np.int64)
    if number == "int":
        cuts = np.stack([kept[:, i // 2] >> 4 * (i % 2) & 15 for i in range(n_axes)], axis=1)
        inner, axis = cuts[:, 0] == INNER[number], kept[:, 0] >> 4
    else:
        cuts, inner, axis = kept, kept[:, 0] >= INNER[number], kept[:, 0] & 127
    balls, stats = np.zeros(n, STORED_BALL), np.zeros((n, agent.table.stats.shape[1]))
    n_roots = agent.n_roots
    balls["value"] = rows["value"].astype(np.float64) / (units if number == "int" else 1.0)
    balls["child"] = np.where(inner, rows["last"], ACTIVE).astype(np.int32)
    balls["axis"] = np.where(inner, axis, 0)
    balls["parent"] = np.repeat(pairs["parent"].astype(np.int32), 2)
    balls["parent"][: n_roots + n_roots % 2] = NO_PARENT
    used = ~inner & ((np.arange(n) != n_roots) | (n_roots % 2 == 0))
    age = (episode - rows["last"].astype(np.int64)) % (1 << 16 if number == "int" else 1 << 32)
    stats[used, -n_axes - 1] = np.maximum(episode - age[used], 0)
    stats[used, -n_axes:] = 0.5 ** cuts[used]
    due = [kernels.due_after(core, float(side)) for side in stats[used, -n_axes:].max(axis=1)]
    balls["threshold"][used] = due
    balls["threshold"][inner] = rows["visits"][inner] / ONE[number]
    balls["depth"][used] = cuts[used].max(axis=1)
    balls["n_visits"] = np.where(inner, 0, rows["visits"])
    core["n_rows"], core["n_balls"], core["random"], core["episode"] = n, n_balls, random, episode
    core["mean_reward"] = mean[0] / (units * FINEST if number == "int" else 1.0) if mean else 0.0
    try:
        agent.table.restore({"core": core, "balls": balls, "stats": stats})
    except (ValueError, IndexError) as error:
        raise CheckpointError(f"{path}: the block is not a learner's ({error})") from error
