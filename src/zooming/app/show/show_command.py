"""The command `zooming show`: write a policy as one HTML file with everything inline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming.agents import files
from zooming.app.pages import fill_page
from zooming.app.show.page_data import collect
from zooming.app.targets import Target, one_target
from zooming.errors import ConfigurationError
from zooming.validation import check_int


def show_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    target: Target = None,
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    episodes: int = 10,
    env: str | None = None,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
) -> None:
    """Write an HTML page on which a person moves the state and sees what the policy does.

    The page works without a network.

    Args:
        file: file written by agent.save().
        target: HTML file to write. By default the name of the file, ending in .html.
        out: the same as an option.
        episodes: episodes of the policy to step through, 0 for none.
        env: environment of the agent: a preset, a Gymnasium id, or module:Id of your own, as for
            zooming run. Needed for the episodes if the environment is not one of zooming's own.
        set: options of the environment. Requires --env.
    """
    import zooming
    from zooming.study.problems import problem_named, settings_from

    if set and env is None:
        raise ConfigurationError("--set requires --env")
    path = Path(one_target(target, out) or Path(file).with_suffix(".html"))
    if path.suffix not in (".html", ".htm"):
        raise ConfigurationError(f"{path}: give the page a name that ends in .html")
    check_int(episodes, "episodes", 0, 1000)
    try:
        files.writable_path(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    agent = zooming.load(
        file, None if env is None else problem_named(env, settings_from(set)).make()
    )
    page = render(collect(agent, episodes))
    files.write_atomically(path, page.encode())
    print(f"{path}: {len(page):,} bytes; open it in a browser")


def render(data: dict[str, Any]) -> str:
    """Return the HTML of the data from `collect`. Strings are inserted as data, never as markup."""
    return fill_page("zooming.app.show", data)
