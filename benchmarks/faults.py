"""Break everything that can break, and count what was lost or believed: `make faults` (minutes), `--quick` (half a minute).

Every part is seeded and says how often it tried, how often all was well, and what failed. Files are damaged in every format that is read;
runs crash, fail and are interrupted at every file operation, are killed at random times, and meet a second process in their folder; hostile
files ask for memory and time; disks are full. All is well if every damaged file is refused by name or read as it was, no file takes more
than 300 MB and ten seconds, nothing ends in a traceback, and every broken run, begun again, gives the files of an unbroken one.
"""

import argparse
import builtins
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # processes are forked, which threads do not survive
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import numpy as np  # noqa: E402
import pyarrow  # noqa: E402
import pyarrow.parquet  # noqa: E402

import turntable  # noqa: E402
from imitable.arrays import one_thread  # noqa: E402
from imitable.errors import ImitableError  # noqa: E402
from imitable.formats import FORMATS, read  # noqa: E402
from imitable.networks import Policy  # noqa: E402
from imitable.paper.methods import find_method  # noqa: E402
from imitable.paper.run import Experiment, collected, run_in_folder  # noqa: E402
from imitable.store import files  # noqa: E402
from imitable.store.cache import Cache  # noqa: E402
from imitable.store.runs import RunFolder  # noqa: E402

PAGE, MARK = ROOT / "docs" / "reliability.md", "<!-- written by make faults -->"
MEMORY, PATIENCE = 300e6, 10.0  # bytes above the baseline and seconds that a hostile file may take
HANG = 300.0  # seconds on the clock, of a machine that may be busy
HARMLESS, REFUSED = "as it was", "refused"


@dataclass
class Count:
    """What came of one part of the campaign."""

    tried: int = 0
    clean: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    note: str = ""

    def add(self, outcome: str, *, what: str) -> None:
        self.tried += 1
        if outcome in CLEAN:
            self.clean[outcome] += 1
        else:
            self.failures.append(f"{what}: {outcome}")

    def merge(self, other: "Count") -> None:
        self.tried += other.tried
        self.clean.update(other.clean)
        self.failures += other.failures


CLEAN = {HARMLESS, REFUSED, "resumed"}


def in_child(work: Callable[[], Any], *, timeout: float) -> tuple[str, Any]:
    """What a function gives in a forked process: ("done", result), or how the process ended."""
    receive, send = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(receive)
            content = json.dumps(work()).encode()
            with open(send, "wb") as pipe:
                pipe.write(content)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(send)
    timer = threading_timer(pid, timeout)
    with open(receive, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(pid, 0)
    timer.cancel()
    if os.WIFSIGNALED(status):
        return (f"it hung for {timeout:.0f} s" if os.WTERMSIG(status) == signal.SIGALRM else f"signal {os.WTERMSIG(status)}"), None
    return ("done", json.loads(content)) if content else ("no result", None)


def threading_timer(pid: int, timeout: float) -> Any:
    import threading

    timer = threading.Timer(timeout, lambda: os.kill(pid, signal.SIGALRM))
    timer.daemon = True
    timer.start()
    return timer


# Damaged files


@dataclass(frozen=True)
class Kind:
    """A kind of file that is read: where it is, how it is read, and whether every change of its content must be noticed."""

    name: str
    path: Path
    read: Callable[[], Any]
    checked: bool = True


def kinds(folder: Path) -> list[Kind]:
    """One file of each kind, and its reader; every format of demonstrations that can also be written is among them."""
    given = turntable.mixed()
    found = []
    for suffix, module in FORMATS.items():
        writer = getattr(__import__(f"imitable.formats.{module}", fromlist=["write"]), "write", None)
        path = folder / f"demonstrations{suffix}"
        if writer is not None:
            writer(given, path)
            reader = partial(lambda path: (read(path).digest, read(path).sources), path)
            found.append(Kind(f"demonstrations {suffix}", path, reader, checked=suffix == ".npz"))
    files.write_arrays(folder / "plain.npz", {"states": given.observations, "lengths": given.lengths, "sources": np.array(given.sources)})
    found.append(Kind("arrays, unpacked", folder / "plain.npz", lambda: _bytes(files.read_arrays(folder / "plain.npz"))))
    cache = Cache(folder / "cache")
    recipe, made = {"robot": turntable.CLOCKWISE}, {"numbers": np.arange(50.0), "name": np.array("part")}
    cache("replay", recipe, lambda: made)
    found.append(Kind("cache entry", cache.entries()[0].path, lambda: _bytes(cache("replay", recipe, lambda: made))))
    experiment = experiments()
    run_in_folder(experiment, folder / "run", seed=0, demonstrations=collected(turntable.task(), seed=0, count=30))
    run, config = RunFolder(folder / "run"), json.loads((folder / "run" / "config.json").read_text())
    names = ("config.json", "curve.json", "result.json", "manifest.json", "scores.parquet", "policy.safetensors")
    found += [Kind(f"finished run: {name}", run.path / name, partial(_whole_run, run, config)) for name in names]
    found.append(Kind("table .parquet", run.path / "scores.parquet", lambda: _bytes(files.read_table(run.path / "scores.parquet"))))
    policy = run.path / "policy.safetensors"
    found.append(Kind("policy .safetensors", policy, lambda: str(Policy.load(policy).to_bytes())))
    cut = RunFolder(folder / "cut")
    interrupted(cut, experiment)
    names = ("config.json", "curve.json", "snapshot.npz")
    return found + [Kind(f"interrupted run: {name}", cut.path / name, partial(_part_of_run, cut, config)) for name in names]


def experiments() -> Experiment:
    return Experiment.of(turntable.task(), find_method("ours"))


def interrupted(folder: RunFolder, experiment: Experiment) -> None:
    def stop(fraction: float) -> None:
        if len(folder.curve()) == 2:
            raise KeyboardInterrupt

    given = collected(turntable.task(), seed=0, count=30)
    try:
        run_in_folder(experiment, folder.path, seed=0, demonstrations=given, progress=stop)
    except KeyboardInterrupt:
        return
    raise AssertionError("the run was not interrupted")


def _bytes(arrays: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (array.dtype.str, array.shape, array.tolist() if array.dtype == object else array.tobytes().hex())
        for name, array in arrays.items()
    }


def _whole_run(run: RunFolder, config: dict[str, Any]) -> Any:
    """All that commands read of a finished run."""
    run.check(config)
    return run.result(), run.curve(), run.policy().to_bytes().hex(), _bytes(files.read_table(run.path / "scores.parquet"))


def _part_of_run(run: RunFolder, config: dict[str, Any]) -> Any:
    """All that going on with a run reads."""
    run.check(config)
    return _bytes(dict(run.snapshot() or {})), run.curve()


def damaged(content: bytes, rng: random.Random) -> bytes:
    """One of many kinds of damage; ends of files, where headers and directories are, are hit more often."""
    size, edited = len(content), bytearray(content)
    place = rng.choice([rng.randrange(size), rng.randrange(min(size, 400)), size - 1 - rng.randrange(min(size, 400))])
    how = rng.randrange(9)
    if how <= 2:
        edited[place] = rng.randrange(256)
    elif how == 3:
        edited[place] ^= 1 << rng.randrange(8)
    elif how == 4:
        digits = [number for number, byte in enumerate(content) if 48 <= byte <= 57]
        if digits:
            edited[rng.choice(digits)] = rng.choice(b"0123456789")
    elif how == 5:
        edited = edited[:place]
    elif how == 6:
        edited[place : place + rng.randrange(1, 9)] = rng.randbytes(rng.randrange(1, 9))
    elif how == 7:
        edited[place : place + 64] = bytes(len(edited[place : place + 64]))
    else:
        for _ in range(rng.randrange(2, 6)):
            edited[rng.randrange(size)] = rng.randrange(256)
    return bytes(edited)


def attempt(read: Callable[[], Any], expected: Any, *, checked: bool = True) -> str:
    """The outcome of reading."""
    signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        found = read()
    except ImitableError:
        return REFUSED
    except Hang:
        return f"it hung for {HANG:.0f} s"
    except BaseException as error:
        return f"traceback {type(error).__name__}: {str(error)[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return HARMLESS if not checked or found == expected else "silent difference"


class Hang(BaseException):
    """Raised when patience ends."""


def hang(*_: object) -> None:
    raise Hang


def damage(kind: Kind, *, count: int, seed: int, keep: Path) -> Count:
    content, expected, rng, found = kind.path.read_bytes(), kind.read(), random.Random(f"{seed} {kind.name}"), Count()
    for number in range(count):
        bad = damaged(content, rng)
        kind.path.write_bytes(bad)
        outcome = attempt(kind.read, expected, checked=kind.checked)
        if outcome not in CLEAN:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{re.sub(r'[^a-z.]+', '-', kind.name)}-{number}").write_bytes(bad)
        found.add(outcome, what=f"{kind.name}, number {number}")
    kind.path.write_bytes(content)
    return found


def damages(folder: Path, *, count: int, seed: int) -> Count:
    found, every = Count(), kinds(folder)
    for kind in every:
        found.merge(damage(kind, count=count // len(every) + 1, seed=seed, keep=folder.parent / "failures"))
    found.note = f"{len(every)} kinds of files; {found.clean[REFUSED]} refused, {found.clean[HARMLESS]} read as they were"
    return found


# Hostile files


def hostile_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Names and files that ask for memory, time, or belief; each suffix is read by all that reads it."""
    given = {"states": np.zeros((6, 2)), "lengths": np.array([2, 2])}

    def archive(name: str, *, packing: int = zipfile.ZIP_STORED, **members: bytes) -> tuple[str, Path]:
        path = folder / f"{name.replace(' ', '-')}.npz"
        with zipfile.ZipFile(path, "w", packing) as file:
            for member, content in members.items():
                file.writestr(f"{member}.npy", content)
        return name, path

    def array(descr: str, shape: str, data: bytes = b"", *, rest: str = "", version: int = 1) -> bytes:
        text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {rest}}}".encode()
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data

    def saved(name: str, **arrays: Any) -> tuple[str, Path]:
        path = folder / f"{name.replace(' ', '-')}.npz"
        np.savez_compressed(path, **arrays)
        return name, path

    zeros = bytes(30_000_000)
    yield archive("a shape of 8 TB", states=array("'<f8'", "(1000000000000,)", bytes(16)))
    yield archive("a shape beyond 2^63", states=array("'<f8'", "(4611686018427387904, 4611686018427387904)"))
    yield archive("a long row of nothing", states=array("'<f8'", "(1000000000000000, 0)"), lengths=array("'<i8'", "(0,)"))
    yield archive("words without letters", states=array("'|S0'", "(1000000000000,)"))
    yield archive("a type of 4 GB", states=array("'<U999999999'", "(1,)", bytes(16)))
    yield archive("a type that is a list", states=array("[('a', '<f8')]", "(2,)", bytes(16)))
    yield archive("pickled", states=array("'|O'", "(2,)", b"cos\nsystem\n(S'true'\ntR."))
    yield archive("a header that calls", states=array("__import__('os').abort()", "(2,)", bytes(16)))
    yield archive("a header of brackets", states=array("'<f8'", "(" * 9000, version=2))
    yield archive("a header of 4 GB", states=b"\x93NUMPY\x02\x00\xff\xff\xff\xff{")
    yield archive(
        "lengths that wrap", states=array("'<f8'", "(6, 2)", bytes(96)), lengths=array("'<i8'", "(4,)", struct.pack("<4q", *[2**62] * 4))
    )
    yield saved("lengths beyond all", states=given["states"], lengths=np.array([1e300, 2]))
    yield saved("lengths that are unsigned", states=given["states"], lengths=np.array([2**64 - 1, 2], np.uint64))
    yield saved("names of a megabyte", **given, sources=np.array(["x" * 1_000_000, "y"]))
    yield saved("names that are escapes", **given, sources=np.array(["\x1b[2J\x07", "two\nlines"]))
    yield saved("names that are formulas", **given, sources=np.array([r"$\frac{$", "$"]))
    yield saved("names that are no text", **given, sources=np.array([b"\xff\xfe", b"\x80"]))
    yield archive("names beyond all characters", **{name: array("'<U1'", "(2,)", b"\xff" * 8) for name in ("states", "sources")})
    yield saved("numbers that are complex", states=given["states"] * 1j, lengths=given["lengths"])
    yield saved("numbers that are halves of nothing", states=np.full((4_000_000, 4), np.nan, np.float16), lengths=np.array([3_999_999]))
    yield saved("small numbers that grow", states=np.zeros((7_900_000, 1), np.int8), lengths=np.array([7_899_999]))
    packed = zipfile.ZIP_DEFLATED
    yield archive("a bomb of 30 MB", packing=packed, states=array("'|i1'", "(30000000,)", zeros))
    yield archive("a bomb of bombs", packing=packed, **{f"a{number}": array("'|i1'", "(30000000,)", zeros) for number in range(5)})
    yield archive("a bomb in a header", packing=packed, states=b"\x93NUMPY\x02\x00" + struct.pack("<I", 30_000_000) + zeros)
    yield archive(
        "rows of a long word",
        packing=packed,
        states=array("'<f8'", "(6, 2)", bytes(96)),
        sources=array("'<U7500000'", "(1,)", zeros),
    )
    yield archive("ten thousand arrays", **{f"a{number}": array("'<f8'", "(0,)") for number in range(10_000)})
    yield archive("bzip2", packing=zipfile.ZIP_BZIP2, states=array("'|i1'", "(30000000,)", zeros))
    yield archive("lzma", packing=zipfile.ZIP_LZMA, states=array("'|i1'", "(30000000,)", zeros))
    for name, field_offset, value in (
        ("a size that lies", 24, 2**31),
        ("an offset that lies", 42, 2**31),
        ("encrypted", 8, 1),
        ("a packing that lies", 10, 8),
    ):
        _, path = archive(name, states=array("'<f8'", "(6, 2)", bytes(96)))
        content = bytearray(path.read_bytes())
        start = content.rindex(b"PK\x01\x02") + field_offset
        width = 2 if field_offset in (8, 10) else 4
        content[start : start + width] = value.to_bytes(width, "little")
        path.write_bytes(content)
        yield name, path
    for name, text in (
        ("a deep list", "[" * 1_000_000),
        ("a deep table", '{"a":' * 1_000_000),
        ("lists of nothing", "[" + "[]," * 3_300_000 + "[]]"),
        ("a number of a million digits", "9" * 1_000_000),
        ("no list", "null"),
        ("a list", "[]"),
        ("an infinite number", '{"mean_return": Infinity, "checkpoints": [{"steps": NaN, "mean_return": 1}]}'),
    ):
        (folder / f"{name.replace(' ', '-')}.json").write_text(text)
        yield name, folder / f"{name.replace(' ', '-')}.json"
    numbered = "".join(f"{demo},1\n" for demo in range(100_000))
    for name, text in (
        ("a hundred thousand columns", '"a\nb"' + "".join(f",c{column}" for column in range(100_000)) + "\n" + "1," * 100_000 + "1\n"),
        ("ten thousand columns and one of them twice", ",".join(f"c{column}" for column in range(9_999)) + ",c9998\n"),
        ("a hundred thousand demonstrations and the last one torn", f"demonstration,hip\n{numbered}99998,1\n"),
        ("three million words", "hip\n" + "xy\n" * 3_000_000),
        ("a line that does not end", "9" * 20_000_000),
        ("quotes that do not end", '"' + "1,2\n" * 3_000_000),
        ("lines of nothing", "\n" * 20_000_000),
    ):
        (folder / f"{name.replace(' ', '-')}.csv").write_text(text)
        yield name, folder / f"{name.replace(' ', '-')}.csv"
    header = b'{"__metadata__":{"imitable-policy":"' + b"[" * 99_000 + b'"}}'
    label = {"__metadata__": {"imitable-policy": json.dumps({"widths": [10**9, 10**9], "activation": "tanh"})}}
    for name, content in (
        ("a header beyond its file", struct.pack("<Q", 2**63)),
        ("a header of brackets in a policy", struct.pack("<Q", len(header)) + header),
        ("a policy of a billion units", struct.pack("<Q", len(json.dumps(label))) + json.dumps(label).encode()),
        ("a policy of lists", struct.pack("<Q", 3_000_001) + b"[" + b"[]," * 1_000_000),
    ):
        (folder / f"{name.replace(' ', '-')}.safetensors").write_bytes(content)
        yield name, folder / f"{name.replace(' ', '-')}.safetensors"
    rows = pyarrow.array(np.zeros(10_000_000))
    for name, table in (
        ("a long table of zeros", pyarrow.table({"weight": rows, "length": rows})),
        ("a table of one long word", pyarrow.table({"source": pyarrow.array(["x" * 1_000_000] * 2000).dictionary_encode()})),
    ):
        pyarrow.parquet.write_table(table, folder / f"{name.replace(' ', '-')}.parquet", compression="zstd")
        yield name, folder / f"{name.replace(' ', '-')}.parquet"
    del rows
    for suffix in (".npz", ".json", ".safetensors", ".parquet", *set(FORMATS) - {".npz"}):
        for name, make in (
            ("a pipe", os.mkfifo),
            ("zeros without end", lambda path: path.symlink_to("/dev/zero")),
            ("a loop of links", lambda path: path.symlink_to(path)),
            ("a folder", lambda path: path.mkdir()),
            ("nothing", lambda path: path.write_bytes(b"")),
            ("a hole of 1 TB", lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 10**12)),
        ):
            path = folder / f"{name.replace(' ', '-')}{suffix}"
            make(path)
            yield f"{name} {suffix}", path


def hostile_readers(path: Path) -> list[Callable[[], Any]]:
    if path.suffix == ".json":
        run = RunFolder(path.parent / f"run-{path.stem}")
        run.path.mkdir(exist_ok=True)
        for name in ("config.json", "curve.json", "result.json", "manifest.json"):
            (run.path / name).unlink(missing_ok=True)
            (run.path / name).symlink_to(path)
        return [run.curve, run.result, partial(run.check, {"task": "x"})]
    if path.suffix == ".safetensors":
        return [partial(Policy.load, path)]
    if path.suffix == ".parquet" and ".parquet" not in FORMATS:
        return [partial(files.read_table, path)]
    readers: list[Callable[[], Any]] = [partial(_show, path)]
    return [*readers, partial(files.read_arrays, path)] if path.suffix == ".npz" else readers


def _show(path: Path) -> None:
    """Read demonstrations and show their names as commands do."""
    from imitable.report.terminal import print_table

    given = read(path)
    with open(os.devnull, "w") as nowhere:
        before, sys.stdout = sys.stdout, nowhere
        try:
            print_table(("source",), [(source,) for source in (given.sources or ())[:100]])
            repr(given)
        finally:
            sys.stdout = before


def hostile_attempt(path: Path) -> dict[str, Any]:
    """The outcome, and what it took, in a process of its own."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    baseline, began, outcome = _memory("VmRSS"), time.process_time(), HARMLESS
    for reader in hostile_readers(path):
        if (outcome := attempt(reader, None, checked=False)) not in CLEAN:
            break
    return {"outcome": outcome, "memory": _memory("VmHWM") - baseline, "seconds": time.process_time() - began}


def _memory(line: str) -> float:
    return 1024.0 * int(re.search(rf"{line}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def hostile(folder: Path) -> Count:
    found, most, longest = Count(), (0.0, ""), (0.0, "")
    folder.mkdir()
    for name, path in hostile_files(folder):
        end, result = in_child(partial(hostile_attempt, path), timeout=2 * HANG)
        if end == "done":
            most, longest = max(most, (result["memory"], name)), max(longest, (result["seconds"], name))
            end = result["outcome"] if result["memory"] < MEMORY else f"{result['memory'] / 1e6:.0f} MB"
            end = end if result["seconds"] < PATIENCE else f"{result['seconds']:.0f} s"
        found.add(end, what=name)
        if path.is_file() and not path.is_symlink():
            path.unlink()
    found.note = f"at most {most[0] / 1e6:.0f} MB ({most[1]}) and {longest[0]:.1f} s ({longest[1]})"
    return found


# Broken runs


OPERATIONS = ("open", "replace", "unlink", "mkdir", "fsync", "fdatasync", "write", "ftruncate", "close")


class Breaker:
    """Counts file operations, and breaks one of them: a crash, a failing disk, or a pressed key."""

    def __init__(self, at: int, how: str) -> None:
        self.count, self.at, self.how = 0, at, how

    def install(self) -> None:
        for name in OPERATIONS:
            setattr(os, name, partial(self.operation, getattr(os, name)))
        files.open = self.opened  # type: ignore[attr-defined]

    def step(self) -> None:
        self.count += 1
        if self.count == self.at:
            if self.how == "crash":
                os._exit(9)
            if self.how == "interrupt":
                raise KeyboardInterrupt
            raise OSError(errno.ENOSPC if self.how == "full" else errno.EIO, os.strerror(errno.ENOSPC if self.how == "full" else errno.EIO))

    def operation(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.step()
        return function(*arguments, **options)

    def opened(self, *arguments: Any, **options: Any) -> Any:
        self.step()
        file = builtins.open(*arguments, **options)  # noqa: SIM115
        if "w" in str(arguments[1:2]):
            write = file.write

            def half(content: bytes) -> int:
                if self.count + 1 == self.at:
                    write(content[: len(content) // 2])
                    file.flush()
                self.step()
                return write(content)  # type: ignore[no-any-return]

            return _File(file, half)
        return file


class _File:
    def __init__(self, file: Any, write: Callable[[bytes], int]) -> None:
        self.file, self.write = file, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def go(folder: Path, breaker: Breaker | None = None, *, seed: int = 0) -> int:
    """A whole run, begun or resumed: an exit code as of the command."""
    if breaker is not None:
        breaker.install()
    try:
        given = DEMONSTRATIONS[seed]
        run_in_folder(experiments(), folder, seed=seed, demonstrations=given, resume=True, cache=Cache(folder.parent / "cache"))
    except ImitableError:
        return 2
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


DEMONSTRATIONS: dict[int, Any] = {}


def contents(folder: Path) -> dict[str, Any]:
    """All of a finished run, but how many seconds it took."""
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ("result.json", "manifest.json")}
    found["result"] = {**(RunFolder(folder).result() or {}), "seconds": 0}
    return found


def verdict(folder: Path, expected: dict[str, Any]) -> str:
    """Go on with a broken run, and compare what comes of it."""
    if (code := go(folder)) != 0:
        return f"exit code {code} on resumption"
    found = contents(folder)
    if found == expected:
        return "resumed"
    return (
        f"different after resumption: {', '.join(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))}"
    )


def crashes(folder: Path, expected: dict[str, Any], *, count: int, seed: int) -> Count:
    """Break every file operation in turn, in every way, until there were enough."""
    found, rng = Count(), random.Random(f"{seed} crashes")
    ways, at, total = ("crash", "full", "input/output", "interrupt"), 0, 0
    breaker = Breaker(0, "")
    _, total = in_child(lambda: (go(folder / "count", breaker), breaker.count)[1], timeout=HANG)
    for number in range(count):
        at = number + 1 if number < total else rng.randrange(1, total + 1)
        how = ways[number % len(ways)] if number >= total or count < total else "crash"
        at = at if count >= total else rng.randrange(1, total + 1)
        where = folder / f"{number}"
        end, code = in_child(partial(go, where, Breaker(at, how)), timeout=HANG)
        if end == "done" and code == 1:
            found.add("traceback", what=f"{how} at operation {at}")
        elif end not in ("done", "no result"):
            found.add(end, what=f"{how} at operation {at}")
        else:
            found.add(verdict(where, expected), what=f"{how} at operation {at}")
        shutil.rmtree(where, ignore_errors=True)
    found.note = f"{total} file operations in a run; a crash at each of them, then errors and interruptions" if count >= total else ""
    return found


def forked(folder: Path) -> int:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = go(folder)
        finally:
            os._exit(code)
    return pid


def kills(folder: Path, expected: dict[str, Any], *, count: int, seed: int, seconds: float) -> Count:
    """Kill runs at random times, up to three times each."""
    found, rng, number = Count(), random.Random(f"{seed} kills"), 0
    while found.tried < count:
        where, number, done = folder / f"{number}", number + 1, 0
        for _ in range(rng.randrange(1, 4)):
            pid = forked(where)
            time.sleep(rng.uniform(0, 1.2 * seconds))
            os.kill(pid, signal.SIGKILL)
            done += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        outcome = verdict(where, expected)
        for _ in range(max(done, 1)):
            found.add(outcome, what=f"killed run {number}")
        shutil.rmtree(where, ignore_errors=True)
    return found


def pairs(folder: Path, expected: dict[str, Any], *, count: int, seed: int, seconds: float) -> Count:
    """Two processes in one folder; sometimes one of them is interrupted or killed."""
    found, rng, refused = Count(), random.Random(f"{seed} pairs"), 0
    for number in range(count):
        where = folder / f"{number}"
        first = forked(where)
        time.sleep(rng.choice([0.0, rng.uniform(0, seconds)]))
        second = forked(where)
        if number % 3:
            time.sleep(rng.uniform(0, seconds))
            os.kill(rng.choice([first, second]), signal.SIGINT if number % 3 == 1 else signal.SIGKILL)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (first, second)]
        refused += codes.count(2)
        outcome = "a traceback" if 1 in codes else verdict(where, expected)
        found.add(outcome, what=f"pair {number}, exit codes {codes}")
        shutil.rmtree(where, ignore_errors=True)
    found.note = f"the other process was refused {refused} times"
    return found


def full_disks(folder: Path, expected: dict[str, Any], *, count: int, seed: int) -> Count:
    """Runs that may write only so many bytes to a file; and on a small file system, where one can be made."""
    found, rng = Count(), random.Random(f"{seed} disks")

    def limited(where: Path, limit: int) -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        return go(where)

    for number in range(count):
        where, limit = folder / f"{number}", rng.randrange(0, 12_000)
        end, code = in_child(partial(limited, where, limit), timeout=HANG)
        outcome = verdict(where, expected) if end == "done" and code in (0, 2) else f"{end} {code}"
        found.add(outcome, what=f"at most {limit} bytes")
        shutil.rmtree(where, ignore_errors=True)
    small = folder / "small"
    small.mkdir()
    for size in (16, 24, 32, 48):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", small], capture_output=True).returncode:
            found.note = "no small file system could be made here"
            break
        try:
            end, code = in_child(partial(go, small / "run"), timeout=HANG)
            shutil.copytree(small / "run", folder / f"of {size}")
        finally:
            subprocess.run(["umount", small], check=True)
        found.add(
            verdict(folder / f"of {size}", expected) if end == "done" and code in (0, 2) else f"{end} {code}", what=f"disk of {size} kB"
        )
    return found


# All of it


def campaign(folder: Path, *, quick: bool, seed: int, only: str = "") -> dict[str, Count]:
    DEMONSTRATIONS[0] = collected(turntable.task(), seed=0, count=30)
    assert go(folder / "whole") == 0  # and keep in the cache what the others will find there
    expected, began = contents(folder / "whole"), time.monotonic()
    assert go(folder / "again") == 0
    seconds = time.monotonic() - began
    assert contents(folder / "again") == expected, "a run is not repeatable, so nothing can be told from breaking it"
    for name in ("damage", "crashes", "kills", "pairs", "disks"):
        (folder / name).mkdir()
    sizes = {"damage": 1500, "crashes": 16, "kills": 3, "pairs": 3, "disks": 2} if quick else FULL
    parts: dict[str, Callable[[], Count]] = {
        "damaged files": lambda: damages(folder / "damage", count=sizes["damage"], seed=seed),
        "hostile files": lambda: hostile(folder / "hostile"),
        "crashes and errors": lambda: crashes(folder / "crashes", expected, count=sizes["crashes"], seed=seed),
        "kill -9": lambda: kills(folder / "kills", expected, count=sizes["kills"], seed=seed, seconds=seconds),
        "two processes": lambda: pairs(folder / "pairs", expected, count=sizes["pairs"], seed=seed, seconds=seconds),
        "full disks": lambda: full_disks(folder / "disks", expected, count=sizes["disks"], seed=seed),
    }
    results = {}
    for name, part in parts.items():
        if only not in name:
            continue
        began = time.monotonic()
        results[name] = part()
        print(
            f"{name}: {results[name].tried} tried, {len(results[name].failures)} failures, {time.monotonic() - began:.0f} s",
            file=sys.stderr,
        )
    return results


HEAD = ("| what | tried | clean | failures | when | |", "|---|---:|---:|---:|---|---|")
FULL = {"damage": 60_000, "crashes": 500, "kills": 100, "pairs": 100, "disks": 40}


def rows(results: dict[str, Count], *, seed: int) -> dict[str, str]:
    """A line of the table for each part."""
    when = f"{date.today().isoformat()}, seed {seed}"
    return {
        name: f"| {name} | {each.tried} | {each.tried - len(each.failures)} | {len(each.failures)} | {when} | {each.note} |"
        for name, each in results.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Break everything that can break, and count what was lost or believed.")
    parser.add_argument("--quick", action="store_true", help="a small part of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts with this in their name")
    parser.add_argument("--write", action="store_true", help=f"put these parts' lines into the table of {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    shared = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="faults-", dir=shared if os.access(shared, os.W_OK) else None))
    with one_thread():
        results = campaign(place, quick=arguments.quick, seed=arguments.seed, only=arguments.only)
    found = rows(results, seed=arguments.seed)
    print("\n".join([*HEAD, *found.values()]))
    failures = [failure for each in results.values() for failure in each.failures]
    for failure in failures[:50]:
        print(f"failed: {failure}", file=sys.stderr)
    if arguments.write:
        before, kept, after = PAGE.read_text().split(MARK)
        old = {line.split("|")[1].strip(): line for line in kept.strip().splitlines()[2:]}
        PAGE.write_text("\n".join([f"{before}{MARK}", *HEAD, *({**old, **found}).values(), f"{MARK}{after}"]))
    if failures:
        sys.exit(f"{len(failures)} failures; files are in {place}")
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
