"""A small four-legged robot as MJCF and a one-legged one as URDF, for what only a floating base meets."""

LEG = """<body name="{n}_thigh" pos="{x} {y} 0"><joint name="{n}_hip" axis="0 1 0" range="-1 1" damping="0.2"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.02" mass="0.3"/><body name="{n}_shank" pos="0 0 -0.15">
<joint name="{n}_knee" axis="0 1 0" range="-1.5 0.5" damping="0.1"/><geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.015" mass="0.15"/>
</body></body>"""
LEGS = {"fl": (0.15, 0.1), "fr": (0.15, -0.1), "rl": (-0.15, 0.1), "rr": (-0.15, -0.1)}
QUADRUPED = f"""<mujoco><compiler angle="radian"/><option timestep="0.004"/><worldbody><body name="trunk" pos="0 0 1"><freejoint/>
<geom type="box" size="0.2 0.1 0.05" mass="3"/>{"".join(LEG.format(n=name, x=x, y=y) for name, (x, y) in LEGS.items())}</body></worldbody>
<actuator>{"".join(f'<motor joint="{name}_{part}" ctrlrange="-12 12"/>' for name in LEGS for part in ("hip", "knee"))}</actuator>
<keyframe><key name="down" qpos="0 0 0.1 1 0 0 0 {"1 -1.5 " * 4}"/><key name="home" qpos="0 0 0.3 1 0 0 0 {"0.5 -1 " * 4}"/></keyframe>
</mujoco>"""

INERTIAL = '<inertial><mass value="{}"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>'
URDF = f"""<robot name="leg"><link name="base">{INERTIAL.format(3)}<collision><geometry><box size="0.2 0.2 0.1"/>
</geometry></collision></link><link name="thigh">{INERTIAL.format(1)}<collision><origin xyz="0 0 -0.1"/>
<geometry><cylinder radius="0.03" length="0.2"/></geometry></collision>
</link><link name="foot">{INERTIAL.format(0.2)}<collision><geometry><mesh filename="package://leg/meshes/foot.stl"/></geometry></collision>
<collision><geometry><sphere radius="0.03"/></geometry></collision></link>
<joint name="hip" type="revolute"><parent link="base"/><child link="thigh"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1.5" effort="20" velocity="10"/><dynamics damping="0.1"/></joint>
<joint name="ankle" type="revolute"><parent link="thigh"/><child link="foot"/><origin xyz="0 0 -0.2"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="5" velocity="10"/><dynamics damping="0.1"/></joint></robot>"""
