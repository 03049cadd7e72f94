"""Interrupt scenarios with SIGINT at random moments, and check that the state is consistent.

`python tests/signals.py 1000` makes 1000 attempts and prints a table. Each attempt forks a child
from a process that has one thread and has compiled everything. The child plays a scenario until
the signal arrives, checks what is left, and reports through its exit code.
"""

import functools
import itertools
import os
import random
import signal
import sys
import time
import traceback

import gymnasium as gym
import numpy as np

import zooming
from zooming import metrics
from zooming.bonuses import Doubling, Theory

FINE, INCONSISTENT, LOST = 0, 3, 4
LONG = 10_000_000  # episodes: never finished within a test
PATIENCE = 1.0  # seconds allowed from the signal to the exception
BOX = gym.spaces.Box(0.0, 1.0, (1,), np.float64)


def drift(state, action, step, params, rng, next_state):
    next_state[0] = min(1.0, max(0.0, 0.6 * state[0] + 0.3 * action[0] + 0.1 * rng.random()))
    return 1.0 - abs(state[0] - action[0])


class Halves:
    """A user-defined split rule, so that each split calls Python."""

    def due_at(self, low, high):
        return 2.0 / float((high - low).max())

    def axes(self, low, high):
        return [int(np.argmax(high - low))]


def oil(noise=0.1):
    return gym.make("zooming/Oil-v0", noise=noise)


def own():
    """Return a user-defined compiled environment."""
    return zooming.compiled_env(drift, BOX, BOX, 4, start="uniform", name="drift")


def adaptive():
    return zooming.AdaptiveQ(oil(), seed=1)


def knowledge(agent):
    """Return the state from which learning resumes, as bytes."""
    known = [repr(agent.n_episodes).encode(), repr(agent.env_generator).encode()]
    if hasattr(agent, "table"):
        table = agent.table
        known += [table.rows[: table.rows_in_use].tobytes(), table.core.tobytes()]
    else:
        known += [
            agent._requests[: agent._count[0]].tobytes(),
            repr(agent._generator.bit_generator.state).encode(),
        ]
    return b"|".join(known)


# --- scenarios: each plays until it is interrupted, then returns a fault, or None --------------


def fused(make, *, callback=None, parts=None):
    """Scenario: learn() in compiled code. Resuming must equal an uninterrupted run."""

    def scenario(interrupted):
        agent = make()

        def play():
            while True:
                agent.learn(parts or LONG, driver="fused", callback=callback)

        interrupted(play)
        n, history = agent.n_episodes, agent.interrupted_history
        if history is not None and parts is None and len(history) != n:
            return f"{len(history)} episodes in the history, {n} counted"
        if history is not None and not np.isfinite(history.returns).all():
            return "a return is missing"
        more = 3
        agent.learn(more, driver="fused")
        whole = make()
        whole.learn(n + more, driver="fused")
        if agent.n_episodes != n + more or knowledge(agent) != knowledge(whole):
            return f"going on after {n} episodes differs from a run of {n + more}"
        return None

    return scenario


def stepwise(make):
    """Scenario: learn() in Python. The interrupted episode counts, even if partly in the table."""

    def scenario(interrupted):
        agent = make()
        interrupted(lambda: agent.learn(LONG, driver="python"))
        n, history = agent.n_episodes, agent.interrupted_history
        if history is None:  # learn() had not begun
            return None if n == 0 else f"{n} episodes without a history"
        if not len(history) <= n <= len(history) + 1:
            return f"{len(history)} episodes in the history, {n} counted"
        if hasattr(agent, "table") and n != agent.table.core["episode"][0]:
            return f"{n} episodes counted, {agent.table.core['episode'][0]} in the table"
        whole = make().learn(len(history) or 1, driver="fused")
        if len(history) and whole.returns.tobytes() != history.returns.tobytes():
            return "the history differs from that of an uninterrupted run"
        agent.learn(3)
        return None if agent.n_episodes == n + 3 else f"{agent.n_episodes} episodes after {n} + 3"

    return scenario


def by_hand(interrupted):
    """Scenario: env.reset, act, env.step and update in a user's loop."""
    env, agent = oil(), adaptive()

    def play():
        env.reset(seed=0)
        while True:
            observation, _ = env.reset()
            for step in range(agent.horizon):
                action = agent.act(step, observation)
                after, reward, terminated, _, _ = env.step(action)
                agent.update(step, observation, action, reward, after, terminated)
                observation = after

    interrupted(play)
    inner = env.unwrapped  # Gymnasium's checker breaks if the first reset is interrupted
    inner.reset(seed=0)
    inner.step(agent.act(0, inner.reset()[0]))
    return (
        None
        if agent.n_episodes == agent.table.core["episode"][0]
        else "the episodes are miscounted"
    )


def steps_alone(interrupted):
    """Scenario: an environment without an agent."""
    env, action = own(), np.array([0.5])

    def play():
        env.reset(seed=0)
        while True:
            env.reset()
            for _ in range(4):
                env.step(action)

    interrupted(play)
    first = [env.reset(seed=5)[0].tolist(), env.step(action)[0].tolist()]
    again = own()
    return (
        None
        if first == [again.reset(seed=5)[0].tolist(), again.step(action)[0].tolist()]
        else "the environment differs"
    )


def many(interrupted):
    """Scenario: learn_many with two workers."""
    interrupted(lambda: zooming.learn_many(zooming.AdaptiveQ, oil(), range(6), LONG, n_workers=2))
    few = zooming.learn_many(zooming.AdaptiveQ, oil(), [1], 50)
    return (
        None
        if few[0].returns.tolist() == adaptive().learn(50).returns.tolist()
        else "the next run differs"
    )


def compiling(interrupted):
    """Scenario: the first compilation of dynamics, which is not in the disk cache."""

    def fresh(k):
        def dynamics(state, action, step, params, rng, next_state):
            next_state[0] = min(1.0, 0.5 * state[0] + 0.5 * rng.random() + 0.0 * k)
            return 1.0 - abs(state[0] - action[0])

        return zooming.compiled_env(dynamics, BOX, BOX, 3, start=[0.5])

    numbers = itertools.count()

    def play():
        while True:
            fresh(next(numbers))

    interrupted(play)
    ours = zooming.AdaptiveQ(fresh(next(numbers)), seed=0).learn(20).returns
    return None if len(ours) == 20 else "what is compiled next does not learn"


SCENARIOS = {
    "fused": fused(adaptive),
    "fused, short calls": fused(adaptive, parts=7),
    "fused, own dynamics": fused(lambda: zooming.AdaptiveQ(own(), seed=2)),
    "fused, own rule": fused(lambda: zooming.AdaptiveQ(own(), split=Halves(), seed=2)),
    "fused, doubling": fused(
        lambda: zooming.AdaptiveQ(oil(), bonus=Doubling(Theory()), seed=2), parts=50
    ),
    "fused, MetricQ": fused(lambda: zooming.MetricQ(own(), metrics.LInf(17), seed=2)),
    "fused, lazy": fused(lambda: zooming.MetricQ(own(), metrics.LInf(17), lazy=True, seed=2)),
    "fused, Median": fused(lambda: zooming.Median(gym.make("zooming/Ambulance-v0"), seed=2)),
    "fused, Random": fused(lambda: zooming.Random(oil(), seed=2), parts=40),
    "callback": fused(adaptive, callback=lambda agent, history: None),
    "python": stepwise(adaptive),
    "python, MetricQ": stepwise(lambda: zooming.MetricQ(own(), metrics.LInf(9), seed=2)),
    "python, Median": stepwise(lambda: zooming.Median(gym.make("zooming/Ambulance-v0"), seed=2)),
    "by hand": by_hand,
    "env": steps_alone,
    "learn_many": many,
    "compiling": compiling,
}


# --- processes ---------------------------------------------------------------------------------


def until_interrupted(ready, play):
    """Tell the parent to send the signal, and play until KeyboardInterrupt is raised."""
    try:
        os.write(ready, b"r")
        play()
    except KeyboardInterrupt:
        os.write(ready, b"i")
        return
    os._exit(LOST)


def child(name, ready):
    """Run a scenario in the child process, and exit with its outcome."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        wrong = SCENARIOS[name](functools.partial(until_interrupted, ready))
    except BaseException:
        traceback.print_exc()
        os._exit(INCONSISTENT)
    if wrong is not None:
        print(f"{name}: {wrong}", file=sys.stderr, flush=True)
    os._exit(FINE if wrong is None else INCONSISTENT)


def attempt(name, delay):
    """Interrupt a scenario `delay` seconds after it has begun, and return the outcome.

    The outcome is "fine", "died", "lost", "late" or "inconsistent".
    """
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        child(name, told)
    os.close(told)
    try:
        os.read(ready, 1)
        time.sleep(delay)
        shot = time.perf_counter()
        os.kill(pid, signal.SIGINT)
        os.set_blocking(ready, False)
        answer, seconds = b"", 0.0
        while not answer and seconds < 10.0:
            time.sleep(0.002)
            seconds = time.perf_counter() - shot
            try:
                answer = os.read(ready, 1) or b"gone"
            except BlockingIOError:
                answer = b""
        if not answer:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "lost"
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(ready)
    if os.WIFSIGNALED(status):
        return "died"
    code = os.waitstatus_to_exitcode(status)
    if code == FINE:
        return "fine" if seconds < PATIENCE else "late"
    return "lost" if code == LOST else "inconsistent"


def warm():
    """Compile what the scenarios use, so that the children do not have to."""
    for make in (adaptive, lambda: zooming.MetricQ(own(), metrics.LInf(9), seed=0)):
        for driver in ("fused", "python"):
            make().learn(3, driver=driver)
    zooming.MetricQ(own(), metrics.LInf(9), lazy=True, seed=0).learn(300, driver="fused")
    zooming.AdaptiveQ(own(), split=Halves(), seed=0).learn(50)
    for driver in ("fused", "python"):
        zooming.Median(gym.make("zooming/Ambulance-v0"), seed=0).learn(3, driver=driver)
    zooming.Random(oil(), seed=0).learn(3)


def volley(n, seed, names=None):
    """Make n attempts and return {scenario: {outcome: count}}."""
    draw, names = random.Random(seed), list(names or SCENARIOS)
    table = {
        name: dict.fromkeys(("tried", "fine", "died", "lost", "late", "inconsistent"), 0)
        for name in names
    }
    for k in range(n):
        name = names[k % len(names)]
        outcome = attempt(name, draw.random() ** 2 * 0.15)
        table[name]["tried"] += 1
        table[name][outcome] += 1
    return table


if __name__ == "__main__":
    warm()
    found = volley(
        int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:] or None
    )
    for name, row in found.items():
        print(f"{name:22}" + "  ".join(f"{count:5} {outcome}" for outcome, count in row.items()))
    total = {
        key: sum(row[key] for row in found.values())
        for key in ("tried", "fine", "died", "lost", "late", "inconsistent")
    }
    print(f"{'all':22}" + "  ".join(f"{count:5} {outcome}" for outcome, count in total.items()))
