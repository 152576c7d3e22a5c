"""A Franka arm by `franky-control`: libfranka's protocol, to a robot or to the simulator `franky-sim`; needs `imitable[franka]`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import files, version
from ipaddress import ip_address
from typing import Any

import numpy as np

from imitable.arrays import Array
from imitable.deploy.drivers import DriverError, Reading
from imitable.errors import ImitableError

CONTACT = (10.0, 15.0)  # Nm of torque and N of force at which the robot takes it for a collision
FACTOR = 0.3  # of the velocities, accelerations and jerks below


@dataclass(eq=False)
class FrankyDriver:
    """Joint velocities to an arm; franky's own 1 kHz loop limits their jerk and brings the arm to rest when a command expires."""

    address: str
    velocity: Array  # (7,) rad/s, the manufacturer's limits for this arm: franky's own are those of the Panda, whatever is connected
    acceleration: Array  # (7,) rad/s^2
    jerk: Array  # (7,) rad/s^3
    hardware: bool = False
    """A robot, with a real-time kernel; else a simulator on this machine."""
    _robot: Any = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not self.hardware and not is_loopback(self.address):
            raise ImitableError(f"{self.address} is not this machine; a robot is moved in hardware mode only (--hardware)")

    def connect(self) -> dict[str, str]:
        try:
            import franky
        except ImportError as error:
            raise ImitableError(f"the driver needs franky-control ({error}); pip install 'imitable[franka]'") from error
        config = franky.RealtimeConfig.Enforce if self.hardware else franky.RealtimeConfig.Ignore
        with _errors():
            robot = franky.Robot(self.address, relative_dynamics_factor=FACTOR, realtime_config=config)
            for limit, wanted in (
                (robot.joint_velocity_limit, self.velocity),
                (robot.joint_acceleration_limit, self.acceleration),
                (robot.joint_jerk_limit, self.jerk),
            ):
                limit.set(np.minimum(wanted, limit.max))
            robot.set_collision_behavior(*CONTACT)
        self._robot, self._stopped = robot, False
        libraries = [each.name for each in files("franky-control") or () if each.name.startswith("libfranka-")]
        versions = {"franky-control": version("franky-control"), "libfranka": ", ".join(libraries)}
        return {"driver": "franky", **versions, "address": self.address, "hardware": str(self.hardware)}

    def read(self) -> Reading:
        with _errors():
            state = self._connected().state
        mode = "".join(f" {each.lower()}" if each.isupper() else each for each in state.robot_mode.name).strip()
        return Reading(state.time.to_sec(), np.array(state.q), np.array(state.dq), mode)

    def command_joint_velocity(self, velocities: Array, valid_for: float) -> None:
        import franky

        if self._stopped:
            raise DriverError("it was stopped; connect again")
        robot = self._connected()
        with _errors():
            robot.poll_motion()  # raises what has gone wrong since
            robot.move(franky.JointVelocityMotion(velocities, franky.Duration(round(1000 * valid_for))), asynchronous=True)

    def stop(self, reason: str) -> None:
        import franky

        if self._robot is None or self._stopped:
            return
        self._stopped = True
        with _errors():
            if self._robot.is_in_control:
                self._robot.move(franky.JointVelocityStopMotion(), asynchronous=True)
                self._robot.join_motion(timeout=2.0)

    def close(self) -> None:
        self._robot = None

    def _connected(self) -> Any:
        if self._robot is None:
            raise DriverError("it is not connected")
        return self._robot


def is_loopback(address: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@contextmanager
def _errors() -> Iterator[None]:
    """What franky raises, as the loop knows it."""
    import franky

    try:
        yield
    except (franky.Exception, franky.InvalidMotionTypeException, RuntimeError) as error:
        raise DriverError(f"{type(error).__name__}: {error}") from error
