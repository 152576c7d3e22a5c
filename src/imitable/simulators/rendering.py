"""Pictures of robots without a screen: MuJoCo's by EGL or OSMesa, drawn by matplotlib where there is neither, or as a simulator draws."""

import copy
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from imitable.arrays import Array, Generator
from imitable.errors import ImitableError
from imitable.simulators.base import Simulator, advance
from imitable.simulators.physics import actuated_trees, planar_root

Frame = NDArray[np.uint8]
"""(height, width, 3) RGB."""
BACKENDS = ("egl", "osmesa")
DRAWN = "drawn"
BACKGROUND = 250  # of 255, where the model has no sky
LINES, GROUND, MARKER = (0.68, 0.70, 0.74, 1.0), (0.90, 0.91, 0.93, 1.0), (0.85, 0.25, 0.2, 1.0)
PLAIN = (0.80, 0.55, 0.35, 1.0)
"""In drawings, in place of a texture."""
_PROBE = """
import sys, mujoco
from importlib import import_module
context = import_module(f"mujoco.{sys.argv[1]}").GLContext(16, 16)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 100)
"""


class Renderer:
    """Pictures of one simulator's states: called with a state (state,), it gives a frame.

    A simulator with a method `draw(axes, state)` draws itself with matplotlib. One with `physics`, or with the text of a model `mjcf` and a
    method `qpos(state)`, is shown in 3-D, with a sphere for every (x, y, z, radius) of its method `markers(state)`, if it has one. Of any
    other, bars show the observation.
    """

    def __init__(self, simulator: Simulator, *, width: int = 640, height: int = 480, backend: str | None = None) -> None:
        """`backend`: egl, osmesa or drawn; None takes the first that works here, or the one that MUJOCO_GL names."""
        if min(width, height) < 16 or max(width, height) > 4096:
            raise ImitableError(f"pictures of {width} x {height} pixels; both must be from 16 to 4096")
        self.simulator, self.width, self.height = simulator, width, height
        self._close: Callable[[], None] = lambda: None
        physics: Any = getattr(simulator, "physics", None)
        text: str | None = getattr(simulator, "mjcf", None)
        if hasattr(simulator, "draw") or (physics is None and text is None):
            self.backend = DRAWN
            self._render = self._drawn(getattr(simulator, "draw", lambda axes, state: draw_observation(axes, simulator, state)))
        else:
            self.backend = backend or find_backend()
            model = mujoco.MjModel.from_xml_string(text) if text is not None else physics.model
            scene = Scene(model, getattr(simulator, "qpos", lambda state: state[: model.nq]))
            self._render = self._drawn(lambda axes, state: self._draw_scene(axes, scene, state))
            if self.backend != DRAWN:
                self._render, self._close = _gl(scene, self._markers, self.backend, width, height)

    def __call__(self, state: Array) -> Frame:
        return self._render(state)

    def close(self) -> None:
        """Give back what the graphics driver holds."""
        self._close()
        self._close = lambda: None

    def _markers(self, state: Array) -> Array:
        markers: Callable[[Array], Array] = getattr(self.simulator, "markers", lambda _: np.zeros((0, 4)))
        return markers(state)

    def _draw_scene(self, axes: Any, scene: "Scene", state: Array) -> None:
        view = scene.view(state)
        right, up, _ = view.axes
        for depth, (outline, colour) in enumerate(scene.outlines(state, view, self._markers(state))):
            axes.fill(*outline.T, facecolor=colour, edgecolor="#303030", lw=0.6, zorder=depth + 2)
        for line in scene.lines(view):
            axes.plot(*(line @ np.stack([right, up], axis=1)).T, color=LINES, lw=0.7, zorder=1)
        centre = np.array([view.lookat @ right, view.lookat @ up])
        span = view.radius * np.array([max(1.0, self.width / self.height), max(1.0, self.height / self.width)])
        axes.set(xlim=centre[0] + span[0] * np.array([-1, 1]), ylim=centre[1] + span[1] * np.array([-1, 1]), aspect="equal")
        axes.axis("off")

    def _drawn(self, draw: Callable[[Any, Array], None]) -> Callable[[Array], Frame]:
        def render(state: Array) -> Frame:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            figure = Figure(figsize=(self.width / 100, self.height / 100), dpi=100, facecolor="white", layout="constrained")
            canvas = FigureCanvasAgg(figure)
            draw(figure.add_subplot(), state)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)  # too small for labels
                canvas.draw()
            return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()

        return render


def render_episode(
    simulator: Simulator, act: Callable[[Array], Array], renderer: Callable[[Array], Frame], *, rng: Generator, every: int = 1
) -> Iterator[Frame]:
    """A frame of the start and of every so many steps of an episode under the policy `act`."""
    state = simulator.initial_states(1, rng)
    yield renderer(state[0])
    for step in range(1, simulator.horizon + 1):
        state, diverged = advance(simulator, state, act(simulator.observe(state)))
        ended = bool((simulator.terminated(state) | diverged)[0])
        if step % every == 0 or ended:
            yield renderer(state[0])
        if ended:
            return


def control_timestep(simulator: Simulator) -> float:
    """Seconds per control step; 0.05 of a simulator that does not say."""
    physics: Any = getattr(simulator, "physics", None)
    default = 0.05 if physics is None else physics.frame_skip * physics.model.opt.timestep
    return float(getattr(simulator, "timestep", default))


def draw_observation(axes: Any, simulator: Simulator, state: Array) -> None:
    """A bar for every column of the observation."""
    values = simulator.observe(state[None])[0]
    axes.barh(np.arange(len(values)), values, color="#3b6ea5")
    axes.set_yticks(np.arange(len(values)), simulator.observation_names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(-max(1.0, np.abs(values).max()), max(1.0, np.abs(values).max()))


@cache
def find_backend() -> str:
    """The first of EGL and OSMesa with which a process of its own can render, or the one MUJOCO_GL names; else `drawn`.

    In a process of its own, because a library that is missing or broken may end the one that loads it, and PyOpenGL settles on one.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    for backend in (asked,) if asked in BACKENDS else () if asked in ("disable", "disabled", "off", "false", "0") else BACKENDS:
        environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
        try:
            done = subprocess.run([sys.executable, "-c", _PROBE, backend], env=environment, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return backend
    return DRAWN


@dataclass(frozen=True)
class View:
    """Where a camera looks, and how far around that it sees [m]; angles in degrees as in MuJoCo's free camera."""

    lookat: Array
    radius: float
    azimuth: float
    elevation: float

    @property
    def axes(self) -> tuple[Array, Array, Array]:
        """Right, up and forward."""
        a, e = np.radians(self.azimuth), np.radians(self.elevation)
        right = np.array([np.sin(a), -np.cos(a), 0.0])
        forward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        return right, np.cross(right, forward), forward


class Scene:
    """A copy of a model to be looked at: from above where all joints turn about the vertical, from the side where about y, else askew."""

    def __init__(self, model: mujoco.MjModel, qpos: Callable[[Array], Array]) -> None:
        self._qpos, self.model, self.data = qpos, copy.deepcopy(model), mujoco.MjData(model)
        trees = {int(model.dof_treeid[dof]) for dof in actuated_trees(model)}
        own = np.isin(model.body_treeid[model.geom_bodyid], list(trees)) if trees else model.body_weldid[model.geom_bodyid] != 0
        self._own = np.flatnonzero(own if own.any() else model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE)
        self._roams = bool(planar_root(model)) or (model.jnt_type == mujoco.mjtJoint.mjJNT_FREE).any()
        self._first: View | None = None
        planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
        self._floor = float(model.geom_pos[planes[0], 2]) if len(planes) else None
        self.textured = len(planes) > 0 and model.geom_matid[planes[0]] >= 0 and (model.mat_texid[model.geom_matid[planes[0]]] >= 0).any()
        if len(planes) and not self.textured:
            self.model.geom_rgba[planes], self.model.geom_matid[planes] = GROUND, -1
        self.has_sky = bool((model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX).any())

    def place(self, state: Array) -> None:
        """Put the robot where the state says."""
        self.data.qpos[:] = self._qpos(state)
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def view(self, state: Array) -> View:
        """Around the robot as it first was; over one that leaves its place, the camera moves along."""
        self.place(state)
        centres, sizes = self.data.geom_xpos[self._own], np.minimum(self.model.geom_rbound[self._own], 1e3)
        if not len(centres):
            raise ImitableError(
                "the model has no geoms, so there is nothing to see; give its bodies some, or the simulator a method draw(axes, state). "
                'Of a URDF file MuJoCo leaves out <visual> shapes, unless it has <mujoco><compiler discardvisual="false"/></mujoco>'
            )
        middle = (centres.min(axis=0) + centres.max(axis=0)) / 2
        if self._first is None:
            hinges = self.data.xaxis[self.model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE]
            free = np.isin(self.model.jnt_type, [mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL]).any()
            upright, sideways = ((len(hinges) > 0 and not free and (np.abs(hinges[:, axis]) > 0.99).all()) for axis in (2, 1))
            azimuth, elevation = (90.0, -89.9) if upright else (90.0, -12.0) if sideways else (125.0, -20.0)
            lookat = middle if self._roams or not self.model.njnt else self.data.xanchor[0].copy()
            radius = 1.15 * float((np.linalg.norm(centres - lookat, axis=1) + sizes).max())
            self._first = View(lookat, radius, azimuth, elevation)
        first = self._first
        lookat = np.array([*middle[:2], first.lookat[2]]) if self._roams else first.lookat
        return View(lookat, first.radius, first.azimuth, first.elevation)

    def lines(self, view: View) -> Array:
        """The ends (line, 2, 3) of a grid on the ground, so that one sees whether the robot moves."""
        spacing = 10.0 ** np.floor(np.log10(view.radius))
        spacing *= 0.5 if view.radius / spacing > 2 else 0.2
        ticks, reach = spacing * np.arange(-15, 16), 15 * spacing
        across = np.array([[(tick, -reach), (tick, reach)] for tick in ticks])
        flat = np.concatenate([across, across[:, :, ::-1]]) + np.round(view.lookat[:2] / spacing) * spacing
        height = view.lookat[2] - view.radius / 2 if self._floor is None else self._floor + 1e-3 * view.radius
        return np.concatenate([flat, np.full((*flat.shape[:2], 1), height)], axis=2)

    def outlines(self, state: Array, view: View, markers: Array) -> list[tuple[Array, tuple[float, ...]]]:
        """The outline (point, 2) and colour of every geom and marker as the view shows them, from back to front."""
        from scipy.spatial import ConvexHull

        self.place(state)
        right, up, forward = view.axes
        shown = []
        for geom in range(self.model.ngeom):
            points = self._surface(geom)
            if points is None:
                continue
            world = self.data.geom_xpos[geom] + points @ self.data.geom_xmat[geom].reshape(3, 3).T
            material = self.model.geom_matid[geom]
            colour = self.model.geom_rgba[geom] if material < 0 else self.model.mat_rgba[material]
            shown.append((world, PLAIN if material >= 0 and colour[:3].min() > 0.95 else tuple(colour.tolist())))
        shown += [(marker[:3] + marker[3] * _SPHERE, MARKER) for marker in markers]
        shown.sort(key=lambda each: -float((each[0] @ forward).mean()))
        flat = [(points @ np.stack([right, up], axis=1), colour) for points, colour in shown]
        return [(points[ConvexHull(points, qhull_options="QJ").vertices], colour) for points, colour in flat]

    def _surface(self, geom: int) -> Array | None:
        """(point, 3) on a geom's surface, whose convex hull is its shape; None of planes, height fields and what is not visible."""
        model, kind = self.model, mujoco.mjtGeom(self.model.geom_type[geom])
        size = model.geom_size[geom]
        if model.geom_group[geom] > 2 or model.geom_rgba[geom, 3] == 0:
            return None
        if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
            return np.asarray(size[0] * _SPHERE)
        if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
            return np.asarray(size[0] * _SPHERE + np.sign(_SPHERE[:, 2:]) * [0.0, 0.0, size[1]])
        if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return np.asarray(size * _SPHERE)
        if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
            return np.concatenate([[*size[0] * _CIRCLE.T, np.full(len(_CIRCLE), end)] for end in (-size[1], size[1])], axis=1).T
        if kind == mujoco.mjtGeom.mjGEOM_BOX:
            return np.asarray(size * [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        if kind == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            start = model.mesh_vertadr[mesh]
            vertices = model.mesh_vert[start : start + model.mesh_vertnum[mesh]].astype(np.float64)
            return np.asarray(vertices[:: max(1, len(vertices) // 2000)])
        return None


_CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 25)[:-1]), np.sin(np.linspace(0, 2 * np.pi, 25)[:-1])], axis=1)
_SPHERE = np.array([[*(np.cos(tilt) * xy), np.sin(tilt)] for tilt in np.linspace(-1.5, 1.5, 10) for xy in _CIRCLE])


def _gl(
    scene: Scene, markers: Callable[[Array], Array], backend: str, width: int, height: int
) -> tuple[Callable[[Array], Frame], Callable[[], None]]:
    """How MuJoCo renders a state, and how to end it."""
    model = scene.model
    model.vis.global_.offwidth, model.vis.global_.offheight, model.vis.global_.fovy = width, height, 45.0
    if not model.nlight:
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.35, 0.6
    os.environ.setdefault("PYOPENGL_PLATFORM", backend)
    context = import_module(f"mujoco.{backend}").GLContext(width, height)
    context.make_current()
    inside, camera, option = mujoco.MjvScene(model, 5000), mujoco.MjvCamera(), mujoco.MjvOption()
    target = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
    mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, target)
    viewport, pixels, depth = (
        mujoco.MjrRect(0, 0, width, height),
        np.zeros((height, width, 3), np.uint8),
        np.zeros((height, width), np.float32),
    )

    def render(state: Array) -> Frame:
        context.make_current()
        view = scene.view(state)
        model.stat.extent = view.radius  # near and far planes are multiples of it
        camera.lookat[:], camera.azimuth, camera.elevation = view.lookat, view.azimuth, view.elevation
        camera.distance = view.radius / np.sin(np.radians(45.0 / 2))
        mujoco.mjv_updateScene(model, scene.data, option, None, camera, mujoco.mjtCatBit.mjCAT_ALL, inside)
        for start, end in () if scene.textured else scene.lines(view):
            mujoco.mjv_connector(_added(inside, mujoco.mjtGeom.mjGEOM_LINE, LINES), mujoco.mjtGeom.mjGEOM_LINE, 1.5, start, end)
        for marker in markers(state):
            geom = _added(inside, mujoco.mjtGeom.mjGEOM_SPHERE, MARKER)
            geom.pos[:], geom.size[:] = marker[:3], marker[3]
        mujoco.mjr_render(viewport, inside, target)
        mujoco.mjr_readPixels(pixels, depth, viewport, target)
        frame = pixels.copy()
        if not scene.has_sky:
            frame[depth >= 1.0] = BACKGROUND
        return np.ascontiguousarray(frame[::-1])

    def close() -> None:
        context.make_current()
        target.free()
        context.free()

    return render, close


def _added(scene: mujoco.MjvScene, kind: int, colour: tuple[float, ...]) -> Any:
    """One more thing in the scene."""
    if scene.ngeom >= scene.maxgeom:
        raise ImitableError(f"the scene has more than {scene.maxgeom} geoms")
    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).ravel(), np.array(colour, np.float32))
    scene.ngeom += 1
    return geom
