"""Drives of several policies, drawn on the map."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.demonstrations import Demonstrations
from imitable.paper import driving
from imitable.report.figures import INK, tidy, write_figure

REACHED, COLLIDED, LEFT, LATE = OUTCOMES = ("reached the goal", "hit the obstacle", "left the map", "out of time")
OUTCOME_COLOURS = {REACHED: "#2a9d6f", COLLIDED: "#e39a1f", LEFT: "#c8553d", LATE: "#6d7a88"}


def driving_outcomes(trajectories: Demonstrations) -> Integers:
    """(episode,) the number in OUTCOMES that says how each drive ended; one that touched the obstacle did not succeed."""
    ends = trajectories.starts + trajectories.lengths
    places, headings = _places(trajectories.observations), trajectories.observations[:, driving.HEADING]
    crashing = driving.touches(places, headings, *driving.OBSTACLE)
    crashing[trajectories.starts] = False  # rewards count from the first step on
    crashed = np.logical_or.reduceat(crashing, trajectories.starts)
    last_places, last_headings = places[ends], headings[ends]
    conditions: list[Booleans] = [driving.outside(last_places), crashed, driving.touches(last_places, last_headings, *driving.GOAL)]
    return np.select(conditions, [OUTCOMES.index(LEFT), OUTCOMES.index(COLLIDED), OUTCOMES.index(REACHED)], OUTCOMES.index(LATE))


def _places(states: Array) -> Array:
    return np.asarray((states[:, :2] / 2 + 0.5) * driving.WORLD)


def draw_paths(drives: Mapping[str, Demonstrations], path: Path, *, shown: int = 60) -> None:
    """Drives of several policies on the same starts, side by side; at most `shown` paths each, while the titles count them all."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(4.3 * len(drives) + 0.4, 6.7), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(drives), squeeze=False, sharey=True)[0]
    seen: set[int] = set()
    for axes, (name, trajectories) in zip(panels, drives.items(), strict=True):
        outcomes = driving_outcomes(trajectories)
        axes.add_patch(Rectangle((0, 0), *driving.WORLD, facecolor="#f4f2ec", edgecolor=INK, lw=1.2, zorder=0))
        for (centre, half), colour, word in ((driving.OBSTACLE, "#4a4a4a", "obstacle"), (driving.GOAL, "#2a9d6f", "goal")):
            axes.add_patch(Rectangle(centre - half, *(2 * half), facecolor=colour, edgecolor="none", zorder=4))
            inside = word == "obstacle"
            place = centre if inside else centre + np.array([half[0] + 0.5, 0.0])
            axes.text(
                *place, word, ha="center" if inside else "left", va="center", fontsize=8.5, color="white" if inside else INK, zorder=5
            )
        for index in range(min(shown, len(trajectories))):
            states, outcome = trajectories.trajectory(index), int(outcomes[index])
            places, heading = _places(states), states[-1, driving.HEADING]
            nose = places[-1] + driving.CAR[0] * np.array([np.cos(heading), np.sin(heading)])  # what touches the goal
            seen.add(outcome)
            colour = OUTCOME_COLOURS[OUTCOMES[outcome]]
            axes.plot(*np.vstack([places, nose]).T, color=colour, lw=1.1, alpha=0.65, zorder=2, solid_capstyle="round")
            axes.plot(*places[0], "o", color=INK, ms=2.6, zorder=3)
        axes.set_title(name, loc="left", fontsize=13, fontweight="bold", color=INK, pad=24)
        reached = (outcomes == OUTCOMES.index(REACHED)).mean()
        summary = f"mean return {trajectories.returns.mean():,.0f}, {reached:.0%} reach the goal"
        axes.text(0, 1.012, summary, transform=axes.transAxes, fontsize=10.5, color=INK, va="bottom")
        axes.set_aspect("equal")
        axes.set_xlim(-2, driving.WORLD[0] + 2)
        axes.set_ylim(-2, driving.WORLD[1] + 2)
        axes.set_xlabel("x [m]", fontsize=10, color=INK)
        tidy(axes)
    panels[0].set_ylabel("y [m]", fontsize=10, color=INK)
    for outcome in sorted(seen):
        panels[0].plot([], [], color=OUTCOME_COLOURS[OUTCOMES[outcome]], lw=2.4, label=OUTCOMES[outcome])
    panels[0].plot([], [], "o", color=INK, ms=3.5, label="start")
    figure.legend(loc="outside lower center", ncols=len(seen) + 1, frameon=False, fontsize=10)
    write_figure(figure, path)
