"""Interrupts: a signal at any moment ends in KeyboardInterrupt, and whatever was learned stays
whole."""

import functools
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import signals
import zooming
from helpers import AGENTS, knowledge
from zooming import kernels
from zooming.kernels.loop import crossing, jit
from zooming.kernels.plans import play as plan_actions

# --- signals --------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(
    kernels.IS_JIT_DISABLED,
    reason="children are forked from a process that has compiled everything",
)
def test_a_signal_at_a_random_moment_ends_52_of_52_processes_in_words():
    """In a process of its own: forking is for one thread, and pytest may have more."""
    run = subprocess.run(
        [sys.executable, signals.__file__, "52", "1"], capture_output=True, text=True, check=True
    )
    last = run.stdout.splitlines()[-1].split()
    outcomes = dict(zip(last[2::2], map(int, last[1::2]), strict=True))
    expected = {"tried": 52, "fine": 52, "died": 0, "lost": 0, "late": 0, "inconsistent": 0}
    assert outcomes == expected, run.stdout + run.stderr[-2000:]


FIRST_COMPILATION = """
import sys, gymnasium as gym, zooming
import zooming.agents.tables.adaptive_q
print("ready", flush=True)
try:
    while True:
        zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).learn(5)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.process
@pytest.mark.slow
def test_the_first_compilation_can_be_interrupted():
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "NUMBA_CACHE_DIR": folder, "NUMBA_DISABLE_JIT": "0"}
        command = [sys.executable, "-c", FIRST_COMPILATION]
        run = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        assert run.stdout.readline() == "ready\n"
        time.sleep(random.Random(0).random())
        began = time.perf_counter()
        run.send_signal(signal.SIGINT)
        threading.Timer(60.0, run.kill).start()  # a lost signal fails the test, and no more
        assert run.stdout.readline() == "interrupted\n"
        assert time.perf_counter() - began < 1.0
        assert run.wait() == 0
        run.stdout.close()


class Stop(Exception):
    def __init__(self):
        super().__init__("stopped by the test")


@pytest.mark.plain
@pytest.mark.parametrize("driver", ["fused", "python"])
def test_the_history_of_a_run_that_an_exception_ended_is_kept(driver):
    def stop(agent, history):
        if len(history) == 7:
            raise Stop

    agent, whole = (zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0"), seed=0) for _ in range(2))
    assert agent.interrupted_history is None
    with pytest.raises(Stop, match="by the test"):
        agent.learn(50, driver=driver, callback=stop)
    kept = agent.interrupted_history
    assert len(kept) == agent.n_episodes == 7
    if not kernels.IS_JIT_DISABLED:  # where an agent's kernels are compiled, it can be pickled
        assert len(pickle.loads(pickle.dumps(agent)).interrupted_history) == 7
    both = kept + agent.learn(5, driver=driver)
    assert agent.interrupted_history is None
    assert both.returns.tobytes() == whole.learn(12).returns.tobytes()
    assert knowledge(agent) == knowledge(whole)


@pytest.mark.plain
def test_a_mark_that_an_interrupt_left_behind_does_not_stop_the_agent():
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.run.learner = threading.get_ident()
    assert len(agent.learn(3)) == 3
    with pytest.raises(zooming.ConfigurationError, match="of this agent is running already"):
        agent.learn(3, callback=lambda agent, history: agent.learn(1))


@pytest.mark.plain
@pytest.mark.parametrize("driver", ["fused", "python"])
def test_a_cover_that_fails_is_made_when_learning_goes_on(driver):
    """The episode under way waits for it in the fused driver, and is in the table in part with
    the Python one."""

    class Moody:
        is_down = True

        def __call__(self, uncovered, radius, space):
            if self.is_down:
                raise Stop
            found = np.argwhere(uncovered)
            return tuple(found[0]) if len(found) else None

    def make():
        return zooming.MetricQ(signals.own(), zooming.metrics.LInf(9), oracle=oracle, seed=0)

    oracle = Moody()
    agent = make()
    with pytest.raises(zooming.ConfigurationError, match="by the test"):
        agent.learn(50, driver=driver)
    n, kept = agent.n_episodes, agent.interrupted_history
    assert n == len(kept) + (driver == "python")
    oracle.is_down = False
    both = kept + agent.learn(20, driver=driver)
    assert agent.n_episodes == n + 20
    if driver == "fused":
        whole = make()
        assert both.returns.tobytes() == whole.learn(n + 20).returns.tobytes()
        assert knowledge(agent) == knowledge(whole)


@pytest.mark.skipif(
    kernels.IS_JIT_DISABLED, reason="without compilation all seeds are run one after the other"
)
def test_learn_many_stops_the_others_when_one_run_fails():
    def make(env, seed):
        if seed == 1:
            raise Stop
        return zooming.AdaptiveQ(env, seed=seed)

    began = time.perf_counter()
    with pytest.raises(Stop, match="by the test"):
        zooming.learn_many(make, gym.make("zooming/Oil-v0"), range(4), 50_000_000, n_workers=2)
    while any(thread.name.startswith("ThreadPoolExecutor") for thread in threading.enumerate()):
        assert time.perf_counter() - began < 20.0
        time.sleep(0.01)


# --- crossing into compiled code ------------------------------------------------------------------


@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="nothing crosses")
def test_this_numba_lays_out_generators_and_functions_as_the_crossing_expects():
    assert crossing.BY_ADDRESS, (
        "objects cross instead: right, but slow and not safe from signals; see `numba_parts`"
    )


@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="nothing is compiled")
def test_kernels_are_compiled_where_no_signal_handler_runs():
    threads = []

    def where(x):
        return x + 1.0

    kernel = jit.compile_kernel(where, on_disk=False)
    compile_now = kernel.compile
    kernel.compile = lambda *given: (
        threads.append(threading.current_thread()) or compile_now(*given)
    )
    assert kernel(1.0) == 2.0
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def wrong_crossings(call):
    """Return what crossed between Python and kernels in call(), where a signal can be handled.

    Numbers, arrays and plain tuples of them may cross: C code converts them. All others are
    converted by Python code, in which a signal handler may raise.
    """
    found = set()

    def check(name, value):
        if type(value) is tuple:
            for one in value:
                check(name, one)
        elif not isinstance(value, (int, float, np.number, np.bool_, np.ndarray, type(None))):
            found.add((name, type(value).__name__))

    class Watched(CPUDispatcher):
        __slots__ = ()

        def __call__(self, *values):
            result = super().__call__(*values)
            if threading.current_thread() is threading.main_thread():
                check(self.py_func.__name__, (*values, result))
            return result

    gc.unfreeze()  # `conftest` has frozen what was imported
    kernels = [one for one in gc.get_objects() if type(one) is CPUDispatcher]
    for kernel in kernels:
        kernel.__class__ = Watched
    try:
        call()
    finally:
        for kernel in kernels:
            kernel.__class__ = CPUDispatcher
        gc.freeze()
    return found


def use_everything():
    """Call the kernels of all kinds of agents from Python."""
    env = signals.oil()
    log = zooming.record(env, lambda step, state: [0.5], episodes=60, epsilon=0.5)
    agents = [make(env, seed=0) for make in AGENTS.values()] + [signals.auto()]
    for agent in agents:
        for driver in ("fused", "python"):
            agent.learn(10, driver=driver)
        agent.learn_from(log)
        agent.update(0, [0.5], [0.5], 0.5, agent.act(0, [0.5]))
        agent.predict([0.3])
        agent.predict([0.3], deterministic=False)
        agent.predict([0.3], info={"action_low": [0.1], "action_high": [0.4]})
        if agent.n_balls:
            agent.value(0, [0.3]), agent.q_value(0, [0.3], [0.3]), agent.visits(0, [0.3], [0.3])
            agent.balls(0) if hasattr(agent, "balls") else agent.partition(0)
    zooming.evaluate(agents[0], signals.oil(0.0), exact=True)
    zooming.solve(signals.oil(0.0), 8)


@pytest.mark.slow
@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="nothing crosses")
def test_only_numbers_and_arrays_cross_where_a_signal_can_be_handled():
    use_everything()  # compile first: only finished kernels are watched
    assert wrong_crossings(use_everything) == set()
    agent = signals.planner()
    agent.learn(3)
    core, _, grid, plan, _ = agent.table.cells
    everything, unit = np.empty((0, kernels.FIRST_VALUE)), np.empty(1)
    arguments = core, grid, plan, 0, np.array([0.5]), 0.0, everything, unit
    crossed = wrong_crossings(lambda: plan_actions.choose(*arguments))
    assert crossed == {("choose", "Grid"), ("choose", "Plan")}


@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="nothing crosses")
def test_lists_are_converted_before_they_reach_a_kernel(monkeypatch):
    """Numba searches for conversions in Python code: a signal there became a KeyError."""
    searched = []

    def search(self, *values, **options):
        searched.append(self.py_func.__name__)

    monkeypatch.setattr(CPUDispatcher, "_search_new_conversions", search)
    agent = adaptive_and_tree()
    for step in range(5):
        agent.act(step, [0.3])
        agent.update(step, [0.3], [0.2], 0.5, [0.3])
    assert searched == []


def adaptive_and_tree():
    env = signals.oil()
    return zooming.Portfolio([zooming.TreeQ(env, seed=0), zooming.AdaptiveQ(env, seed=1)], seed=0)


@pytest.mark.plain
def test_a_generator_that_crosses_draws_what_it_draws_in_python():
    def dynamics(state, action, step, params, rng, next_state):
        next_state[0] = rng.random()
        next_state[1] = rng.integers(0, 1000)
        next_state[2] = rng.normal()
        return rng.uniform(0.0, 1.0)

    space = gym.spaces.Box(-1e4, 1e4, (3,), np.float64)
    env = zooming.compiled_env(dynamics, space, space, 20, start="uniform")
    start, _ = env.reset(seed=4)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(4)))
    assert start.tolist() == [-1e4 + rng.random() * 2e4 for _ in range(3)]
    for _ in range(20):
        state, reward, *_ = env.step(np.zeros(3))
        drawn = [rng.random(), rng.integers(0, 1000), rng.normal(), rng.uniform(0.0, 1.0)]
        assert [*state.tolist(), reward] == drawn
    assert env.np_random.bit_generator.state == rng.bit_generator.state


@pytest.mark.plain
def test_a_copy_of_an_environment_has_addresses_of_its_own():
    env = gym.make("zooming/Oil-v0", noise=0.1).unwrapped
    env.reset(seed=1)
    twin = pickle.loads(pickle.dumps(env.crossing()))
    assert twin.generator is not env.np_random
    if crossing.BY_ADDRESS:
        n = crossing.N_GENERATOR_WORDS
        assert (twin.handle[:n] != env.crossing().handle[:n]).any()
        assert (twin.handle[n:] == env.crossing().handle[n:]).all()
    before = env.np_random.bit_generator.state
    other = env.crossing(np.random.default_rng(0))
    crossing.draw_start()(other.handle, env.params, np.empty(1))
    assert env.np_random.bit_generator.state == before


DIFFERS = """
import types
from numba.core.datamodel import default_manager
default_manager.lookup = lambda kind: types.SimpleNamespace(_fields=("something", "else"))
from zooming.kernels.loop import crossing
del default_manager.lookup
"""
MISSING = """
import sys, numba
kept = sys.modules["numba.core.datamodel"]
sys.modules["numba.core.datamodel"] = None
from zooming.kernels.loop import crossing
sys.modules["numba.core.datamodel"] = kept
"""
OBJECTS = """
import gymnasium as gym, numpy as np
env = gym.make("zooming/Oil-v0", noise=0.1)
first = env.reset(seed=3)[0].tolist()
print(crossing.BY_ADDRESS, first, [env.step(np.array([0.5]))[1] for _ in range(3)])
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("begin", [DIFFERS, MISSING])
def test_where_numba_lays_them_out_differently_objects_cross_and_nothing_changes(begin):
    run = subprocess.run(
        [sys.executable, "-c", begin + OBJECTS], capture_output=True, text=True, check=True
    )
    env = gym.make("zooming/Oil-v0", noise=0.1)
    start = env.reset(seed=3)[0].tolist()
    assert run.stdout.strip() == f"False {start} {[env.step(np.array([0.5]))[1] for _ in range(3)]}"


@pytest.mark.skipif(kernels.IS_JIT_DISABLED, reason="a matter of compiled code")
def test_a_callback_after_each_episode_takes_few_calls_of_python():
    """Unboxing a generator and two functions on each return to Python took 200 microseconds."""
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(10, callback=lambda agent, history: None)

    def n_calls(episodes):
        events = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            agent.learn(episodes, callback=lambda agent, history: None)
        finally:
            sys.setprofile(None)
        return sum(event == "call" for event in events)

    assert n_calls(210) - n_calls(10) < 200 * 60


# --- how many episodes ----------------------------------------------------------------------------


def drive(agent, env, n):
    """n episodes in a loop of the user's own."""
    for k in range(n):
        observation, _ = env.reset(seed=k)
        for step in range(agent.horizon):
            action = agent.act(step, observation)
            after, reward, terminated, _, _ = env.step(action)
            agent.update(step, observation, action, reward, after, terminated)
            observation = after


DOUBLING = zooming.bonuses.Doubling(zooming.bonuses.Theory())
BY_HAND = {
    **{
        kind: AGENTS[kind]
        for kind in ("AdaptiveQ", "NetQ", "MetricQ", "Random", "NoMovement", "Median")
    },
    "doubling": functools.partial(zooming.AdaptiveQ, bonus=DOUBLING),
}


@pytest.mark.plain
@pytest.mark.parametrize("make", BY_HAND.values(), ids=BY_HAND.keys())
def test_episodes_driven_by_hand_are_counted_saved_and_loaded(make, tmp_path):
    env = gym.make("zooming/Ambulance-v0")
    agent = make(env, seed=0)
    drive(agent, env, 50)
    assert agent.n_episodes == 50
    agent.learn(5)
    agent.learn(5, driver="python")
    drive(agent, env, 3)
    assert agent.n_episodes == 63
    agent.save(tmp_path / "agent.zoom")
    loaded = zooming.load(tmp_path / "agent.zoom")
    assert loaded.n_episodes == 63
    loaded.learn(2)
    assert (loaded.n_episodes, agent.n_episodes) == (65, 63)
    assert "63 episodes" in repr(agent)


# --- how long a history may be --------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize("make", [zooming.AdaptiveQ, zooming.Random])
def test_a_history_that_would_not_fit_in_is_refused_before_anything_is_allocated(make):
    agent = make(gym.make("zooming/Oil-v0"), seed=0)
    for episodes, size in ((10**12, "24,000.0 GB"), (10**8 + 1, "2.4 GB")):
        message = rf"24 bytes per episode \({size} here\).*Call learn several times"
        with pytest.raises(zooming.ConfigurationError, match=message):
            agent.learn(episodes)
    assert agent.n_episodes == 0
    assert agent.run.env_generator is None


def test_the_longest_history_takes_memory_as_it_grows():
    """Nothing is touched before it is written: 2.4 GB asked for, and a few pages used."""
    resource = pytest.importorskip("resource")
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    history = agent.learn(10**8, callback=lambda agent, history: len(history) < 100)
    assert len(history) == 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
