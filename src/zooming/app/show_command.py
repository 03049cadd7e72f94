"""The command `zooming show`: write a policy as one HTML file with everything inline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from zooming.errors import ConfigurationError
from zooming.export.pages import Target, one_target
from zooming.export.show.policy_page import show


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
    from zooming.lab.study.problems import problem_named, settings_from

    if set and env is None:
        raise ConfigurationError("--set requires --env")
    agent = zooming.load(
        file, None if env is None else problem_named(env, settings_from(set)).make()
    )
    path = one_target(target, out) or Path(file).with_suffix(".html")
    page = show(agent, path, episodes=episodes)
    print(f"{page}: {page.stat().st_size:,} bytes; open it in a browser")
