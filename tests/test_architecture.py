"""The shape of the package: which way imports point, and what its front page promises."""

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

import imitable

ROOT = Path(imitable.__file__).parent
STAGES = [
    ("arrays", "errors", "files"),
    ("demonstrations",),
    ("simulators",),
    ("networks",),
    ("reinforcement",),
    ("evaluation",),
    ("experts",),
    ("residual_net",),
    ("inverse_dynamics",),
    ("replay",),
    ("problem",),
    ("scores",),
    ("sampling",),
    ("learners",),
    ("tasks",),
    ("changes",),
    ("methods",),
    ("experiment",),
    ("scorecard",),
    ("kept",),
    ("runs",),
    ("sweep",),
    ("report",),
    ("cli",),
]
"""Top-level modules in the order of the data; a module may import what stands above it, not what stands below."""
FREE = {"__init__", "__main__"}
RANK = {name: rank for rank, names in enumerate(STAGES) for name in names}


def modules() -> dict[str, Path]:
    """Dotted names below the package to files."""
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names a file imports, anywhere in it, those for type checkers included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relative to itself"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def own_imports(path: Path) -> set[str]:
    """Top-level modules of the package that a file imports."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("imitable.")}
    return {name for name in names if name in RANK}


def test_every_module_has_its_stage() -> None:
    assert {name.split(".")[0] for name in modules()} - FREE <= set(RANK)


@pytest.mark.parametrize("name", [name for name in modules() if name.split(".")[0] not in FREE])
def test_imports_point_up_the_list(name: str) -> None:
    stage = name.split(".")[0]
    below = {other for other in own_imports(modules()[name]) if RANK[other] > RANK[stage]}
    beside = {other for other in own_imports(modules()[name]) if RANK[other] == RANK[stage] and other != stage}
    assert not below, f"{name} imports {sorted(below)}, which come after it"
    if stage not in ("arrays", "errors", "files"):
        assert not beside, f"{name} imports {sorted(beside)}, which stand beside it"


def test_scores_and_learners_never_import_each_other() -> None:
    for name, path in modules().items():
        if name.startswith("scores."):
            assert "learners" not in own_imports(path), name
        if name.startswith("learners."):
            assert "scores" not in own_imports(path), name


def test_only_one_file_imports_mujoco() -> None:
    users = [name for name, path in modules().items() if any(each.split(".")[0] == "mujoco" for each in imports(path))]
    assert users == ["simulators._mujoco"]


def test_the_front_page_names_exist() -> None:
    assert len(imitable.__all__) == len(set(imitable.__all__))
    for name in imitable.__all__:
        assert getattr(imitable, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = imitable.nothing


@pytest.mark.parametrize("name", [name for name in modules() if name != "__main__"])
def test_every_promised_name_can_be_imported(name: str) -> None:
    dotted = f"imitable.{name}".removesuffix(".__init__")
    module = importlib.import_module(dotted)
    for promised in getattr(module, "__all__", ()):
        assert hasattr(module, promised), f"{dotted} promises {promised}"


@pytest.mark.parametrize("name", modules())
def test_modules_are_short(name: str) -> None:
    assert len(modules()[name].read_text().splitlines()) < 450


@pytest.mark.parametrize("name", [name for name in modules() if name != "__main__"])
def test_modules_say_what_they_are(name: str) -> None:
    assert ast.get_docstring(ast.parse(modules()[name].read_text()))


def test_the_type_marker_is_there() -> None:
    assert (ROOT / "py.typed").exists()
