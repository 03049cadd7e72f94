"""What a callback sees, what it may do, and that the run is the same with and without it; and
the ready-made ones."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from helpers import AGENTS, KINDS, Drift, knowledge, same_history
from zooming import callbacks, kernels

N = 12 if kernels.IS_JIT_DISABLED else 40


def ambulance(kind="AdaptiveQ", seed=3, **options):
    return AGENTS[kind](gym.make("zooming/Ambulance-v0", start="uniform", **options), seed=seed)


def observed():
    """An agent whose policy has an exact value that takes no time."""
    return zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0", arrivals=[0.1, 0.3, 0.9]), seed=3)


class Watch:
    """Notes after which episodes of the agent it was called; may stop the run after some."""

    def __init__(self, every=None, stop_at=None):
        self.calls, self.stop_at = [], stop_at
        if every is not None:
            self.every = every

    def __call__(self, agent, history):
        self.calls.append((agent.n_episodes, len(history)))
        return None if self.stop_at is None else agent.n_episodes < self.stop_at


# --- when a callback is called, and with what -----------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize("driver", ["fused", "python"])
def test_it_is_called_after_every_episode_with_the_history_so_far(driver):
    agent, seen = ambulance(), []

    def watch(agent, history):
        seen.append([history.returns.tolist(), history.n_balls.tolist(), history.n_steps.tolist()])
        assert history.agent is agent

    history = agent.learn(9, driver=driver, callback=watch)
    for k, found in enumerate(seen, 1):
        assert found == [history.returns[:k].tolist(), history.n_balls[:k].tolist(), [5] * k]
    assert len(seen) == 9


@pytest.mark.plain
def test_every_counts_the_episodes_of_the_agent_and_the_last_one_is_always_told():
    agent, watch = ambulance(), Watch(every=10)
    for episodes in (4, 8, 20, 0, 8):
        agent.learn(episodes, callback=watch)
    assert watch.calls == [(4, 4), (10, 6), (12, 8), (20, 8), (30, 18), (32, 20), (40, 8)]


@pytest.mark.plain
def test_several_callbacks_keep_their_own_rhythm_and_their_order():
    order = []

    def caller(name, every):
        def call(agent, history):
            order.append((name, len(history)))

        call.every = every
        return call

    ambulance().learn(6, callback=[caller("a", 3), caller("b", 2)])
    assert order == [("b", 2), ("a", 3), ("b", 4), ("a", 6), ("b", 6)]


def test_a_history_is_only_read_and_stays_what_it_was():
    kept = []

    def keep(agent, history):
        kept.append(history)
        with pytest.raises(ValueError, match="read-only"):
            history.returns[0] = 99.0

    history = ambulance().learn(5, callback=keep)
    assert [len(one) for one in kept] == [1, 2, 3, 4, 5]
    assert kept[1].returns.tolist() == history.returns[:2].tolist()
    history.returns[0] = 0.0  # the history that learn returns is the caller's own


def test_lengths_of_episodes_that_end_early_are_told():
    class Short(Drift):
        def step(self, action):
            *rest, terminated, truncated, info = super().step(action)
            return *rest, terminated or self.np_random.random() < 0.4, truncated, info

    agent = zooming.AdaptiveQ(Short(n_steps=4), horizon=4, seed=0)
    history = agent.learn(30) + agent.learn(5)
    assert len(history.n_steps) == 35
    assert set(history.n_steps.tolist()) == {1, 2, 3, 4}
    unknown = zooming.History(np.ones(2), np.ones(2, int))
    assert len((history + unknown).n_steps) == 0  # not known for all


# --- the run is the same with and without ---------------------------------------------------------


def meddle(agent, history):
    """Uses the environment and the policy as a callback may."""
    agent.env.reset(seed=1)
    agent.env.step(agent.predict(agent.env.observation_space.sample())[0])
    agent.env.reset()


@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("driver", ["auto", "python"])
def test_results_with_and_without_callbacks_are_bit_identical(kind, driver):
    plain, called = ambulance(kind), ambulance(kind)
    expected = plain.learn(N, driver=driver)
    assert same_history(called.learn(N, driver=driver, callback=[meddle, Watch(every=7)]), expected)
    assert knowledge(called) == knowledge(plain)
    assert called.run.env_generator == plain.run.env_generator
    assert same_history(called.learn(5), plain.learn(5))


@pytest.mark.plain
@settings(max_examples=8 if kernels.IS_JIT_DISABLED else 25)
@given(
    episodes=st.integers(1, 30),
    stop=st.integers(1, 40),
    every=st.integers(1, 12),
    driver=st.sampled_from(["auto", "python"]),
)
def test_a_run_that_is_stopped_after_k_episodes_equals_learn_k(episodes, stop, every, driver):
    stopped, short, last = ambulance(), ambulance(), Watch(every=100)
    history = stopped.learn(episodes, driver=driver, callback=[Watch(every, stop), last])
    k = min(episodes, -(-stop // every) * every)
    assert len(history) == stopped.n_episodes == k
    assert last.calls == [(k, k)]  # although another callback ended the run
    assert same_history(history, short.learn(k))
    assert knowledge(stopped) == knowledge(short)
    assert same_history(stopped.learn(7), short.learn(7))
    assert history.returns.base is None  # it does not keep the memory of the run that was asked for


@pytest.mark.plain
@pytest.mark.parametrize("driver", ["auto", "python"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_in_a_callback_leaves_the_agent_after_its_finished_episodes(driver, error):
    broken, sound = ambulance(), ambulance()

    def fail(agent, history):
        meddle(agent, history)
        if len(history) == 8:
            raise error("no")

    with pytest.raises(error, match="no"):
        broken.learn(20, driver=driver, callback=fail)
    sound.learn(8)
    assert knowledge(broken) == knowledge(sound)
    assert same_history(broken.learn(6), sound.learn(6))


def test_callbacks_checkpoints_and_the_progress_bar_go_together(capsys):
    plain, called, watch = observed(), observed(), Watch(every=10)
    values = []

    def look(agent, history):
        values.append((history.checkpoints.tolist(), history.policy_values.tolist()))

    look.every = 6
    expected = plain.learn(30, checkpoints=[6, 25])
    history = called.learn(30, checkpoints=[6, 25], callback=[watch, look], progress_bar=True)
    assert same_history(history, expected)
    assert history.policy_values.tolist() == expected.policy_values.tolist()
    assert watch.calls == [(10, 10), (20, 20), (30, 30)]
    first, second = expected.policy_values.tolist()
    assert values == [([6], [first])] * 4 + [([6, 25], [first, second])]
    assert "30/30" in capsys.readouterr().out
    stopped = observed().learn(
        30, checkpoints=[6, 25], callback=Watch(stop_at=10), progress_bar=True
    )
    assert stopped.checkpoints.tolist() == [6]
    assert stopped.policy_values.tolist() == [first]
    assert "10/30" in capsys.readouterr().out


@pytest.mark.plain
@pytest.mark.parametrize(
    ("callback", "text"),
    [(3, "callback=3: give a function"), ([Watch(), None], "None cannot be called"),
     (lambda agent: None, r"give functions callback\(agent, history\)"),
     (callbacks.Evaluate, r"make one: Evaluate\(\.\.\.\)"),
     (Watch(every=0), r"Watch.every=0: give a whole number >= 1"),
     (Watch(every=2.5), r"Watch.every=2.5: give a whole number >= 1")],
    ids=["number", "list with None", "one argument", "class", "every 0", "every 2.5"],
)  # fmt: skip
def test_what_is_no_callback_is_refused_before_the_run(callback, text):
    agent = ambulance()
    with pytest.raises(zooming.ConfigurationError, match=text):
        agent.learn(5, callback=callback)
    assert agent.n_episodes == 0
    assert agent.run.env_generator is None


@pytest.mark.plain
def test_an_answer_that_is_neither_yes_nor_no_is_refused():
    message = "<lambda> returned 0; return False to stop"
    with pytest.raises(zooming.ConfigurationError, match=message):
        ambulance().learn(5, callback=lambda agent, history: 0)
    no = np.bool_(False)
    assert len(ambulance().learn(5, callback=lambda agent, history: no)) == 1


@pytest.mark.plain
def test_learning_inside_a_callback_is_refused_and_works_again_afterwards():
    agent = ambulance()
    with pytest.raises(zooming.ConfigurationError, match="of this agent is running already"):
        agent.learn(5, callback=lambda agent, history: agent.learn(1))
    assert agent.n_episodes == 1
    assert len(agent.learn(4)) == 4


# --- the ready-made ones --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("driver", ["auto", "python"])
def test_a_checkpoint_continues_like_the_run_that_wrote_it(tmp_path, kind, driver):
    agent, callback = ambulance(kind), callbacks.Checkpoint(tmp_path / "at-{episodes}.zoom", 12)
    expected = agent.learn(30, driver=driver, callback=[callback])
    files = [f"at-{n}.zoom" for n in (12, 24, 30)]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    loaded = zooming.load(tmp_path / "at-12.zoom")
    assert loaded.n_episodes == 12
    assert loaded.learn(18).returns.tolist() == expected.returns[12:].tolist()
    assert knowledge(loaded) == knowledge(agent)


def test_a_folder_that_is_missing_is_told_before_the_run(tmp_path):
    for make in (callbacks.Checkpoint, lambda path: callbacks.Evaluate(best=path)):
        with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
            make(tmp_path / "nowhere" / "monitor.csv")


def test_evaluate_looks_at_the_policy_and_keeps_the_best(tmp_path):
    env = gym.make("zooming/Ambulance-v0")
    sampled = callbacks.Evaluate(env, every=50, episodes=20, seed=4, best=tmp_path / "best.zoom")
    exact = callbacks.Evaluate(every=100, exact=True)
    agent, plain = observed(), observed()
    assert same_history(agent.learn(200, callback=[sampled, exact]), plain.learn(200))
    assert sampled.n_episodes == [50, 100, 150, 200]
    assert exact.n_episodes == [100, 200]
    assert exact.evaluations[-1].mean == zooming.evaluate(plain, plain.env, exact=True).mean
    means = [evaluation.mean for evaluation in sampled.evaluations]
    best = zooming.load(tmp_path / "best.zoom")
    assert best.n_episodes == sampled.n_episodes[int(np.argmax(means))]
    assert zooming.evaluate(best, env, 20, seed=4).mean == max(means)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: callbacks.Checkpoint("a", every=0), "every=0"),
    (lambda: callbacks.Evaluate(episodes=1), "episodes=1"),
    (lambda: callbacks.Evaluate(seed=-1), "seed=-1"),
])  # fmt: skip
def test_bad_options_of_callbacks_are_refused(make, text):
    with pytest.raises(zooming.ConfigurationError, match=text):
        make()


@pytest.mark.plain
def test_an_agent_that_cannot_be_saved_is_refused_before_the_run(tmp_path):
    agent = zooming.MetricQ(
        gym.make("zooming/Oil-v0"), zooming.metrics.LInf(9), oracle=lambda *given: None, seed=0
    )
    path = tmp_path / "own.zoom"
    for callback in ([callbacks.Checkpoint(path)], callbacks.Evaluate(best=path)):
        message = "an oracle of your own cannot be saved"
        with pytest.raises(zooming.ConfigurationError, match=message):
            agent.learn(5, callback=callback)
        assert agent.n_episodes == 0
