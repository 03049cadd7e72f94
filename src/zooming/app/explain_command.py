"""`zooming explain`: print the policy of a saved agent as rules, or write them to a file."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming.agents.files.container import writable_path, write_atomically
from zooming.errors import ConfigurationError
from zooming.export.pages import Target, one_target
from zooming.validation import check_int

PICTURES = (".png", ".svg", ".pdf")
NO_CODE = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)
ENDINGS = (".txt", ".html", ".csv", ".json", *PICTURES)


def explain_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    target: Target = None,
    against: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
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
        target: file to write instead of printing: .txt, .html, .csv, .json, .png, .svg or .pdf.
        against: file of a second agent. Prints where the policies differ, and the difference in
            return.
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
    path = None if out is None else _check_ending(Path(out), is_pair=against is not None)
    chosen_env = None if env is None else problem_named(env, settings_from(set)).make()
    agent = zooming.load(file, chosen_env)
    other: Any = None if against is None else zooming.load(against, chosen_env)
    found: Any = zooming.explain(agent, other, step=step, n_rules=rules, episodes=episodes)
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


def _check_ending(path: Path, is_pair: bool) -> Path:
    if path.suffix not in ENDINGS:
        raise ConfigurationError(
            f"{path}: no format has the ending {path.suffix!r}; choose one of {', '.join(ENDINGS)}"
        )
    if is_pair and path.suffix in PICTURES:
        raise ConfigurationError(
            f"{path}: differences have no picture; choose one of "
            f"{', '.join(ENDINGS[: -len(PICTURES)])}"
        )
    return path


def _write(found: Any, path: Path) -> None:
    """Write rules or differences in the format of the path's ending."""
    if path.suffix in PICTURES:
        import numpy as np
        from matplotlib.figure import Figure

        n_rows, n_steps = len(found.action_names), min(6, len(found.steps))
        figure = Figure(figsize=(2.9 * n_steps + 1.8, 2.8 * n_rows), layout="constrained")
        axes = figure.subplots(n_rows, n_steps, squeeze=False)
        found.plot(ax=list(np.ravel(axes)))
        figure.savefig(writable_path(path), dpi=150)
        return
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
