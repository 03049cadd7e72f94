"""Convert the runs of several agents to samples that plots can draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.agents.history import History
from zooming.analysis.intervals import t_quantile
from zooming.errors import ConfigurationError
from zooming.plots.curve_data import NOT_VALUED, Runs
from zooming.validation import Floats

Group = Runs | Sequence[History] | ArrayLike


def label_groups(groups: Any, kind: type) -> dict[str, Any]:
    """Return {label: runs of one agent}. If `groups` is not a dict, the label is empty.

    A single object of type `kind` becomes a list of one.
    """
    named = dict(groups) if isinstance(groups, Mapping) else {"": groups}
    if not named:
        raise ConfigurationError("give the runs of at least one agent")
    return {label: [one] if isinstance(one, kind) else one for label, one in named.items()}


def as_runs(group: Group) -> Runs:
    """Convert the histories or returns of one agent to `Runs`. Return `Runs` unchanged."""
    if isinstance(group, Runs):
        return group
    if isinstance(group, Sequence) and any(isinstance(one, History) for one in group):
        return Runs.of_histories([one for one in group if isinstance(one, History)])
    # Not a history: an array, or an error there.
    return Runs.of_returns(group)  # type: ignore[arg-type]


def check_valued(runs: Runs) -> None:
    """Raise ConfigurationError if the policies of these runs have no exact values."""
    if not runs.policy_values.size:
        raise ConfigurationError(NOT_VALUED)


def bin_returns(runs: Runs, n_bins: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return for each bin its middle episode, the mean return of each run, and its size."""
    edges = bin_edges(runs.episode, n_bins)
    start = np.concatenate([[0], runs.episode])
    total = np.concatenate([np.zeros((runs.n_seeds, 1)), runs.total_return], axis=1)
    widths = np.diff(start[edges])
    middle = (start[edges[:-1]] + start[edges[1:]] + 1) / 2  # episodes count from 1
    return middle, np.diff(total[:, edges], axis=1) / widths, widths


def bin_edges(episode: NDArray[np.int64], n_bins: int) -> NDArray[np.int64]:
    """Return the columns at which bins begin and end. A bin has at least K / n_bins episodes."""
    if n_bins < 1:
        raise ConfigurationError(f"n_bins={n_bins}: give at least one bin")
    width, last = max(1, math.ceil(episode[-1] / n_bins)), 0
    edges = [0]
    while (column := int(np.searchsorted(episode, last + width))) < len(episode):
        edges.append(column + 1)
        last = int(episode[column])
    edges[max(1, len(edges) - 1) :] = [len(episode)]
    return np.array(edges)


def half_interval(samples: Floats) -> Floats | float:
    """Return half the width of the 95 % interval of the mean over the first axis; 0 for one run."""
    n = len(samples)
    if n < 2:
        return 0.0
    half: Floats = t_quantile(0.975, n - 1) * samples.std(axis=0, ddof=1) / math.sqrt(n)
    return half
