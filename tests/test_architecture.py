"""The shape of the package: which way imports point, who touches the disk, and what its front page promises."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import imitable

ROOT = Path(imitable.__file__).parent
STAGES = [
    ("arrays", "errors"),
    ("registry",),
    ("store.files",),
    ("store.locks", "store.logs", "store.video"),
    ("demonstrations", "rounding"),
    ("formats",),
    ("simulators",),
    ("check",),
    ("networks",),
    ("rollouts",),
    ("inverse_dynamics",),
    ("replay",),
    ("restorability",),
    ("noise",),
    ("windows",),
    ("tracking",),
    ("scores",),
    ("assessment",),
    ("conventions", "gentleness", "self_check"),
    ("sampling",),
    ("trpo",),
    ("learners",),
    ("evaluation", "verdicts"),
    ("overrides", "pipeline"),
    ("store.cache", "store.runs", "store.scores"),
    ("deploy",),
    ("report",),
    ("paper",),
    ("robots",),
    ("cli",),
]
"""Modules and folders in the order of the data; a module may import what stands above it, not what stands beside or below."""
RANK = {name: rank for rank, names in enumerate(STAGES) for name in names}
FREE = {"__init__", "__main__", "_command", "store"}
UPSTAIRS = {"paper", "robots", "cli", "__init__", "__main__"}
"""The upper floor and what opens the house to users: these alone may import the paper's experiments."""


def modules() -> dict[str, Path]:
    """Dotted names below the package to files."""
    paths = sorted(ROOT.rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def stage(name: str) -> str:
    """`store.files` of that, `scores` of scores.base."""
    return next((stage for stage in RANK if name == stage or name.startswith(f"{stage}.")), name.split(".")[0])


STAGED = [name for name in modules() if stage(name) not in FREE]


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def nodes(tree: ast.AST) -> list[ast.AST]:
    """All of a file but what only type checkers see."""
    return [tree, *(below for child in ast.iter_child_nodes(tree) if not for_type_checkers(child) for below in nodes(child))]


@cache
def imports(path: Path) -> frozenset[str]:
    """Dotted names a file imports, anywhere in it, but for type checkers."""
    found = set()
    for node in nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relative to itself"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def own_imports(name: str) -> set[str]:
    """Stages of the package that a module imports, but its own."""
    found = {stage(each.removeprefix("imitable.")) for each in imports(modules()[name]) if each.startswith("imitable.")}
    return {each for each in found if each in RANK} - {stage(name)}


def test_every_module_has_its_stage() -> None:
    assert {stage(name) for name in modules()} - FREE == set(RANK), "a module has no stage, or a stage no module"


@pytest.mark.parametrize("name", STAGED)
def test_imports_point_up_the_list(name: str) -> None:
    wrong = {other for other in own_imports(name) if RANK[other] >= RANK[stage(name)]}
    assert not wrong, f"{name} imports {sorted(wrong)}, which stand beside or below it"


def test_the_order_would_be_noticed() -> None:
    assert own_imports("replay") >= {"inverse_dynamics", "simulators"}
    assert own_imports("learners.gail") >= {"trpo", "sampling"}
    assert "assessment" not in own_imports("scores.base"), "which names it for type checkers only"


@pytest.mark.parametrize("name", [name for name in modules() if name.split(".")[0] not in UPSTAIRS])
def test_the_tool_never_imports_the_paper(name: str) -> None:
    assert not [each for each in imports(modules()[name]) if each.startswith("imitable.paper")]


def test_only_simulators_import_mujoco() -> None:
    users = [name for name, path in modules().items() if any(each.split(".")[0] == "mujoco" for each in imports(path))]
    assert "simulators.physics" in users
    assert {name.split(".")[0] for name in users} == {"simulators"}


# Who touches the disk

OF_PATHS = {"read_bytes", "write_bytes", "read_text", "write_text", "unlink", "mkdir", "rmdir", "iterdir", "rglob", "glob"}
FILE_CALLS = {"open", "safe_open", "load", "save", "savez", "savez_compressed"} | OF_PATHS
MAY_TOUCH_FILES = {
    "paper.engines": "the log of a run",
    "paper.demonstrators": "a shipped policy is known by its file's hash",
    "paper.sweep": "the last line of that log",
    "paper.tasks": "published.json, which ships with the package",
    "paper.expert_training": "deletes snapshots of a training that has ended",
    "simulators.model_files": "the files beside one that is not there, for the error",
}


def file_calls(path: Path) -> set[str]:
    """Calls in a file that read or write another one; in memory, `np.load(BytesIO(...))` is the same to us."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in FILE_CALLS & {"open", "safe_open"}:
            found.add(node.func.id)
        if isinstance(node.func, ast.Attribute) and node.func.attr in FILE_CALLS:
            of_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
            of_path = node.func.attr in OF_PATHS
            opened = node.func.attr == "open" and any(isinstance(each, ast.Constant) for each in node.args)
            if of_numpy or of_path or opened:
                found.add(node.func.attr)
    return found


def test_only_the_store_and_the_formats_touch_files() -> None:
    found = {name for name, path in modules().items() if file_calls(path) and stage(name).split(".")[0] not in ("store", "formats")}
    assert found == set(MAY_TOUCH_FILES), "a module touches files that may not, or no longer does"


def test_touching_a_file_would_be_noticed(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    for call in (
        "open('x')",
        "Path('x').read_text()",
        "np.save('x', 1)",
        "np.load('x')",
        "path.open('wb')",
        "path.write_bytes(b'')",
        "path.mkdir()",
    ):
        source.write_text(f"def work():\n    return {call}\n")
        assert file_calls(source), call
    source.write_text("Policy.load('x')\nrecord.open(config, overwrite=True)\npolicy.save(path)\n")
    assert not file_calls(source), "methods of our own that go by the store"


def test_commands_print_lines_that_stay_lines() -> None:
    for name, path in modules().items():
        called = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        if any(node.func.id == "print" for node in called):  # type: ignore[attr-defined]
            needed = "imitable.report.terminal.print_line"
            assert needed in imports(path), f"{name} prints names as they are: from imitable.report.terminal import print_line as print"


# What importing loads

HEAVY = ("torch", "mujoco", "matplotlib", "pyarrow", "scipy")


@pytest.mark.parametrize("name", ["imitable", "imitable.cli", "imitable.paper.tasks", "imitable.learners", "imitable.robots"])
def test_importing_loads_nothing_heavy(name: str) -> None:
    program = f"import sys, {name}; print([each for each in {HEAVY} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_registers_its_environments() -> None:
    program = "import imitable, gymnasium; print('imitable/DrivingSlow-v0' in gymnasium.registry)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "True"


# The front page


def test_the_front_page_names_exist() -> None:
    assert len(imitable.__all__) == len(set(imitable.__all__))
    for name in imitable.__all__:
        assert getattr(imitable, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = imitable.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in modules() if name != "__main__"])
def test_every_promised_name_can_be_imported(name: str) -> None:
    module = importlib.import_module(f"imitable.{name}".removesuffix(".__init__"))
    for promised in getattr(module, "__all__", ()):
        assert hasattr(module, promised), f"imitable.{name} promises {promised}"


@pytest.mark.parametrize("name", modules())
def test_modules_are_short(name: str) -> None:
    assert len(modules()[name].read_text().splitlines()) < 350


@pytest.mark.parametrize("name", [name for name in modules() if name != "__main__"])
def test_modules_say_what_they_are(name: str) -> None:
    assert ast.get_docstring(ast.parse(modules()[name].read_text()))


def test_every_module_has_a_line_in_the_documentation() -> None:
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    files = {path.relative_to(ROOT).as_posix() for path in modules().values() if not path.name.startswith(("__", "_command"))}
    assert sorted(each for each in files if page.count(f"| `{each}` |") != 1) == []
    assert [each for each in re.findall(r"^\| `(\S+\.py)` \|", page, re.M) if each not in files] == []


def test_the_type_marker_is_there() -> None:
    assert (ROOT / "py.typed").exists()
