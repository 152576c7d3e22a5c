"""Tables and progress bars on the terminal."""

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import numpy as np

from imitable.arrays import Array, Progress
from imitable.report.escaping import MESSAGE, escaped, fold_sources
from imitable.verdicts import (
    BEYOND_RANGE,
    INFEASIBLE,
    KEPT,
    TOO_STRONG,
    UNCLEAR,
    UNRATED,
    UNSUPPORTED,
    VERDICTS,
    WORSE,
    Table,
    followed_in_part,
)

DOUBTFUL = 0.5
"""Of a step, beyond the noise: a robot that strays so far from its own trajectories cannot tell others' from them."""

DOUBTED = "doubted"
"""In the place of a cause that noise or rounding may feign."""
CELL = 120
"""The most characters of a table's cell."""


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A bar on a terminal, nothing elsewhere; gives a function that takes the fraction done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal, transient=True) as bar:
        job = bar.add_task(escaped(title), total=1.0)
        yield lambda fraction: bar.update(job, completed=fraction)


def print_line(text: object = "", *, file: TextIO | None = None) -> None:
    """Print one line that stays one, whatever names are in it; commands use it in place of `print`."""
    builtins.print(escaped(text, limit=MESSAGE), file=file)


@contextmanager
def live_table(header: tuple[str, ...]) -> Iterator[Callable[[Sequence[tuple[str, ...]], str], None]]:
    """A table on a terminal that rewrites itself, nothing elsewhere; gives a function that takes its rows and a caption."""
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table as RichTable

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda rows, caption: None
        return
    with Live(console=console, transient=True, refresh_per_second=1) as live:

        def show(rows: Sequence[tuple[str, ...]], caption: str) -> None:
            table = RichTable(*header, caption=caption)
            for row in rows:
                table.add_row(*row)
            live.update(table)

        yield show


def print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    rows = [tuple(escaped(cell, limit=CELL) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, tuple("-" * width for width in widths), *rows]:
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_scores(table: Table) -> None:
    """What becomes of how many; a line per source: how many, how many feasible, and their share of the samples."""
    counts = {verdict: int((table["verdict"] == verdict).sum()) for verdict in VERDICTS}
    partly = int(((table["verdict"] == KEPT) & followed_in_part(table)).sum())
    print_line(
        f"of {len(table['verdict'])} demonstrations {counts[KEPT]} are kept"
        + (f" ({partly} of them the robot can follow only in part)" if partly else "")
        + f", {counts[INFEASIBLE]} the robot cannot follow, "
        f"{counts[WORSE]} are worse than another from nearby" + (f", {counts[UNRATED]} have no return" if counts[UNRATED] else "")
    )
    mass, rows, sources = table["weight"] * table["length"], [], fold_sources(table["source"])
    for source in np.unique(sources):
        mine = sources == source
        rows.append(
            (
                str(source),
                str(mine.sum()),
                _mean(table["return"][mine], ".1f"),
                f"{table['feasibility'][mine].mean():.2f}" if "feasibility" in table else "-",
                _mean(table["optimality"][mine], ".2f") if "optimality" in table else "-",
                f"{mass[mine].sum() / mass.sum():.1%}" if mass.any() else "-",
            )
        )
    print_table(("source", "demonstrations", "mean return", "mean feasibility", "mean optimality", "share of the samples"), rows)


def print_causes(table: Table, *, doubtful: Sequence[int] = ()) -> None:
    """Why the robot cannot follow some, or not from beginning to end: how many for which reason, and one example of each; no reason for
    the doubtful ones."""
    reasons = {
        TOO_STRONG: "need a stronger actuator",
        BEYOND_RANGE: "move a joint beyond its range",
        UNSUPPORTED: "need forces the actuators cannot produce (unactuated root or joint, or inconsistent columns)",
        UNCLEAR: "cannot be followed; cause unknown",
        DOUBTED: "cannot be followed as they are recorded, which a warning below doubts; the cause is not known",
    }
    doubted = np.isin(np.arange(len(table["cause"])), doubtful) & (table["cause"] != "")
    causes = np.where(doubted, DOUBTED, table["cause"])
    for cause, reason in reasons.items():
        if len(found := np.flatnonzero(causes == cause)):
            example = found[np.argsort(table["limit_factor"][found], kind="stable")[len(found) // 2]]
            actuator, step = table["limiting_actuator"][example], table["first_bad_step"][example]
            lacks = f", {actuator} {table['limit_factor'][example]:.2g} times as strong" if cause == TOO_STRONG else ""
            where = f"{f'at step {step}, ' if step >= 0 else ''}most in {table['worst_column'][example]}{lacks}"
            partly = int((table["verdict"][found] != INFEASIBLE).sum())
            share = f" ({partly} of them at some steps only)" if partly else ""
            print_line(f"{len(found)} {reason}{share}: number {table['demonstration'][example]}, for example, {where}")


def _mean(values: Array, style: str) -> str:
    """The mean of what is known."""
    known = values[~np.isnan(values)]
    return f"{known.mean():{style}}" if len(known) else "-"


def print_facts(facts: Mapping[str, Any], *, count: int) -> None:
    """What the verdicts on so many demonstrations rest on, and a warning where they are unreliable."""
    if "window" in facts:
        d_min, d_max = facts["tolerance"]
        print_line(
            f"windows of {facts['window']} steps; tolerance {d_min:.2g} of a step (0 from {d_max:.2g} on); false rejects "
            f"{facts['realised_false_reject_rate']:.1%} measured, {facts['false_reject_rate']:.0%} stated; observation noise "
            f"{facts['noise']:.2g} of a step"
        )
        if d_min > DOUBTFUL + 2 * facts["noise"]:
            cure = (
                f"; the demonstrations are rounded to {facts['rounded_to']:g}: write them with more decimals" if facts["rounded_to"] else ""
            )
            print_line(
                f"warning: the robot tracks its own trajectories only to within {d_min:.2g} of a step; verdicts are unreliable{cure}",
                file=sys.stderr,
            )
        if facts["hides_state"]:
            print_line(
                "warning: the robot's steps depend on more than the observations show, such as the activation of muscles; it is estimated "
                "along each demonstration, and verdicts are less reliable: `imitable check` says more",
                file=sys.stderr,
            )
    if facts.get("alone"):
        print_line(f"{facts['alone']} demonstrations have no feasible neighbour to be compared with: their optimality is not known")
    if facts.get("without_return") == count:
        print_line("no demonstration has a return, so that their optimality is not known: weights are feasibility alone")
    elif facts.get("without_return"):
        print_line(
            f"{facts['without_return']} demonstrations have no return, so that their optimality is not known: they are not learned from "
            "where others can be compared; if none can, weights are feasibility alone"
        )


def print_divergence(counts: Mapping[str, int]) -> None:
    """Simulations that broke down were ended and counted; say so."""
    if any(counts.values()):
        where = ", ".join(f"{count} while {stage}" for stage, count in counts.items() if count)
        print_line(f"note: simulations diverged and were ended: {where}", file=sys.stderr)
