"""Entry point of the command line: find the command, run it, print errors as sentences.

Each command is a function in a module of its own, which is imported when the command is called. So
`zooming --version` and `zooming --help` load no library, and no command waits for another's.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zooming.errors import ZoomingError
from zooming.version import __version__

CODE_OF_BROKEN_PIPE = 141  # as a shell reports a command that SIGPIPE ended
ABOUT = "Reinforcement learning in continuous spaces that learns its own discretization."


@dataclass(frozen=True)
class Command:
    """A command: `module:function`, and the first sentence of the function's docstring."""

    place: str
    about: str

    def load(self) -> Callable[..., Any]:
        """Import and return the function."""
        module, name = self.place.split(":")
        try:
            found = importlib.import_module(f"zooming.{module}")
        except ModuleNotFoundError as error:
            if error.name not in ("tyro", "rich", "polars", "matplotlib"):
                raise
            sys.exit(f"this command needs {error.name}: pip install 'zooming[lab]'")
        function: Callable[..., Any] = getattr(found, name)
        return function


COMMANDS = {
    "run": Command("lab.study.run_command:run", "Compare agents on problems over many seeds."),
    "tune": Command(
        "lab.study.run_command:tune",
        "Tune the bonus, or another numeric option, and evaluate the best value on fresh seeds.",
    ),
    "plan": Command(
        "app.plan_command:plan_records",
        "Plan with the equations of an environment and records of its noise, and write one page.",
    ),
    "leaderboard": Command(
        "lab.leaderboard:leaderboard", "Compare agents on many problems, and write one table."
    ),
    "reproduce": Command(
        "lab.paper.reproduce_command:reproduce",
        "Reproduce the figures of the paper, with true regret, and check the claims about them.",
    ),
    "report": Command(
        "lab.report:report",
        "Write an HTML page of a study or reproduction: tables, learning curves and regret.",
    ),
    "audit": Command(
        "app.saved_commands:audit_file", "Check that a saved agent obeys the laws of the paper."
    ),
    "explain": Command(
        "app.saved_commands:explain_file",
        "Print the policy of a saved agent as rules, and how much return the rules lose.",
    ),
    "export": Command(
        "app.saved_commands:export_file",
        "Write the policy of a saved agent as Python, JSON, C or SQL.",
    ),
    "show": Command(
        "app.saved_commands:show_file",
        "Write an HTML page on which a person moves the state and sees what the policy does.",
    ),
    "desk": Command(
        "app.saved_commands:show_desk", "Print what happens at a desk, and write it as a page."
    ),
    "warm": Command(
        "app.warm_command:warm",
        "Compile the kernels of agents ahead, so that their first learn() starts at once.",
    ),
    "bench": Command("lab.bench:main", "Measure speed and memory of both drivers."),
    "list": Command(
        "lab.study.run_command:list_names",
        "List the problems, agents and environments of zooming, one line each.",
    ),
}
# What other tools call a command.
SYNONYMS = {"train": "run", "learn": "run", "fit": "run", "compare": "run"}


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line. `args` are by default the arguments of the process.

    If the reader of the output has closed it, as in `zooming list | head -2`, end without a
    message.
    """
    try:
        try:
            _run(list(sys.argv[1:] if args is None else args))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at the end, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CODE_OF_BROKEN_PIPE)


def _run(given: list[str]) -> None:
    """Run one command. An error is printed as one sentence."""
    name, *rest = given or [""]
    if name in ("-h", "--help"):
        print(_help())
        return
    if name == "--version":
        print(f"zooming {__version__}")
        return
    if name not in COMMANDS:
        raise _print_error(_refuse(name))
    command = COMMANDS[name].load()
    import tyro

    try:
        tyro.cli(command, prog=f"zooming {name}", args=rest)
    except ZoomingError as error:
        raise _print_error(_write_as_flags(str(error), command)) from error
    except BrokenPipeError:
        raise
    except OSError as error:
        file = error.filename2 or error.filename
        raise _print_error(f"{file}: {error.strerror}" if file else str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


def _help() -> str:
    """Return one line for each command."""
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:{width}}  {one.about}" for name, one in COMMANDS.items())
    return (
        f"usage: zooming COMMAND ...\n\n{ABOUT}\n\n{lines}\n\n"
        "zooming COMMAND --help describes a command; zooming --version prints the version."
    )


def _refuse(name: str) -> str:
    """Return why a first argument is no command, with the nearest one."""
    names = ", ".join(COMMANDS)
    if not name:
        return f"name a command: {names} (zooming --help describes them)"
    from zooming.validation import suggest

    near = suggest(SYNONYMS.get(name, name), COMMANDS)
    return f"no command is named {name!r}{near} (there are {names})"


def _print_error(message: str) -> SystemExit:
    """Print the error and return a SystemExit with code 2. Code 1 means that an audit failed."""
    print(f"zooming: {message}", file=sys.stderr)
    end = SystemExit(message)
    end.code = 2
    return end


def _write_as_flags(message: str, command: Callable[..., Any]) -> str:
    """Return an error message with `option=value` written as `--option value`.

    Only options of the command are rewritten.

    >>> _write_as_flags("resolution=5 is odd", COMMANDS["audit"].load())
    '--resolution 5 is odd'
    """
    from zooming.validation import option_names

    found = re.match(r"(\w+)=(\S+?)(:? )", message)
    if found is None or found[1] not in option_names(command):
        return message
    value = found[2].strip("'\"")
    return f"--{found[1].replace('_', '-')} {value}{message[found.start(3) :]}"


if __name__ == "__main__":
    main()
