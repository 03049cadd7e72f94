"""The command `zooming report`: write one HTML file with all data, styles and scripts inline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming.agents.files import container as files
from zooming.errors import ConfigurationError
from zooming.export.pages import fill_page, plotly_script
from zooming.lab.report.collect import collect
from zooming.lab.study import modules

PACKAGE = "zooming.lab.report"
Imports = Annotated[
    tuple[str, ...], tyro.conf.arg(name="import", metavar="MODULE"), tyro.conf.UseAppendAction
]


def report(
    folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    out: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")] = None,
    imports: Imports = (),
) -> None:
    """Write an HTML page of a study or reproduction: tables, curves and the growth of partitions.

    The page works without a network.

    Args:
        folder: folder of a finished zooming run or zooming reproduce.
        out: file to write. By default report.html in the folder.
        imports: module that registers environments of the study. No other module that the folder
            names is imported.
    """
    path = Path(out or Path(folder) / "report.html")
    if not Path(folder).is_dir():
        raise ConfigurationError(
            f"there is no folder {folder}; zooming run ... --out {folder} makes one"
        )
    if path.is_dir():
        raise ConfigurationError(
            f"cannot write {path}: it is a folder; give the page a name: {path}/report.html"
        )
    try:
        files.writable_path(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    for module in imports:
        modules.import_named(module)
    data = collect(Path(folder))
    for problem in data["problems"]:
        if problem["why_not_made"]:
            print(f"no run is replayed of {problem['name']}: {problem['why_not_made']}")
    page = render_page(data)
    files.write_atomically(path, page.encode())
    print(f"{path}: {len(page) / 1e6:.1f} MB; open it in a browser")


def render_page(data: dict[str, Any]) -> str:
    """Return the HTML of the data from `collect`. Strings are inserted as data, never as markup."""
    return fill_page(PACKAGE, data, PLOTLY=plotly_script())
