"""MuJoCo models out of MJCF and URDF files, completed to what a robot needs: motors, a base that floats, a floor."""

import difflib
from pathlib import Path

import mujoco
import numpy as np

from imitable.errors import ImitableError

MODELS = (".xml", ".urdf")
"""Suffixes of robots' files."""
NAMED = 5
"""Files that are named in place of one that is not there."""
MESHES = (".stl", ".obj", ".msh")
"""Suffixes of the meshes that MuJoCo reads."""


def read_model(path: Path, *, floor: bool | None, floating_base: bool) -> tuple[mujoco.MjModel, tuple[str, ...]]:
    """The model of a file, and notes on what was added to it or left out.

    `floor` None: a plane at z = 0 where a body floats and there is nothing to stand on. A URDF file has no actuators: every joint gets
    a motor within its effort limit.
    """
    if not path.is_file():
        raise missing_file(path)
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        notes = _drop_missing_meshes(spec, path) if path.suffix == ".urdf" else ()
        if floating_base and not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in spec.joints):
            spec.worldbody.first_body().add_freejoint(name="base")
        elif path.suffix == ".urdf":
            _pass_through_base(spec)
        _add_motors(spec, path)
        floats = any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in spec.joints)
        grounded = any(geom.type in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD) for geom in spec.geoms)
        if floor or (floor is None and floats and not grounded):
            spec.worldbody.add_geom(name="imitable floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 0.05])
            notes += ("a floor at z = 0 was added",)
        model = spec.compile()
    except (ValueError, FileNotFoundError) as error:
        if isinstance(error, ImitableError):
            raise
        reason = ", ".join(str(error).splitlines())
        cure = "; give each moving link its <inertial>, or geoms that have a mass" if "mass and inertia of moving bodies" in reason else ""
        raise ImitableError(f"cannot read the MuJoCo model {str(path)!r}: {reason}{cure}") from error
    return _lifted(model, spec), notes


def missing_file(path: Path) -> ImitableError:
    """The error for a file that is not there, with the nearest names in its folder."""
    if not path.parent.is_dir():
        return ImitableError(f"there is no file {str(path)!r}, nor a folder {str(path.parent)!r}")
    there = sorted(each.name for each in path.parent.iterdir() if each.suffix in MODELS and each.is_file())
    stems = difflib.get_close_matches(path.stem, {Path(name).stem for name in there}, n=3)
    if near := sorted((name for name in there if Path(name).stem in stems), key=lambda name: stems.index(Path(name).stem)):
        return ImitableError(f"there is no file {str(path)!r}; did you mean {' or '.join(near)}?")
    some = f"{', '.join(there[:NAMED])}{f' and {len(there) - NAMED} more' if len(there) > NAMED else ''}"
    return ImitableError(f"there is no file {str(path)!r}; that folder has {some if there else 'no .xml or .urdf file'}")


def home_position(model: mujoco.MjModel) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(nq,) of the keyframe `home`, else of the first one, else qpos0."""
    home = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
    return np.array(model.key_qpos[max(home, 0)] if model.nkey else model.qpos0)


def _add_motors(spec: mujoco.MjSpec, path: Path) -> None:
    """A motor for every joint with a limit on its force, in a model without actuators."""
    if len(spec.actuators):
        return
    moving = [joint for joint in spec.joints if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)]
    limited = [joint for joint in moving if joint.actfrcrange[0] < joint.actfrcrange[1]]
    if path.suffix == ".urdf" and (unlimited := [joint.name for joint in moving if joint not in limited]):
        raise ImitableError(f'joints {", ".join(unlimited)} of {str(path)!r} have no effort limit; give each a <limit effort="..."/>')
    if not limited:
        raise ImitableError(
            f"the MuJoCo model {str(path)!r} has no actuators; add an <actuator> section, or wrap it in a file that has one"
        )
    for joint in limited:
        motor = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.ctrlrange, motor.ctrllimited = joint.actfrcrange, mujoco.mjtLimited.mjLIMITED_TRUE


def _pass_through_base(spec: mujoco.MjSpec) -> None:
    """No contact between what is fixed to the world and what turns on it: MuJoCo leaves such contacts out between moving links only."""
    spec.compiler.fusestatic = False
    fixed = {spec.worldbody.name}
    for body in spec.bodies[1:]:  # parents come first
        if body.parent.name in fixed and not body.joints:
            fixed.add(body.name)
        elif body.parent.name in fixed - {spec.worldbody.name}:
            spec.add_exclude(bodyname1=body.parent.name, bodyname2=body.name)


def _drop_missing_meshes(spec: mujoco.MjSpec, path: Path) -> tuple[str, ...]:
    """Point meshes to their files, wherever `package://` leads, and do without those that are not there."""
    missing = {}
    for mesh in spec.meshes:
        if (found := _mesh_file(mesh.file, path)) is None:
            missing[mesh.name] = mesh.file
        else:
            mesh.file = str(found)
    bodies = []
    for geom in [geom for geom in spec.geoms if geom.meshname in missing]:
        bodies.append(geom.parent.name)
        spec.delete(geom)
    for mesh in [mesh for mesh in spec.meshes if mesh.name in missing]:
        spec.delete(mesh)
    if not missing:
        return ()
    first = next(iter(missing.values()))
    return (f"collision meshes of {', '.join(dict.fromkeys(bodies))} are left out: no file such as {first!r} that MuJoCo reads",)


def _mesh_file(name: str, path: Path) -> Path | None:
    """Beside the URDF file or above it; of package://NAME/REST also REST itself."""
    plain = name.removeprefix("file://")
    inside = Path(name.removeprefix("package://"))
    places = [Path(plain)] if "package://" not in name else []
    for folder in path.resolve().parents:
        places += [folder / inside] if not inside.is_absolute() else []
        places += [folder / Path(*inside.parts[1:])] if "package://" in name else []
    return next((place for place in places if place.suffix.lower() in MESHES and place.is_file()), None)


def _lifted(model: mujoco.MjModel, spec: mujoco.MjSpec) -> mujoco.MjModel:
    """A floating robot without keyframes starts on the ground, not in it."""
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    if model.nkey or not len(free):
        return model
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    depth = -min((contact.dist for contact in data.contact if 0 in model.geom_bodyid[contact.geom]), default=0.0)
    if depth <= 0:
        return model
    qpos = model.qpos0.copy()
    qpos[model.jnt_qposadr[free] + 2] += depth
    spec.add_key(name="home", qpos=qpos)
    return spec.compile()
