"""Entry point of the command line: find the command, run it, print errors as sentences.

Each command is a function in a module of its own, which is imported when the command is called. So
`zooming --version` and `zooming --help` load no library, and no command waits for another's.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from zooming.errors import ZoomingError
from zooming.version import __version__

CODE_OF_BROKEN_PIPE = 141  # as a shell reports a command that SIGPIPE ended
ABOUT = "Reinforcement learning in continuous spaces that learns its own discretization."


COMMANDS = {  # name: `module:function`
    "run": "lab.study.run_command:run",
    "tune": "lab.study.run_command:tune",
    "plan": "app.plan_command:plan_records",
    "leaderboard": "lab.leaderboard:leaderboard",
    "reproduce": "lab.paper.reproduce_command:reproduce",
    "report": "lab.report:report",
    "audit": "app.saved_commands:audit_file",
    "explain": "app.saved_commands:explain_file",
    "export": "app.saved_commands:export_file",
    "show": "app.saved_commands:show_file",
    "desk": "app.saved_commands:show_desk",
    "warm": "app.warm_command:warm",
    "bench": "lab.bench:main",
    "list": "lab.study.run_command:list_names",
}
# What other tools call a command.
SYNONYMS = {"train": "run", "learn": "run", "fit": "run", "compare": "run", "evaluate": "explain"}


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
    command = load(name)
    import tyro

    _name_values(command)
    warnings.formatwarning = lambda message, *_: f"zooming: warning: {message}\n"
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


def load(name: str) -> Callable[..., Any]:
    """Import and return the function of a command."""
    module, function = COMMANDS[name].split(":")
    try:
        found = importlib.import_module(f"zooming.{module}")
    except ModuleNotFoundError as error:
        if error.name not in ("tyro", "rich", "polars", "matplotlib"):
            raise
        sys.exit(f"this command needs {error.name}: pip install 'zooming[lab]'")
    return getattr(found, function)  # type: ignore[no-any-return]


def _name_values(command: Callable[..., Any]) -> None:
    """Let the help of a command say `--step STEP`, where tyro says `--step {None}|INT`."""
    import tyro

    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        extras = getattr(hints[name], "__metadata__", ())
        if "bool" in str(hints[name]) or "Literal" in str(hints[name]):
            continue
        named = [one.metavar for one in extras if getattr(one, "metavar", None)]
        usual = name.upper().replace("_", "-") + " ..." * ("tuple" in str(hints[name]))
        is_empty = parameter.default in (None, ()) or "Names" in str(parameter.annotation)
        shown = tyro.conf.arg(
            metavar=named[0] if named else usual, help_behavior_hint="" if is_empty else None
        )
        command.__annotations__[name] = Annotated[hints[name], shown]


def about(name: str) -> str:
    """Return the first sentence of a command's docstring, read from its file without importing."""
    module, function = COMMANDS[name].split(":")
    path = Path(__file__).parent.parent.joinpath(*module.split(".")).with_suffix(".py")
    (found,) = re.findall(rf'^def {function}\(.*?"""(.*?\.)[ \n"]', path.read_text(), re.M | re.S)
    return str(found)


def _help() -> str:
    """Return one line for each command."""
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:{width}}  {about(name)}" for name in COMMANDS)
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

    near = suggest(SYNONYMS.get(name, name), [*COMMANDS, "--help", "--version"])
    return f"no command is named {name!r}{near} (there are {names})"


def _print_error(message: str) -> SystemExit:
    """Print the error and return a SystemExit with code 2. Code 1 means that an audit failed."""
    print(f"zooming: {message}", file=sys.stderr)
    end = SystemExit(message)
    end.code = 2
    return end


def _write_as_flags(message: str, command: Callable[..., Any]) -> str:
    """Return an error message with `option=value` written as `--option value`.

    Only options of the command are rewritten, and not within calls or settings of an agent.

    >>> _write_as_flags("resolution=5 is odd; leave out solve=True", load("audit"))
    '--resolution 5 is odd; leave out --solve'
    """
    from zooming.validation import option_names

    def as_flag(found: re.Match[str]) -> str:
        value = "" if found[2] in (None, "True", "...") else " " + found[2].strip("'\"")
        return f"--{found[1].replace('_', '-')}{value}"

    option = rf"(?:n_)?({'|'.join(option_names(command))})=(\.\.\.|'[^']*'|[^\s:;,.]\S*?)?"
    return re.sub(rf"(?:^|(?<=[^,(]\s)){option}(?=[:;,.]?(?:\s|$))", as_flag, message)


if __name__ == "__main__":
    main()
