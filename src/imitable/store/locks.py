"""One process at a time in a folder, and a word on who it is."""

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from imitable.errors import ImitableError
from imitable.store.files import UnreadableError, read_json

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder alone. The lock is the system's: it ends with the process that holds it, however that ends, so it is never stale."""
    descriptor, fresh = None, not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while descriptor is None:
            descriptor = _lock(folder / LOCK)
        holder = {"process": os.getpid(), "host": socket.gethostname(), "command": " ".join(sys.argv)[:500], "since": time.time()}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder).encode())
    except BlockingIOError:
        raise ImitableError(f"{folder} is in use by {holder_of(folder)}; wait for it, stop it, or give another folder") from None
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise ImitableError(f"cannot lock {folder}: {error.strerror}; give another place") from error
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)  # while it is held: whoever waits for this one finds it gone, and makes its own
        with suppress(OSError):
            os.close(descriptor)
        if fresh:
            with suppress(OSError):
                folder.rmdir()  # nothing was written into it


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None where its last holder removed the file in the meantime."""
    import fcntl  # not on every system

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def is_locked(folder: Path) -> bool:
    """Whether a process holds the folder now."""
    import fcntl

    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder_of(folder: Path) -> str:
    """The process that holds a folder, as it named itself."""
    try:
        found = read_json(folder / LOCK)
        minutes = (time.time() - float(found["since"])) / 60
        return f"process {found['process']} on {found['host']} since {minutes:.0f} min ({found['command']})"
    except (UnreadableError, KeyError, TypeError, ValueError):
        return "another process"
