"""The command line: one program, a command for every stage. Importing it imports neither torch nor mujoco nor matplotlib."""

import ctypes
import signal
import sys
import warnings
from contextlib import suppress
from importlib.metadata import version

import tyro

from imitable.cli import cache, check, deploy, evaluate, paper, render, score
from imitable.errors import ImitableError

COMMANDS = (
    check.check,
    score.score,
    paper.tasks,
    paper.methods,
    paper.collect,
    paper.run,
    evaluate.evaluate,
    render.render,
    deploy.deploy,
    paper.sweep,
    paper.expert,
    cache.cache,
    paper.demo,
)
"""In the order of the help page."""

app = tyro.extras.SubcommandApp()
for command in COMMANDS:
    app.command(command)


def main() -> None:
    """Run a command; a user's mistake ends in one line, not in a traceback."""
    _keep_freed_memory()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a sweep that is told to stop stops its runs
    warnings.showwarning = lambda message, *_: print(f"note: {message}", file=sys.stderr)
    if sys.argv[1:] == ["--version"]:
        print(f"imitable {version('imitable')}")
        return
    try:
        app.cli(prog="imitable", description="Which of these demonstrations can my robot imitate, and are they worth imitating?")
    except ImitableError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; `imitable run` goes on with --resume, sweep and expert when given again", file=sys.stderr)
        sys.exit(130)


def _keep_freed_memory() -> None:
    """Keep freed memory for reuse: large temporaries would be returned to the system and faulted in again at every update."""
    with suppress(OSError, AttributeError):  # only on glibc
        libc = ctypes.CDLL("libc.so.6")
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(option, 2_000_000_000)
