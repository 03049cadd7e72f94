"""Imports go one way: a room uses the rooms below it, whether it imports at the top of a module
or inside a function."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from zooming.methods import METHODS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
ROOMS = (  # from the ground up; rooms of one floor do not know each other
    ("errors", "notebook", "methods", "version"),
    ("kernels", "progress", "theory"),
    ("validation",),
    ("spaces", "bonuses"),
    ("envs", "metrics"),
    ("partitions",),
    ("agents",),
    ("analysis",),
    ("testing", "callbacks"),
    ("plots", "export", "logs"),
    ("desk",),
    ("lab",),
    ("zooming",),
    ("app",),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}


def modules():
    """{dotted name: path} of every module of the package."""
    paths = sorted((SOURCE / "zooming").rglob("*.py"))
    return {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in paths}


def room(name):
    """The room of a dotted name: zooming.agents.heuristics is in agents, the package itself is the
    room zooming."""
    parts = [part for part in name.split(".") if part != "__init__"]
    return parts[1] if len(parts) > 1 else "zooming"


def named(call):
    """The module of the package that a call such as `importlib.import_module("zooming.app")`
    imports by its name: [] if there is none."""
    function = getattr(call.func, "attr", getattr(call.func, "id", None))
    if function not in ("import_module", "__import__"):
        return []
    name = next(iter(call.args), None) or next(
        (keyword.value for keyword in call.keywords if keyword.arg == "name"), None
    )
    if isinstance(name, ast.JoinedStr) and name.values:
        name = name.values[0]  # f"zooming.{room}": of which the part before the braces is known
    target = getattr(name, "value", None)
    assert not str(target).startswith("."), "write imports from the package's root"
    if not isinstance(target, str) or target.split(".")[0] != "zooming":
        return []
    return [target.rstrip(".")]


def imported(source, is_exact=False):
    """(dotted name, function that imports it or None) of every import of the package, lazy ones
    and those by name included. `is_exact`: from a package, the name that is imported."""
    found = []

    def visit(node, function):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            for child in node.orelse:  # the body is for annotations and never runs
                visit(child, function)
            return
        if isinstance(node, ast.Call):
            found.extend((target, function) for target in named(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "zooming":
            if node.module == "zooming" or is_exact:
                found.extend((f"{node.module}.{alias.name}", function) for alias in node.names)
            else:
                found.append((node.module, function))
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write imports from the package's root"
        elif isinstance(node, ast.Import):
            found.extend(
                (alias.name, function)
                for alias in node.names
                if alias.name.split(".")[0] == "zooming"
            )
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(source), None)
    return found


def upward(name, source):
    """The imports of a module that go up, or to another room of its own floor."""
    own = room(name)
    return [
        (target, function)
        for target, function in imported(source)
        if room(target) != own and FLOOR[room(target)] >= FLOOR[own]
    ]


def test_every_module_imports_from_below():
    faults = {name: upward(name, path.read_text()) for name, path in modules().items()}
    assert len(faults) > 100
    assert not {name: found for name, found in faults.items() if found}


def test_every_method_of_an_upper_room_is_declared_below_and_found():
    sources = [path.read_text() for path in modules().values()]
    for name, (home, function) in METHODS.items():
        owner, method = name.split(".")
        declared = [text for text in sources if f"    {method} = UpperMethod()" in text]
        assert any(re.search(rf"^class {owner}\b", text, re.M) for text in declared), name
        assert callable(getattr(importlib.import_module(home), function))


@pytest.mark.parametrize(("name", "source"), [
    ("zooming.kernels.boxes.layout", "from zooming.lab import report"),
    ("zooming.kernels.boxes.layout", "def later():\n    from zooming.lab import report"),
    ("zooming.agents.training.history", "def plot():\n    from zooming import plots"),
    ("zooming.agents.training.history", "import zooming"),
    ("zooming.agents.tables.net_q", "def act():\n    import zooming"),
    ("zooming.export.write", "import zooming.plots.curves as curves"),
    ("zooming.envs.oil", "from zooming.metrics import L1"),
    ("zooming.kernels.loop.jit", "importlib.import_module('zooming.lab.report')"),
    ("zooming.kernels.loop.jit", "def later():\n    import_module(name='zooming.lab.report')"),
    ("zooming.kernels.loop.jit", "import_module(f'zooming.{room}')"),
    ("zooming.kernels.loop.jit", "__import__('zooming.lab.report')"),
    ("zooming.kernels.loop.jit", "__import__('zooming')"),
    ("zooming.agents.tables.net_q", "if TYPE_CHECKING:\n    pass\nelse:\n    import zooming"),
    ("zooming.agents.tables.net_q",
     "if TYPE_CHECKING:\n    pass\nelif True:\n    from zooming.app import cli"),
])  # fmt: skip
def test_an_import_that_goes_up_is_found(name, source):
    assert upward(name, source)
    assert not upward(name, "from zooming.errors import ConfigurationError\nimport numpy")


@pytest.mark.parametrize("source", [
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from zooming.app import cli",
    "importlib.import_module('zooming.errors')", "importlib.import_module('matplotlib.pyplot')",
    "importlib.import_module(name)", "__import__('zoomings')", "read('zooming.app')",
])  # fmt: skip
def test_an_import_that_goes_down_or_never_runs_is_allowed(source):
    assert not upward("zooming.kernels.loop.jit", source)


def test_the_architecture_page_has_these_floors():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.M)
    floors = {int(floor): tuple(re.findall(r"`(\w+)`", rooms)) for floor, rooms in rows}
    assert floors == dict(enumerate(ROOMS))


def test_a_folder_has_at_most_fourteen_modules():
    folders = {}
    for path in modules().values():
        if path.stem != "__init__":
            folders.setdefault(path.parent, []).append(path.stem)
    assert not {folder: names for folder, names in folders.items() if len(names) > 14}


def graph():
    """{module: modules of the package that it imports}, lazy imports included."""
    known = {name.removesuffix(".__init__"): path for name, path in modules().items()}
    found = {}
    for name, path in known.items():
        found[name] = set()
        for target, _ in imported(path.read_text(), is_exact=True):
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target and target != name:
                found[name].add(target)
    return found


def cycle(edges):
    """Return a cycle of a graph as a list of its nodes, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node) :]
        if node in done:
            return None
        path.append(node)
        for target in sorted(edges.get(node, ())):
            if (found := visit(target)) is not None:
                return found
        path.pop()
        done.add(node)
        return None

    return next((found for node in sorted(edges) if (found := visit(node))), None)


def test_no_import_closes_a_cycle_by_any_spelling():
    edges = graph()
    assert cycle(edges) is None
    mutant = {**edges, "zooming.agents.base.agent": {"zooming.agents.auto.auto"}}
    assert "zooming.agents.auto.auto" in cycle(mutant)
