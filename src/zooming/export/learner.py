"""Write the learner of an `AdaptiveQ` as a C99 header: it goes on learning on a device.

The C code is the template `writers/learner.h`. The update rule is in C and in `kernels.boxes` both,
because no compiler makes readable C of the kernels. A test holds them together: in the double
build, tables and actions are equal in every bit over 100,000 episodes.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.files.device import BUILDS, ONE, VERSION, facts_of, layout, packed
from zooming.bonuses import Scaled
from zooming.errors import ConfigurationError
from zooming.export.forms import about
from zooming.export.writers.code import NUMBERS, c_code, c_literal, c_name
from zooming.kernels.boxes.budget import RECENT
from zooming.kernels.boxes.layout import BOUND_TOLERANCE
from zooming.spaces.names import printable_names
from zooming.validation import check_int

# Rows have 16 bits. The integer build checks the clock of each at least every 32,000 episodes.
MOST_ROWS = {"double": 65_000, "float": 65_000, "int": 32_000}
DEEPEST = {"double": 24, "float": 24, "int": 14}  # cuts along an axis that a ball can hold
LEAST_UNITS, MOST_UNITS = 1024, 65_535  # of an axis in the integer build
WIDTH = 160  # of the lines of a table
HEAD_BYTES = 16  # of a slot, before the facts


def learner_header(
    agent: Any, name: str, number: str = "double", scale: float = 1.0, pending: int = 0
) -> str:
    """Return the text of a C99 header that continues the learning of an agent."""
    name = c_name(name, number, scale)
    pending = check_int(pending, "pending", 0, 4096)
    _check(agent, number)
    plan = _plan(agent, number, scale, pending)
    parts = {
        "int": number == "int", "real": number != "int", "pending": pending > 0,
        "clips": any(axis.clips for axis in plan["axes"]), "refuse": agent.rewards != "clip",
        "shared": agent.steps_per_partition > 1, "memory": agent.memory is not None,
        "single": number == "double" and any(axis.single for axis in plan["actions"]),
    }  # fmt: skip
    return c_code("learner.h", name, parts, plan, plan["heading"])


def _check(agent: Any, number: str) -> None:
    """Raise ConfigurationError if an agent has no learner in C, with the reason."""
    if type(agent).__name__ != "AdaptiveQ":
        raise ConfigurationError(
            f"{type(agent).__name__} has no learner in C; only AdaptiveQ has one. Export its "
            "policy: leave out learner=True"
        )
    if agent.max_balls is None:
        raise ConfigurationError(
            "a learner in C has a fixed memory: make the agent with max_balls, for example "
            "AdaptiveQ(env, max_balls=64)"
        )
    n_rows, most = 2 * agent.max_balls, MOST_ROWS[number]
    for is_wrong, what in (
        (not isinstance(agent.bonus, Scaled), f"bonus={agent.bonus}: give a number"),
        (agent.action != "center", f'action={agent.action!r}: give "center"'),
        (agent.split != "all", f'split={agent.split!r}: give "all"'),
        (n_rows > most, f"max_balls={agent.max_balls}: give at most {most // 2:,}"),
        (agent.horizon > 10_000, f"horizon={agent.horizon}: give at most 10,000"),
        (agent.steps_per_partition > 255, "more than 255 steps in a partition: give more balls"),
        (len(agent.axes) > 12, f"{len(agent.axes)} axes: give at most 12"),
    ):
        if is_wrong:
            raise ConfigurationError(f"a learner in C does not have {what}")
    for i in range(len(agent.axes)):
        axis = agent.axes[i]
        if axis.kind != "interval" or axis.squash is not None or axis.weight != 1.0:
            raise ConfigurationError(
                f"a learner in C has only intervals of weight 1 as axes, and {axis.name} is "
                f"{'squashed' if axis.squash is not None else axis.kind}, of weight {axis.weight:g}"
            )
        if axis.single and abs(axis.low) + abs(axis.high) > 16 * (axis.high - axis.low):
            raise ConfigurationError(
                f"{axis.name} runs from {axis.low:g} to {axis.high:g}: float32 is too coarse there "
                "for a learner in C; use float64"
            )


def _plan(agent: Any, number: str, scale: float, pending: int) -> dict[str, Any]:
    """Return the parts of a header: heading, constants, types, tables, and the axes."""
    axes = [agent.axes[i] for i in range(len(agent.axes))]
    horizon, n_state, n_axes = agent.horizon, agent.axes.n_state, len(axes)
    trees, together = agent.n_roots, agent.steps_per_partition
    roots = trees + trees % 2
    n_rows = roots + 2 * (agent.max_balls - trees)
    bonus, (low, high) = float(agent.table.core["bonus"][0]), agent.reward_range
    ceiling = [float(kernels.ceiling(agent.table.core, step)) for step in range(horizon)]
    shift, fine = (0, 0) if number != "int" else _shifts(agent, scale, bonus, ceiling)
    units = scale * 2.0**-shift if number == "int" else 1.0
    first, facts = packed(agent, number, n_rows, units), facts_of(agent, units)
    row, pair, front = layout(number, n_axes, together)
    head, tail = HEAD_BYTES + len(facts), front.size + 4
    slot = head + tail + pair.itemsize * (n_rows // 2)
    n_bytes = _struct_bytes(row, n_rows, n_axes, number, pending, together)
    kind = NUMBERS[number]
    n_action = n_axes - n_state
    act, learn = most_reads(agent.max_balls, trees, n_axes, n_action, number)
    ends = _ends(axes, number, scale)
    numbers = {
        "HORIZON": horizon, "TREES": trees, "TOGETHER": together,
        "N_STATE": n_state, "N_ACTION": n_action, "N_AXES": n_axes,
        "MAX_BALLS": agent.max_balls, "ROOTS": roots, "ROWS": n_rows, "BYTES": n_bytes,
        "KEPT": row["cuts"].shape[0], "DEEPEST": DEEPEST[number],
        "STACK": min(n_rows, (DEEPEST[number] + 1) * max(n_action, n_axes - 1)), "MOST_ACT": act,
        "PENDING": pending, "HEAD": head, "SLOT": slot, "BLOCK": 2 * slot, "MOST_LEARN": learn,
    }  # fmt: skip
    numbers |= {} if agent.memory is None else {"MEMORY": agent.memory}
    large = {key: f"{value}u" for key, value in numbers.items() if value >= 2**15}
    numbers = {key: value for key, value in numbers.items() if key not in large}
    constants = {
        "ONE": ONE[number], "MOST_VISITS": "65535u" if number == "int" else "4294967295u",
        "AT(cut)": "(cut)" if number == "int" else "((zl_unit)(cut) / ZL_ONE)",
        "TIES": f"ZL_{agent.ties.upper()}",
        "LAST": "65535u" if number == "int" else 1,
        "MAGIC": "0x4D4F4F5Au", "VERSION": f"{VERSION | BUILDS.index(number) << 16}u",
        **large,
        "LENGTH(n)": f"({head + tail}u + {pair.itemsize}u * ((uint32_t)(n) / 2))",
        "BONUS": c_literal(bonus, kind), "REWARD_LOW": f"({c_literal(low, kind)})",
        "REWARD_HIGH": f"({c_literal(high, kind)})",
    }  # fmt: skip
    less = " - zl_to_come(mean, step)" if together > 1 else ""
    if together > 1:
        most = c_literal(max(abs(low), abs(high)), kind) if number != "int" else 2**31 // horizon
        numbers |= {"RECENT": RECENT, "FINE": 1}
        constants |= {"MOST_MEAN": most, "FINEST": 65_536 >> fine if number == "int" else 1}
    if number == "int":
        numbers["FINE"] = 1 << fine
        more = f"* {1 << fine - shift}" if fine >= shift else f"/ {1 << shift - fine}"
        constants |= {
            "LOWEST": "(-32769)", "REWARD(r)": f"((r) {more})",
            "BONUS": f"{round(bonus * units * 2**fine)}u",
            "REWARD_LOW": f"({math.floor(low * scale)})",
            "REWARD_HIGH": f"({math.ceil(high * scale)})",
        }  # fmt: skip
    else:
        constants |= {"LOWEST": "(-INFINITY)", "TOLERANCE": c_literal(BOUND_TOLERANCE, kind)}
        constants["SQRT"] = "sqrt" if number == "double" else "sqrtf"
    wide = {"int": "int32_t"}.get(number, kind)
    capped = [min(round(v * units), 32767) for v in ceiling] if number == "int" else ceiling
    tables = ends | {"ceiling": ("int16_t" if number == "int" else kind, np.array(capped))}
    random, episode, n_first, n_balls, *mean = front.unpack_from(first)
    pairs = np.frombuffer(first, pair, offset=front.size)
    first_mean = f", z->mean = {c_literal(mean[0], wide)}" if mean else ""
    if any(axis.clips for axis in axes):
        tables["clips"] = ("uint8_t", np.array([axis.clips for axis in axes], np.uint8))
    if number == "double" and any(axis.single for axis in axes[n_state:]):
        single = [axis.single for axis in axes[n_state:]]
        tables["is_single"] = ("uint8_t", np.array(single, np.uint8))
    tables["facts"] = ("unsigned char", np.frombuffer(facts, np.uint8))
    names = printable_names(agent.axes.names)
    unit = f", in whole units of {1 / scale:g}" if number == "int" else ""
    return {
        "less_int": less,
        "not_due": ("" if number == "int" else "least > 15 || ") + "n >> 2 * least == 0",
        "recent": "n" if agent.memory is None else "recent",
        "next_value": f"(next_value{less})" if less else "next_value",
        "first_random": f"{random}{'u' if number == 'int' else 'ull'}",
        "first_mean": first_mean,
        "first_episode": f"{episode}u",
        "first_rows": n_first,
        "first_balls": n_balls,
        "n_recent": "\n    int n_recent;" if less else "",
        "bad_mean": less and " || !(z->mean <= ZL_MOST_MEAN && z->mean >= -ZL_MOST_MEAN)",
        "paid": "ZL_REWARD(reward) * ZL_FINEST" if number == "int" else "reward",
        "axes": axes,
        "actions": axes[n_state:],
        "heading": [
            f"A learner: {about(agent)}, in C99. It goes on learning.",
            f"state: {', '.join(names[:n_state])}{unit}",
            f"action: {', '.join(names[n_state:])}{unit}",
            f"reward: from {low:g} to {high:g}{unit}; {horizon} steps, counted from 0",
            f"All memory is one struct of {n_bytes:,} bytes: {agent.max_balls:,} balls in "
            f"{n_rows:,} rows of {row.itemsize + 1} bytes.",
            f"A saved block has {2 * slot:,} bytes.",
            f"At most {act:,} comparisons for an action. Learning from a step takes at most "
            f"{learn:,},",
            "but at most twice as many as an action if it splits no ball, as most steps do not.",
        ],
        "constants": f"enum {_braced(f'ZL_{key}={value}' for key, value in numbers.items())};\n"
        + "\n".join(f"#define ZL_{key} {value}" for key, value in constants.items()),
        "types": _types(number, kind, wide),
        "tables": "\n".join(
            _array(kind, key, [c_literal(x, kind) for x in table])
            for key, (kind, table) in tables.items()
        ),
        "rows": _first_rows(pairs, kind),
    }


def _first_rows(pairs: NDArray[Any], kind: str) -> str:
    """Return the table of rows with which a learner begins."""
    rows = [
        f"{{{c_literal(row['value'], kind)},{row['visits']}u,{row['last']}u,"
        f"{{{','.join(map(str, row['cuts']))}}},{up}}}"
        for pair, parent in zip(pairs["row"], pairs["parent"], strict=True)
        for row, up in zip(pair, (parent & 255, parent >> 8), strict=True)
    ]
    return _array("zl_row", "first_rows", rows)


def most_reads(
    max_balls: int, trees: int, n_axes: int, n_action: int, number: str
) -> tuple[int, int]:
    """Return the most rows that an action reads, and that learning from a step reads.

    A tree has at most `n` inner rows, each of which a query reads once. It is at most `depth` deep,
    because each cut of an axis halves what can be cut again.
    """
    n = max_balls - trees
    depth, query = min(n, (DEEPEST[number] + 1) * n_axes), 2 * n + 1
    act = query + n_action * depth
    n_rows = trees + trees % 2 + 2 * n
    update = depth + 1 + query + depth  # find the ball, read V, keep the maxima
    victim = n_rows * (1 + depth + query)
    remove = depth + query + (n + 1) * depth
    return act, update + victim + remove + (n_axes + 1) * depth * (1 << n_axes)


def _struct_bytes(
    row: np.dtype[Any], n_rows: int, n_axes: int, number: str, pending: int, together: int
) -> int:
    """Return the size of the struct, with each field aligned to its own size."""
    word, point = row["visits"].itemsize, {"double": 8, "float": 4, "int": 4}[number]
    mean = [(point, 1)] if together > 1 else []
    ring = [(point, pending * n_axes), (2, 2 * pending + 1)] if pending else []
    each = _aligned([(row["value"].itemsize, 1), (word, 2), (1, row["cuts"].shape[0] + 1)])
    return _aligned([
        (row["value"].itemsize, n_rows * each // row["value"].itemsize),
        (4 if number == "int" else 8, 1), *mean, (4, 1), *ring, (2, 2),
    ])  # fmt: skip


def _aligned(fields: list[tuple[int, int]]) -> int:
    """Return the size of a struct of so many numbers (width, count), each aligned to its width."""
    size = 0
    for width, n in fields:
        size = math.ceil(size / width) * width + width * n
    largest = max(width for width, _ in fields)
    return math.ceil(size / largest) * largest


def _shifts(agent: Any, scale: float, bonus: float, ceiling: list[float]) -> tuple[int, int]:
    """Return (shift, fine): a unit of Q is 2^shift units of a reward and 2^fine of the arithmetic.

    Q has 16 bits, and the arithmetic of an update 32.
    """
    low, high = agent.reward_range
    most = max(abs(low), abs(high)) * agent.horizon + bonus
    shift = math.ceil(math.log2(most * scale / 32_000.0))
    n_terms = 5 if agent.steps_per_partition > 1 else 4
    room = 2.0**31 / (n_terms * 32_768 * (agent.horizon + 1))
    fine = min(8, math.floor(math.log2(room)), math.floor(math.log2(2.0**31 / 65_536)) - 1)
    if fine < 0 or shift - fine > 30 or fine - shift > 30:
        raise ConfigurationError(
            f"scale={scale:g}: a reward, or a horizon of {agent.horizon} steps, does not fit the "
            'integer build; give another scale, or number="float"'
        )
    while fine > 0 and bonus * scale * 2.0 ** (fine - shift) * 16 >= 2**31:
        fine -= 1
    return shift, fine


def _ends(axes: list[Any], number: str, scale: float) -> dict[str, tuple[str, NDArray[Any]]]:
    """Return the tables of the ends of the axes."""
    low, width = (np.array([getattr(axis, end) for axis in axes]) for end in ("low", "high"))
    if number != "int":
        return {"low": (NUMBERS[number], low), "width": (NUMBERS[number], width - low)}
    first, last = np.ceil(low * scale), np.floor(width * scale)
    for axis, a, b in zip(axes, first, last, strict=True):
        if not (LEAST_UNITS <= b - a <= MOST_UNITS and abs(a) < 2**30 and abs(b) < 2**30):
            raise ConfigurationError(
                f"scale={scale:g}: {axis.name} has {b - a:,.0f} units; give a scale with "
                f"{LEAST_UNITS:,} to {MOST_UNITS:,} units on each axis, for example "
                f"{MOST_UNITS // 2 / (axis.high - axis.low):.6g}"
            )
    return {"low": ("int32_t", first), "high": ("int32_t", last)}


def _array(kind: str, name: str, values: list[str]) -> str:
    """Return the definition of an array of C, in lines that are as full as possible."""
    return f"static const {kind} zl_{name}[{len(values)}] = {_braced(values)};"


def _braced(items: Iterable[str]) -> str:
    """Return items in braces."""
    text = ", ".join(items)
    lines = textwrap.wrap(text, WIDTH, break_on_hyphens=False)
    return "{\n" + "\n".join(lines) + "\n}" if len(text) > 96 else f"{{ {text} }}"


def _types(number: str, kind: str, wide: str) -> str:
    """Return the types of a build."""
    is_int = number == "int"
    value = "int16_t" if is_int else kind
    small, large = ("uint16_t", "uint32_t") if is_int else ("uint32_t", "uint64_t")
    own = {
        "number": kind, "value": value, "wide": wide, "word": small, "random": large,
        "field": large, "raw": "uint64_t" if number == "double" else small,
        "unit": small if is_int else kind, "score": "uint32_t" if is_int else kind,
    }  # fmt: skip
    return "".join(
        f"typedef {kind} {', '.join(f'zl_{name}' for name in own if own[name] == kind)};\n"
        for kind in dict.fromkeys(own.values())
    )
