"""The command `zooming`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from zooming.errors import ZoomingError


def list_names() -> None:
    """Show the agents and environments that zooming has, one line each."""
    import gymnasium as gym

    import zooming

    print("Agents")
    for name in ("AdaptiveQ", "NetQ", "Random", "NoMovement", "Median"):
        print(f"  {name:24}{_first_line(getattr(zooming, name))}")
    print("Environments")
    for name in sorted(gym.registry):
        if name.startswith("zooming/"):
            print(f"  {name:24}{_first_line(sys.modules[type(gym.make(name).unwrapped).__module__])}")


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command line."""
    try:
        import rich  # noqa: F401
        import tyro
    except ImportError as error:
        sys.exit(f"the command line needs {error.name}: pip install 'zooming[study]'")
    from zooming import bench

    try:
        tyro.extras.subcommand_cli_from_dict(
            {"bench": bench.main, "list": list_names},
            prog="zooming",
            description="Reinforcement learning in continuous spaces that learns its own discretization.",
            args=args,
        )
    except ZoomingError as error:
        sys.exit(f"zooming: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
