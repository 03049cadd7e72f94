"""Export a learned policy: as Python, JSON, C or SQL, by the suffix of the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from zooming.agents.files import write_atomically
from zooming.errors import ConfigurationError
from zooming.export.c_header import c_header
from zooming.export.decision_tree import decision_tree
from zooming.export.json_document import json_document
from zooming.export.python_module import python_module
from zooming.export.sql_query import sql_query

FORMATS = (".py", ".json", ".h", ".sql")


def export_policy(
    agent: Any,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    number: str = "double",
    scale: float = 1.0,
    table: str = "states",
) -> Path:
    """Write the policy of an agent to a file that runs without zooming.

    The file gives exactly the action of `agent.predict`, for every state.

    Parameters
    ----------
    agent : AdaptiveQ or NetQ
        The agent.
    path : str or Path
        The file. Its ending chooses the format: `.py` (a module without imports), `.json`, `.h` (a
        C99 header without allocation) or `.sql` (a query over a table of states).
    name : str, optional
        Prefix of the C names. By default the name of the file.
    number : {"double", "float", "int"}, default "double"
        Type of a state in C. With "int" a state is a whole multiple of 1 / `scale`.
    scale : float, default 1.0
        Units per 1 of a state, for "int".
    table : str, default "states"
        Name of the SQL table.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ConfigurationError
        If the ending is unknown, or the agent has no partition. Nothing is written.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(2000)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     policy = {}
    ...     exec(agent.export(f"{folder}/policy.py").read_text(), policy)
    >>> policy["act"](0, [0.5]) == tuple(agent.predict([0.5])[0])
    True
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise ConfigurationError(
            f"{path}: no format has the ending {path.suffix!r}; choose one of {', '.join(FORMATS)}"
        )
    tree = decision_tree(agent)
    text = {
        ".py": lambda: python_module(tree),
        ".json": lambda: json_document(tree),
        ".h": lambda: c_header(tree, name or path.stem, number, scale),
        ".sql": lambda: sql_query(tree, table),
    }[path.suffix]()
    write_atomically(path, text.encode())
    return path
