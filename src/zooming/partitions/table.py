"""The interface of a ball table, which a `QLearner` uses for boxes and for balls of a metric.

A table has the balls of one agent for all steps. Points are flat vectors, as `Axes.flat_state` and
`Axes.flat_action` return them. A method that reads points answers with a code and a payload.
`select` and `locate` return both. `act`, `update` and `next_step` return the code and leave the
payload in `payload`, because returning a pair to Python would take 0.2 us longer. Nothing changes
with the last three codes.

- FINE, row: the ball that was found or updated;
- DUE, row: the ball of a metric was updated and must be split by `BallTable.split(row)`;
- BAD_STATE, i: coordinate i of (state, action, next state) is invalid;
- WRONG_SIZE: a vector has another length;
- NOT_PLAYED: the table did not play the last action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zooming.kernels import EITHER, FINE, FULL, PAYLOAD, ceiling
from zooming.spaces.axes import Axes
from zooming.spaces.masks import Allowed, Feasible
from zooming.validation import Floats, Ints

Answer = tuple[int, int]
_MADE_ANEW = {  # attributes that a copy makes for itself
    "episode_kernels", "handle", "_place", "_scratch", "_beside", "_act", "_update", "next_step",
    "play", "replay",
}  # fmt: skip


def _kernel(name: str) -> cached_property[Callable[..., int]]:
    """Return a property that compiles a kernel of the table when it is first used."""
    return cached_property(lambda table: getattr(table.episode_kernels, name)())


class Table(ABC):
    """The balls of one agent: one record per ball in `rows`, and one record `core`."""

    axes: Axes
    core: NDArray[Any]  # a `kernels.CORE` record: sizes, options and random numbers
    rows: NDArray[Any]
    stats: Floats  # numbers that some bonuses keep per ball; empty for others
    handle: Any  # all arrays for the kernels, see `kernels.loop.crossing`
    episode_kernels: Any  # the `kernels.loop.episodes.Kernels` of this kind of table
    _place: Ints  # see `kernels.boxes.layout.KEPT_STEP`

    # --- learning ---------------------------------------------------------------------------------

    @abstractmethod
    def select(
        self,
        step: int,
        state: Floats,
        action: Floats,
        *,
        ties: int,
        rule: int,
        allowed: Feasible | None = None,
        core: NDArray[Any] | None = None,
    ) -> Answer:
        """Find the relevant ball with the largest Q, and write its action into `action`.

        With `allowed`, only balls with a feasible action are relevant. Random numbers are drawn
        from `core`, by default the table's own.
        """

    def act(self, step: int, state: Floats, action: Floats, keeps: bool = False) -> int:
        """Select a ball and write its action, as in training. Return the code.

        With `keeps`, the choice is stored, and `next_step` continues from it.
        """
        return self._act(self.handle, step, state, action, keeps)

    def select_many(
        self,
        steps: Ints,
        states: Floats,
        actions: Floats,
        *,
        rule: int,
        allowed: Allowed,
        core: NDArray[Any],
        ties: int = EITHER,
    ) -> tuple[int, int]:
        """Write the action of the best ball for each (step, state) into `actions`.

        Return (-1, -1), or (k, i) if coordinate i of state k is invalid.
        """
        for k, step in enumerate(steps.tolist()):
            code, i = self.select(
                step, states[k], actions[k], ties=ties, rule=rule, allowed=allowed[k], core=core
            )
            if code != FINE:
                return k, i
        return -1, -1

    @abstractmethod
    def locate(self, step: int, state: Floats, action: Floats) -> Answer:
        """Find the ball whose domain contains (state, action)."""

    def update(self, *transition: Any) -> int:
        """Learn from (step, state, action, reward, next state, terminated, next value).

        Return the code. If the next value is not NaN, it is used as V of the next state.
        """
        while (code := self._update(self.handle, *transition)) == FULL:
            self._make_room_for_a_split()
        return code

    @property
    def payload(self) -> int:
        """The payload of the last call of `act`, `update` or `next_step`."""
        return int(self._place[PAYLOAD])

    @abstractmethod
    def _make_room_for_a_split(self) -> None:
        """Make room for one split, after `update` has answered FULL."""

    @abstractmethod
    def make_room(self) -> None:
        """Make room for the splits of some episodes, after a kernel has answered FULL."""

    # The kernels of `kernels.loop.episodes`.
    play = _kernel("play")
    next_step = _kernel("next_step")
    replay = _kernel("replay")
    _act = _kernel("act_once")
    _update = _kernel("update")

    # --- copies -----------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Make scratch memory and the handle for the kernels."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.prepare()

    # --- what was learned -------------------------------------------------------------------------

    @abstractmethod
    def view(self, step: int) -> Any:
        """Return the active balls of a step as arrays."""

    def value(self, step: int, row: int) -> float:
        """Return Q of a ball, capped by the largest possible return."""
        return min(float(ceiling(self.core, step)), float(self.q_values(step, row)))

    def q_values(self, step: int, rows: Any) -> Any:
        """Return Q of a ball, or of an array of balls."""
        return self.rows["value"][rows]

    @property
    def n_balls(self) -> int:
        """Number of active balls, all steps together."""
        return int(self.core["n_balls"][0])

    @property
    def rows_in_use(self) -> int:
        """Number of rows in use."""
        return int(self.core["n_rows"][0])

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Size in bytes, without reserved rows."""

    @abstractmethod
    def reserve(self, n_rows: int) -> None:
        """Make room for `n_rows` more rows."""

    @abstractmethod
    def copy(self) -> Self:
        """Return an independent table with the same balls."""

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save, by name."""
        n = self.rows_in_use
        return {"core": self.core, "balls": self.rows[:n], "stats": self.stats[:n]}

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restore what `state` returned. Raise ValueError or KeyError if it is invalid."""


def n_roots(core: NDArray[Any]) -> int:
    """Return the number of partitions: one per step, or for so many steps as share one."""
    return -(-int(core["horizon"][0]) // max(1, int(core["shared"][0])))


def root_values(core: NDArray[Any]) -> Floats:
    """Return the initial Q of each root: the largest possible return from its step on."""
    steps = range(0, int(core["horizon"][0]), max(1, int(core["shared"][0])))
    return np.array([ceiling(core, step) for step in steps])
