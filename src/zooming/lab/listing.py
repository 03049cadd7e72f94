"""The command `zooming list`, with descriptions taken from docstrings."""

from __future__ import annotations

from typing import Any

from zooming.lab.rivals.rival import versions_of


def list_names() -> None:
    """List the problems, agents and environments of zooming, one line each."""
    from zooming.lab.study.problems import AGENTS, PRESETS

    print("Problems (presets for zooming run)")
    for problem in PRESETS.values():
        print(
            f"  {problem.name:24}{problem.env_id}, "
            + ", ".join(f"{key}={value}" for key, value in problem.options.items())
        )
    print("Agents")
    for name, make in AGENTS.items():
        print(f"  {name:24}{_first_line(make)}{_library(name)}")
    print("Environments")
    for env_id, text in _environments():
        print(f"  {env_id:26}{text}")


def _library(agent: str) -> str:
    """Return name and version of an agent's library in brackets, or "" if it is zooming."""
    found = versions_of([agent.partition(":")[0]])
    return "".join(f" [{name} {number}]" for name, number in found.items())


def _environments() -> list[tuple[str, str]]:
    from gymnasium.envs.registration import load_env_creator, registry

    ours = [name for name in registry if name.startswith("zooming/")]
    kinds = [load_env_creator(str(registry[name].entry_point)) for name in ours]
    return [
        (name, _first_line(kind).partition(": ")[2]) for name, kind in zip(ours, kinds, strict=True)
    ]


def _first_line(documented: Any) -> str:
    return next(iter((documented.__doc__ or "").strip().splitlines()), "")
