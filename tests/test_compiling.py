"""Kernels kept on disk: used again, and never when a file that they depend on has changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import zooming

SCRIPT = """
import numpy as np
from zooming import kernels
from zooming.kernels.points import play_value
axes = np.zeros((1, 5))
axes[0, kernels.ATOMS] = 8
for _ in range(2):
    played = play_value(np.zeros(1, kernels.CORE), axes, 0, kernels.UNIFORM, 0.0, 1.0)
print(played, sum(play_value.stats.cache_hits.values()))
"""


def value_and_hits(folder):
    variables = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, check=True
    )
    value, hits = run.stdout.split()
    return float(value), int(hits)


@pytest.mark.process
@pytest.mark.slow
def test_a_cached_kernel_sees_an_edit_in_another_file_of_its_folder(tmp_path):
    shutil.copytree(
        Path(zooming.__file__).parent,
        tmp_path / "zooming",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    assert value_and_hits(tmp_path) == (7.5, 0)
    assert value_and_hits(tmp_path) == (7.5, 1)
    rule = tmp_path / "zooming" / "kernels" / "update_rule.py"
    rule.write_text(rule.read_text().replace("return mix(z)", "return np.uint64(0)"))
    assert value_and_hits(tmp_path) == (0.5, 0)


def test_kernels_use_nothing_of_ours_from_outside_their_folder():
    """What they took from elsewhere could change without their cache noticing."""
    for path in (Path(zooming.__file__).parent / "kernels").glob("*.py"):
        ours = re.findall(r"^(?:from|import) (zooming[\w.]*)", path.read_text(), re.M)
        assert all(module.startswith("zooming.kernels") for module in ours), (path.name, ours)


@pytest.mark.process
def test_where_nothing_can_be_written_kernels_are_compiled_anew(tmp_path):
    script = (
        "import numba.core.caching as c\n"
        "def refuse(*a): raise RuntimeError('no locator available')\n"
        "c.FunctionCache.__init__ = refuse\n"
        "from zooming.kernels import jit\n"
        "@jit.jit_kernel\ndef double(x):\n    return 2 * x\n"
        "print(double(4))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["8"]
