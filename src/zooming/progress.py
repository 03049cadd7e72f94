"""Progress bars: rich's in a terminal, one line of text updated in place in a notebook."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from zooming.notebook import in_notebook

SECONDS = 0.1  # between two updates of a notebook's line
WIDTH = 100  # characters of that line


def progress(*columns: Any, **options: Any) -> Any:
    """Return a `rich.progress.Progress` that works in a notebook without ipywidgets.

    In a notebook rich shows its bars through ipywidgets and warns if that is missing. This function
    renders into memory instead, and IPython's display updates the text in place.
    """
    from rich.console import Console
    from rich.progress import Progress

    if not in_notebook():
        return Progress(*columns, **options)
    display: Any = sys.modules["IPython"].display  # imported, because a notebook is running

    class Line(Progress):
        handle: Any = None
        updated = -SECONDS

        def update(self, *arguments: Any, **fields: Any) -> None:
            super().update(*arguments, **fields)
            if time.monotonic() - self.updated >= SECONDS:
                self.show()

        def show(self) -> None:
            console = Console(
                file=io.StringIO(), width=WIDTH, force_jupyter=False, force_terminal=False
            )
            with console.capture() as captured:
                console.print(self.get_renderable())
            line = captured.get().rstrip()
            data = {"text/plain": line, "text/html": f'<pre style="margin:0">{escape(line)}</pre>'}
            if self.handle is None:
                self.handle = display.display(data, raw=True, display_id=True)
            else:
                self.handle.update(data, raw=True)
            self.updated = time.monotonic()

        def stop(self) -> None:
            super().stop()
            self.show()  # show the final state, also after an error

    nowhere = Console(file=io.StringIO(), force_jupyter=False, force_terminal=False)
    return Line(*columns, console=nowhere, auto_refresh=False, **options)


@contextmanager
def counted(
    what: str, total: int, shown: bool, text: str = "", fields: Callable[[], dict[str, Any]] = dict
) -> Iterator[Callable[[int], None]]:
    """Show a bar of `total` things, if `shown`. Yield a function that advances it.

    `text` follows the bar, and may name the `fields`.
    """
    if not shown:
        yield lambda n: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError("progress_bar=True needs rich: pip install 'zooming[lab]'") from error
    columns = TextColumn("{task.description}"), BarColumn(16), MofNCompleteColumn()
    with progress(*columns, TimeRemainingColumn(), TextColumn(text)) as bar:
        task = bar.add_task(what, total=total, **fields())
        yield lambda n: bar.update(task, advance=n, **fields())
