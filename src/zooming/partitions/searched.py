"""The ball table of a search: one partition for all steps, and a copy of the best one so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.kernels import BALL, STORED_BALL, searching
from zooming.kernels.records import pack
from zooming.kernels.searching import STATE, Search
from zooming.partitions.boxes import BoxTable, allocate
from zooming.partitions.faults import fault
from zooming.spaces.axes import Axes
from zooming.validation import Floats

_COUNTS = (
    "turn",
    "n_splits",
    "n_trained",
    "n_evaluated",
    "n_copies",
    "kept_rows",
    "kept_balls",
    "n_balls",
)


class SearchTable(BoxTable):
    """The boxes of a search. `search` is a `kernels.searching.STATE` record, `kept` the copy.

    Before the first evaluations are done, there is no copy, and `search["n_copies"]` is 0.
    """

    _episodes = searching.KERNELS
    _queries = searching.QUERIES

    def __init__(
        self,
        axes: Axes,
        core: NDArray[Any],
        rows: NDArray[Any],
        stats: Floats | None = None,
        rule: Any = "all",
        search: NDArray[Any] | None = None,
        kept: NDArray[Any] | None = None,
    ) -> None:
        self.search = np.zeros(1, STATE) if search is None else search
        self.kept = allocate(len(rows)) if kept is None else kept
        super().__init__(axes, core, rows, stats, rule)

    def start(
        self, n_evaluations: int, temperature: float, growth: float, damping: float, patience: int
    ) -> None:
        """Write the options of the search. It begins with evaluations of the first table."""
        now = self.search
        now["turn"], now["n_evaluations"], now["patience"] = 1, n_evaluations, patience
        now["temperature"] = now["first_temperature"] = temperature
        now["growth"], now["damping"], now["best"] = growth, damping, -np.inf
        now["n_balls"] = self.core["n_balls"]

    def best(self) -> BoxTable:
        """Return the best table so far.

        Before the first evaluation, it is the table in training.
        """
        n = int(self.search["kept_rows"][0])
        if not self.search["n_copies"][0]:
            return self
        core = self.core.copy()
        core["n_rows"], core["n_balls"] = n, self.search["kept_balls"]
        return BoxTable(self.axes, core, self.kept[:n], rule=self.rule)

    # --- size -------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self.search["kept_rows"][0]) * BALL.itemsize

    def _grown(self, n_rows: int) -> dict[str, Any]:
        kept = allocate(n_rows)
        kept[: len(self.kept)] = self.kept
        return {"kept": kept}

    def _handle_of_more(self, more: dict[str, Any]) -> Any:
        return pack(Search(self.search, more.get("kept", self.kept)))

    def copy(self) -> SearchTable:
        copied = super().copy()
        assert isinstance(copied, SearchTable)
        n = max(len(copied.rows), int(self.search["kept_rows"][0]))
        copied.search[:] = self.search
        copied.reserve(n - copied.rows_in_use)
        n = int(self.search["kept_rows"][0])
        copied.kept[:n] = self.kept[:n]
        return copied

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        n = int(self.search["kept_rows"][0])
        return {**super().state(), "search": self.search, "kept": self.kept[:n].view(STORED_BALL)}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        search, stored, fresh = arrays["search"], arrays["kept"], self.search
        if search.dtype != STATE or search.shape != (1,) or stored.dtype != STORED_BALL:
            raise ValueError("the search has another layout")
        for name in ("n_evaluations", "patience", "first_temperature", "damping"):
            if search[name][0] != fresh[name][0]:
                raise ValueError(
                    f"{name} is {search[name][0]}, but {fresh[name][0]} in the options"
                )
        now, n = search[0], len(stored)
        is_search = (
            all(now[name] >= 0 for name in _COUNTS)
            and now["turn"] <= now["n_evaluations"]
            and now["kept_rows"] == n
            and (now["n_copies"] > 0) == (n > 0) == bool(np.isfinite(now["best"]))
            and 0.0 < now["temperature"] < np.inf
            and 1.0 <= now["growth"] < np.inf
            and np.isfinite(now["total"])
        )
        if not is_search:
            raise ValueError("the numbers of the search contradict each other")
        kept = allocate(n)
        kept.view(STORED_BALL)[:] = stored
        core = arrays["core"].copy()
        core["n_rows"], core["n_balls"] = n, now["kept_balls"]
        found = fault(core, kept, np.zeros((0, int(core["n_stats"][0]))), self.axes.table)
        if n and found:
            raise ValueError(f"the copy of the best table is invalid: {found}")
        super().restore(arrays)
        self.reserve(n - self.rows_in_use)
        self.kept[:n] = kept
        self.search[:] = search
