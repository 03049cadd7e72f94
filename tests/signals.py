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
from zooming import testing as tools
from zooming.bonuses import Doubling, Theory

FINE, INCONSISTENT, LOST = 0, 3, 4
OUTCOMES = ("tried", "fine", "died", "lost", "late", "inconsistent")
LONG = 10_000_000  # episodes: never finished within a test
PATIENCE = 1.0  # seconds allowed from the signal to the exception
BOX = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
LOGS = []  # of `from_log`, filled by `warm_up`


def drift(state, action, step, params, rng, next_state):
    next_state[0] = min(1.0, max(0.0, 0.6 * state[0] + 0.3 * action[0] + 0.1 * rng.random()))
    return 1.0 - abs(state[0] - action[0])


def oil(noise=0.1):
    return gym.make("zooming/Oil-v0", noise=noise)


def own():
    """Return a user-defined compiled environment."""
    return zooming.compiled_env(drift, BOX, BOX, 4, start="uniform", name="drift")


def adaptive():
    return zooming.AdaptiveQ(oil(), seed=1)


def auto():
    return zooming.Auto(oil(), seed=3)


def planner():
    return zooming.Planner(oil(), seed=3)


def knowledge(agent):
    """Return the state from which learning resumes, as bytes."""
    known = [repr(agent.n_episodes).encode(), repr(agent.run.env_generator).encode()]
    if isinstance(agent, (zooming.Planner, zooming.Auto)):
        known.append(repr(tools.knowledge(agent)).encode())
    elif hasattr(agent, "table"):
        table = agent.table
        known += [table.rows[: table.rows_in_use].tobytes(), table.core.tobytes()]
    else:
        known += [
            agent._requests[: agent._count[0]].tobytes(),
            repr(agent._generator.bit_generator.state).encode(),
        ]
    return b"|".join(known)


def disagreement(agent, n):
    """Return a fault if the agents of a portfolio have not all learned `n` episodes, or None."""
    parts = [one.n_episodes for one in getattr(agent, "agents", [])]
    return f"{n} episodes, but {parts} in its agents" if set(parts) - {n} else None


def fault_of_going_on(agent):
    """Learn three episodes more, and return a fault, or None."""
    n = agent.n_episodes
    if wrong := disagreement(agent, n):
        return wrong
    agent.learn(3)
    return None if agent.n_episodes == n + 3 else f"{agent.n_episodes} episodes after {n} + 3"


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
        if wrong := disagreement(agent, n):
            return wrong
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
        table = getattr(agent, "table", None)
        if hasattr(table, "rows") and n != table.core["episode"][0]:
            return f"{n} episodes counted, {table.core['episode'][0]} in the table"
        whole = make().learn(len(history) or 1, driver="fused")
        if len(history) and whole.returns.tobytes() != history.returns.tobytes():
            return "the history differs from that of an uninterrupted run"
        return fault_of_going_on(agent)

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
    is_counted = agent.n_episodes == agent.table.core["episode"][0]
    return None if is_counted else "the episodes are miscounted"


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
    second = [again.reset(seed=5)[0].tolist(), again.step(action)[0].tolist()]
    return None if first == second else "the environment differs"


def playing(make, play):
    """Scenario: `play(agent)` until it is interrupted."""

    def scenario(interrupted):
        agent = make()
        interrupted(lambda: play(agent))
        return fault_of_going_on(agent)

    return scenario


def from_log(agent):
    """Learn from a log that takes seconds, again and again."""
    while True:
        agent.learn_from(LOGS[0])


def warm(agent):
    agent.warm_start(lambda step, state: [0.5], 400)
    agent.learn(LONG)


def plans(call):
    """Scenario: a planner whose samples do not change makes plans again and again."""

    def scenario(interrupted):
        agent = planner()
        agent.learn(40)
        expected = planner()
        expected.learn(40)

        def play():
            while True:
                call(agent)

        interrupted(play)
        agent.table.restore(expected.table.state())  # without the plans that were made since
        history, whole = agent.learn(20), expected.learn(20)
        return None if (history.returns == whole.returns).all() else "the next run differs"

    return scenario


def predict_anew(agent):
    agent.table._forget()
    agent.predict([0.3])


def many(interrupted):
    """Scenario: learn_many with two workers."""
    interrupted(lambda: zooming.learn_many(zooming.AdaptiveQ, oil(), range(6), LONG, n_workers=2))
    few = zooming.learn_many(zooming.AdaptiveQ, oil(), [1], 50)
    is_same = few[0].returns.tolist() == adaptive().learn(50).returns.tolist()
    return None if is_same else "the next run differs"


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
    "fused, Auto": fused(auto),
    "fused, Planner": fused(planner),
    "python, Auto": stepwise(auto),
    "learn_from, Auto": playing(auto, from_log),
    "learn_from": playing(adaptive, from_log),
    "warm, Auto": playing(auto, warm),
    "warm": playing(lambda: zooming.AdaptiveQ(oil(), reward_range=(-1.0, 2.0), seed=1), warm),
    "refit": plans(lambda agent: agent.table.refit()),
    "predict, new plan": plans(predict_anew),
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


def warm_up():
    """Compile what the scenarios use, so that the children do not have to."""
    for make in (adaptive, lambda: zooming.MetricQ(own(), metrics.LInf(9), seed=0)):
        for driver in ("fused", "python"):
            make().learn(3, driver=driver)
    zooming.MetricQ(own(), metrics.LInf(9), lazy=True, seed=0).learn(300, driver="fused")
    for driver in ("fused", "python"):
        zooming.Median(gym.make("zooming/Ambulance-v0"), seed=0).learn(3, driver=driver)
    zooming.Random(oil(), seed=0).learn(3)
    log = zooming.record(oil(), lambda step, state: [0.5], episodes=1000, epsilon=0.5)
    LOGS.append({name: np.tile(log[name].to_numpy(), 20) for name in log.columns})
    LOGS[0]["episode"] = np.repeat(np.arange(20_000), 5)
    for driver in ("fused", "python"):
        auto().learn(12, driver=driver)
    for make in (auto, adaptive):
        make().learn_from(log)
        make().warm_start(lambda step, state: [0.5], 40)
    agent = planner()
    agent.learn(40)
    predict_anew(agent)


def volley(n, seed, names=None):
    """Make n attempts and return {scenario: {outcome: count}}."""
    draw, names = random.Random(seed), list(names or SCENARIOS)
    table = {name: dict.fromkeys(OUTCOMES, 0) for name in names}
    for k in range(n):
        name = names[k % len(names)]
        outcome = attempt(name, draw.random() ** 2 * 0.15)
        table[name]["tried"] += 1
        table[name][outcome] += 1
    return table


if __name__ == "__main__":
    warm_up()
    found = volley(
        int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:] or None
    )
    for name, row in found.items():
        print(f"{name:22}" + "  ".join(f"{count:5} {outcome}" for outcome, count in row.items()))
    total = {key: sum(row[key] for row in found.values()) for key in OUTCOMES}
    print(f"{'all':22}" + "  ".join(f"{count:5} {outcome}" for outcome, count in total.items()))
