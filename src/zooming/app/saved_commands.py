"""The commands that read what was saved: `zooming audit`, `explain`, `export`, `show`, `desk`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

import zooming
from zooming.agents.base.status import plain
from zooming.agents.files.container import write_atomically
from zooming.desk.page import page as desk_page
from zooming.errors import ConfigurationError
from zooming.lab.study.problems import problem_named, settings_from
from zooming.validation import check_int

File = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Target = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")]
TargetOption = Annotated[str | None, tyro.conf.arg(metavar="OUT", aliases=("--to",))]
Settings = Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")]


def audit_file(
    file: File,
    solve: bool = False,
    resolution: int | None = None,
    env: str | None = None,
    set: Settings = (),
) -> None:
    """Check that a saved agent obeys the laws of the paper. The exit code is 1 if it breaks one.

    Args:
        file: file written by agent.save().
        solve: also compute the optimum of the environment, and how often optimism fails.
        resolution: grid cells per axis. Requires --solve.
        env: environment of the agent: a preset, a Gymnasium id, or module:Id of your own, as for
            zooming run. Needed for --solve if the environment is not one of zooming's own.
        set: options of the environment. Requires --env.
    """
    if resolution is not None and not solve:
        raise ConfigurationError("--resolution requires --solve")
    agent = _load(file, env, set)
    optimal: Any = None
    if solve:
        if agent.env is None:
            raise ConfigurationError(
                f"{file} does not say how to make its environment {agent.env_name}; name it, "
                "--env module:Id"
            )
        optimal = zooming.solve(agent.env, resolution)
        policy = zooming.evaluate(agent, agent.env, exact=True)
        error = f"{'' if optimal.is_bound else 'about '}{plain(optimal.return_error, 2)}"
        print(f"optimum {plain(optimal.return_, 5)} (within {error}); policy {policy}")
    report = zooming.audit(agent, optimal)
    print(report)
    if not report.holds:
        raise SystemExit(1)


def explain_file(
    file: File,
    rules: int = 8,
    step: int | None = None,
    env: str | None = None,
    set: Settings = (),
    episodes: int = 500,
) -> None:
    """Print the policy of a saved agent as rules, and how much return the rules lose.

    Args:
        file: file written by agent.save().
        rules: largest number of rules of a step, besides those of states that never occurred.
        step: step to explain, from 0. By default all of them.
        env: environment of the agent: a preset, a Gymnasium id, or module:Id of your own, as for
            zooming run. Needed to measure if the environment is not one of zooming's own.
        set: options of the environment. Requires --env.
        episodes: episodes of the measurement, 0 for none.
    """
    check_int(rules, "rules", 1)
    agent = _load(file, env, set)
    print(agent.explain(step, n_rules=rules, episodes=episodes))
    if agent.env is None and episodes != 0:
        print(
            f"{file} does not say how to make its environment {agent.env_name}; to measure, name "
            "it: --env module:Id"
        )


def export_file(
    file: File,
    target: Target = None,
    out: TargetOption = None,
    name: str | None = None,
    number: str = "double",
    scale: float = 1.0,
    table: str = "states",
    rules: int | None = None,
    learner: bool = False,
    pending: int = 0,
) -> None:
    """Write the policy of a saved agent as Python, JSON, C or SQL.

    Args:
        file: file written by agent.save().
        target: file to write: .py, .json, .h (a C99 header) or .sql.
        out: the same as an option.
        name: prefix of the C names. By default the name of the file.
        number: type of a state in C: double, float, or int for whole multiples of 1 / scale.
        scale: number of integer units per 1 of a state, for --number int.
        table: name of the SQL table.
        rules: write at most this many rules a step, as zooming explain prints them, in place of the
            exact policy.
        learner: write a C99 header that goes on learning, in place of the policy.
        pending: number of decisions of a learner that may wait for their rewards.
    """
    path = _one_target(target, out)
    if path is None:
        raise ConfigurationError("name the file to write: zooming export FILE OUT")
    agent = zooming.load(file)
    chosen = agent if rules is None else agent.explain(n_rules=rules, episodes=0)
    found = chosen.export(
        path, name=name, number=number, scale=scale, table=table, learner=learner, pending=pending
    )
    print(f"{found}: {found.stat().st_size:,} bytes")


def show_file(
    file: File,
    target: Target = None,
    out: TargetOption = None,
    episodes: int = 10,
    env: str | None = None,
    set: Settings = (),
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
    agent = _load(file, env, set)
    page = agent.show(
        _one_target(target, out) or Path(file).with_suffix(".html"), episodes=episodes
    )
    print(f"{page}: {page.stat().st_size:,} bytes; open it in a browser")


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
    with zooming.Desk.open(place, learner="elsewhere") as desk:
        print(desk.status())
        if verify:
            found = desk.verify()
            print(f"verified: {found.n_events:,} events give the same {found.n_bytes:,} bytes")
        write_atomically(path, desk_page(desk).encode())
    print(f"{path}: open it in a browser")


def _load(file: str, env: str | None, settings: tuple[str, ...]) -> Any:
    """Return a saved agent, with the environment that is named, or with its own."""
    if settings and env is None:
        raise ConfigurationError("--set requires --env")
    made = None if env is None else problem_named(env, settings_from(settings)).make()
    return zooming.load(file, made)


def _one_target(positional: str | None, option: str | None) -> str | None:
    """Return the file to write. Raise ConfigurationError if two are named."""
    if positional is not None and option is not None:
        raise ConfigurationError(
            f"two files to write are named: {positional} and {option}; leave one of them out"
        )
    return positional if option is None else option
