"""The relatives of AdaptiveQ: each passes the harness and agrees with a plain version."""

from unittest.mock import Mock

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes
from references import Bits, ReferenceRandomizedQ, ReferenceSingleQ

RELATIVES = {
    "SinglePartitionQ": zooming.SinglePartitionQ,
    "RandomizedQ": zooming.RandomizedQ,
}


def ambulance(**options):
    return gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25, **options)


@pytest.mark.parametrize("kind", RELATIVES)
def test_every_relative_passes_the_harness(kind):
    checked = zooming.check_agent(RELATIVES[kind])
    assert not any(line.startswith("everything") for line in checked.skipped)
    assert len(checked.kept) >= 43


def same_balls(found, root):
    """Whether a partition holds the active balls below a root of the plain version."""
    centers = ((found.low + found.high) / 2).tolist()
    ours = {
        tuple(center): (q, n)
        for center, q, n in zip(centers, found.q_value, found.n_visits, strict=True)
    }
    theirs = {ball.center: (ball.q_value, ball.n_visits) for ball in root.active()}
    assert ours.keys() == theirs.keys()
    for center, (q, n) in theirs.items():
        assert ours[center] == (pytest.approx(q, rel=1e-12), n)


# --- SinglePartitionQ -----------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.plain
def test_the_search_is_the_plain_one_trajectory_for_trajectory():
    env, options = ambulance(), {"evaluations": 2, "temperature": 0.02, "growth": 3.0}
    agent = zooming.SinglePartitionQ(env, bonus=0.3, ties="first", seed=0, **options)
    bits = Bits(agent.table.core["random"][0])
    plain = ReferenceSingleQ(1, 1, 5, lambda t: 0.3 / t**0.5, bits=bits, **options)
    env.reset(seed=0)
    seen, returned = set(), 0
    for _ in range(150):
        state, _ = env.reset()
        for step in range(5):
            action = agent.act(step, state)
            assert action.tolist() == plain.act(step, state.tolist())
            after, reward, *_ = env.step(action)
            agent.update(step, state, action, reward, after)
            plain.update(step, state.tolist(), action.tolist(), reward, after.tolist())
            state = after
        before = plain.n_balls
        plain.end_episode()
        returned += plain.n_balls < before
        seen.add(plain.temperature)
    agent.act(0, state)  # ends the last turn
    status = agent.status()
    assert (status["temperature"], status["growth"]) == (plain.temperature, plain.growth)
    assert status["best mean"] == pytest.approx(plain.best, rel=1e-12)
    assert (status["training episodes"], status["evaluation episodes"]) == (50, 100)
    assert returned > 2
    assert len(seen) > 3  # the temperature rose and fell
    same_balls(agent.table.view(0), plain.roots[0])
    same_balls(agent.partition(3), plain.kept[0])  # what was learned is the copy


@pytest.mark.kernels
def test_every_episode_of_the_search_counts_and_most_of_them_only_evaluate():
    agent = zooming.SinglePartitionQ(ambulance(), evaluations=4, seed=0)
    history = agent.learn(4 + 30 * 5)
    assert len(history) == agent.n_episodes == 154
    assert agent.status()["training episodes"] == 30
    assert agent.status()["evaluation episodes"] == 124
    visits = agent.table.view(0).n_visits
    assert visits.max() <= 30 * 5
    means = history.returns[4:].reshape(30, 5)[:, 1:].mean(axis=1)
    first = history.returns[:4].mean()
    assert agent.status()["best mean"] == pytest.approx(max(first, *means[:-1]))


@pytest.mark.kernels
def test_transitions_from_a_log_are_learned_from_though_an_evaluation_is_due():
    agent = zooming.SinglePartitionQ(ambulance(), seed=0)
    for step in range(5):
        agent.update(step, [0.5], [0.5], 0.5, [0.5])
    assert agent.table.view(0).n_visits.max() == 5  # one table for all steps
    assert agent.status()["training episodes"] == 0


def test_a_search_says_what_it_cannot_take():
    for options, words in (
        ({"bonus": zooming.bonuses.Exact()}, "goes back to earlier tables"),
        ({"bonus": zooming.bonuses.Doubling(zooming.bonuses.Theory())}, "goes back"),
        ({"split": Mock(spec=["due_at", "axes"])}, "splits in compiled code"),
        ({"evaluations": 0}, "evaluations"),
        ({"growth": 0.5}, "growth"),
        ({"max_balls": 0}, "one ball per agent"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=words):
            zooming.SinglePartitionQ(ambulance(), seed=0, **options)


def test_a_file_of_a_search_whose_numbers_contradict_each_other_is_refused(tmp_path):
    from zooming.agents import files

    agent, path = zooming.SinglePartitionQ(ambulance(), evaluations=2, seed=0), tmp_path / "a.zoom"
    agent.learn(50)
    agent.save(path)
    assert zooming.load(path).status() == agent.status()
    header, arrays = files.read_container(path)
    for name, bad, words in (
        ("turn", 9, "contradict"),
        ("temperature", np.nan, "contradict"),
        ("patience", 7, "patience is 7, but 2 in the options"),
        ("kept_balls", 1000, "the number of active balls is wrong"),
    ):
        changed = {**arrays, "search": arrays["search"].copy()}
        changed["search"][name] = bad
        files.write_container(path, header, changed)
        with pytest.raises(zooming.CheckpointError, match=words):
            zooming.load(path)


# --- RandomizedQ ----------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.plain
def test_randomized_learning_rates_are_those_of_the_plain_version():
    env = ambulance()
    agent = zooming.RandomizedQ(env, copies=4, ties="first", seed=0)
    seed = agent.table.core["rates_seed"][0]
    plain = ReferenceRandomizedQ(1, 1, 5, None, seed_of_rates=seed, copies=4)
    env.reset(seed=0)
    for _ in range(120):
        state, _ = env.reset()
        for step in range(5):
            action = agent.act(step, state)
            assert action.tolist() == plain.act(step, state.tolist())
            after, reward, *_ = env.step(action)
            plain.row = agent._row(step, state, action)
            agent.update(step, state, action, reward, after)
            plain.update(step, state.tolist(), action.tolist(), reward, after.tolist())
            state = after
    assert plain.n_balls > 100
    for step in range(5):
        same_balls(agent.partition(step), plain.roots[step])


@pytest.mark.kernels
def test_the_copies_of_a_stage_are_spread_as_the_bayesian_bootstrap_says():
    """After n equal targets y, a copy is y + P (cap - y), where P ~ Beta(n_0, n)."""
    one = gym.spaces.Discrete(1)
    agent = zooming.RandomizedQ(
        Boxes(one, one), horizon=100, copies=1000, prior_samples=3.0, seed=0
    )
    for _ in range(9):
        agent.update(99, 0, 0, 0.25, 0)  # the last step: nothing follows
    copies = agent.table.stats[99, 2:]
    weights = (copies - 0.25) / 0.75
    assert weights.mean() == pytest.approx(3 / 12, abs=0.02)
    assert weights.var() == pytest.approx(3 * 9 / (12**2 * 13), rel=0.15)


def test_a_randomized_agent_refuses_a_bonus():
    with pytest.raises(zooming.ConfigurationError, match="has no bonus; leave bonus= out"):
        zooming.RandomizedQ(ambulance(), bonus=0.1)
