"""Measure whether the tests notice small faults: change one spot of the source, run tests, repeat.

`python tools/mutate.py --mutants 25` draws 25 changes (mutants) in each room of `ROOMS`, and runs
tests that call the changed function, for up to 15 s, until one fails. A mutant is killed if a
test fails, crashes or takes too long, and survives otherwise. The command prints killed and drawn
mutants of each room, then a list of survivors: each is a fault that no test notices, or a change
that makes no difference.

All happens in a copy of the tree in a temporary folder. One run of the candidate tests comes first:
it records what each test costs and which functions it calls. Kernels are not compiled: a compiled
function calls others unseen, and each change of a kernel would compile all of them again.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import numba
import pytest

ROOT = Path(__file__).parent.parent
COPIED = (
    "src",
    "tests",
    "tools",
    "benchmarks",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
    "Makefile",
)
ANSWER = 5  # seconds in which a process starts and a test file is imported
MEMORY = 8 * 2**30  # bytes that a mutant may take


@dataclass(frozen=True)
class Room:
    """Source files, and the tests that may kill their mutants."""

    name: str
    sources: tuple[str, ...]  # globs
    tests: dict[str, str]  # the file of tests: marker expression, "" for all
    left_out: tuple[str, ...] = ()  # globs of file names


_ALL = "not slow and not process"
_BOXES = (
    "adaptive_q",
    "net_q",
    "tree_q",
    "relatives",
    "splits",
    "mixed_spaces",
    "feasible",
    "bonuses",
)
_PLAIN = dict.fromkeys((f"tests/test_{name}.py" for name in (*_BOXES, "metric_q")), "plain")
_FILES = dict.fromkeys(
    (f"tests/test_{name}.py" for name in ("files", "checkpoints", "clipping")), _ALL
)
ROOMS = (
    Room(
        "kernels",
        tuple(
            f"src/zooming/kernels/{name}.py" for name in ("balls", "boxes/*", "loop/*", "solve/*")
        ),
        {
            **_PLAIN,
            "tests/test_heuristics.py": "plain",
            "tests/test_drivers.py": "plain",
            "tests/test_laws.py": "plain",
            "tests/test_metrics.py": "plain",
            "tests/test_optimal.py": "plain",
            "tests/test_replay.py": "plain",
            "tests/test_bad_input.py": "kernels",
        },
        # The first four speak to the compiler and to the addresses of compiled functions.
        left_out=("numba_parts.py", "jit.py", "crossing.py", "records.py", "__init__.py"),
    ),
    Room(
        "partitions",
        ("src/zooming/partitions/*.py",),
        {**_PLAIN, **_FILES, "tests/test_view.py": "plain"},
        left_out=("cells.py", "cuts.py"),  # sections for plots are tested with them
    ),
    Room(
        "planner",
        ("src/zooming/kernels/plans/*.py", "src/zooming/partitions/cells.py"),
        dict.fromkeys(("tests/test_planner.py", "tests/test_cells.py"), "plain"),
    ),
    Room(
        "files",
        ("src/zooming/agents/files/container.py", "src/zooming/agents/files/checkpoints.py"),
        _FILES,
    ),
)


# --- mutants --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the bytes from `start` to `stop` become `new`."""

    path: str
    line: int
    function: int  # the first line of the function around it; 0 outside of functions
    start: int
    stop: int
    old: str
    new: str

    def apply(self, source):
        """Return the changed source."""
        return source[: self.start] + self.new.encode() + source[self.stop :]

    def __str__(self):
        def short(text):
            text = " ".join(text.split())
            return text if len(text) < 60 else text[:57] + "..."

        return f"{self.path}:{self.line}: {short(self.old)} -> {short(self.new)}"


SWAPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def changes(node):
    """Yield what may replace a node of the syntax tree, as source text."""
    if isinstance(node, ast.Compare):
        for k, operator in enumerate(node.ops):
            ops = [*node.ops[:k], SWAPPED[type(operator)](), *node.ops[k + 1 :]]
            yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        other = ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
        yield f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        yield f"({ast.unparse(ast.BoolOp(SWAPPED[type(node.op)](), node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield f"({node.value!r} + 1)"
        yield f"({node.value!r} - 1)"
    elif isinstance(node, ast.If):
        test = ast.unparse(ast.UnaryOp(ast.Not(), node.test))
        yield f"({test})"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return None"
    elif isinstance(node, (ast.AugAssign, ast.Raise, ast.Break, ast.Continue)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "pass"
    elif isinstance(node, ast.Assign) and not any(
        isinstance(target, (ast.Name, ast.Tuple)) for target in node.targets
    ):
        yield "pass"  # a missing name would be noticed at once, a missing entry need not


def mutants_of(path, source):
    """Return every mutant of a file, in the order of its lines.

    Annotations, default types, f-strings and what `TYPE_CHECKING` guards are left alone.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []

    def visit(node, function, is_index=False):
        if isinstance(node, ast.FunctionDef):
            function = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if isinstance(node, (ast.JoinedStr, ast.arguments)) or _guards_types(node):
            return
        place = node.test if isinstance(node, ast.If) else node
        for new in changes(node):
            if is_index and new == "(0 - 1)":
                continue  # the last entry: of the arrays of one record, the first one, too
            start = starts[place.lineno - 1] + place.col_offset
            stop = starts[place.end_lineno - 1] + place.end_col_offset
            old = source[start:stop].decode()
            found.append(Mutant(path, place.lineno, function, start, stop, old, new))
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if isinstance(node, ast.Slice) and name == "step":
                continue  # of float64[::1], a type
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, function, isinstance(node, ast.Subscript) and name == "slice")

    visit(ast.parse(source), 0)
    return sorted(found, key=lambda mutant: (mutant.start, mutant.stop, mutant.new))


def _guards_types(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


# --- running tests --------------------------------------------------------------------------------


class Copy:
    """A copy of a tree in which the tests of one room run."""

    def __init__(self, tree, folder, room):
        self.room, self.folder = room, Path(folder)
        for name in COPIED:
            source = Path(tree, name)
            if source.is_dir():
                shutil.copytree(
                    source, self.folder / name, ignore=shutil.ignore_patterns("__pycache__")
                )
            elif source.exists():
                shutil.copy(source, self.folder / name)
        self.sources = sorted(
            path
            for pattern in room.sources
            for path in self.folder.glob(pattern)
            if not any(path.match(name) for name in room.left_out)
        )
        self.record = self.folder / "record.jsonl"
        self.output = self.folder / "output.txt"
        self.tests = {}  # test: (seconds, {(file, first line) of functions that it calls})

    def mutants(self):
        """Return every mutant of the room."""
        return [
            mutant
            for path in self.sources
            for mutant in mutants_of(str(path.relative_to(self.folder)), path.read_bytes())
        ]

    def observe(self):
        """Run the candidate tests once, and remember those that pass."""
        files = os.pathsep.join(map(str, self.sources))
        for marker in dict.fromkeys(self.room.tests.values()):
            tests = [
                name
                for name, its_marker in self.room.tests.items()
                if its_marker == marker and (self.folder / name).exists()
            ]
            chosen = ["-m", marker, *tests] if marker else tests
            code = self._pytest(chosen, MUTATE_RECORD=str(self.record), MUTATE_FILES=files)
            if code not in (0, 1):  # 1: tests failed, and count for nothing
                raise SystemExit(f"the tests do not run:\n{self.output.read_text()[-2000:]}")
        for line in self.record.read_text().splitlines():
            test, seconds, calls = json.loads(line)
            self.tests[test] = seconds, {tuple(call) for call in calls}

    def chosen(self, mutant, budget):
        """Return the tests that call the changed function, and their seconds.

        One case of each test comes first, then a second one of each, and so on; fastest first.
        """
        place, cases, ranked = (mutant.path, mutant.function), Counter(), []
        for test, (cost, calls) in sorted(self.tests.items(), key=lambda item: item[1][0]):
            if place in calls or (mutant.function == 0 and calls):  # a constant: any test may tell
                function = test.split("[")[0]
                ranked.append((cases[function], cost, test))
                cases[function] += 1
        seconds, chosen = 0.0, []
        for _, cost, test in sorted(ranked):
            if not chosen or seconds + cost <= budget:
                chosen.append(test)
                seconds += cost
        return chosen, seconds

    def survives(self, mutant, budget=15.0):
        """Return whether no chosen test notices a mutant; if no test reaches it, none does."""
        tests, seconds = self.chosen(mutant, budget)
        if not tests:
            return True
        path = self.folder / mutant.path
        source = path.read_bytes()
        chosen = self.folder / "chosen.json"
        chosen.write_text(json.dumps(tests))
        try:
            self._write(path, mutant.apply(source))
            files = dict.fromkeys(test.split("::")[0] for test in tests)
            limit = int(4 * (ANSWER + seconds)) + 10
            code = self._pytest(["-x", *files], limit, MUTATE_CHOSEN=str(chosen))
        finally:
            self._write(path, source)
        if code == 5:
            raise SystemExit(f"no test ran for {mutant}")
        return code == 0

    def _write(self, path, source):
        """Write a source file and forget its compiled form, whose time may be the same."""
        path.write_bytes(source)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def _pytest(self, arguments, limit=None, **variables):
        """Run pytest in the copy, and return its exit code, negative if a signal ended it.

        It runs in a fork of this process, which has imported the libraries already.
        """
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = self._pytest_here(arguments, limit, variables)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        latest = float("inf") if limit is None else time.monotonic() + 20 * limit
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > latest:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
        return os.waitstatus_to_exitcode(ended[1])

    def _pytest_here(self, arguments, limit, variables):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if limit is not None:  # seconds of the processor: the machine may be busy
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        os.chdir(self.folder)
        os.environ.update(variables)
        os.environ["PYTHONPATH"] = str(self.folder / "src")
        sys.path.insert(0, str(self.folder / "src"))
        numba.config.DISABLE_JIT = 1
        shown = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(shown, 1)
        os.dup2(shown, 2)
        options = ["-q", "-p", "no:cacheprovider"]
        return int(pytest.main([*options, *arguments], plugins=[sys.modules[__name__]]))


# --- inside pytest --------------------------------------------------------------------------------


def pytest_collection_modifyitems(items):
    """Keep the chosen tests, in their order."""
    if "MUTATE_CHOSEN" in os.environ:
        chosen = json.loads(Path(os.environ["MUTATE_CHOSEN"]).read_text())
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in chosen if name in found]


def pytest_runtest_setup(item):
    """Begin to record the functions that a test calls."""
    if "MUTATE_RECORD" not in os.environ:
        return
    root = Path.cwd()
    names = {
        path: str(Path(path).relative_to(root))
        for path in os.environ["MUTATE_FILES"].split(os.pathsep)
    }
    calls = item.mutate_calls = set()
    item.mutate_began = time.process_time()

    def trace(frame, event, argument):
        code = frame.f_code
        if code.co_filename in names:
            calls.add((names[code.co_filename], code.co_firstlineno))

    sys.settrace(trace)


def pytest_runtest_teardown(item):
    """End the record of a test."""
    if "MUTATE_RECORD" in os.environ:
        sys.settrace(None)
        item.mutate_seconds = time.process_time() - item.mutate_began


def pytest_runtest_makereport(item, call):
    """Write the record of a test that passed."""
    if "MUTATE_RECORD" in os.environ and call.when == "call" and call.excinfo is None:
        seconds = time.process_time() - item.mutate_began
        with open(os.environ["MUTATE_RECORD"], "a") as file:
            print(json.dumps([item.nodeid, seconds, sorted(item.mutate_calls)]), file=file)


# --- the command ----------------------------------------------------------------------------------


def measure(tree, room, n_mutants, seed, budget=15.0, say=print):
    """Draw mutants of one room, run tests on each, and return (drawn, survivors)."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Copy(tree, Path(folder).resolve(), room)
        every = copy.mutants()
        copy.observe()
        drawn = random.Random(seed).sample(every, min(n_mutants, len(every)))
        survivors = []
        for mutant in drawn:
            survived = copy.survives(mutant, budget)
            if survived:
                survivors.append(mutant)
            reached = "" if copy.chosen(mutant, budget)[0] else " (no test reaches it)"
            say(f"{'survived' if survived else 'killed':9}{mutant}{reached}", flush=True)
    return drawn, survivors


def main(arguments=None):
    """Measure the rooms and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    names = [room.name for room in ROOMS]
    parser.add_argument("--room", action="append", choices=names, help="a room; default: all")
    parser.add_argument("--only", nargs="+", help="names of source files; default: all")
    parser.add_argument("--mutants", type=int, default=25, help="mutants to draw in each room")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    parser.add_argument("--budget", type=float, default=15.0, help="seconds of tests per mutant")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the tree to measure")
    options = parser.parse_args(arguments)
    scores = []
    for room in ROOMS:
        if room.name in (options.room or names):
            room = replace(room, sources=_limited(room.sources, options.only))
            drawn, survivors = measure(
                options.tree, room, options.mutants, options.seed, options.budget
            )
            scores.append((room.name, len(drawn), survivors))
    print(f"\n{'room':12}{'mutants':>8}{'killed':>8}{'score':>8}")
    for name, n_drawn, survivors in scores:
        killed = n_drawn - len(survivors)
        print(f"{name:12}{n_drawn:8}{killed:8}{killed / n_drawn:8.0%}")
    print("\nsurvivors:")
    for _, _, survivors in scores:
        print(*(f"  {mutant}" for mutant in survivors), sep="\n")


def _limited(sources, names):
    """Return the globs of the files with these names, in the folders of `sources`."""
    if names is None:
        return sources
    folders = dict.fromkeys(Path(source).parent for source in sources)
    return tuple(str(folder / name) for folder in folders for name in names)


if __name__ == "__main__":
    main()
