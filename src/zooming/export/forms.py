"""Base class of the forms of a policy: axes, facts for the head of a file, and tables.

A form computes the action with plain arithmetic on tables. `DecisionTree` compares and looks up.
`ActionGrid` also interpolates. The writers of the formats write the tables of either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zooming.spaces.names import column_names, printable, printable_names
from zooming.validation import Floats, count_noun

WHOLE_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64)


@dataclass(frozen=True, kw_only=True)
class PolicyForm(ABC):
    """The policy of an agent as tables.

    Attributes
    ----------
    state_names, action_names : tuples of str
        Names of the axes, as printable text.
    state_columns, action_columns : tuples of str
        Names of the columns of the axes in SQL, as in a log.
    state_is_whole, action_is_whole : tuples of bool
        Whether an axis has integers only.
    squash : array [n_squashed, 5]
        Rows (axis, origin, scale, offset, gain) of the squashed state axes. Before anything else,
        a state x on such an axis becomes offset + gain * (z / (1 + |z|)), z = (x - origin) / scale.
    about : str
        One printable line that says which agent and environment the policy comes from.
    """

    kind: ClassVar[str]  # name of the form in files
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    state_columns: tuple[str, ...]
    action_columns: tuple[str, ...]
    state_is_whole: tuple[bool, ...]
    action_is_whole: tuple[bool, ...]
    squash: Floats
    about: str

    @property
    @abstractmethod
    def horizon(self) -> int: ...

    @property
    @abstractmethod
    def depth(self) -> int:
        """The largest number of comparisons that an action takes."""

    @abstractmethod
    def own_tables(self) -> dict[str, NDArray[Any]]:
        """Return the tables of this form by name."""

    @abstractmethod
    def facts(self) -> list[str]:
        """Return lines that describe the tables, for the comment at the head of a file."""

    def tables(self) -> dict[str, NDArray[Any]]:
        """Return all tables by name, with integers in the smallest type that holds them."""
        found = {"squash": self.squash} if len(self.squash) else {}
        return {name: narrow(table) for name, table in {**found, **self.own_tables()}.items()}

    def describe(self, n_bytes: int | None = None) -> list[str]:
        """Return the lines at the head of every file. `n_bytes` is the size of the tables."""
        if n_bytes is None:
            n_bytes = sum(table.nbytes for table in self.tables().values())
        return [
            self.about,
            f"state: {', '.join(self.state_names)}",
            f"action: {', '.join(self.action_names)}",
            *self.facts(),
            f"At most {self.depth} comparisons for an action, tables of {n_bytes:,} bytes in C",
            "A state outside the space gets the action of the nearest region.",
        ]


def narrow(table: Any) -> NDArray[Any]:
    """Return a table with integers in the smallest type that holds them.

    >>> narrow([1, -2]).dtype, narrow([200, 0]).dtype, narrow([-1, 200]).dtype
    (dtype('int8'), dtype('uint8'), dtype('int16'))
    """
    table = np.asarray(table)
    if table.dtype.kind == "f":
        return np.asarray(table, np.float64)
    low, high = (int(table.min()), int(table.max())) if table.size else (0, 0)
    ranges = [np.iinfo(kind) for kind in WHOLE_TYPES]
    return np.asarray(table, next(one.dtype for one in ranges if one.min <= low <= high <= one.max))


def recommended(agent: Any) -> Any:
    """Return the agent whose policy `agent` plays: the agent itself, or one inside it."""
    while hasattr(agent, "recommended"):
        agent = agent.recommended
    return agent


def about(agent: Any) -> str:
    """Return a line that names the agent and the environment of a policy."""
    name, n = printable(agent.env_name), count_noun(agent.n_episodes, "episode")
    return f"{getattr(agent, 'title', type(agent).__name__)} on {name} after {n}"


def head_of(axes: Any, about: str, *, squashes: bool = True) -> dict[str, Any]:
    """Return the attributes that all forms share. Without `squashes`, no state axis is squashed."""
    n_state, names = axes.n_state, printable_names(axes.names)
    state_columns, action_columns = column_names(axes.names, n_state)
    is_whole = [kind != "interval" for kind in axes.kinds]
    rows = [(i, *squash_of(axes[i])) for i in range(n_state) if squashes and axes[i].squash]
    return {
        "state_names": names[:n_state],
        "action_names": names[n_state:],
        "state_columns": state_columns,
        "action_columns": action_columns,
        "state_is_whole": tuple(is_whole[:n_state]),
        "action_is_whole": tuple(is_whole[n_state:]),
        "squash": np.array(rows, np.float64).reshape(-1, 5),
        "about": about,
    }


def squash_of(axis: Any) -> tuple[float, float, float, float]:
    """Return (origin, scale, offset, gain) of a squashed axis, as `kernels.bend` computes it.

    `kernels.bend` has three cases. This formula equals each of them to the last bit, because
    multiplying by 1/2 or by a sign does not round.
    """
    if np.isfinite(axis.low):
        return axis.low, axis.squash, 0.0, 1.0
    if np.isfinite(axis.high):
        return axis.high, axis.squash, 1.0, 1.0
    return 0.0, axis.squash, 0.5, 0.5
