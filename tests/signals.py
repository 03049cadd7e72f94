"""Scenarios that a signal interrupts at a random moment, each in a process of its own, and what must hold afterwards.

`python tests/signals.py 1000` runs so many and prints a table. A child is forked from a process that has compiled everything
and has one thread. It plays a scenario until the signal comes, checks what it left, and says so in its exit code.
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
LONG = 10_000_000  # episodes: more than anybody waits for
PATIENCE = 1.0  # seconds from the signal to the exception
BOX = gym.spaces.Box(0.0, 1.0, (1,), np.float64)


def drift(state, action, step, params, rng, next_state):
    next_state[0] = min(1.0, max(0.0, 0.6 * state[0] + 0.3 * action[0] + 0.1 * rng.random()))
    return 1.0 - abs(state[0] - action[0])


class Halves:
    """A split rule of the user's own, so that each split comes back to Python."""

    def due_at(self, low, high):
        return 2.0 / float((high - low).max())

    def axes(self, low, high):
        return [int(np.argmax(high - low))]


def oil(noise=0.1):
    return gym.make("zooming/Oil-v0", noise=noise)


def own():
    return zooming.compiled_env(drift, BOX, BOX, 4, start="uniform", name="drift")


def adaptive():
    return zooming.AdaptiveQ(oil(), seed=1)


def knowledge(agent):
    """All that learning goes on from, as bytes."""
    known = [repr(agent.n_episodes).encode(), repr(agent.env_generator).encode()]
    if hasattr(agent, "table"):
        table = agent.table
        known += [table.rows[: table.rows_in_use].tobytes(), table.core.tobytes()]
    else:
        known += [agent._requests[: agent._count[0]].tobytes(), repr(agent._generator.bit_generator.state).encode()]
    return b"|".join(known)


# --- scenarios: each plays until it is interrupted, then returns what is wrong, or None -------------------------------------


def fused(make, *, callback=None, parts=None):
    """learn() in compiled code; going on equals a run that was never stopped."""

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
    """learn() in Python: the episode under way may be in the table in part, and counts."""

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
    """env.reset, act, env.step and update in a loop of the user's own."""
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
    inner = env.unwrapped  # Gymnasium's checker does not survive an interrupt of the first reset
    inner.reset(seed=0)
    inner.step(agent.act(0, inner.reset()[0]))
    return None if agent.n_episodes == agent.table.core["episode"][0] else "the episodes are miscounted"


def steps_alone(interrupted):
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
    return None if first == [again.reset(seed=5)[0].tolist(), again.step(action)[0].tolist()] else "the environment differs"


def many(interrupted):
    interrupted(lambda: zooming.learn_many(zooming.AdaptiveQ, oil(), range(6), LONG, n_workers=2))
    few = zooming.learn_many(zooming.AdaptiveQ, oil(), [1], 50)
    return None if few[0].returns.tolist() == adaptive().learn(50).returns.tolist() else "the next run differs"


def compiling(interrupted):
    """The first compilation of dynamics, which no cache on disk holds."""

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
    "fused, doubling": fused(lambda: zooming.AdaptiveQ(oil(), bonus=Doubling(Theory()), seed=2), parts=50),
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


# --- one process each ----------------------------------------------------------------------------------------------------


def until_interrupted(ready, play):
    """Tell the parent that it may shoot, and play until the KeyboardInterrupt comes."""
    try:
        os.write(ready, b"r")
        play()
    except KeyboardInterrupt:
        os.write(ready, b"i")
        return
    os._exit(LOST)


def child(name, ready):
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
    """Interrupt a scenario `delay` seconds after it has begun; "fine", "died", "lost", "late" or "inconsistent"."""
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
    """Compile what the scenarios use, so that the children need not."""
    for make in (adaptive, lambda: zooming.MetricQ(own(), metrics.LInf(9), seed=0)):
        for driver in ("fused", "python"):
            make().learn(3, driver=driver)
    zooming.MetricQ(own(), metrics.LInf(9), lazy=True, seed=0).learn(300, driver="fused")
    zooming.AdaptiveQ(own(), split=Halves(), seed=0).learn(50)
    for driver in ("fused", "python"):
        zooming.Median(gym.make("zooming/Ambulance-v0"), seed=0).learn(3, driver=driver)
    zooming.Random(oil(), seed=0).learn(3)


def volley(n, seed, names=None):
    """Outcomes of n attempts, by scenario: {name: {outcome: how many}}."""
    draw, names = random.Random(seed), list(names or SCENARIOS)
    table = {name: dict.fromkeys(("tried", "fine", "died", "lost", "late", "inconsistent"), 0) for name in names}
    for k in range(n):
        name = names[k % len(names)]
        outcome = attempt(name, draw.random() ** 2 * 0.15)
        table[name]["tried"] += 1
        table[name][outcome] += 1
    return table


if __name__ == "__main__":
    warm()
    found = volley(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:] or None)
    for name, row in found.items():
        print(f"{name:22}" + "  ".join(f"{count:5} {outcome}" for outcome, count in row.items()))
    total = {key: sum(row[key] for row in found.values()) for key in ("tried", "fine", "died", "lost", "late", "inconsistent")}
    print(f"{'all':22}" + "  ".join(f"{count:5} {outcome}" for outcome, count in total.items()))
