"""`zooming explain`: print the policy of a saved agent as rules, or write them to a file."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming.agents.files.container import write_atomically
from zooming.errors import ConfigurationError
from zooming.export.pages import Target, one_target
from zooming.validation import check_int

NO_CODE = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)
ENDINGS = (".txt", ".html", ".csv", ".json")


def explain_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    target: Target = None,
    rules: int = 8,
    step: int | None = None,
    out: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    env: str | None = None,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
    episodes: int = 500,
) -> None:
    """Print the policy of a saved agent as rules, and how much return the rules lose.

    Args:
        file: file written by agent.save().
        target: file to write instead of printing: .txt, .html, .csv or .json.
        rules: largest number of rules of a step.
        step: step to explain, from 0. By default all of them.
        out: the file to write, as an option.
        env: environment of the agent: a preset, a Gymnasium id, or module:Id of your own, as for
            zooming run. Needed to measure if the environment is not one of zooming's own.
        set: options of the environment. Requires --env.
        episodes: episodes of the measurement, 0 for none.
    """
    import zooming
    from zooming.lab.study.problems import problem_named, settings_from

    if set and env is None:
        raise ConfigurationError("--set requires --env")
    check_int(rules, "rules", 1)
    out = one_target(target, out)
    path = None if out is None else Path(out)
    if path is not None and path.suffix not in ENDINGS:
        raise ConfigurationError(
            f"{path}: no format has the ending {path.suffix!r}; choose one of {', '.join(ENDINGS)}"
        )
    chosen_env = None if env is None else problem_named(env, settings_from(set)).make()
    agent = zooming.load(file, chosen_env)
    found = zooming.explain(agent, step=step, n_rules=rules, episodes=episodes)
    if path is None:
        print(found)
    else:
        _write(found, path)
        print(f"{path}: {path.stat().st_size:,} bytes")
    if agent.env is None and episodes != 0:
        print(
            f"{file} does not say how to make its environment {agent.env_name}; to measure, name "
            "it: --env module:Id"
        )


def _write(found: Any, path: Path) -> None:
    """Write rules in the format of the path's ending."""
    if path.suffix == ".csv":
        text = found.frame().write_csv()
    elif path.suffix == ".json":
        text = json.dumps({"about": found.notes, "rows": found.records()}, indent=1) + "\n"
    elif path.suffix == ".html":
        text = (
            f'<!doctype html><html lang="en"><meta charset="utf-8">{NO_CODE}'
            f"<title>{html.escape(path.stem)}</title>"
            f'<body style="font-family:sans-serif">{found._repr_html_()}</body></html>\n'
        )
    else:
        text = f"{found}\n"
    write_atomically(path, text.encode())
