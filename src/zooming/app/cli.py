"""Entry point of the command line: subcommands, error messages, exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from zooming.errors import ConfigurationError, ZoomingError
from zooming.validation import option_names

try:
    import rich  # noqa: F401  # needed by the commands below
    import tyro
except ImportError as error:
    sys.exit(f"the command line needs {error.name}: pip install 'zooming[study]'")

CODE_OF_BROKEN_PIPE = 141  # as a shell reports a command that SIGPIPE ended


def audit_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    solve: bool = False,
    resolution: int | None = None,
    env: str | None = None,
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE")] = (),
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
    import zooming
    from zooming.study.problems import problem_named, settings_from

    if resolution is not None and not solve:
        raise ConfigurationError("--resolution requires --solve")
    if set and env is None:
        raise ConfigurationError("--set requires --env")
    agent = zooming.load(
        file, None if env is None else problem_named(env, settings_from(set)).make()
    )
    optimal: Any = None
    if solve:
        if agent.env is None:
            raise ConfigurationError(
                f"{file} does not say how to make its environment {agent.env_name}; name it, "
                "--env module:Id"
            )
        optimal = zooming.solve(agent.env, resolution)
        policy = zooming.evaluate(agent, agent.env, exact=True)
        about = "" if optimal.is_bound else "about "
        print(
            f"optimum {optimal.return_:.4f} (within {about}{optimal.return_error:.1e}); policy "
            f"{policy}"
        )
    report = zooming.audit(agent, optimal)
    print(report)
    if not report.holds:
        raise SystemExit(1)


def export_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    to: Annotated[str, tyro.conf.arg(metavar="FILE")],
    name: str | None = None,
    number: str = "double",
    scale: float = 1.0,
    table: str = "states",
    rules: int | None = None,
) -> None:
    """Write the policy of a saved agent as Python, JSON, C or SQL.

    Args:
        file: file written by agent.save().
        to: file to write: .py, .json, .h (a C99 header) or .sql.
        name: prefix of the C names. By default the name of the file.
        number: type of a state in C: double, float, or int for whole multiples of 1 / scale.
        scale: number of integer units per 1 of a state, for --number int.
        table: name of the SQL table.
        rules: write at most this many rules a step, as zooming explain prints them, in place of the
            exact policy.
    """
    import zooming

    agent = zooming.load(file)
    chosen = agent if rules is None else agent.explain(n_rules=rules, episodes=0)
    path = chosen.export(to, name=name, number=number, scale=scale, table=table)
    print(f"{path}: {path.stat().st_size:,} bytes")


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line. `args` are by default the arguments of the process.

    If the reader of the output has closed it, as in `zooming list | head -2`, end without a
    message.
    """
    try:
        try:
            _run_command(args)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at the end, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CODE_OF_BROKEN_PIPE)


def _run_command(args: Sequence[str] | None) -> None:
    """Run one command. An error is printed as one sentence."""
    import zooming
    from zooming.app import bench, run
    from zooming.app.explain_command import explain_file
    from zooming.app.leaderboard.leaderboard_command import leaderboard
    from zooming.app.listing import list_names
    from zooming.app.paper.reproduce_command import reproduce
    from zooming.app.report.page import report
    from zooming.app.show.show_command import show_file

    given = list(sys.argv[1:] if args is None else args)
    if given == ["--version"]:
        print(f"zooming {zooming.__version__}")
        return
    commands: dict[str, Callable[..., Any]] = {
        "run": run.run,
        "tune": run.tune,
        "leaderboard": leaderboard,
        "reproduce": reproduce,
        "report": report,
        "audit": audit_file,
        "explain": explain_file,
        "export": export_file,
        "show": show_file,
        "bench": bench.main,
        "list": list_names,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="zooming",
            description="Reinforcement learning in continuous spaces that learns its own "
            "discretization.",
            args=args,
        )
    except ZoomingError as error:
        raise _print_error(
            _write_as_flags(str(error), commands.get(given[0]) if given else None)
        ) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        what = (
            f"{error.filename2 or error.filename}: {error.strerror}"
            if error.filename
            else str(error)
        )
        raise _print_error(what) from error
    except KeyboardInterrupt:
        sys.exit(130)


def _print_error(message: str) -> SystemExit:
    """Print the error and return a SystemExit with code 2. Code 1 means that an audit failed."""
    print(f"zooming: {message}", file=sys.stderr)
    end = SystemExit(message)
    end.code = 2
    return end


def _write_as_flags(message: str, command: Callable[..., Any] | None) -> str:
    """Return an error message with `option=value` written as `--option value`.

    Only options of the command are rewritten.

    >>> _write_as_flags("resolution=5 is odd", audit_file)
    '--resolution 5 is odd'
    """
    found = re.match(r"(\w+)=(\S+?)(:? )", message)
    if command is None or found is None or found[1] not in option_names(command):
        return message
    value = found[2].strip("'\"")
    return f"--{found[1].replace('_', '-')} {value}{message[found.start(3) :]}"


if __name__ == "__main__":
    main()
