"""The command line: one program, a command for every stage. Importing it imports neither torch nor mujoco nor matplotlib."""

import ctypes
import os
import re
import signal
import sys
import warnings
from contextlib import suppress
from importlib.metadata import version
from io import TextIOWrapper

import tyro

from imitable.cli import cache, check, deploy, evaluate, paper, render, score, sweep, train
from imitable.errors import ImitableError
from imitable.paper.engines import end_with_parent
from imitable.report.terminal import print_line

COMMANDS = (
    check.check,
    score.score,
    train.train,
    evaluate.evaluate,
    paper.tasks,
    paper.methods,
    paper.collect,
    paper.run,
    render.render,
    deploy.deploy,
    sweep.sweep,
    paper.expert,
    cache.cache,
    paper.demo,
)
"""In the order of the help page."""
COLORS = re.compile(r"\x1b\[[0-9;]*m")
"""Which Gymnasium puts into its warnings."""

app = tyro.extras.SubcommandApp()
for command in COMMANDS:
    app.command(command)


def main() -> None:
    """Run a command; a user's mistake, an interruption or a full disk ends in one line, not in a traceback."""
    end_with_parent()
    _keep_freed_memory()
    ending = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    for number in ending:  # so that a sweep that is told to stop stops its runs
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    interrupting = signal.getsignal(signal.SIGINT)
    if interrupting == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = lambda message, *_: print_line(f"note: {COLORS.sub('', str(message))}", file=sys.stderr)
    try:
        code = _run()
    finally:  # from here on nothing is left to save
        for number, before in ((signal.SIGINT, interrupting), *((number, signal.SIG_DFL) for number in ending)):
            signal.signal(number, before)
    if code:
        sys.exit(code)


def _run() -> int:
    """The exit code."""
    try:
        try:
            if sys.argv[1:] == ["--version"]:
                print_line(f"imitable {version('imitable')}")
            else:
                app.cli(prog="imitable", description="Which of these demonstrations can my robot imitate, and are they worth imitating?")
        finally:
            sys.stdout.flush()
        return 0
    except ImitableError as error:
        return _end(2, f"error: {error}")
    except BrokenPipeError:  # whoever read the output has enough of it
        return _end(128 + signal.SIGPIPE)
    except OSError as error:
        return _end(2, f"error: {error.filename or 'the output'}: {error.strerror or error}")
    except MemoryError:
        return _end(2, "error: there is not enough memory for this")
    except KeyboardInterrupt:
        return _end(
            130,
            "interrupted; `imitable train` and `run` go on with --resume, score, sweep and expert when given again",
        )


def _end(code: int, message: str = "") -> int:
    """Say a last word where that is possible, and drop what could not be written."""
    with suppress(OSError):
        if message:
            print_line(message, file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _keep_freed_memory() -> None:
    """Keep freed memory for reuse: large temporaries would be returned to the system and faulted in again at every update."""
    with suppress(OSError, AttributeError):  # only on glibc
        libc = ctypes.CDLL("libc.so.6")
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(option, 2_000_000_000)
