"""Settings shared by all tests."""

from collections.abc import Iterator

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
# The same examples every time: a red test stays red until it is mended. Deadlines measure the machine, not the code.
settings.register_profile("imitable", deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("imitable")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests keep nothing in the user's cache, nor find anything there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IMITABLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
