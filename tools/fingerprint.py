"""Hash what agents do over a grid of settings, to prove that a change of form changed no result.

Run `python tools/fingerprint.py > before.txt`, change the code, run it again into `after.txt`, and
compare the two.
Each line names a setting and a hash of everything a user can measure: returns, balls, policy,
values, visits and
partitions, after learning with both drivers, saving,
loading and going on. Only the public surface is called.
"""

import contextlib
import hashlib
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np

import zooming
from zooming import bonuses, metrics

EPISODES = 300


class Hash:
    """Collects numbers into one digest; equal digests mean equal bits."""

    def __init__(self):
        self.digest = hashlib.sha256()

    def add(self, *values):
        """Add arrays or numbers, with their shapes."""
        for value in values:
            array = np.ascontiguousarray(value)
            self.digest.update(str((array.dtype, array.shape)).encode())
            self.digest.update(array.tobytes())


class Shelf(gym.Env):
    """A plain environment with a mixed space and a mask: sell pieces of a stock."""

    observation_space = gym.spaces.Dict(
        {"stock": gym.spaces.Discrete(6), "heat": gym.spaces.Box(0.0, 1.0, (1,), np.float32)}
    )
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        """Start with a full shelf."""
        super().reset(seed=seed)
        self.stock, self.left = 5, 4
        return self._see()

    def step(self, action):
        """Sell `action` pieces."""
        assert action <= self.stock
        self.stock -= int(action)
        self.left -= 1
        observation, info = self._see()
        return observation, float(action) * self.np_random.random() / 3, self.left == 0, False, info

    def _see(self):
        heat = np.array([self.np_random.random()], np.float32)
        mask = np.arange(4) <= self.stock
        return {"stock": self.stock, "heat": heat}, {"action_mask": mask.astype(np.int8)}


def queue(state, action, step, params, arrivals, next_state):
    """Serve `action` of those who wait."""
    served = min(state[0], action[0])
    next_state[0] = min(9.0, state[0] - served + arrivals[0])
    return 0.5 + 0.1 * served - 0.05 * action[0] - 0.03 * state[0]


def environments():
    """{name: function that makes the environment}."""
    law = [0.0, 1.0, 2.0], [0.3, 0.4, 0.3]
    discrete = gym.spaces.Discrete
    return {
        "oil": lambda: gym.make("zooming/Oil-v0", sharpness=10.0, noise=0.1),
        "ambulance": lambda: gym.make("zooming/Ambulance-v0", travel_weight=0.25),
        "two ambulances": lambda: gym.make(
            "zooming/Ambulance-v0", n_ambulances=2, arrivals="shifting"
        ),
        "queue": lambda: zooming.compiled_env(
            queue, discrete(10), discrete(4), horizon=5, start="uniform", outcomes=law
        ),
        "shelf": Shelf,
    }


def line_metric():
    """Return a product metric over the queue's states and actions."""
    states = metrics.Points(range(10), lambda x, y: abs(x - y))
    return metrics.Product(states, metrics.Discrete())


def settings():
    """Yield (name, environment's name, function env -> agent)."""
    boxes = {
        "default": {},
        "first ties, horizon cap": {"ties": "first", "cap": "horizon"},
        "uniform actions": {"action": "uniform"},
        "longest": {"split": "longest"},
        "max_balls": {"max_balls": 60},
        "theory": {"bonus": bonuses.Theory(episodes=EPISODES)},
        "exact": {"bonus": bonuses.Exact()},
        "bernstein": {"bonus": bonuses.Bernstein(episodes=EPISODES)},
        "doubling": {"bonus": bonuses.Doubling(bonuses.Theory())},
        "weights": {"weights": {"state": 0.5}},
    }
    for env_name in environments():
        for name, options in boxes.items():
            if env_name == "shelf" and name == "weights":
                continue
            yield (
                name,
                env_name,
                lambda env, o=options: zooming.AdaptiveQ(env, seed=3, **horizon(env), **o),
            )
        yield "net", env_name, lambda env: zooming.NetQ(env, spacing=0.25, seed=3, **horizon(env))
        yield "random", env_name, lambda env: zooming.Random(env, seed=3, **horizon(env))
        yield "tree", env_name, lambda env: zooming.TreeQ(env, seed=3, **horizon(env))
        yield "planner", env_name, lambda env: zooming.Planner(env, seed=3, **horizon(env))
    for env_name in ("ambulance", "two ambulances"):
        yield "median", env_name, lambda env: zooming.Median(env, seed=3)
        yield "no movement", env_name, lambda env: zooming.NoMovement(env, seed=3)
    yield "published", "oil", lambda env: zooming.AdaptiveQ.as_published(env, bonus=0.5, seed=3)
    yield "squash", "shelf", lambda env: zooming.AdaptiveQ(env, horizon=4, squash=True, seed=3)
    for lazy in (False, True):
        for bonus in (0.1, bonuses.Exact()):
            yield (
                f"metric lazy={lazy} {type(bonus).__name__}",
                "queue",
                lambda env, lazy=lazy, bonus=bonus: zooming.MetricQ(
                    env, line_metric(), lazy=lazy, bonus=bonus, seed=3
                ),
            )
        yield (
            f"norms lazy={lazy}",
            "oil",
            lambda env, lazy=lazy: zooming.MetricQ(
                env, metrics.Product(metrics.L1(17), metrics.L1(17), "sum"), lazy=lazy, seed=3
            ),
        )


def horizon(env):
    """Return the horizon as an option where the environment does not state it."""
    return {"horizon": 4} if isinstance(env.unwrapped, Shelf) else {}


def look(hash, agent, env):
    """Add everything that the public surface shows of an agent."""
    env.observation_space.seed(1)
    env.action_space.seed(2)
    for step in range(agent.horizon):
        for _ in range(20):
            state, action = env.observation_space.sample(), env.action_space.sample()
            played, _ = agent.predict(state, state=np.array([step]))
            hash.add(played)
            with contextlib.suppress(zooming.ZoomingError):  # heuristics keep no estimates
                hash.add(agent.value(step, state), agent.q_value(step, state, action))
                hash.add(agent.visits(step, state, action))
        with contextlib.suppress(zooming.ZoomingError):
            balls = agent.partition(step)
            hash.add(
                balls.low, balls.high, balls.q_value, balls.n_visits, balls.depth, balls.radius
            )
    hash.add(agent.n_balls, agent.nbytes, agent.n_episodes)


def fingerprint(make_env, make_agent, driver):
    """Return the hash of one run."""
    hash, env = Hash(), make_env()
    try:
        agent = make_agent(env)
    except zooming.ZoomingError:
        return "refused"
    for episodes in (EPISODES // 3, EPISODES - EPISODES // 3):
        history = agent.learn(episodes, driver=driver)
        hash.add(history.returns, history.n_balls, history.n_steps)
        look(hash, agent, env)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.zoom"
            agent.save(path)
            again = zooming.load(path, env=env)
    except zooming.ZoomingError:
        again = agent
    hash.add(again.learn(50, driver=driver).returns)
    look(hash, again, env)
    return hash.digest.hexdigest()[:16]


def main():
    """Print one line a setting."""
    for name, env_name, make_agent in settings():
        found = {
            driver: fingerprint(environments()[env_name], make_agent, driver)
            for driver in ("auto", "python")
        }
        same = "drivers agree" if len(set(found.values())) == 1 else "DRIVERS DIFFER"
        print(f"{env_name:15s} {name:28s} {found['auto']} {same}", flush=True)


if __name__ == "__main__":
    main()
