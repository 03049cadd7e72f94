"""Reading an agent from another thread changes nothing, at any time."""

import copy
import pickle
import threading
import time

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Drift, knowledge, same_history
from zooming.kernels import IS_JIT_DISABLED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_JIT_DISABLED, reason="kernels run unlocked only if they are compiled"),
]
EPISODES = {"Auto": 250, "Planner": 250, "AdaptiveQ": 40_000, "TreeQ": 15_000}


def oil():
    return gym.make("zooming/Oil-v0", noise=0.05)


def make(name):
    return getattr(zooming, name)(oil(), seed=1, reward_range=(-1.0, 2.0))


class Reader(threading.Thread):
    """Read an agent every millisecond until it is told to stop."""

    def __init__(self, agent, folder):
        super().__init__(daemon=True)
        self.agent, self.path, self.errors, self.n_reads = agent, folder / "read.zoom", [], 0
        self.stop = threading.Event()

    def run(self):
        agent = self.agent
        calls = [
            lambda: agent.predict(np.array([0.3]), state=0),
            lambda: agent.value(1, np.array([0.4])),
            lambda: agent.q_value(0, np.array([0.4]), np.array([0.6])),
            lambda: agent.visits(2, np.array([0.4]), np.array([0.6])),
            lambda: (agent.n_episodes, agent.n_balls, agent.nbytes, repr(agent)),
            lambda: agent.partition(0),
            lambda: agent.save(self.path),
        ]
        if hasattr(agent, "status"):
            calls.append(agent.status)
        while not self.stop.is_set():
            try:
                calls[self.n_reads % len(calls)]()
            except Exception as error:
                self.errors.append(repr(error))
            self.n_reads += 1
            time.sleep(0.001)


@pytest.mark.parametrize("driver", ["fused", "python"])
@pytest.mark.parametrize("name", [*EPISODES])
def test_an_agent_that_others_read_learns_the_same(name, driver, tmp_path):
    episodes = EPISODES[name] if driver == "fused" else min(150, EPISODES[name])
    undisturbed, agent = make(name), make(name)
    expected = undisturbed.learn(episodes, driver=driver)
    reader = Reader(agent, tmp_path)
    reader.start()
    history = agent.learn(episodes, driver=driver)
    reader.stop.set()
    reader.join()
    assert reader.errors == []
    assert reader.n_reads > 0  # how many depends on the machine
    assert same_history(history, expected)
    assert knowledge(agent) == knowledge(undisturbed)
    agent.save(reader.path)
    assert zooming.load(reader.path).n_episodes == episodes


READERS = {
    "explain": lambda agent: agent.explain(episodes=2),
    "evaluate": lambda agent: zooming.evaluate(agent, episodes=5),
    "evaluate on its env": lambda agent: zooming.evaluate(agent, agent.env, 5),
}


@pytest.mark.parametrize("reader", [*READERS])
def test_playing_a_policy_leaves_the_environment_that_its_agent_learns_on_alone(reader):
    undisturbed, agent = make("TreeQ"), make("TreeQ")
    expected = undisturbed.learn(150, driver="python")
    found, stop = [], threading.Event()

    def play():
        while not agent.n_episodes:  # an evaluation that began before learning plays on `env`
            time.sleep(0.001)
        found.append(READERS[reader](agent))
        while not stop.is_set():
            found.append(READERS[reader](agent))

    thread = threading.Thread(target=play)
    thread.start()
    history = agent.learn(150, driver="python")
    stop.set()
    thread.join()
    assert found
    assert same_history(history, expected)


def test_a_page_that_another_thread_writes_within_a_step_leaves_the_run_alone(tmp_path):
    def show(step, state, reward):
        if not shown:
            shown.append(threading.Thread(target=agent.show, args=[tmp_path / "page.html"]))
            shown[0].start()
            shown[0].join()
        return state, reward

    shown = []
    undisturbed, agent = (
        zooming.TreeQ(Drift(flaw=flaw), horizon=3, seed=0) for flaw in (None, show)
    )
    assert same_history(agent.learn(20), undisturbed.learn(20))
    assert knowledge(agent) == knowledge(undisturbed)
    assert (tmp_path / "page.html").exists()


def test_a_copy_of_a_portfolio_has_a_lock_that_it_shares_with_its_agents():
    agent = make("Auto")
    agent.learn(8)
    for twin in (copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert twin.run.lock is not agent.run.lock
        assert all(one.run.lock is twin.run.lock for one in twin.agents)
        assert same_history(twin.learn(5), copy.deepcopy(agent).learn(5))
