"""Export a learned policy as Python, JSON, C or SQL. The ending of the file chooses the format."""

from __future__ import annotations

import keyword
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zooming.agents.base.status import check_let_go, warn_untrained
from zooming.agents.files.container import write_atomically
from zooming.envs.state_grid import GridPolicy
from zooming.errors import ConfigurationError
from zooming.export.forms import PolicyForm, recommended
from zooming.export.grid import action_grid, solved_grid
from zooming.export.learner import learner_header
from zooming.export.tree import decision_tree
from zooming.export.writers.code import c_header, python_module
from zooming.export.writers.json_document import json_document
from zooming.export.writers.sql import sql_query
from zooming.partitions.cells import CellTable
from zooming.validation import as_path, check_is_agent, known_options

# Ending of the file: the function that writes a form, given the options of `export_policy`.
WRITERS: dict[str, Callable[[PolicyForm, dict[str, Any]], str]] = {
    ".py": lambda form, options: python_module(form),
    ".json": lambda form, options: json_document(form),
    ".h": lambda form, own: c_header(form, own["name"], own["number"], own["scale"]),
    ".sql": lambda form, options: sql_query(form, options["table"]),
}
MARK, HEAD = "comparisons for an action", 20_000  # a phrase in the first characters of every export


@known_options
def export_policy(
    agent: Any,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    number: str = "double",
    scale: float = 1.0,
    table: str = "states",
    learner: bool = False,
    pending: int = 0,
) -> Path:
    """Write the policy of an agent, or its learner, to a file that runs without zooming.

    For every state, the file gives exactly the action of `agent.predict` without `info`.
    `docs/export.md` states what holds for each format. With `learner`, the file goes on learning:
    see `docs/device.md`.

    Parameters
    ----------
    agent : Agent or PolicyForm
        `Auto`, `Planner`, `AdaptiveQ`, `NetQ`, `TreeQ` or a relative of them. The rules of other
        agents can be exported: `agent.explain().export(path)`.
    path : str or Path
        The file. Its ending chooses the format: `.py` (a module without packages), `.json`, `.h`
        (a C99 header without allocation) or `.sql` (a query over a table of states).
    name : str, optional
        Prefix of the C names. By default the name of the file.
    number : {"double", "float", "int"}, default "double"
        Type of a state in C. With "int" a state is a whole multiple of 1 / `scale`. With "float"
        actions have this type, too.
    scale : float, default 1.0
        Integer units per 1 of a state, for "int".
    table : str, default "states"
        Name of the SQL table.
    learner : bool, default False
        Write a C99 header that learns, of an `AdaptiveQ` with `max_balls`, in place of its policy.
        `number` is then also the type of actions and rewards.
    pending : int, default 0
        Number of decisions of a learner that may wait for their rewards.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ConfigurationError
        If the ending is unknown, another kind of file is there, the agent has no partition, the
        format cannot express its policy, or the rule of a warm start is still in use. Nothing is
        written.

    Warns
    -----
    UserWarning
        If the agent has not learned from any episode yet.

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
    path = as_path(path)
    if path.suffix not in WRITERS:
        raise ConfigurationError(
            f"{path}: no format has the ending {path.suffix!r}; choose one of {', '.join(WRITERS)}"
        )
    if path.suffix == ".py" and (keyword.iskeyword(path.stem) or path.stem == "struct"):
        raise ConfigurationError(
            f"{path}: Python cannot import a policy from a file of this name; choose another one"
        )
    check_let_go(agent)
    _check_overwriting(path)
    if learner and path.suffix != ".h":
        raise ConfigurationError(f"{path}: a learner is a C header; give a name that ends in .h")
    if pending and not learner:
        raise ConfigurationError("pending requires learner=True: a policy waits for no rewards")
    name = name or path.stem
    if learner:
        text = learner_header(agent, name, number, scale, pending)
    else:
        options = {"name": name, "number": number, "scale": scale, "table": table}
        text = WRITERS[path.suffix](policy_form(agent), options)
    write_atomically(path, text.encode())
    return path


def _check_overwriting(path: Path) -> None:
    """Raise ConfigurationError if there is a file that is not an exported policy."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        head = " ".join(file.read(HEAD).replace("*", " ").split())
    if head and MARK not in head:
        raise ConfigurationError(
            f"{path} exists, and is not a policy that zooming exported; choose another name, or "
            "delete it first"
        )


def policy_form(agent: Any) -> PolicyForm:
    """Return the policy of an agent as a decision tree, or as a grid of actions that are mixed."""
    if isinstance(agent, PolicyForm):
        return agent
    check_is_agent(agent)
    warn_untrained(agent)
    inner = recommended(agent)
    if isinstance(getattr(inner, "plan", None), GridPolicy):
        return solved_grid(agent)
    if inner.interpolates and isinstance(getattr(inner, "table", None), CellTable):
        return action_grid(agent)
    return decision_tree(agent)
