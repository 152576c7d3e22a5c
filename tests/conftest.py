"""Settings shared by all tests."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

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


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that commands are given in; modules found there are forgotten again."""
    folder = tmp_path / "working directory"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield folder
    for name in [name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(str(folder))]:
        del sys.modules[name]


@pytest.fixture
def write_module(working_directory: Path) -> Callable[[str, str], None]:
    """Write a user's own module into the working directory."""

    def write(name: str, source: str) -> None:
        (working_directory / f"{name}.py").write_text(source)

    return write
