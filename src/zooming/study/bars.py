"""Show the progress bar of a study."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from zooming.study.chunks import Chunk
from zooming.study.stored import StoredOptimum


@contextmanager
def show_progress(total: int, done: int, shown: bool) -> Iterator[Any]:
    """Show a progress bar of runs, if `shown`. Yield a function that advances it by a chunk."""
    if not shown:
        yield lambda *news: None
        return
    from rich.markup import escape

    began, steps = time.perf_counter(), 0
    with progress_line("runs") as progress:
        task = progress.add_task("", total=total, completed=done)

        def show(
            chunk: Chunk, arrays: dict[str, NDArray[Any]], optimum: StoredOptimum | None
        ) -> None:
            nonlocal steps
            steps += int(arrays["horizon"].sum()) * chunk.episodes
            per_second = steps / (time.perf_counter() - began)
            speed = (
                f"{per_second / 1e6:.1f} M steps/s"
                if per_second >= 1e5
                else f"{per_second:,.0f} steps/s"
            )
            against = "" if optimum is None else f" of {optimum.return_:.3f}"
            news = (
                f"{chunk.agent.label} on {chunk.problem.name}: "
                f"{arrays['final_return'].mean():.3f}{against}"
            )
            progress.update(task, advance=chunk.n_runs, description=escape(f"{speed}, {news}"))

        yield show


def progress_line(unit: str) -> Any:
    """Return a progress bar with count, time left, and a description in the rest of the line."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.table import Column

    from zooming.progress import progress

    news = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    return progress(
        BarColumn(16), MofNCompleteColumn(), unit, TimeRemainingColumn(), news, expand=True
    )
