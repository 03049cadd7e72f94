"""Traces of requests: a reader for CSV files, and summaries.

A trace has one row per request: its time, the number of the object (or address) and its size. The
generator of the shipped trace alternates two phases of random length. In a busy phase, object k of
N is requested with probability proportional to k^-0.9. In a scan, each request is for the object
after the last one, and requests come three times as fast. The size of an object is log-normal with
median 1 and stays the same. All problems of this room take their randomness from summaries of such
a trace.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zooming.errors import ConfigurationError
from zooming.validation import Floats, short_repr

COLUMNS = ("time", "object", "size")
SHIPPED = Path(__file__).with_name("requests.csv")  # as tests/test_traces.py makes it
TRACE = "CSV file with the columns time, object and size; by default the trace that is shipped"
LEAST = 64  # requests of a trace
HALF_LIFE = 256.0  # requests after which the count of an object is worth half


@dataclass(frozen=True)
class Trace:
    """Requests in the order of time: three arrays of one length."""

    time: Floats
    object: Floats
    size: Floats

    def classes(self, n_blocks: int, n_classes: int) -> Floats:
        """Return an array [n_blocks, n_classes, 3] of (score, request rate, size).

        The trace is cut into blocks. The requests of a block are sorted by score and cut into
        classes of equal number, whose means are returned. The count of an object is 1 plus its
        count at its last request, halved every `HALF_LIFE` requests: frequency, aged by recency.
        The rate is that count's share of all counts. The score is log(1 + count / size), divided by
        its largest value in the trace.
        """
        n = len(self.object)
        counts = np.empty(n)
        last: dict[float, int] = {}
        aged: dict[float, float] = {}
        for i, key in enumerate(self.object.tolist()):
            counts[i] = 1.0 + aged.get(key, 0.0) * 0.5 ** ((i - last.get(key, i)) / HALF_LIFE)
            last[key], aged[key] = i, counts[i]
        rates = (counts - 1.0) * math.log(2.0) / HALF_LIFE
        scores = np.log1p(counts / self.size)
        rows = np.column_stack([scores / scores.max(), rates, self.size])
        blocks = []
        for block in np.array_split(rows, n_blocks):
            ordered = block[np.argsort(block[:, 0], kind="stable")]
            blocks.append([part.mean(axis=0) for part in np.array_split(ordered, n_classes)])
        return np.array(blocks)

    def work(self, n_values: int, n_windows: int = 256) -> Floats:
        """Return the work that arrives in equal windows of time: quantiles, with mean 1."""
        ends = np.linspace(self.time[0], self.time[-1], n_windows + 1)[1:-1]
        work = np.bincount(np.searchsorted(ends, self.time), self.size, n_windows)
        return _quantiles(work / work.mean(), n_values)

    def runs(self, n_values: int, n_windows: int = 64) -> Floats:
        """Return the share of requests for the object after the last one: quantiles of windows."""
        follows = (np.diff(self.object) == 1.0).astype(np.float64)
        shares = [part.mean() for part in np.array_split(follows, n_windows)]
        return _quantiles(np.array(shares), n_values)


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace from a CSV file with the columns time, object and size.

    Other columns are ignored. Objects may have any names; numbers keep their order. A wrong line, a
    missing column or too few requests raise a ConfigurationError that names the line.

    Examples
    --------
    >>> from zooming.envs.gallery.systems.traces import SHIPPED, read_trace
    >>> trace = read_trace(SHIPPED)
    >>> len(trace.object), trace.runs(3).tolist()
    (2048, [0.0, 0.0, 0.484375])
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: give a CSV file in UTF-8 ({error})") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise ConfigurationError(f"{path}: no column {missing[0]!r}; a trace has {COLUMNS}")
    numbers: dict[str, float] = {}
    rows: list[tuple[float, float, float]] = []
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        time, size = (_finite(row[name], f"{where}: {name}") for name in ("time", "size"))
        if size <= 0.0 or (rows and time < rows[-1][0]):
            rule = "sizes must be positive" if size <= 0.0 else "times must not decrease"
            raise ConfigurationError(f"{where}: {rule}, got time {time:g}, size {size:g}")
        rows.append((time, _number_of(row["object"] or "", numbers), size))
    if len(rows) < LEAST or rows[-1][0] <= rows[0][0]:
        raise ConfigurationError(
            f"{path}: {len(rows)} requests; a trace has at least {LEAST}, at different times"
        )
    return Trace(*np.array(rows).T.copy())


@functools.cache
def shipped() -> Trace:
    """Return the trace that comes with the package."""
    return read_trace(SHIPPED)


def trace_of(path: str | os.PathLike[str] | None) -> Trace:
    """Return the trace of a file, or the shipped one for None."""
    return shipped() if path is None else read_trace(path)


def equal_weights(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in equal weights: all blocks or windows of a trace are equally likely."""
    weights[:] = 1.0


def _finite(text: str | None, what: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"{what}={short_repr(text)} is not a finite number")
    return number


def _number_of(name: str, numbers: dict[str, float]) -> float:
    """Return an object's number: its name, if that is a whole number, else a new number."""
    if name.isascii() and name.isdigit() and len(name) < 16:
        return float(name)
    return numbers.setdefault(name, -2.0 * len(numbers) - 2.0)


def _quantiles(values: Floats, n: int) -> Floats:
    """Return n equally likely values: the medians of n parts of equal number."""
    return np.asarray(np.quantile(values, (np.arange(n) + 0.5) / n))
