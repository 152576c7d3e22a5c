"""Options that several commands share."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from imitable.inverse_dynamics import INVERSE_DYNAMICS
from imitable.learners import LEARNERS

TaskName = Positional[Annotated[str, arg(metavar="TASK", help="such as driving/slow; `imitable tasks` lists them; or module:object")]]
Output = Annotated[Path, arg(aliases=["-o"], help="where to write")]
Seed = Annotated[int, arg(help="the same seed gives the same bytes")]
Overrides = Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help="another value, such as sigma=20")]
Composition = Annotated[
    str, arg(help="paper, released (as its scripts), perfect, imperfect, or shares optimal/suboptimal/other-dynamics such as 0.1/0.45/0.45")
]
Overwrite = Annotated[bool, arg(help="replace what is there")]
Resume = Annotated[bool, arg(help="go on with a run that is there")]
LearnerName = Annotated[str | None, arg(help=f"{', '.join(LEARNERS)} or module:object instead of the task's own")]
MethodName = Annotated[str, arg(help="`imitable methods` lists them; or module:object, a score or a Method")]
InverseName = Annotated[str | None, arg(help=f"inverse dynamics: {', '.join(INVERSE_DYNAMICS)} or module:object")]
RobotName = Annotated[str, arg(metavar="ROBOT", help="such as Hopper-v5 (Gymnasium), go2.xml, arm.urdf, driving/slow, or module:object")]


@dataclass(frozen=True)
class RobotSettings:
    """How to take a robot from its environment or file, where the defaults do not fit."""

    state_map: Annotated[str | None, arg(help="module:function from observations to qpos and qvel, where these cannot be found")] = None
    frame_skip: Annotated[
        int | None, arg(help="physics steps per control step of a robot from a file; by default as many as make about 0.02 s")
    ] = None
    horizon: Annotated[int | None, arg(help="steps of an episode; by default the Gymnasium environment's own, or 1000 of a file")] = None
    floating_base: Annotated[bool, arg(help="free the first body of a file that fixes it to the world")] = False

    def given(self) -> dict[str, Any]:
        """Those that differ from the defaults."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}


RobotSettingsArgument = Annotated[RobotSettings, arg(name="")]
