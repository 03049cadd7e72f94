"""Compile the kernels that most tests need into Numba's cache.

Two processes that start with an empty cache would both compile all of them. `make test` runs this
while the linters run, before it starts pytest in two processes.
"""

import sys
from pathlib import Path

import gymnasium as gym

import zooming

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from helpers import AGENTS

ENVS = ("zooming/Oil-v0", "zooming/Ambulance-v0")
BONUSES = (zooming.bonuses.Exact(), zooming.bonuses.Bernstein())


def main():
    """Let every agent learn a little, with both drivers and by hand, and value what it learned."""
    for env in map(gym.make, ENVS):
        agents = [make(env, seed=0) for make in AGENTS.values()]
        agents += [zooming.AdaptiveQ(env, bonus=bonus, seed=0) for bonus in BONUSES]
        agents += [zooming.MetricQ(env, zooming.metrics.L1(5), lazy=True, seed=0)]
        agents += [zooming.Auto(env, seed=0)]  # with the trees and a record of what others play
        for agent in agents:
            for driver in ("fused", "python"):
                agent.learn(20, driver=driver)
            state, action = env.observation_space.sample(), env.action_space.sample()
            agent.predict(state)
            agent.act(0, state)
            agent.update(0, state, action, 0.5, state)
        agents[0].value(0, state)
        zooming.evaluate(agents[0], env, exact=True)
        zooming.solve(env, 8)


if __name__ == "__main__":
    main()
