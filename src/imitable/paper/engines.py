"""Where the runs of a sweep take place: in processes of this machine, or as tasks of a Ray cluster whose machines share the disk."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from imitable.errors import ImitableError

EngineName = Literal["processes", "ray"]
PARENT = "IMITABLE_PARENT"
"""Environment variable: the id of the process that started a run; the run ends with it."""
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "IMITABLE_THREADS": "1"}


class Job(Protocol):
    """A run that was started; the methods are those of `subprocess.Popen`."""

    def poll(self) -> int | None:
        """The exit code, or None while it is running."""
        ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


Launch = Callable[[Sequence[str], Path], Job]
"""Start a command; its output goes to the file."""


def launch_process(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """A single-threaded process that ends with this one."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**(os.environ if environment is None else environment), **SINGLE_THREADED, PARENT: str(os.getpid())},
        )


def end_with_parent() -> None:
    """In a run that a sweep started: be killed when the sweep's process ends, however it ends. Files are whole at any time."""
    if (parent := os.environ.pop(PARENT, None)) is None:
        return
    with suppress(OSError, AttributeError):  # only on Linux
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if str(os.getppid()) != parent:  # it has ended already
        sys.exit(143)


@dataclass(frozen=True)
class RayJob:
    """A command that a Ray worker started and waits for."""

    ray: Any
    code: Any
    """Reference to the exit code."""

    def poll(self) -> int | None:
        done, _ = self.ray.wait([self.code], timeout=0)
        return self.wait() if done else None

    def terminate(self) -> None:
        self.kill()

    def kill(self) -> None:
        """The worker, and with it the command."""
        self.ray.cancel(self.code, force=True)

    def wait(self, timeout: float | None = None) -> int:
        try:
            return int(self.ray.get(self.code, timeout=timeout))
        except self.ray.exceptions.GetTimeoutError as error:
            raise subprocess.TimeoutExpired("a run on Ray", timeout or 0.0) from error
        except self.ray.exceptions.RayError:  # killed, or lost with its machine
            return -signal.SIGKILL


def ray_launch(workers: int) -> Launch:
    """Runs as tasks of one processor each, on the cluster that RAY_ADDRESS names; without it, `workers` at a time on this machine."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ImitableError("--engine ray needs Ray; install it with: pip install 'imitable[ray]'") from error
    if not ray.is_initialized():
        cluster = {} if "RAY_ADDRESS" in os.environ else {"address": "local", "num_cpus": workers}
        ray.init(**cluster, include_dashboard=False, configure_logging=False, log_to_driver=False)

    def run_command(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
        return launch_process(command, log, environment).wait()

    # A run that is lost is not tried again: the sweep says so, and the next one resumes it.
    task = ray.remote(num_cpus=1, max_retries=0)(run_command)
    return lambda command, log: RayJob(ray, task.remote(list(command), log.absolute(), dict(os.environ)))


def find_launch(engine: EngineName, *, workers: int) -> Launch:
    """By the name that `--engine` takes."""
    return launch_process if engine == "processes" else ray_launch(workers)
