"""Pictures of scores and learning curves. Matplotlib is imported when a picture is drawn, and nothing global is touched."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Array
from imitable.report.escaping import fold_sources, for_picture
from imitable.scores import Tolerance
from imitable.scores.feasibility import ramp_down
from imitable.store.files import write_atomically
from imitable.verdicts import INFEASIBLE, KEPT, LEAST_WEIGHT, UNRATED, WORSE, Table

REASONS = {KEPT: "kept", INFEASIBLE: "the robot cannot follow it", WORSE: "worse than another from nearby", UNRATED: "no return"}
REASON_COLOURS = {KEPT: "#2a9d6f", INFEASIBLE: "#c8553d", WORSE: "#b9b4a7", UNRATED: "#dcd9d0"}
SOURCE_STYLES = {"optimal": ("#0b5d8c", "o"), "suboptimal": ("#e39a1f", "s"), "other-dynamics": ("#8e3b8a", "^")}
OTHER_STYLES = (("#3b7dd8", "o"), ("#d1495b", "s"), ("#5d8a3a", "^"), ("#7a6ff0", "D"), ("#8c6d31", "v"), ("#444444", "P"))

INK, FAINT = "#222222", "#8a8a8a"
NUMBER, MOST_NUMBERS = "number", 60
"""The mark of demonstrations' numbers among the texts of a picture, and how many are shown."""
APART = 2.0  # pixels between two of them in a row, at least
LEAST_ZONE, ROOM_FOR_NAMES = 0.22, 0.2
"""Of the axis of distances: the least width of a zone, and room for the names of regions, where no dots are."""


def draw_scores(table: Table, tolerance: Tolerance, path: Path, *, sigma: float) -> None:
    """What was rejected and why: every demonstration, with its number where there is room, by how far the robot strays, or where it follows
    in part by how much, and how much return it lacks; counts by source. Those without a return are hollow; without any, they are drawn in
    their order."""
    from matplotlib.figure import Figure

    table = {**table, "source": fold_sources(table["source"])}
    sources, verdict = _ordered_sources(table["source"]), table["verdict"]
    kept, count = int((verdict == KEPT).sum()), len(verdict)
    figure = Figure(figsize=(12.6, 5.4 + 0.25 * max(len(sources) - 4, 0)), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.85, 1))
    title = f"{kept} of {count} demonstration{'s' if count > 1 else ''} kept"
    figure.suptitle(title, fontsize=15, color=INK, fontweight="bold", x=0.008, ha="left")
    places = _draw_clouds(left, table, tolerance, sources, sigma=sigma)
    _draw_counts(right, table["source"], sources, verdict)
    _number(left, places)
    write_figure(figure, path)


def _ordered_sources(labels: "np.ndarray[Any, Any]") -> list[str]:
    """The paper's sources in their own order, then any others."""
    present = {str(label) for label in labels}
    return [name for name in SOURCE_STYLES if name in present] + sorted(present - set(SOURCE_STYLES))


def _style(source: str, sources: Sequence[str]) -> tuple[str, str]:
    unexpected = [name for name in sources if name not in SOURCE_STYLES]
    if source in SOURCE_STYLES:
        return SOURCE_STYLES[source]
    number, count = unexpected.index(source), len(OTHER_STYLES)
    return OTHER_STYLES[number % count][0], OTHER_STYLES[(number + number // count) % count][1]  # further ones: other pairs


def _draw_clouds(axes: Any, table: Table, tolerance: Tolerance, sources: Sequence[str], *, sigma: float) -> Array:
    """Every demonstration, on the regions that decide about it; (demo, 2) where."""
    lowest_shown = 1e-3 * tolerance.d_max  # a perfect replay has distance 0, which a logarithm cannot show
    apart = 10 ** (0.5 * (np.arange(len(table["distance"])) * 0.618 % 1) - 0.25)  # so that those at the floor do not hide each other
    distances = _as_judged(table, tolerance)
    distances = np.where(distances > lowest_shown, distances, lowest_shown * apart)
    followed = distances[np.isfinite(distances)]
    distances = np.minimum(distances, 2 * max(tolerance.d_max, followed.max(initial=0.0)))  # a replay that broke down is beyond all
    left, right = 0.6 * min(distances.min(), max(tolerance.d_min, lowest_shown)), 2.2 * max(distances.max(), tolerance.d_max)
    known = np.isfinite(table["return"])
    _scale_zones(axes, tolerance, left, right, labelled=bool(known.any()))
    left = axes.get_xlim()[0]
    if known.any():
        gaps = np.where(known, np.minimum(table["return"] - table["rectified_return"], 0.0), 0.0)
        edge = _draw_regions(axes, tolerance, left, sigma=sigma, lowest=float(gaps.min()))
    else:
        gaps, edge = np.arange(len(known), dtype=np.float64), None
        axes.set_ylim(len(known), -1)
        axes.set_ylabel("number of the demonstration (there are no returns)", fontsize=10.5, color=INK)
        axes.yaxis.set_major_locator(_fixed(_whole_numbers(len(known))))
        axes.axvspan(left, tolerance.d_max, color=REASON_COLOURS[KEPT], alpha=0.20, lw=0, zorder=0)
    axes.axvspan(tolerance.d_max, right, color=REASON_COLOURS[INFEASIBLE], alpha=0.13, lw=0, zorder=0)
    axes.axvspan(max(tolerance.d_min, left), tolerance.d_max, facecolor="none", edgecolor=INK, alpha=0.07, hatch="//", lw=0, zorder=0.3)
    for value, name in ((tolerance.d_min, "$d_{min}$"), (tolerance.d_max, "$d_{max}$")):
        if value > left:
            axes.axvline(value, color=INK, lw=0.8, ls=(0, (4, 3)), alpha=0.7, zorder=1)
            frame = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            axes.annotate(name, (value, 1), (0, 3), **frame, ha="center", va="bottom", color=INK, fontsize=11)

    dot, hollow, kept = 16 if len(gaps) > 200 else 36, ~known & known.any(), table["verdict"] == KEPT
    for source in sources:
        colour, marker = _style(source, sources)
        for chosen, alpha, size in ((~kept, 0.55, dot), (kept, 0.8, 1.4 * dot)):
            mine = (table["source"] == source) & chosen
            for some, face, ring in ((mine & ~hollow, colour, "white"), (mine & hollow, "none", colour)):
                style = {"facecolors": face, "edgecolors": ring, "alpha": alpha, "lw": 0.3 + 0.7 * (face == "none")}
                axes.scatter(distances[some], gaps[some], s=size, marker=marker, zorder=3, **style)
    _label_regions(axes, edge)
    axes.set_xlabel("how far the robot strays from the demonstration; in part: how much of it is lost", fontsize=10.5, color=INK)
    note = "hollow: its return is not known" if hollow.any() else "and why it stays or goes"
    axes.set_title(f"Every demonstration, coloured by source, {note}", fontsize=11.5, loc="left", color=INK, pad=20)
    tidy(axes)
    return np.stack([distances, gaps], axis=1)


def _draw_regions(axes: Any, tolerance: Tolerance, left: float, *, sigma: float, lowest: float) -> float:
    """The axis of returns, and where on it a demonstration is kept or worse than another; the edge between them at distance 0."""
    bottom, top = 3.0 * min(lowest, -6 * sigma), 0.04 * sigma
    axes.set_yscale("symlog", linthresh=sigma / 10, linscale=1.0)
    axes.set_ylim(bottom, top)
    reach = np.geomspace(left, tolerance.d_max, 300)
    edge = np.maximum(_edge(reach, tolerance, sigma), bottom)
    axes.fill_between(reach, bottom, top, color=REASON_COLOURS[WORSE], alpha=0.22, lw=0, zorder=0)
    axes.fill_between(reach, edge, top, where=edge < top, color="white", lw=0, zorder=0.1)
    axes.fill_between(reach, edge, top, where=edge < top, color=REASON_COLOURS[KEPT], alpha=0.20, lw=0, zorder=0.2)
    axes.set_ylabel("return, compared with the best feasible one from nearby", fontsize=10.5, color=INK)
    axes.axhline(0, color=INK, lw=0.6, alpha=0.4, zorder=1)
    axes.yaxis.set_major_locator(_decades(sigma, bottom))
    axes.yaxis.set_minor_locator(_fixed([]))
    axes.yaxis.set_major_formatter("{x:,.0f}" if sigma >= 10 else "{x:g}")
    return float(edge[0])


def _number(axes: Any, places: Array) -> None:
    """The demonstrations' numbers beside their dots, those of the most solitary ones first, as long as no two are in each other's way."""
    from scipy.spatial import cKDTree

    axes.figure.draw_without_rendering()  # which decides where on the picture the dots are
    dots = axes.transData.transform(places)
    distances = cKDTree(dots).query(dots, k=2)[0][:, 1]  # infinite of a single one
    taken = [text.get_window_extent() for text in axes.texts]
    style = {"textcoords": "offset points", "fontsize": 6.5, "color": INK, "alpha": 0.85, "zorder": 5, "annotation_clip": False}
    numbered = 0
    for number in np.argsort(-distances, kind="stable")[: 10 * MOST_NUMBERS].tolist():
        for side, towards in ((3, "left"), (-3, "right")):
            text = axes.annotate(str(number), places[number], (side, 2), ha=towards, gid=NUMBER, in_layout=False, **style)
            room = text.get_window_extent().padded(APART, 0.0)
            if not any(room.overlaps(other) for other in taken):
                taken.append(room)
                numbered += 1
                break
            text.remove()
        if numbered == MOST_NUMBERS:
            return


def _edge(distances: Array, tolerance: Tolerance, sigma: float) -> Array:
    """The gap below which feasibility times optimality is no longer worth keeping, at each distance."""
    needed = LEAST_WEIGHT / np.maximum(ramp_down(distances, tolerance), 1e-12)
    return np.where(needed < 1, -sigma * np.sqrt(-2 * np.log(np.minimum(needed, 1.0))), np.inf)


def _as_judged(table: Table, tolerance: Tolerance) -> Array:
    """(demo,) the distance at which the tolerance gives each its feasibility. A demonstration is judged window by window: one that is
    followed in most of them is not where its mean distance is."""
    within, beyond = np.minimum(table["distance"], tolerance.d_min), np.maximum(table["distance"], tolerance.d_max)
    partly = tolerance.d_max - table["feasibility"] * (tolerance.d_max - tolerance.d_min)
    return np.select([table["feasibility"] >= 1, table["feasibility"] <= 0], [within, beyond], partly)


def _scale_zones(axes: Any, tolerance: Tolerance, left: float, right: float, *, labelled: bool) -> None:
    """The axis of distances from left to right: logarithmic in each of the zones up to d_min, up to d_max and beyond, none of them narrower
    than its name; with room at the left for the names of regions, if they have some."""
    ends = np.log10([left, *([tolerance.d_min] if tolerance.d_min > left else []), tolerance.d_max, right])
    widths, room = np.diff(ends), ROOM_FOR_NAMES * labelled
    for _ in range(100):  # until none is narrower than its share of what they come to
        widths = np.maximum(np.diff(ends), LEAST_ZONE * widths.sum() / (1 - room))
    slopes = np.diff(ends) / widths
    places, margin = np.concatenate([[0.0], np.cumsum(widths)]), widths.sum() * room / (1 - room)

    def forward(distance: Array) -> Array:
        log = np.log10(np.maximum(distance, 1e-300))
        return np.asarray(np.where(log < ends[0], (log - ends[0]) / slopes[0], np.interp(log, ends, places)))

    def inverse(place: Array) -> Array:
        return np.asarray(10 ** np.where(place < 0, ends[0] + place * slopes[0], np.interp(place, places, ends)))

    axes.set_xscale("function", functions=(forward, inverse))
    first = float(inverse(np.array(-margin)))
    axes.set_xlim(first, right)
    powers = range(int(np.ceil(np.log10(first))), int(np.floor(ends[-1])) + 1)
    axes.xaxis.set_major_locator(_fixed([10.0**power for power in powers]))
    axes.xaxis.set_minor_locator(_fixed([]))
    axes.xaxis.set_major_formatter("{x:g}")
    zone = {"fontsize": 10, "fontweight": "bold", "style": "italic", "ha": "center", "va": "bottom"}
    names = (("followed", "#14694a"), ("in part", "#6b6557"), ("cannot follow", "#96331f"))[-len(widths) :]
    for (name, colour), start, end in zip(names, [-margin, *places[1:]], places[1:], strict=False):
        middle = float(inverse(np.array((start + end) / 2)))
        frame = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        axes.annotate(name, (middle, 1), (0, 3), **frame, **zone, color=colour)


def _whole_numbers(count: int) -> list[int]:
    """At most about ten of the numbers below `count`."""
    step = next(each * 10**power for power in range(12) for each in (1, 2, 5) if count <= 10 * each * 10**power)
    return list(range(0, count, step))


def _label_regions(axes: Any, edge: float | None) -> None:
    """Names of the regions of returns, at the left, where no dots are; `edge` is the return from which on there is a worse one, if any."""
    style = {
        "xycoords": "axes fraction",
        "textcoords": "offset points",
        "fontsize": 10,
        "fontweight": "bold",
        "style": "italic",
        "zorder": 2,
        "bbox": {"facecolor": "white", "alpha": 0.55, "edgecolor": "none", "boxstyle": "round,pad=0.25"},
    }
    if edge is not None:
        height = (axes.transData + axes.transAxes.inverted()).transform((axes.get_xlim()[0], edge))[1]
        axes.annotate(KEPT, (0, height), (8, 6), va="bottom", color="#14694a", **style)
        axes.annotate("worse than\nanother from\nnearby", (0, 0), (8, 10), va="bottom", color="#6b6557", **style)


def _decades(sigma: float, bottom: float) -> Any:
    """Ticks at 0 and at powers of ten from a tenth of sigma or so on."""
    first, last = int(np.ceil(np.log10(sigma / 10) - 1e-9)), int(np.floor(np.log10(-bottom)))
    powers = [-(10.0**power) for power in range(first, last + 1)]
    return _fixed([0.0, *(powers or [-sigma])])


def _fixed(places: Sequence[float]) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(list(places))


def _draw_counts(axes: Any, labels: "np.ndarray[Any, Any]", sources: Sequence[str], verdict: "np.ndarray[Any, Any]") -> None:
    """Stacked bars: what became of each source's demonstrations, as shares, with their numbers."""
    rows = np.arange(len(sources))[::-1]
    totals = np.array([int((labels == source).sum()) for source in sources])
    starts = np.zeros(len(sources))
    for name, reason in REASONS.items():
        counts = np.array([int(((labels == source) & (verdict == name)).sum()) for source in sources])
        if name == UNRATED and not counts.any():
            continue
        shares = counts / totals
        axes.barh(rows, shares, left=starts, height=0.58, color=REASON_COLOURS[name], label=reason)
        for row, start, share, count in zip(rows, starts, shares, counts, strict=True):
            if share >= 0.06:
                axes.text(start + share / 2, row, str(count), ha="center", va="center", color="white", fontsize=10, fontweight="bold")
        starts += shares
    for row, total in zip(rows, totals, strict=True):
        axes.text(1.015, row, f"{total}", va="center", color=FAINT, fontsize=10)
    for row, source in zip(rows, sources, strict=True):  # the key to the other panel's colours
        colour, marker = _style(source, sources)
        axes.plot(-0.035, row, marker, color=colour, ms=7, transform=axes.get_yaxis_transform(), clip_on=False)
    axes.set_yticks(rows, list(map(for_picture, sources)))
    axes.set_xlim(0, 1.12)
    spare, legend = max(3 - len(sources), 0) / 2, max(0.36 * len(sources), 1.0)
    axes.set_ylim(-0.6 - spare, len(sources) - 0.5 + spare + legend)
    axes.set_xlabel("share of the source, and number", fontsize=10.5, color=INK)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_title("What became of them, by source", fontsize=11.5, loc="left", color=INK, pad=20)
    axes.legend(loc="upper right", frameon=False, fontsize=10)
    tidy(axes)
    axes.tick_params(axis="y", length=0, pad=22, labelsize=11)
    axes.spines["left"].set_visible(False)


def draw_curves(curves: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], path: Path, *, title: str = "") -> None:
    """Learning curves: for each label the curves of one or more runs, as `RunFolder.curve` gives them; their mean, and their range."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 4.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    lowest, highest = np.inf, -np.inf
    for (label, runs), (colour, _) in zip(curves.items(), _cycle(len(curves)), strict=True):
        points = min(len(run) for run in runs)  # unfinished runs shorten the mean, they do not bend it
        if points == 0:
            continue
        steps = np.array([point["steps"] for point in runs[0][:points]])
        returns = np.array([[point["mean_return"] for point in run[:points]] for run in runs])
        mean = returns.mean(axis=0)
        name = for_picture(label)
        axes.plot(steps, mean, color=colour, lw=2, label=f"{name} ({len(runs)} seeds)" if len(runs) > 1 else name, zorder=3)
        if len(runs) > 1:
            axes.fill_between(steps, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.15, lw=0, zorder=2)
        lowest, highest = min(lowest, float(returns.min())), max(highest, float(returns.max()))
    if highest - lowest > 2000 and highest > -1000:  # penalties in thousands would flatten everything that is good
        axes.set_yscale("symlog", linthresh=100)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(for_picture(title), loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.set_xlabel("steps of learning", fontsize=10.5, color=INK)
    axes.set_ylabel("mean return on fresh starts", fontsize=10.5, color=INK)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color="#dddddd", lw=0.7)
    if curves:
        axes.legend(frameon=False, fontsize=10)
    tidy(axes)
    write_figure(figure, path)


def draw_returns(returns: Mapping[str, Sequence[float]], path: Path, *, title: str = "") -> None:
    """What runs came to: for each label a dot per run, and a line at their mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 4.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for place, (found, (colour, _)) in enumerate(zip(returns.values(), _cycle(len(returns)), strict=True)):
        axes.hlines(float(np.mean(found)), place - 0.25, place + 0.25, color=colour, lw=2.5, zorder=3)
        axes.scatter(place + np.linspace(-0.12, 0.12, len(found)), found, color=colour, s=36, alpha=0.6, lw=0, zorder=2)
    axes.set_xticks(range(len(returns)), list(map(for_picture, returns)))
    axes.set_title(for_picture(title), loc="left", fontsize=12, fontweight="bold", color=INK)
    axes.set_ylabel("mean return on fresh starts", fontsize=10.5, color=INK)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color="#dddddd", lw=0.7)
    tidy(axes)
    write_figure(figure, path)


def _cycle(count: int) -> list[tuple[str, str]]:
    styles = [*SOURCE_STYLES.values(), *OTHER_STYLES]
    return [styles[number % len(styles)] for number in range(count)]


def tidy(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9.5, color=FAINT)


def write_figure(figure: Any, path: Path) -> None:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    write_atomically(path, buffer.getvalue())
