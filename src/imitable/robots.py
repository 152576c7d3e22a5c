"""Robots by name: a Gymnasium id, an MJCF file, the target of one of the paper's tasks, or anyone's own simulator as `module:object`."""

from typing import Any

from imitable.errors import ImitableError
from imitable.paper import TASK_NAMES
from imitable.registry import load_object
from imitable.simulators import Simulator

NEEDED = ("horizon", "action_low", "action_high", "observation_names", "initial_states", "step", "observe", "restore")


def robot(name: str, **settings: Any) -> Simulator:
    """A simulator of the robot: of `Hopper-v5`, `go1.xml`, `driving/slow` or `my_robot:ARM`.

    `settings` go to `gymnasium_robot` or `mjcf_robot`, such as `floor=True`.
    """
    if name in TASK_NAMES:
        from imitable.paper.tasks import find_task

        return find_task(name).robot
    if ":" not in name:
        from imitable.simulators.mujoco import gymnasium_robot, mjcf_robot

        return mjcf_robot(name, **settings) if name.endswith(".xml") else gymnasium_robot(name, also_known=TASK_NAMES, **settings)
    found: Any = load_object("robot", name)
    simulator: Simulator = found() if isinstance(found, type) else found
    if missing := [member for member in NEEDED if not hasattr(simulator, member)]:
        raise ImitableError(f"robot {name!r} has no {' and no '.join(missing)}; see imitable.Simulator for what a robot needs")
    return simulator
