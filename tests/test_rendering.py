"""Pictures of robots: they show the robot, they change as it moves, and they need no graphics driver."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import imageio.v3
import imageio_ffmpeg
import mujoco
import numpy as np
import pytest

import turntable
from imitable import ImitableError, cli
from imitable.cli.render import settings_of_run
from imitable.networks import Mlp, Policy
from imitable.paper import TASK_NAMES, gymnasium_id
from imitable.paper.panda import THREE_JOINTS
from imitable.paper.panda_bullet import BulletPanda
from imitable.robots import robot
from imitable.simulators.rendering import DRAWN, Renderer, control_timestep, find_backend, render_episode
from imitable.store.video import write_video
from legged import QUADRUPED, URDF

ROBOTS = ("reacher/clockwise", "swimmer/back-disabled", "ant/x-axis", "Hopper-v5")
SIZE = {"width": 160, "height": 120}
SHAPE = '<visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual>'


def difference(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the pixels that differ visibly."""
    return float((np.abs(first.astype(int) - second).max(axis=2) > 30).mean())


@pytest.mark.parametrize("backend", [DRAWN, None])
@pytest.mark.parametrize("name", ROBOTS)
def test_pictures_show_the_robot_and_how_it_moves(name: str, backend: str | None) -> None:
    body = robot(name)
    rng = np.random.default_rng(0)
    states = [body.initial_states(1, rng)]
    for _ in range(15):
        states.append(body.step(states[-1], body.action_low[None]))  # to where the arm may turn
    renderer = Renderer(body, backend=backend, **SIZE)
    first, last = renderer(states[0][0]), renderer(states[-1][0])
    assert first.shape == (120, 160, 3)
    assert first.dtype == np.uint8
    assert difference(first, last) > 0.002
    assert np.array_equal(renderer(states[0][0]), first), "a picture depends on what was shown before it"

    def hidden(model: mujoco.MjModel) -> None:
        model.geom_group[model.body_weldid[model.geom_bodyid] != 0] = 5

    unseen = type("Unseen", (), {"physics": body.physics.altered(hidden)})()  # type: ignore[attr-defined]
    without = Renderer(unseen, backend=backend, **SIZE)
    assert difference(first, without(states[0][0])) > 0.005, "the robot itself is in the picture"
    renderer.close()
    without.close()


@pytest.mark.parametrize("task", TASK_NAMES)
def test_every_environment_renders_arrays(task: str) -> None:
    environment = gymnasium.make(gymnasium_id(task), render_mode="rgb_array", **SIZE)
    environment.reset(seed=0)
    frames = [environment.render()]
    for action in (environment.action_space.low, environment.action_space.high):  # type: ignore[attr-defined]
        for _ in range(10):
            environment.step(action)
        frames.append(environment.render())
    assert {frame.shape for frame in frames} == {(120, 160, 3)}  # type: ignore[union-attr]
    assert max(difference(frames[0], frame) for frame in frames[1:]) > 0.001  # type: ignore[arg-type]
    assert frames[0].std() > 5  # type: ignore[union-attr]
    assert environment.metadata["render_fps"] == round(1 / control_timestep(robot(task)))
    environment.close()


def test_the_goal_is_in_the_picture() -> None:
    body = robot("reacher/clockwise")
    state = body.initial_states(1, np.random.default_rng(0))[0]
    state[3:5] = 0.1, 0.1
    for backend in (DRAWN, None):
        red = Renderer(body, backend=backend, **SIZE)(state).astype(int)
        assert ((red[:, :, 0] - red[:, :, 1]) > 80).any()


@pytest.mark.parametrize("backend", [DRAWN, None])
def test_a_simulator_may_bring_a_model_of_its_own(backend: str | None) -> None:
    kinematic, dynamic = (Renderer(each, backend=backend, **SIZE) for each in (THREE_JOINTS, BulletPanda()))  # whose states differ
    states, others = (each.simulator.initial_states(1, np.random.default_rng(0)) for each in (kinematic, dynamic))
    picture = kinematic(states[0])
    assert np.array_equal(picture, dynamic(others[0]))
    states[0, :3] += 0.0, 0.2, -0.3
    assert difference(picture, kinematic(states[0])) > 0.01
    kinematic.close()
    dynamic.close()


def test_a_simulator_without_a_model_shows_its_observation() -> None:
    renderer = Renderer(turntable.CLOCKWISE, **SIZE)
    assert renderer.backend == DRAWN
    assert difference(renderer(np.array([0.0, 1.0])), renderer(np.array([-1.0, 1.0]))) > 0.01


def test_every_so_many_steps_are_shown_and_the_end() -> None:
    body = robot("Hopper-v5")
    shown: list[float] = []

    def record(state: np.ndarray) -> np.ndarray:
        shown.append(float(state[1]))
        return np.zeros((1, 1, 3), np.uint8)

    frames = list(render_episode(body, lambda seen: np.zeros((1, 3)), record, rng=np.random.default_rng(0), every=7))
    states, steps = body.initial_states(1, np.random.default_rng(0)), [0.0]
    while not body.terminated(states)[0]:
        steps.append(float(states[0, 1]))
        states = body.step(states, np.zeros((1, 3)))
    assert shown == [*steps[1::7], states[0, 1]], "it falls before its horizon"
    assert len(frames) == len(shown)


@pytest.mark.parametrize(("width", "height"), [(8, 120), (160, 5000)])
def test_odd_sizes_are_refused(width: int, height: int) -> None:
    with pytest.raises(ImitableError, match=f"pictures of {width} x {height} pixels"):
        Renderer(turntable.CLOCKWISE, width=width, height=height)


# Without a graphics driver


@pytest.mark.parametrize(
    "hindered",
    [{"MUJOCO_GL": "off"}, {"MUJOCO_GL": "egl", "__EGL_VENDOR_LIBRARY_FILENAMES": "/none.json", "EGL_PLATFORM": "none"}],
    ids=["switched off", "EGL without a driver"],
)
def test_a_clip_is_drawn_where_there_is_no_driver(hindered: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "imitable", "render", "reacher/clockwise", "-o", "clip.gif", "--width", "96", "--height", "64"]
    environment = {key: value for key, value in os.environ.items() if key != "PYOPENGL_PLATFORM"} | hindered
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "clip.gif: 26 frames of reacher/clockwise, drawn\n"
    frames = imageio.v3.imread(tmp_path / "clip.gif", index=None)
    assert frames.shape[1:] == (64, 96, 3)
    assert frames[0].std() > 5


def test_a_probe_that_fails_means_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    for executable in ("/bin/false", "/no/such/python"):
        monkeypatch.setattr(sys, "executable", executable)
        find_backend.cache_clear()
        assert find_backend() == DRAWN
    find_backend.cache_clear()


# The command


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["imitable", "render", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_a_clip_of_a_runs_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one = np.ones(1)
    policy = Policy.fresh(Mlp((7, 4, 1)), center=np.zeros(7), scale=np.ones(7), low=-one, high=one, rng=np.random.default_rng(0))
    run = tmp_path / "run"
    policy.save(run / "policy.safetensors")
    clip = tmp_path / "clip.mp4"
    small = ["--width", 128, "--height", 96]
    assert call(monkeypatch, "driving/slow", "--policy", run, "-o", clip, *small) == 0
    assert "frames of driving/slow, drawn" in capsys.readouterr().out
    decode = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(clip), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run(decode, capture_output=True, check=True)
    assert b"10 fps" in decoded.stderr
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, 96, 128, 3)
    assert len(frames) > 5
    assert difference(frames[0], frames[-1]) > 0.001
    assert list(tmp_path.glob(".*")) == []

    assert call(monkeypatch, "driving/slow", "--policy", run, "-o", clip) == 2
    assert "is there already" in capsys.readouterr().err
    assert call(monkeypatch, "ant/x-axis", "--policy", run, "-o", tmp_path / "ant.mp4") == 2
    assert "has 7 observations and 1 actions; the robot has 27 and 8" in capsys.readouterr().err
    assert call(monkeypatch, "ant/x-axis", "--policy", tmp_path, "-o", tmp_path / "ant.mp4") == 2
    assert "has no policy; give a run's folder" in capsys.readouterr().err


def test_a_clip_of_a_file_is_as_long_as_the_horizon_says_or_as_the_run_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "quadruped.xml").write_text(QUADRUPED)
    clip = ["-o", tmp_path / "clip.gif", "--width", 64, "--height", 48, "--overwrite"]
    assert call(monkeypatch, file, *clip, "--horizon", 12) == 0
    assert "clip.gif: 7 frames of" in capsys.readouterr().out, "the start, and every other step of 0.02 s"
    assert call(monkeypatch, "Hopper-v5", *clip, "--horizon", 8) == 0
    assert "clip.gif: 3 frames of Hopper-v5" in capsys.readouterr().out
    assert call(monkeypatch, file, *clip, "--horizon", 0) == 2
    assert "horizon is 0; an episode has at least 1 step" in capsys.readouterr().err

    body = robot(str(file))
    columns, low, high = len(body.observation_names), body.action_low, body.action_high
    policy = Policy.fresh(
        Mlp((columns, 4, len(low))), center=np.zeros(columns), scale=np.ones(columns), low=low, high=high, rng=np.random.default_rng(0)
    )
    policy.save(tmp_path / "run" / "policy.safetensors")
    settings = {"horizon": 6, "frame_skip": 20}
    (tmp_path / "run" / "config.json").write_text(json.dumps({"robot": str(file), "robot_settings": settings}))
    assert call(monkeypatch, file, "--policy", tmp_path / "run", *clip) == 0
    assert "clip.gif: 7 frames of" in capsys.readouterr().out, "every step of 0.08 s"
    assert call(monkeypatch, file, "--policy", tmp_path / "run", *clip, "--horizon", 3) == 0
    assert "clip.gif: 4 frames of" in capsys.readouterr().out
    assert settings_of_run(str(tmp_path / "run"), "another.xml") == {}


def test_a_users_own_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_module, capsys: pytest.CaptureFixture[str]) -> None:
    source = "import numpy as np\ndef act(observations):\n    return np.zeros((len(observations), {}))\n"
    write_module("still", source.format(1))
    write_module("wrong", source.format(3))
    small = ["--width", 64, "--height", 48]
    assert call(monkeypatch, "reacher/clockwise", "--policy", "still:act", "-o", tmp_path / "still.gif", *small) == 0
    assert "26 frames" in capsys.readouterr().out
    assert call(monkeypatch, "reacher/clockwise", "--policy", "wrong:act", "-o", tmp_path / "wrong.gif", *small) == 2
    assert "'wrong:act' gives (2, 3) for 2 observations; the robot needs (2, 1)" in capsys.readouterr().err


def test_without_an_encoder_the_way_out_is_said_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImitableError, match=r"needs ffmpeg .*imitable\[video\].*\.gif"):
        write_video(tmp_path / "clip.mp4", iter([]), fps=10)
    with pytest.raises(ImitableError, match=r"must end in \.mp4 or \.gif"):
        write_video(tmp_path / "clip.avi", iter([]), fps=10)


def test_a_urdf_file_with_visual_shapes_alone_says_how_to_keep_them(tmp_path: Path) -> None:
    text = re.sub("<collision>.*?</collision>", "", URDF, flags=re.DOTALL).replace("</link>", f"{SHAPE}</link>")
    (path := tmp_path / "leg.urdf").write_text(text)
    body = robot(str(path))
    with pytest.raises(ImitableError, match=r'URDF file MuJoCo leaves out <visual> .*compiler discardvisual="false"'):
        Renderer(body, **SIZE)(body.initial_states(1, np.random.default_rng(0))[0])
    path.write_text(text.replace('<robot name="leg">', '<robot name="leg"><mujoco><compiler discardvisual="false"/></mujoco>'))
    body = robot(str(path))
    assert np.ptp(Renderer(body, **SIZE)(body.initial_states(1, np.random.default_rng(0))[0])) > 0
