"""The paper's experiments, on top of the tool: its environments, demonstrators, tasks, methods and tables."""

import gymnasium

PAIRS = {
    "reacher": ("clockwise", "counter-clockwise"),
    "driving": ("slow", "fast"),
    "swimmer": ("back-disabled", "front-disabled"),
    "ant": ("x-axis", "y-axis"),
    "panda": ("3dof", "3dof-transfer"),
}
"""Every body, which is a module here, and its two dynamics: each is the target of a task, and demonstrates for the other one.

But the arm of seven joints only demonstrates; `3dof-transfer` learns as `3dof` does and is judged in another simulator.
"""

TASK_NAMES = tuple(f"{body}/{dynamics}" for body, pair in PAIRS.items() for dynamics in pair)


def gymnasium_id(task: str) -> str:
    """The Gymnasium environment of a task's target: `imitable/DrivingSlow-v0` of driving/slow."""
    return f"imitable/{''.join(part.capitalize() for part in task.replace('/', '-').split('-'))}-v0"


def register_environments() -> None:
    """Make `gymnasium.make("imitable/ReacherClockwise-v0")` and its like work; done by `import imitable`."""
    for name in TASK_NAMES:
        if (identifier := gymnasium_id(name)) not in gymnasium.registry:
            gymnasium.register(identifier, entry_point="imitable.paper.tasks:make_environment", kwargs={"task": name})
