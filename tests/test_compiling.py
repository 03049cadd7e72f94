"""Kernels kept on disk: used again, and never when a file that they depend on has changed; those
that travel in a wheel; and the line that says that kernels are compiled."""

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import zooming
from zooming import kernels
from zooming.app import cli
from zooming.kernels.loop import jit, numba_parts

ROOT = Path(__file__).parent.parent

SCRIPT = """
import numpy as np
from zooming import kernels
from zooming.kernels.boxes.points import play_value
axes = np.zeros((1, 5))
axes[0, kernels.ATOMS] = 8
for _ in range(2):
    played = play_value(np.zeros(1, kernels.CORE), axes, 0, kernels.UNIFORM, 0.0, 1.0)
print(played, sum(play_value.stats.cache_hits.values()))
"""


def value_and_hits(folder, **variables):
    places = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    variables = {**os.environ, **places, **variables}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, check=True
    )
    value, hits = run.stdout.split()
    return float(value), int(hits)


def copy_sources(folder):
    ignored = shutil.ignore_patterns("__pycache__", "compiled")
    shutil.copytree(Path(zooming.__file__).parent, folder / "zooming", ignore=ignored)


@pytest.mark.process
@pytest.mark.slow
def test_a_cached_kernel_sees_an_edit_in_another_file_of_its_folder(tmp_path):
    copy_sources(tmp_path)
    assert value_and_hits(tmp_path) == (7.5, 0)
    assert value_and_hits(tmp_path) == (7.5, 1)
    rule = tmp_path / "zooming" / "kernels" / "boxes" / "update_rule.py"
    rule.write_text(rule.read_text().replace("return mix(z)", "return np.uint64(0)"))
    assert value_and_hits(tmp_path) == (0.5, 0)


def test_kernels_use_nothing_of_ours_from_outside_their_folder():
    """What they took from elsewhere could change without their cache noticing."""
    for path in (Path(zooming.__file__).parent / "kernels").rglob("*.py"):
        ours = re.findall(r"^(?:from|import) (zooming[\w.]*)", path.read_text(), re.M)
        assert all(module.startswith("zooming.kernels") for module in ours), (path.name, ours)


@pytest.mark.process
def test_where_nothing_can_be_written_kernels_are_compiled_anew(tmp_path):
    script = (
        "import numba.core.caching as c\n"
        "def refuse(*a): raise RuntimeError('no locator available')\n"
        "c.FunctionCache.__init__ = refuse\n"
        "from zooming.kernels.loop import jit\n"
        "@jit.jit_kernel\ndef double(x):\n    return 2 * x\n"
        "print(double(4))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["8"]


# --- kernels in a wheel ---------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.slow
def test_kernels_of_a_baseline_are_used_where_they_fit_and_their_sources_are_the_same(tmp_path):
    copy_sources(tmp_path)
    level = numba_parts.HOST_LEVELS[0]
    baseline = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}
    assert value_and_hits(tmp_path, **baseline) == (7.5, 0)
    (folder,) = (tmp_path / "zooming" / "kernels" / "compiled").iterdir()
    assert not list((tmp_path / "cache").rglob("*.nbc"))  # only the baseline's folder is written
    written = sorted(path.name for path in folder.iterdir())
    assert value_and_hits(tmp_path) == (7.5, 1)
    assert value_and_hits(tmp_path, NUMBA_BOUNDSCHECK="1") == (7.5, 0)
    assert sorted(path.name for path in folder.iterdir()) == written
    shutil.rmtree(tmp_path / "cache")
    other = folder.with_name(folder.name.replace("numba-", "numba-1"))
    folder.rename(other)  # of another Numba
    assert value_and_hits(tmp_path) == (7.5, 0)
    other.rename(folder)
    shutil.rmtree(tmp_path / "cache")
    rule = tmp_path / "zooming" / "kernels" / "boxes" / "update_rule.py"
    rule.write_text(rule.read_text().replace("return mix(z)", "return np.uint64(0)"))
    assert value_and_hits(tmp_path) == (0.5, 0)


def test_a_processor_gets_kernels_of_a_level_whose_features_it_has():
    v2, v3 = numba_parts.LEVELS["x86-64-v2"], numba_parts.LEVELS["x86-64-v3"]
    assert set(v2) < set(v3)
    assert numba_parts.levels_of("x86_64", dict.fromkeys(v3, True)) == ["x86-64-v3", "x86-64-v2"]
    without = {**dict.fromkeys(v3, True), "avx2": False}
    assert numba_parts.levels_of("AMD64", without) == ["x86-64-v2"]
    assert numba_parts.levels_of("x86_64", {}) == []
    assert numba_parts.levels_of("arm64", {}) == ["generic"]


FIRST_RUN = """
import time
import gymnasium as gym
import zooming
zooming.Auto(gym.make("zooming/Oil-v0"), seed=0).learn(50)
seconds = time.process_time()
from zooming.kernels.loop.jit import WATCH
print(zooming.__file__, WATCH.n_done, seconds)
"""


@pytest.mark.process
@pytest.mark.slow
def test_with_the_wheel_the_first_run_of_auto_compiles_nothing_and_takes_three_seconds(tmp_path):
    """`make` has compiled the kernels. Elsewhere they are compiled here, which takes minutes."""
    cli.main(["warm", "--agents", "auto"])
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-q", "-w", tmp_path, ROOT], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith(f"{sysconfig.get_platform().replace('-', '_')}.whl")
    venv.create(tmp_path / "fresh", symlinks=True)
    (packages,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    shutil.unpack_archive(wheel, packages, "zip")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    variables["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    run = subprocess.run(
        [tmp_path / "fresh" / "bin" / "python", "-c", FIRST_RUN],
        env=variables, cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    place, n_compiled, seconds = run.stdout.split()
    assert Path(place).is_relative_to(packages)
    assert (n_compiled, run.stderr) == ("0", "")
    assert float(seconds) < 3.0


# --- the line -------------------------------------------------------------------------------------


def compile_slowly(watch, seconds):
    """What a kernel and a function that it calls report."""
    watch.begin("make_plan")
    watch.began -= seconds
    watch.begin("select_boxes")
    watch.show()
    watch.end()
    watch.end()
    watch.hide()


@pytest.fixture
def no_switch(monkeypatch):
    """The variables of a user who set none."""
    monkeypatch.delenv("ZOOMING_QUIET", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_compilation_of_over_a_second_says_once_what_it_does(no_switch, capsys, monkeypatch):
    watch = jit.Watch()
    compile_slowly(watch, 0.0)
    assert capsys.readouterr().err == ""
    compile_slowly(watch, 3.0)
    compile_slowly(watch, 3.0)
    said = "zooming: compiling the planner of Auto, 3 of about 50 s, 2 done. This happens once.\n"
    assert capsys.readouterr().err == said
    monkeypatch.setenv("ZOOMING_QUIET", "1")
    compile_slowly(jit.Watch(), 3.0)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_line_is_removed_at_the_end(no_switch, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    compile_slowly(jit.Watch(), 3.0)
    assert "compiling the planner of Auto" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_the_longest_compilations_are_those_of_kernels():
    text = "".join(path.read_text() for path in Path(kernels.__file__).parent.rglob("*.py"))
    for name in jit.LONGEST:
        function, _, table = name.partition("_")
        assert f"def {name}(" in text or (f"def {function}(" in text and f'"{table}"' in text), name


def test_warm_names_what_it_can_compile(capsys):
    with pytest.raises(SystemExit, match="no agent to compile is named 'auot'; did you mean"):
        cli.main(["warm", "--agents", "auot"])


@pytest.mark.process
@pytest.mark.slow
def test_warm_compiles_in_processes_with_the_baseline(monkeypatch, capsys):
    """Here the kernels are there already, so that it takes seconds."""
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    cli.main(["warm", "--agents", "random,median", "--jobs", "2"])
    said = capsys.readouterr()
    assert said.out.startswith(f"{numba_parts.HOST_LEVELS[0]}: compiled the kernels of ")
    assert "NUMBA_CPU_NAME" not in os.environ
