import os

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
# Compiled or not, the same examples: what is slow without compilation is chosen by the marker `plain`, not by a deadline.
settings.register_profile("zooming", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zooming")
os.environ.setdefault("COLUMNS", "200")
