"""The command `zooming export`: write the policy of a saved agent as a file."""

from __future__ import annotations

from typing import Annotated

import tyro

from zooming.errors import ConfigurationError
from zooming.export.pages import Target, one_target


def export_file(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    target: Target = None,
    to: Annotated[str | None, tyro.conf.arg(metavar="FILE", aliases=("--out",))] = None,
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
        to: the same as an option.
        name: prefix of the C names. By default the name of the file.
        number: type of a state in C: double, float, or int for whole multiples of 1 / scale.
        scale: number of integer units per 1 of a state, for --number int.
        table: name of the SQL table.
        rules: write at most this many rules a step, as zooming explain prints them, in place of the
            exact policy.
        learner: write a C99 header that goes on learning, in place of the policy.
        pending: number of decisions of a learner that may wait for their rewards.
    """
    import zooming

    out = one_target(target, to)
    if out is None:
        raise ConfigurationError("name the file to write: zooming export FILE OUT")
    agent = zooming.load(file)
    chosen = agent if rules is None else agent.explain(n_rules=rules, episodes=0)
    path = chosen.export(
        out, name=name, number=number, scale=scale, table=table, learner=learner, pending=pending
    )
    print(f"{path}: {path.stat().st_size:,} bytes")
