"""The command `zooming`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

from zooming.errors import SpaceError, ZoomingError

try:
    import rich  # noqa: F401  # the commands below print with it
    import tyro
except ImportError as error:
    sys.exit(f"the command line needs {error.name}: pip install 'zooming[study]'")


def audit_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    solve: bool = False,
    resolution: int | None = None,
) -> None:
    """Check the paper's laws on a saved agent; the exit code is 1 if one is broken.

    Args:
        file: an agent that was saved with agent.save().
        solve: also compute the optimum of its environment, and how often optimism fails.
        resolution: cells per axis for --solve.
    """
    import zooming

    agent = zooming.load(file)
    optimal: Any = None
    if solve:
        if agent.env is None:
            raise SpaceError(f"{file} does not say how to make its environment {agent.env_name}; audit it from Python")
        optimal = zooming.solve(agent.env, resolution)
        policy = zooming.evaluate(agent, agent.env, exact=True)
        print(f"optimum {optimal.return_:.4f} (within {optimal.return_error:.1e}); policy {policy}")
    report = zooming.audit(agent, optimal)
    print(report)
    if not report.holds:
        raise SystemExit(1)


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command line."""
    import zooming
    from zooming import bench
    from zooming.paper.command import reproduce
    from zooming.report.page import report
    from zooming.study import command

    if list(sys.argv[1:] if args is None else args) == ["--version"]:
        print(f"zooming {zooming.__version__}")
        return
    try:
        tyro.extras.subcommand_cli_from_dict(
            {
                "run": command.run,
                "tune": command.tune,
                "reproduce": reproduce,
                "report": report,
                "audit": audit_file,
                "bench": bench.main,
                "list": command.list_names,
            },
            prog="zooming",
            description="Reinforcement learning in continuous spaces that learns its own discretization.",
            args=args,
        )
    except (ZoomingError, OSError) as error:
        sys.exit(f"zooming: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
