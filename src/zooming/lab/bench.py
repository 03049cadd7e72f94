"""Measure speed and memory of both drivers."""

from __future__ import annotations

import math
import time
from typing import Any

import gymnasium as gym

from zooming.agents.tables.adaptive_q import AdaptiveQ

BONUS = 0.1
_OIL = ("zooming/Oil-v0", {"survey": "laplace", "sharpness": 1.0})
_AMBULANCE = ("zooming/Ambulance-v0", {"arrivals": "beta", "travel_weight": 0.25})
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "oil laplace 1": _OIL,
    "ambulance beta .25": _AMBULANCE,
    "2 ambulances (4-D)": (_AMBULANCE[0], {**_AMBULANCE[1], "n_ambulances": 2}),
    "3 ambulances (6-D)": (_AMBULANCE[0], {**_AMBULANCE[1], "n_ambulances": 3}),
}


def time_fused(problem: str, episodes: int, seed: int = 0) -> tuple[float, float, Any]:
    """Run the compiled driver.

    Return nanoseconds of processor time per step, of all episodes and of the last tenth, and the
    agent.
    """
    env_id, options = PROBLEMS[problem]
    agent, tenth = AdaptiveQ(gym.make(env_id, **options), bonus=BONUS, seed=seed), episodes // 10
    began = time.process_time()
    agent.learn(episodes - tenth)
    middle = time.process_time()
    agent.learn(tenth)
    ended = time.process_time()
    per_step = 1e9 / agent.horizon
    return (ended - began) * per_step / episodes, (ended - middle) * per_step / tenth, agent


def time_python(problem: str, agent: Any) -> float:
    """Return nanoseconds of agent time per step, of act and update driven from Python."""
    env_id, options = PROBLEMS[problem]
    env, transitions = gym.make(env_id, **options), []
    for episode in range(400):
        observation, _ = env.reset(seed=episode)
        for step in range(agent.horizon):
            action = agent.act(step, observation)
            after, reward, terminated, _, _ = env.step(action)
            transitions.append((step, observation, action, float(reward), after, bool(terminated)))
            observation = after
    best = math.inf
    for _ in range(15):
        began = time.process_time()
        for step, observation, action, reward, after, terminated in transitions:
            if step == 0:
                action = agent.start(observation)
            agent.step_on(step, observation, action, reward, after, terminated, False)
        best = min(best, time.process_time() - began)
    return best / len(transitions) * 1e9


def main(quick: bool = False) -> None:
    """Measure speed and memory of both drivers.

    Absolute times depend on the machine and its load. Compare the ratios.

    Args:
        quick: play 2,000 episodes instead of 100,000.
    """
    from zooming.lab.study.run_command import make_table, wide_console

    episodes, console = 2_000 if quick else 100_000, wide_console()
    table = make_table(
        f"AdaptiveQ, {episodes:,} episodes of 5 steps: nanoseconds of processor time per step",
        ["problem"], "fused", "late", "Python", "ratio", "balls", "bytes",
    )  # fmt: skip
    for problem in PROBLEMS:
        time_fused(problem, 10)  # compiles
        fused, late, agent = time_fused(problem, episodes)
        python, size = time_python(problem, agent), agent.nbytes / agent.n_balls
        times = [f"{one:,.0f}" for one in (fused, late, python)]
        table.add_row(problem, *times, f"{python / fused:.1f}", f"{agent.n_balls:,}", f"{size:.1f}")
    console.print(table)
    console.print(
        "fused: the compiled driver, environment included; late: its last tenth; Python: agent "
        "time of act and update, driven from Python; ratio: Python / fused; bytes: per ball"
    )
