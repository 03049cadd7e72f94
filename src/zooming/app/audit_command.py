"""The command `zooming audit`: check a saved agent."""

from __future__ import annotations

from typing import Annotated, Any

import tyro

from zooming.errors import ConfigurationError


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
    from zooming.lab.study.problems import problem_named, settings_from

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
