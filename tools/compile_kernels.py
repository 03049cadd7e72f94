"""Compile the kernels that most tests need into Numba's cache.

Two processes that start with an empty cache would both compile all of them. So `make test` runs
this before it starts pytest in two processes, once for the planners and once for the other agents.
"""

import sys
from pathlib import Path

import gymnasium as gym

import zooming

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers import AGENTS

ENVS = ("zooming/Oil-v0", "zooming/Ambulance-v0")
BONUSES = (zooming.bonuses.Exact(), zooming.bonuses.Bernstein())


def planners(env):
    """Return a planner, and an agent with a planner, trees and a record of what others play."""
    return [AGENTS["Planner"](env, seed=0), zooming.Auto(env, seed=0)]


def others(env):
    """Return the agents of boxes and balls, and the heuristics."""
    agents = [make(env, seed=0) for name, make in AGENTS.items() if name != "Planner"]
    agents += [zooming.AdaptiveQ(env, bonus=bonus, seed=0) for bonus in BONUSES]
    agents += [zooming.MetricQ(env, zooming.metrics.L1(5), lazy=True, seed=0)]
    return agents


PARTS = {"planners": planners, "others": others}


def main(*parts):
    """Let the agents of these parts, by default of all, learn a little and value what they learned.

    They learn with both drivers and by hand.
    """
    for env in map(gym.make, ENVS):
        low, high = env.action_space.low, env.action_space.high
        for part in parts or PARTS:
            agents = PARTS[part](env)
            for agent in agents:
                for driver in ("fused", "python"):
                    agent.learn(20, driver=driver)
                state, action = env.observation_space.sample(), env.action_space.sample()
                agent.predict(state)
                agent.predict(state, info={"action_low": low, "action_high": (low + high) / 2})
                agent.act(0, state)
                agent.update(0, state, action, 0.5, state)
            if part == "others":
                agents[0].value(0, state)
                zooming.evaluate(agents[0], env, exact=True)
                zooming.solve(env, 8)


if __name__ == "__main__":
    main(*sys.argv[1:])
