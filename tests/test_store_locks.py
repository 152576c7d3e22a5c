"""One process at a time in a folder."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from imitable.errors import ImitableError
from imitable.store.locks import holder_of, is_locked, locked

HOLD = """
import sys, time
from pathlib import Path
from imitable.store.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_told_who_holds_the_folder_until_that_one_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert is_locked(folder)
    with pytest.raises(ImitableError, match=rf"run is in use by process {holder.pid} on .* since 0 min .*; wait for it"), locked(folder):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert (folder / ".lock").exists(), "what a killed process leaves"
    assert not is_locked(folder), "is no lock"
    with locked(folder):
        assert json.loads((folder / ".lock").read_text())["process"] == os.getpid()
    assert not list(folder.iterdir())


def test_a_lock_is_held_within_one_process_too(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(ImitableError, match=f"in use by process {os.getpid()} "), locked(tmp_path):
            pass
        assert is_locked(tmp_path)
    with locked(tmp_path):
        pass


def test_a_lock_that_was_removed_by_its_holder_in_the_meantime_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    flock, calls = fcntl.flock, []

    def last_holder_leaves(descriptor: int, how: int) -> None:
        flock(descriptor, how)
        calls.append(how)
        if len(calls) == 1:
            (tmp_path / ".lock").unlink()

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", last_holder_leaves)
        with locked(tmp_path):
            patch.undo()
            assert is_locked(tmp_path), "others would look at another file"
    assert len(calls) == 2


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"\xff", b'{"process": 1, "host": "a", "since": "b", "command": ""}'])
def test_a_lock_without_a_word_is_still_a_lock(tmp_path: Path, content: bytes) -> None:
    with locked(tmp_path):
        (tmp_path / ".lock").write_bytes(content)
        assert holder_of(tmp_path) == "another process"
        with pytest.raises(ImitableError, match="in use by another process"), locked(tmp_path):
            pass


def test_a_folder_that_was_made_for_nothing_is_gone_again(tmp_path: Path) -> None:
    for name, written in (("empty", False), ("used", True)):
        with locked(tmp_path / name):
            if written:
                (tmp_path / name / "file").write_text("mine")
        assert (tmp_path / name).exists() == written
    with locked(tmp_path):
        pass
    assert tmp_path.exists(), "it was there before"


def test_a_place_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ImitableError, match=r"cannot lock .*below"), locked(tmp_path / "file" / "below"):
        pass
    assert not is_locked(tmp_path / "file" / "below")
