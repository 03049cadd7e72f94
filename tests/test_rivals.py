"""What people use today, as agents of studies."""

import json
import sys

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Drift
from zooming.lab.rivals.rival import versions_of
from zooming.lab.study.configuration import Configuration
from zooming.lab.study.problems import AGENTS, AgentChoice, agent_named, problem_named
from zooming.lab.study.run_command import list_names
from zooming.testing import Gears

SHOP = "zooming/Newsvendor-v0"


def make(kind, env, seed=0, **settings):
    return AGENTS[kind](env, seed=seed, **settings)


def bandit(**options):
    return gym.make("zooming/Oil-v0", horizon=1, noise=0.1, **options)


# --- names ----------------------------------------------------------------------------------------


def test_names_with_a_colon_take_settings():
    assert agent_named("sb3:PPO:n_steps=64") == AgentChoice("sb3:PPO", {"n_steps": 64})
    with pytest.raises(zooming.ConfigurationError, match="'sb3:PPI'; did you mean 'sb3:PPO'"):
        agent_named("sb3:PPI")


def test_the_list_names_each_library_with_its_version(capsys):
    list_names()
    shown = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    for kind, package in (("rule-search", "cmaes"), ("sb3:PPO", "stable-baselines3")):
        (version,) = versions_of([kind]).values()
        assert shown[kind].endswith(f"[{package} {version}]")
    assert shown["grid-q"].endswith("with one table per step.")


def test_a_study_runs_rivals_and_keeps_the_versions_of_their_libraries(tmp_path):
    study = zooming.Study([SHOP], ["grid-q:bins=5", "rule-search"], episodes=20, seeds=2)
    rows = study.run(tmp_path / "study", workers=1)
    assert [row.agent for row in rows] == ["grid-q:bins=5", "rule-search"]
    manifest = json.loads((tmp_path / "study" / "manifest.json").read_text())
    assert (
        manifest["computed_with"][0]["versions"]["cmaes"] == versions_of(["rule-search"])["cmaes"]
    )


def test_slow_rivals_have_chunks_of_one_run_and_are_told_the_episodes():
    agents = tuple(map(agent_named, ("grid-q", "sb3:PPO")))
    study = Configuration((problem_named(SHOP),), agents, 500, 6)
    assert [chunk.n_runs for chunk in study.chunks()] == [6, 1, 1, 1, 1, 1, 1]
    assert study.n_chunks == 7
    told = agent_named("rule-search").make(gym.make(SHOP), 0, 5000)
    assert (told.episodes, told.repeats) == (5000, 10)
    assert agent_named("rule-search:episodes=50").make(gym.make(SHOP), 0, 5000).episodes == 50


@pytest.mark.parametrize(
    ("kind", "module", "words"),
    [
        ("rule-search", "cmaes", r"needs cmaes .*pip install 'zooming\[rivals\]'"),
        ("sb3:PPO", "stable_baselines3", r"needs stable-baselines3 .*'zooming\[sb3\]'"),
    ],
)
def test_a_missing_library_is_an_error_with_the_command(kind, module, words, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(zooming.ConfigurationError, match=words):
        make(kind, gym.make(SHOP))


# --- grids ----------------------------------------------------------------------------------------


def test_grid_q_is_the_plain_table():
    env, n = gym.make("zooming/Ambulance-v0", start="uniform"), 6
    agent = make("grid-q", env, bins=n, epsilon=0.3, learning_rate=0.2)
    table = {}
    env.reset(seed=0)
    for _ in range(40):
        state, _ = env.reset()
        for step in range(5):
            action = agent.act(step, state)
            k = round(float(action[0]) * (n - 1))
            assert action[0] == pytest.approx(k / (n - 1))
            after, reward, *_ = env.step(action)
            agent.update(step, state, action, reward, after)
            cell, then = (min(n - 1, int(x[0] * n)) for x in (state, after))
            best = max(table.get((step + 1, then, a), 0.0) for a in range(n))
            old = table.get((step, cell, k), 0.0)
            table[step, cell, k] = old + 0.2 * (reward + (best if step < 4 else 0.0) - old)
            state = after
    for (step, cell, k), q in table.items():
        assert agent.table[step, cell, k] == pytest.approx(q)
    assert np.count_nonzero(agent.table) <= len(table)
    best = agent.table[2, 3].argmax() / (n - 1)
    assert agent.predict(np.array([0.55]), state=2)[0][0] == pytest.approx(best)


def test_a_grid_explores_at_random_and_plays_feasible_actions():
    agent = make("grid-q", Gears.limited(), bins=4, epsilon=1.0)
    shifts = {agent.act(0, {"gear": 1, "speed": [0.5]}, info={"action_mask": {"shift": mask}})
              ["shift"] for mask in [np.array([0, 1, 1], np.int8)] * 30}  # fmt: skip
    assert shifts == {1, 2}
    assert len({float(agent.act(0, {"gear": 1, "speed": [0.5]})["gas"][0]) for _ in range(40)}) == 4


def test_a_grid_that_is_too_fine_is_refused_with_its_size():
    env = gym.make("zooming/Oil-v0", dims=2)
    with pytest.raises(zooming.ConfigurationError, match="makes 1,000,000 actions"):
        make("grid-q", env, bins=1000)
    with pytest.raises(zooming.ConfigurationError, match="5 steps x 40,000 cells of states"):
        make("grid-q", env, bins=200)
    with pytest.raises(zooming.ConfigurationError, match="epsilon=2"):
        make("grid-q", env, epsilon=2)


@pytest.mark.slow
def test_a_grid_keeps_the_promises_of_agents():
    checked = zooming.check_agent(AGENTS["grid-q"])
    assert len(checked.kept) >= 37
    assert not any(line.startswith(("everything", "save")) for line in checked.skipped)


# --- the classical rule ---------------------------------------------------------------------------


def test_the_search_finds_the_rule_and_every_episode_counts():
    env = gym.make("zooming/Regulator-v0")
    agent, rule = make("rule-search", env, repeats=3), env.unwrapped.rule
    assert agent.rule.numbers == pytest.approx((rule.low + rule.high) / 2)
    n = 3 * agent.search.population_size * 12
    history = agent.learn(n)
    assert len(history) == agent.n_episodes == n
    assert agent.search.generation == 11  # the last one is told when the next episode begins
    agent.learn(1)
    assert agent.search.generation == 12
    assert agent.rule.numbers == pytest.approx(rule.numbers, abs=0.15)  # of a range from 0 to 4


def test_a_problem_without_a_rule_is_refused():
    with pytest.raises(zooming.ConfigurationError, match="zooming/Oil-v0 has none; take a problem"):
        make("rule-search", gym.make("zooming/Oil-v0"))


def test_the_search_keeps_the_promises_of_agents():
    checked = zooming.check_agent(AGENTS["rule-search"], lambda: gym.make(SHOP))
    assert len(checked.kept) == 11


# --- deep learning --------------------------------------------------------------------------------


def test_a_seed_repeats_and_learning_goes_on():
    def learner():
        return make("sb3:PPO", gym.make("zooming/Oil-v0"), n_steps=32, batch_size=16, n_epochs=1)

    first, second = learner(), learner()
    low, high = first.reward_range
    state = np.random.get_state()[1].copy()
    once, again = first.learn(30), second.learn(30)
    assert once.returns.tolist() == again.returns.tolist()
    assert len(set(once.returns.tolist())) > 25
    assert (np.random.get_state()[1] == state).all()
    buffer = first.model.rollout_buffer
    steps = {round(float(x), 6) for x in buffer.observations[: buffer.pos, 0, 1]}
    assert steps == {-1.0, -0.6, -0.2, 0.2, 0.6}
    assert 0.0 <= buffer.rewards.min() <= buffer.rewards.max() <= 1.0 == high - low
    action, _ = second.predict(np.array([[0.1], [0.9]]), state=np.array([0, 4]))
    assert action.shape == (2, 1)
    assert first.learn(7).returns.tolist() == second.learn(7).returns.tolist()
    assert first.n_episodes == 37


def test_deep_learners_say_what_they_cannot_take():
    with pytest.raises(zooming.ConfigurationError, match="axes of both kinds; take grid-q"):
        make("sb3:PPO", Gears.limited())
    with pytest.raises(
        zooming.ConfigurationError, match="no option 'n_step'; did you mean 'n_steps'"
    ):
        make("sb3:PPO", gym.make(SHOP), n_step=3)
    agent = make("sb3:PPO", gym.make(SHOP), n_steps=64)
    assert agent.get_params()["n_steps"] == agent.model.n_steps == 64
    with pytest.raises(zooming.ConfigurationError, match="cannot be saved"):
        agent.save("agent.zoom")
    for call in (lambda: agent.update(0, [0.0], [1.0], 0.0, [0.0]), lambda: agent.act(0, [0.0])):
        with pytest.raises(zooming.ConfigurationError, match=r"in learn\(episodes\) only"):
            call()
    with pytest.raises(zooming.ConfigurationError, match="leave out progress_bar"):
        agent.learn(3, progress_bar=True)


def test_an_error_of_the_problem_leaves_a_deep_learner_usable():
    def flaw(step, state, reward):
        return (state, np.nan) if step == 1 and next(left, 0) else (state, reward)

    left = iter([1])
    env = Drift(flaw=flaw)
    agent = make("sb3:PPO", env, horizon=3, n_steps=16, batch_size=16)
    with pytest.raises(zooming.TransitionError, match="reward"):
        agent.learn(5)
    assert len(agent.learn(10)) == 10
