"""The command `zooming desk`: print what happens at a desk, and write it as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from zooming.agents.files.container import write_atomically
from zooming.desk.desk import Desk
from zooming.desk.page import page


def show_desk(
    place: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PLACE")],
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    verify: bool = False,
) -> None:
    """Print what happens at a desk, and write it as a page.

    The page works without a network. Nothing is changed, and nothing is learned.

    Args:
        place: file of the desk, or postgresql://...
        out: HTML file to write. By default the name of the file, ending in .html.
        verify: replay the log, and compare the result with the last snapshot.
    """
    is_url = "://" in place
    path = Path(out) if out else Path("desk.html" if is_url else place).with_suffix(".html")
    with Desk.open(place, learner="elsewhere") as desk:
        print(desk.status())
        if verify:
            found = desk.verify()
            print(f"verified: {found.n_events:,} events give the same {found.n_bytes:,} bytes")
        write_atomically(path, page(desk).encode())
    print(f"{path}: open it in a browser")
