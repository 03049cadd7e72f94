import gc
import os
import shutil
import signal
import sys
from pathlib import Path

import gymnasium as gym
import matplotlib
import matplotlib.pyplot as plt
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
pytest.register_assert_rewrite("helpers", "oracles")
# Compiled or not, the same examples: what is slow without compilation is chosen by the marker
# `plain`, not by a deadline.
settings.register_profile(
    "zooming", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("zooming")
os.environ.setdefault("COLUMNS", "200")
# A shell that runs the tests in the background has processes ignore SIGINT, and children inherit
# that. Tests of Ctrl-C need it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Leave out of the garbage collection what stays: it takes a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def in_this_process():
    """Compute the chunks of studies in this process: a worker process takes seconds to start.

    Yield the function that starts workers; `workers` puts it back.
    """
    from zooming.lab.study import engines

    def compute(chunks, n_workers):
        for chunk in chunks:
            yield chunk, *engines._run(chunk)

    with pytest.MonkeyPatch.context() as patch:
        start_workers = engines._local
        patch.setattr(engines, "_local", compute)
        yield start_workers


@pytest.fixture
def workers(in_this_process, monkeypatch):
    """Compute the chunks of studies in worker processes, as users do."""
    from zooming.lab.study import engines

    monkeypatch.setattr(engines, "_local", in_this_process)


@pytest.fixture
def as_a_user(tmp_path, monkeypatch):
    """Run a user's code in an empty folder, and forget what it imported, registered and drew."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["zooming"])
    registered = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(registered)
    own = (str(tmp_path), str(Path(__file__).parent.parent / "examples"))
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(own):
            del sys.modules[name]
    plt.close("all")


@pytest.fixture(scope="module")
def browser():
    """Yield a Chromium to open pages in."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and "CI" not in os.environ:
        pytest.skip("there is no Chromium here; make browser installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
