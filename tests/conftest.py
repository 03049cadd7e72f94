import os
import signal

import matplotlib
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
