"""Private parts of Numba, Gymnasium and the process pool: where they are used, and without them.

If a test of `_are_there` fails after an update, zooming still works, only slower: see the module
that uses the attribute.
"""

import ast
import os
import runpy
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import gymnasium as gym
import numba
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import zooming
from helpers import Drift
from zooming import kernels
from zooming.envs import gymnasium_parts
from zooming.kernels.loop import jit, numba_parts
from zooming.lab.study import engines as pools

SOURCES = Path(zooming.__file__).parent
NUMBA = (
    "_cache _cache_file _source_stamp _compile_for_args _lineno _py_file _nrt _fields _getvalue "
    "_index_key _get_jit_address _get_wrapper_address"
)
GYMNASIUM = "_max_episode_steps _np_random _np_random_seed"
USED_IN = {
    **dict.fromkeys(NUMBA.split(), "kernels/loop/numba_parts.py"),
    **dict.fromkeys(GYMNASIUM.split(), "envs/gymnasium_parts.py"),
    "_processes": "lab/study/engines.py",
}
# Of os and sys, of named tuples, and the ending of C types.
DOCUMENTED = {"_exit", "_current_frames", "_getframe", "_asdict", "_t", "_repr_html_"}


def private_names(tree):
    """Yield (name, whether it is defined here) of every private name in a module."""
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    pieces = {id(piece) for text in formatted for piece in text.values}
    for node in ast.walk(tree):
        if id(node) in pieces:
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, True
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            yield node.attr, is_own and isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, False
        elif isinstance(node, ast.Constant) and str(node.value).isidentifier():
            yield str(node.value), False  # for getattr, and for options in a dict
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, False) for alias in node.names)


def test_private_parts_of_other_libraries_are_used_only_where_they_are_guarded():
    defined, used = set(), {}
    for path in sorted(SOURCES.rglob("*.py")):
        for name, is_defined in private_names(ast.parse(path.read_text())):
            if name.startswith("_") and not name.startswith("__"):
                if is_defined and USED_IN.get(name) is None:
                    defined.add(name)
                used.setdefault(name, set()).add(str(path.relative_to(SOURCES)))
    foreign = {name: where for name, where in used.items() if name not in defined | DOCUMENTED}
    foreign = {name: where for name, where in foreign.items() if len(name) > 1}
    assert foreign == {name: {where} for name, where in USED_IN.items()}


BY_NAME = {"getattr", "setattr", "hasattr", "delattr", "attrgetter", "methodcaller"}


def is_foreign(name):
    """Return whether a name is private, and not one of another library that is guarded."""
    known = {*USED_IN, *DOCUMENTED, "_replace"}
    return name.startswith("_") and not name.startswith("__") and name not in known


def own_copies(tree):
    """Return the reads `twin._name` of a method that made `twin = copy.copy(self)`."""
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and "copy.copy(self)" in ast.unparse(function):
            found |= {id(node) for node in ast.walk(function) if ast.unparse(node) == "twin"}
    return found


def foreign_reads(source):
    """Return the reads of private members of other objects, by a dot, a name, or an import."""
    tree = ast.parse(source)
    copies, found = own_copies(tree), []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and id(node.value) not in copies:
                names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BY_NAME:
            names = [one.value for one in node.args if isinstance(one, ast.Constant)]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if ast.unparse(node.value).startswith("vars(") or "__dict__" in ast.unparse(node.value):
                names = [node.slice.value]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        if any(isinstance(name, str) and is_foreign(name) for name in names):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_no_private_member_of_another_object_is_read():
    found = {path: foreign_reads(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))}
    assert not {path: reads for path, reads in found.items() if reads}


def test_a_read_of_another_object_is_found_by_every_spelling():
    reads = "agent._d; self.agent._e; f()._f; getattr(a, '_b'); vars(a)['_b']; a.__dict__['_b']"
    assert len(foreign_reads(f"self._a; cls._b; super()._c; {reads}")) == 6
    assert foreign_reads("from m import _a")
    assert foreign_reads("class A:\n    def _d(self, other): other._d()")  # of its own class
    assert not foreign_reads("def f(self): twin = copy.copy(self); twin._a = 1")


# --- Numba ----------------------------------------------------------------------------------------

UNDOCUMENTED = ("numba.core", "numba.np", "numba.experimental")


def uses_of_inner_modules(tree):
    """Yield the imports of Numba's inner modules, and names such as `numba.core.errors`."""
    for node in ast.walk(tree):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
        if any(name and name.startswith(UNDOCUMENTED) for name in names):
            yield node


def test_inner_modules_of_numba_may_be_missing():
    found = set()
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text())
        guarded = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.Try)
            and any(getattr(one.type, "id", "") == "ImportError" for one in block.handlers)
            for node in block.body
        }
        for node in uses_of_inner_modules(tree):
            assert id(node) in guarded, f"{path}, line {node.lineno}: a use without a fallback"
            found.add(str(path.relative_to(SOURCES)))
    assert found == {"kernels/loop/numba_parts.py"}


@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="nothing is compiled")
def test_private_parts_of_this_numba_are_there():
    assert numba_parts.NO_REFCOUNT, "kernels count references, which takes a third more time"
    kernel = numba.njit(lambda x: x)
    assert hasattr(kernel, "_compile_for_args"), "compilation is not safe from signals"
    assert hasattr(kernel, "get_call_template"), "each constant argument is compiled anew"
    kernel.enable_caching()
    assert hasattr(kernel._cache._cache_file, "_source_stamp"), "nothing is cached on disk"


@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="nothing is compiled")
def test_a_numba_without_private_parts_compiles_in_every_process(monkeypatch):
    class Bare:
        """A dispatcher with the documented methods only."""

        def __init__(self, function):
            self.function = function

        def enable_caching(self):
            self.cache = object()

    njit, made = numba.njit, []

    def bare_first(**options):
        made.append(options)
        return Bare if len(made) == 1 else njit(**options)

    monkeypatch.setattr(numba, "njit", bare_first)
    kernel = jit.compile_kernel(lambda x: x + 1.0)
    monkeypatch.undo()
    assert len(made) == 2
    assert kernel(1.0) == 2.0
    numba_parts.compile_through(Bare(abs), None)  # has no hook to change


def test_a_numba_without_inner_modules_has_no_options_and_no_known_structures(monkeypatch):
    for name in ("numba.core.options", "numba.core.datamodel"):
        monkeypatch.setitem(sys.modules, name, None)
    parts = runpy.run_path(numba_parts.__file__)
    assert parts["NO_REFCOUNT"] == parts["REFCOUNT"] == {}
    assert not parts["has_known_structures"]()
    assert parts["branch_on"] is parts["_leave_to_llvm"]


# --- Gymnasium ------------------------------------------------------------------------------------


def test_private_parts_of_this_gymnasium_are_there():
    limited = TimeLimit(Drift(), 7)
    assert hasattr(limited, "_max_episode_steps"), "horizon= must be given under a TimeLimit"
    assert zooming.AdaptiveQ(limited, seed=0).horizon == 7
    assert Drift()._np_random is None, "a copy of an environment seeds the original"
    assert hasattr(Drift(), "_np_random_seed")


def test_without_private_parts_of_gymnasium_the_spec_has_the_limit(monkeypatch):
    class Bare(gym.Wrapper):
        """A TimeLimit that keeps its limit elsewhere."""

    monkeypatch.setattr(gymnasium_parts, "TimeLimit", Bare)
    made = gym.make("Pendulum-v1", max_episode_steps=9)
    assert zooming.AdaptiveQ(Bare(made), reward_range=(-17, 0), seed=0).horizon == 9
    with pytest.raises(zooming.ConfigurationError, match="horizon="):
        zooming.AdaptiveQ(Bare(Drift()), seed=0)


def test_without_private_parts_of_gymnasium_a_generator_is_copied_by_its_property():
    class Bare:
        """An environment that keeps its generator elsewhere."""

        def __init__(self, seed):
            self.np_random = np.random.default_rng(seed)

    first, second = Bare(1), Bare(2)
    gymnasium_parts.set_generator(second, *gymnasium_parts.generator_of(first))
    assert second.np_random is first.np_random
    gymnasium_parts.set_generator(second, *gymnasium_parts.generator_of(object()))
    assert second.np_random is first.np_random  # there was none to take


# --- the process pool -----------------------------------------------------------------------------


def pool_of_one():
    return ProcessPoolExecutor(1, get_context("spawn"))


def is_running(pid):
    """Return whether a process exists. `is_alive` may say so for ever: the pool's own thread asks
    for the end of its workers, too, and only one of the two is told."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.process
def test_private_parts_of_this_process_pool_are_there_and_end_its_workers():
    pool = pool_of_one()
    running = pool.submit(time.sleep, 60)
    while not running.running():
        time.sleep(0.01)
    assert hasattr(pool, "terminate_workers") or pool._processes, "Ctrl-C waits for running chunks"
    (worker,) = pool._processes.values()
    pools.stop_workers(pool)
    end = time.monotonic() + 30
    while is_running(worker.pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(worker.pid)


@pytest.mark.process
def test_without_private_parts_of_a_pool_running_tasks_are_waited_for():
    class Bare:
        def __init__(self, pool):
            self.shutdown = pool.shutdown

    pool = pool_of_one()
    running, *waiting = [pool.submit(np.sum, [1, 2]) for _ in range(9)]
    pools.stop_workers(Bare(pool))
    assert running.result() == 3
    assert all(future.done() for future in waiting)
