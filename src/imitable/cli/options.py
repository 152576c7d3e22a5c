"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

TaskName = Positional[Annotated[str, arg(metavar="TASK", help="such as driving/slow; `imitable tasks` lists them; or module:object")]]
Output = Annotated[Path, arg(aliases=["-o"], help="where to write")]
Seed = Annotated[int, arg(help="the same seed gives the same bytes")]
Overrides = Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help="another value, such as sigma=20")]
Overwrite = Annotated[bool, arg(help="replace what is there")]
LearnerName = Annotated[str | None, arg(help="cloning, gail, ic-gail, 2iwil, sail or module:object instead of the task's own")]
InverseName = Annotated[str | None, arg(help="inverse dynamics: solved (the default), learned (the paper's recipe) or module:object")]
