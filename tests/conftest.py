"""Settings shared by all tests."""

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
# The same examples every time: a red test stays red until it is mended. Deadlines measure the machine, not the code.
settings.register_profile("imitable", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("imitable")
