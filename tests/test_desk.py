"""The desk: what was answered is on disk, and the log replays to the same agent."""

import contextlib
import copy
import json
import re
import sqlite3
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, knowledge
from kills import Shop, attack
from servers import Server
from zooming.agents.base import episodes
from zooming.agents.base.episodes import Episode, episode_seed
from zooming.agents.files.checkpoints import to_bytes
from zooming.app import cli
from zooming.desk.storage import Postgres, SQLite
from zooming.kernels import IS_JIT_DISABLED
from zooming.lab.relatives.single_partition_q import SinglePartitionQ


def oil():
    return gym.make("zooming/Oil-v0", noise=0.05)


@pytest.fixture(scope="session")
def server():
    try:
        found = Server()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    found.start()
    yield found
    found.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "shop.db")
    pytest.importorskip("psycopg")
    name = f"desk{abs(hash(request.node.nodeid)) % 10**9}"
    return request.getfixturevalue("server").url(name)


def desk_at(place, name="AdaptiveQ", **options):
    kinds = {**AGENTS, "Auto": zooming.Auto}
    options = {"learner": "here", "durability": "process", **options}
    return zooming.Desk(kinds[name](oil(), seed=0), place, **options)


@pytest.fixture
def desk(place):
    """Yield a desk whose log must replay to the same agent at the end."""
    found = desk_at(place)
    yield found
    found.verify()
    found.close()


NAMES = ["AdaptiveQ", "Random"] if IS_JIT_DISABLED else ["AdaptiveQ", "Auto"]


@pytest.mark.parametrize("name", NAMES)
def test_the_log_replays_to_the_same_bytes_and_a_restart_goes_on(place, name):
    desk = desk_at(place, name)
    shop = Shop(desk, seed=1)
    shop.run(150)
    desk.verify()
    desk.snapshot()
    shop.run(20)
    opened = desk.ask([0.5], episode="open")
    desk.wait()
    before = knowledge(desk.agent)
    desk.storage.close()  # without a last snapshot, as after a crash
    again = zooming.Desk.open(place, learner="here", durability="process")
    assert knowledge(again.agent) == before
    assert again.ask([0.5], episode="open") == opened
    shop.desk = again
    shop.run(50)
    assert again.verify().n_events > 120
    again.close()


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_that_learns_the_log_by_hand_is_the_same(tmp_path, name):
    desk = desk_at(str(tmp_path / "shop.db"), name)
    Shop(desk, seed=2, is_late=False).run(120)
    twin, opened = {**AGENTS, "Auto": zooming.Auto}[name](oil(), seed=0), {}
    for kind, number, data, step, seen, action, seed, drawn in desk.storage.read(
        "SELECT e.kind, e.episode, e.data, d.step, d.observation, d.action, p.seed, p.drawn "
        "FROM events e LEFT JOIN decisions d ON d.id = e.decision "
        "JOIN episodes p ON p.number = e.episode ORDER BY e.seq"
    ):
        if kind == "begin":
            play = episodes.Play(int(seed), json.loads(drawn))
            opened[number] = Episode(twin, *episodes.begin(twin, play))
            assert (number, play.seed) == (opened[number].number, episode_seed(0, number))
        else:
            told, episode = json.loads(data), opened[number]
            assert episode.step == step
            action = np.array(json.loads(action))
            played = episode.act(np.array(json.loads(seen)))
            assert name == "Auto" or np.array_equal(played, action)  # Auto: its plan was older
            episode.update(told["reward"], told["next"], told["terminated"], action=action)
    assert knowledge(desk.agent) == knowledge(twin)
    desk.close()


@pytest.mark.parametrize("name", ["AdaptiveQ", "NetQ"])
def test_an_agent_that_learns_the_log_of_a_desk_is_the_same_to_the_last_byte(tmp_path, name):
    desk = desk_at(str(tmp_path / "shop.db"), name)
    Shop(desk, seed=2).run(300)
    log, twin = desk.to_log(), AGENTS[name](oil(), seed=0)
    assert log["desk_event"].to_list() != sorted(log["desk_event"])  # episodes overlap
    twin.learn_from(log, bad="skip")  # some rewards have not come
    twin.run.n_begun = desk.agent.run.n_begun  # the log has no episodes without a reward
    assert to_bytes(twin) == to_bytes(desk.agent)
    desk.close()


@pytest.mark.kernels
@pytest.mark.skipif(IS_JIT_DISABLED, reason="plans take long without compilation")
@pytest.mark.parametrize("learner", ["here", "behind"])
def test_an_episode_is_played_to_its_end_by_the_plan_that_it_began_with(place, learner):
    desk = desk_at(place, "Planner", learner=learner)
    shop = Shop(desk, seed=3, is_late=False)

    def plan():
        return episodes.draw(desk.agent).drawn["plan"]

    shop.run(60)
    assert desk.wait()
    desk.ask([0.5], episode="slow")
    first, kept, seen = plan(), copy.deepcopy(desk.agent), np.linspace(0.05, 0.9, 4)
    seed, drawn = desk.storage.read("SELECT seed, drawn FROM episodes WHERE name = 'slow'")[0]
    play = episodes.Play(int(seed), json.loads(drawn))
    expected = [episodes.act_in(kept, play, k + 1, x[None], None) for k, x in enumerate(seen)]
    while plan() < first + 3:
        shop.run(40)
        assert desk.wait()
    play.kept = None
    newer = [episodes.act_in(desk.agent, play, k + 1, x[None], None) for k, x in enumerate(seen)]
    assert not np.array_equal(newer, expected)
    made = [desk.ask(x[None], episode="slow").action for x in seen[:2]]
    desk.verify()
    desk.close()
    desk = zooming.Desk.open(place, learner=learner, durability="process")
    made += [desk.ask(x[None], episode="slow").action for x in seen[2:]]
    assert np.array_equal(made, expected)
    desk.close()


def test_the_first_plan_is_kept_for_episodes_that_began_with_it(place):
    desk = desk_at(place, "Planner", learner="elsewhere")
    plan = str(episodes.draw(desk.agent).drawn["plan"])
    assert desk.storage.read("SELECT name, seq FROM plans") == [(plan, 0)]
    desk.close()


def test_a_signal_before_a_commit_leaves_the_desk_to_the_next_ask(desk, monkeypatch):
    class Interrupted(threading.Condition):
        def __exit__(self, *error):
            super().__exit__(*error)
            raise KeyboardInterrupt

    turn = desk._turn
    monkeypatch.setattr(desk, "_turn", Interrupted(turn._lock))
    with pytest.raises(KeyboardInterrupt):
        desk.ask([0.3], episode="a")
    monkeypatch.setattr(desk, "_turn", turn)
    asking = threading.Thread(target=desk.ask, args=([0.3],), kwargs={"episode": "a"}, daemon=True)
    asking.start()
    asking.join(10)
    assert not asking.is_alive()
    assert len(desk.episode("a")["decisions"]) == 1


def test_the_same_question_has_the_same_answer(desk):
    one = desk.ask([0.3], episode="a")
    assert desk.ask([0.3], episode="a") == one == desk.ask([0.3], episode="a", step=0)
    named = desk.ask([0.4], episode="a", id="order-7")
    assert named.step == 1
    desk.tell(one.id, 0.5, [0.4])
    desk.tell(named.id, 0.25, [0.3])
    assert desk.ask([0.4], episode="a", id="order-7") == named
    assert desk.ask([0.3], episode="a").step == 2
    assert desk.ask([0.3], episode="a", step=3).step == 3
    for options, message in (
        ({"id": "order-7"}, "id 'order-7' was decided for the observation .* of the episode 'a'"),
        ({"step": 1}, "step 1 of 'a' was decided for the observation"),
        ({"step": "4"}, "step='4': give a whole number >= 0"),
        ({"step": 5}, "step=5: give a whole number from 0 to 4"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            desk.ask([0.9], episode="a", **options)
    assert desk.ask([0.9], episode="a").step == 4
    with pytest.raises(zooming.ConfigurationError, match="all 5 steps of the episode 'a' are"):
        desk.ask([0.1], episode="a")
    found = desk.episode("a")
    assert [one["step"] for one in found["decisions"]] == [0, 1, 2, 3, 4]


def test_bad_input_gets_a_sentence_and_changes_nothing(desk):
    d = desk.ask([0.3], episode="a")
    desk.tell(d.id, 0.5, [0.4])
    assert desk.tell(d.id, 0.5, [0.4]) == "same"
    e = desk.ask([0.4], episode="a")
    before, n = knowledge(desk.agent), desk._last_seq()
    for call, error, message in (
        (lambda: desk.tell(99, 0.5, [0.4]), "Configuration", "has the id 99; ids come from ask"),
        (lambda: desk.tell("x", 0.5, [0.4]), "Configuration", "has the id 'x'; ids come from ask"),
        (lambda: desk.cancel(99), "Configuration", "has the id 99; ids come from ask"),
        (lambda: desk.tell(d.id, 0.6, [0.4]), "Configuration", "told the reward 0.5 and is now"),
        (lambda: desk.tell(e.id, 7.0, [0.4]), "Transition", r"reward 7.0 is outside the reward"),
        (lambda: desk.tell(e.id, np.nan, [0.4]), "Transition", r"reward nan"),
        (lambda: desk.tell(e.id, 0.5), "Transition", r"next_observation is missing"),
        (lambda: desk.tell(e.id, 0.5, [9.0]), "Transition", r"next state\[0\] = 9"),
        (lambda: desk.tell(e.id, 0.5, [0.4], action=[3.0]), "Transition", r"action\[0\] = 3"),
        (lambda: desk.ask([9.0], episode="b"), "Transition", r"state\[0\] = 9"),
        (lambda: desk.tell(10**30, 0.5, [0.4]), "Configuration", "ids come from ask"),
        (lambda: desk.ask([0.3], episode=""), "Configuration", "give a name"),
        (lambda: desk.ask([0.3], "a\0b"), "Configuration", r"'a\\x00b': give a name"),
        (lambda: desk.ask([0.3], "b", id="\ud800"), "Configuration", r"id='\\ud800': give a name"),
        (lambda: desk.ask([0.3], "b", id=7), "Configuration", "id=7: give a name"),
        (lambda: desk.ask([0.3], "b", bounds={"price": (0, 1)}), "Configuration", "bounds has"),
        (lambda: desk.ask([0.3], "b", bounds={"action[0]": (2, 3)}), "Configuration", "no action"),
        (lambda: desk.ask([0.3], "b", bounds={"action[0]": 5}), "Configuration", "are 5; give"),
        (lambda: desk.forget(["a"]), "Configuration", r"episode=\['a'\]: give a name"),
        (lambda: desk.episode({}), "Configuration", r"name={}: give a name"),
        (lambda: desk.ask([0.3], "b", bounds=[5]), "Configuration", r"bounds=\[5\]: give a dict"),
        (lambda: desk.ask([0.3], "b", info=[5]), "Configuration", r"info=\[5\]: give a dict"),
        (lambda: desk.ask([0.4], "a", bounds={"action[0]": (0, 1)}), "Configuration", "no limits"),
        (lambda: desk.ask([0.3], "b", bounds={"action[0]": (np.nan, 1)}), "Configuration", "give"),
        (lambda: desk.tell(True, 0.5, [0.4]), "Configuration", "has the id True; ids come from"),
        (lambda: desk.tell(e.id, 0.5, [0.4], "no"), "Transition", "terminated='no': give True or"),
        (lambda: desk.tell(e.id, 0.5, [0.4], next_info={1: object()}), "Transition", "be stored"),
        (lambda: desk.why(77), "Configuration", "has the id 77; ids come from"),
        (desk.promote, "Configuration", "has no apprentice to promote"),
        (lambda: desk.episode("b"), "Configuration", "has no episode 'b'"),
        (lambda: desk.cancel(d.id), "Configuration", "has a reward; it cannot be cancelled"),
    ):
        with pytest.raises(getattr(zooming, f"{error}Error"), match=message):
            call()
    assert (knowledge(desk.agent), desk._last_seq()) == (before, n)


def test_another_agent_a_newer_database_and_no_database_are_refused(place):
    desk_at(place).close()
    with pytest.raises(zooming.ConfigurationError, match="agent: AdaptiveQ, not Random"):
        desk_at(place, "Random")
    with pytest.raises(zooming.ConfigurationError, match=r"another agent: seed=0, not 5\. Make"):
        zooming.Desk(zooming.AdaptiveQ(oil(), seed=5), place)
    desk = desk_at(place)
    Shop(desk, seed=0).run(40)
    made = desk.ask([0.3], episode="a")
    desk.wait()
    desk.snapshot()
    change = "UPDATE meta SET value = ? WHERE name = 'format'"
    with desk.storage.transaction():  # as written before there were pieces and plans
        desk.storage.run(change, ["1"])
        desk.storage.run(
            "UPDATE snapshots SET content = (SELECT content FROM pieces p WHERE p.seq = "
            "snapshots.seq) WHERE seq > 0"
        )
        for table in ("pieces", "plans"):
            desk.storage.run(f"DROP TABLE {table}")
    desk.storage.close()
    with zooming.Desk.open(place, learner="here") as old:
        assert old.ask([0.3], episode="a") == made
        old.tell(made.id, 0.5, [0.4])
        assert old.verify().n_events == old.version
        (known,) = old.storage.read("SELECT value FROM meta WHERE name = 'format'")[0]
        assert int(known) > 1
        with old.storage.transaction():
            old.storage.run("DROP TABLE plans")
            old.storage.run(change, ["9"])
    with pytest.raises(zooming.ConfigurationError, match=r"by a newer zooming .format 9"):
        zooming.Desk.open(place)
    with pytest.raises(zooming.ConfigurationError, match=r"was closed; zooming\.Desk\.open opens"):
        old.ask([0.4], episode="a")
    assert repr(old).endswith("closed)")
    old.close()
    with pytest.raises(zooming.ConfigurationError, match=r"does not exist; zooming\.Desk"):
        zooming.Desk.open("nowhere.db")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("a shopping list, longer than the header of a database. " * 9)
    with pytest.raises(zooming.ConfigurationError, match="cannot be opened as a desk's database"):
        zooming.Desk.open(path)


def test_options_of_a_desk_are_checked(tmp_path):
    for options, message in (
        ({"reward_wait": "soon"}, "reward_wait='soon': give seconds, or text"),
        ({"default_reward": 0.0}, "default_reward requires reward_wait, .* it is learned$"),
        ({"default_reward": "0", "reward_wait": 1}, "default_reward='0': give a finite number$"),
        ({"several": "sum"}, "several='sum' requires reward_wait"),
        ({"several": "mean"}, "several='mean'"),
        ({"durability": "none"}, "durability='none': choose 'power'"),
        ({"learner": "there"}, "learner='there'"),
        ({"fallback": 3}, "fallback=3: give an agent, or a function"),
        ({"wait": 3}, "no option 'wait'"),
        ({"reward_wait": "1.2.3d"}, "reward_wait='1.2.3d': give seconds"),
        ({"reward_wait": True}, "reward_wait=True: give seconds"),
        ({"reward_wait": 1, "default_reward": 9.0}, "reward 9.0 is outside the reward range"),
    ):
        with pytest.raises(zooming.errors.ZoomingError, match=message):
            desk_at(str(tmp_path / "shop.db"), **options)
    for agent, path, message in (
        (zooming.AdaptiveQ(oil()), 5, "place=5: give a file"),
        (zooming.AdaptiveQ(oil()), ":memory:", "place=':memory:': give a file"),
        ("AdaptiveQ", tmp_path / "shop.db", "agent='AdaptiveQ': give an agent, such as"),
    ):
        with pytest.raises(zooming.ConfigurationError, match=message):
            zooming.Desk(agent, path)
    assert not any(tmp_path.iterdir())  # a second try may have another agent


def test_limits_of_a_discrete_action_are_not_rounded_outward(tmp_path):
    class Gears(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(5)

    agent = zooming.AdaptiveQ(Gears(), horizon=3, seed=0)
    with zooming.Desk(agent, tmp_path / "gears.db", learner="here") as desk:
        found = {desk.ask(0, f"{k}", bounds={"action": (0.5, 2.9)}).action for k in range(30)}
        assert found == {1, 2}
        with pytest.raises(zooming.ConfigurationError, match=r"no action lies in \(0\.2, 0\.4\)"):
            desk.ask(0, "a", bounds={"action": (0.2, 0.4)})


def pass_time(desk, seconds):
    """Let the desk's clock go on."""
    desk._began += seconds
    desk._learn()


def test_rewards_that_come_late_are_logged_and_those_that_are_missing_have_a_default(place):
    desk = desk_at(place, reward_wait="2d", default_reward=0.25)
    one, two = desk.ask([0.3], episode="a"), desk.ask([0.4], episode="a")
    pass_time(desk, 3 * 86400)
    assert desk.tell(one.id, 0.9, [0.4]) == "late"
    assert desk.tell(one.id, 0.9, [0.4]) == "same"
    assert [told["kind"] for told in desk.why(one.id)["told"]] == ["default", "late"]
    assert desk.why(one.id)["told"][0]["reward"] == 0.25
    assert desk.why(two.id)["state"] == "expired"  # nobody knows what came after it
    assert [told["kind"] for told in desk.why(two.id)["told"]] == ["missing"]
    assert len(desk.to_log()) == 1
    assert desk.tell(two.id, 0.9, terminated=True) == "late"
    assert desk.wait()
    assert not desk._leader.open
    desk.verify()
    desk.close()


def test_several_rewards_are_summed_or_the_first_counts(tmp_path):
    desk = desk_at(str(tmp_path / "sum.db"), reward_wait=60, several="sum")
    d = desk.ask([0.3], episode="a")
    for reward in (0.25, 0.5):
        assert desk.tell(d.id, reward, [0.4]) == "part"
    assert desk.agent.n_episodes == 0
    pass_time(desk, 61)
    assert desk.agent.n_episodes == 1
    assert desk.why(d.id)["told"][-1]["reward"] == 0.75
    desk.verify()
    desk.close()
    desk = desk_at(str(tmp_path / "first.db"), several="first")
    d = desk.ask([0.3], episode="a")
    assert [desk.tell(d.id, reward, [0.4]) for reward in (0.5, 0.75)] == ["tell", "extra"]
    assert desk.tell(d.id, 0.5, terminated=True) == "extra"
    assert (desk.agent.n_episodes, desk.wait(), desk._leader.open) == (1, True, {})
    desk.close()


def test_old_episodes_are_closed_and_their_returns_do_not_count(place):
    desk = desk_at(place, close_after="30d")
    one, two = desk.ask([0.3], episode="a"), desk.ask([0.4], episode="a")
    desk.tell(two.id, 0.5, [0.5])
    pass_time(desk, 31 * 86400)
    assert desk.episode("a")["is over"]
    assert desk.tell(one.id, 0.5, [0.4]) == "late"
    assert desk.ask([0.3], episode="a").step == 0
    assert desk.wait()
    assert desk._leader.open.keys() == {1}
    desk.verify()
    desk.close()


def test_a_clock_that_is_set_changes_nothing(tmp_path, monkeypatch):
    desk = desk_at(str(tmp_path / "shop.db"), reward_wait="1h")
    d = desk.ask([0.3], episode="a")
    for jump in (10**8, -(10**8)):
        now = time.time() + jump
        monkeypatch.setattr(time, "time", lambda now=now: now)
        desk._ticked = -1e9
        desk._learn()
    assert desk.tell(d.id, 0.5, [0.4]) == "tell"
    desk.close()


def open_at(place, hours, monkeypatch):
    """Open a desk in a process whose clock is wrong by some hours. Return it, and its warnings."""
    kind = Postgres if place.startswith("postgres") else SQLite
    clock = kind.clock
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        patch.setattr(kind, "clock", lambda storage: clock(storage) + 3600 * hours)
        desk = zooming.Desk.open(place, learner="here", durability="process")
    desk._learn()
    return desk, [str(one.message) for one in said]


def test_a_clock_that_is_wrong_when_a_process_starts_expires_no_reward(place, monkeypatch):
    desk = desk_at(place, reward_wait="2d", close_after="30d")
    made = [desk.ask([0.3], episode="before")]
    for days in (365, -365, 0):
        desk.close()
        desk, said = open_at(place, 24 * days, monkeypatch)
        assert ["clock, 365 days, 0:0" in one for one in said] == [True] * (days == 365)
        made.append(desk.ask([0.3], episode=f"{days} days"))
    times = [desk.why(one.id)["at"] for one in made]
    assert times == sorted(times)
    pass_time(desk, 1.9 * 86400)
    assert {desk.why(one.id)["state"] for one in made} == {"open"}
    assert not desk.episode("before")["is over"]
    assert [desk.tell(one.id, 0.5, [0.4]) for one in made[:2]] == ["tell"] * 2
    pass_time(desk, 0.2 * 86400)
    assert [desk.why(one.id)["state"] for one in made[2:]] == ["expired"] * 2
    desk.verify()
    desk.close()


def test_nights_in_which_no_process_runs_count_for_the_wait(tmp_path, monkeypatch):
    place = str(tmp_path / "shop.db")
    desk = desk_at(place, reward_wait="2d")
    d = desk.ask([0.3], episode="a")
    for hours, state in ((20, "open"), (40, "open"), (60, "expired")):
        desk.close()
        desk, said = open_at(place, hours, monkeypatch)
        assert (desk.why(d.id)["state"], said) == (state, [])
        desk.ask([0.3], episode=f"{hours}")
    desk.close()


def test_rewards_in_any_order_end_the_episode_once(desk):
    made = [desk.ask([0.1 * step], episode="a") for step in range(5)]
    for step in (4, 2, 0, 3):
        desk.tell(made[step].id, 0.5, [0.1 * step + 0.1])
    assert desk._leader.open[0].n_steps == 4
    desk.tell(made[1].id, 0.5, [0.2])
    assert not desk._leader.open
    assert desk.ask([0.0], episode="a").step == 0  # the next episode of this name


def test_a_decision_that_was_not_carried_out_is_asked_for_again(desk):
    d = desk.ask([0.3], episode="a", id="x")
    desk.cancel(d.id)
    desk.cancel(d.id)
    with pytest.raises(zooming.ConfigurationError, match="was cancelled, so it has no reward"):
        desk.tell(d.id, 0.5, [0.4])
    with pytest.raises(zooming.ConfigurationError, match="was cancelled; ask with another id"):
        desk.ask([0.3], episode="a", id="x")
    e = desk.ask([0.35], episode="a")
    assert (e.step, e.id) == (0, d.id + 1)
    desk.tell(e.id, 0.5, [0.4])
    assert desk.agent.n_episodes == 1


def test_the_action_that_was_played_is_learned(desk):
    for k in range(20):
        d = desk.ask([0.5], episode=f"e{k}")
        desk.tell(d.id, 0.5, [0.5], action=[0.9])
    assert desk.agent.visits(0, [0.5], [0.9]) > desk.agent.visits(0, [0.5], [0.1])
    assert desk.to_log()["action_0"].to_list() == [0.9] * 20


def test_bounds_freezing_pausing_and_forgetting(desk):
    shop = Shop(desk, seed=0)
    shop.run(100)
    for k in range(30):
        d = desk.ask([0.5], episode=f"b{k}", bounds={"action[0]": (0.875, 0.9375)})
        assert 0.875 <= d.action[0] <= 0.9375
    desk.freeze()
    before = knowledge(desk.agent)
    d = desk.ask([0.3], episode="frozen")
    assert (d.by, d.explored) == ("recommended", False)
    assert np.array_equal(d.action, desk.agent.predict([0.3])[0])
    assert desk.tell(d.id, 0.5, [0.4]) == "frozen"
    assert knowledge(desk.agent) == before
    desk.pause_exploring()
    d = desk.ask([0.3], episode="paused")
    assert (d.by, desk.tell(d.id, 0.5, [0.4])) == ("recommended", "tell")
    assert knowledge(desk.agent) != before
    desk.resume()
    assert desk.ask([0.3], episode="c").by == "agent"
    desk.ask([0.4], episode="c", id="a name")
    assert desk.forget("c") == 1
    assert desk.forget("c") == 0
    with pytest.raises(zooming.ConfigurationError, match="has no episode 'c'"):
        desk.episode("c")


@pytest.mark.parametrize("options", [{"default_reward": 0.25}, {"several": "sum"}])
def test_a_frozen_desk_learns_neither_sums_nor_defaults(tmp_path, options):
    desk = desk_at(str(tmp_path / "shop.db"), reward_wait=60, **options)
    d = desk.ask([0.3], episode="a")
    desk.ask([0.4], episode="a")
    if "several" in options:
        desk.tell(d.id, 0.25, [0.4])
    desk.freeze()
    pass_time(desk, 61)
    assert desk.why(d.id)["told"][-1]["kind"] == ("frozen" if "several" in options else "missing")
    assert desk.agent.n_episodes == 0
    desk.verify()
    desk.close()


def test_a_desk_is_closed_while_another_thread_tells(tmp_path, monkeypatch):
    desk, told = desk_at(str(tmp_path / "shop.db")), threading.Event()
    ids, learn_in = [desk.ask([0.3], episode=f"{k}").id for k in range(20)], episodes.learn_in

    def slow(*step):
        told.set()
        time.sleep(0.02)
        learn_in(*step)

    monkeypatch.setattr(episodes, "learn_in", slow)
    with zooming.Desk.open(tmp_path / "shop.db", learner="elsewhere") as other:
        for id in ids:
            other.tell(id, 0.5, terminated=True)
    thread = threading.Thread(target=desk._learn)
    thread.start()
    told.wait()
    desk.close()
    thread.join()
    desk._learn()  # as a `tell` that was committed before
    monkeypatch.undo()
    with zooming.Desk.open(tmp_path / "shop.db", learner="here") as again:
        assert (again.agent.n_episodes, again._leader is None) == (20, False)
        again.verify()


class Interrupted(threading.Condition):
    """A condition at whose second use a signal comes."""

    n_uses = 0

    def __enter__(self):
        self.n_uses += 1
        if self.n_uses == 2:
            raise KeyboardInterrupt
        return super().__enter__()


def test_a_signal_within_an_event_or_a_transaction_breaks_nothing(tmp_path, monkeypatch):
    desk, learn_in = desk_at(str(tmp_path / "shop.db")), episodes.learn_in

    def interrupted(*step):
        learn_in(*step)
        raise KeyboardInterrupt

    d = desk.ask([0.3], episode="a")
    with monkeypatch.context() as patch:
        patch.setattr(episodes, "learn_in", interrupted)
        for call in (lambda: desk.tell(d.id, 0.5, [0.4]), desk.snapshot, desk.close):
            with contextlib.suppress(KeyboardInterrupt):
                call()
    with zooming.Desk.open(tmp_path / "shop.db", learner="here") as desk:
        desk._turn = Interrupted()  # after the commit, before others may write
        with pytest.raises(KeyboardInterrupt):
            desk.ask([0.4], episode="a")
        desk.storage.transaction().__enter__()
        desk.tell(desk.ask([0.4], episode="a").id, 0.5, [0.4])
        assert desk.agent.visits(0, [0.3], d.action) == 1
        desk.verify()


def test_an_agent_that_plays_one_episode_at_a_time_is_refused(tmp_path):
    with pytest.raises(zooming.ConfigurationError, match="SinglePartitionQ plays one episode at a"):
        zooming.Desk(SinglePartitionQ(oil(), seed=0), tmp_path / "shop.db")


def test_a_reward_that_the_agent_fails_to_learn_is_an_alarm_and_stays_in_the_log(
    tmp_path, monkeypatch
):
    desk = desk_at(str(tmp_path / "shop.db"))
    d = desk.ask([0.3], episode="a")

    def fail(*arguments, **masks):
        raise MemoryError("a fault of the agent's own")

    with monkeypatch.context() as patch:
        patch.setattr(desk._leader.agent, "update", fail)
        assert desk.tell(d.id, 0.5, [0.4]) == "tell"
    failed = "the agent failed to learn from 1 rewards, lastly event 2: a fault of the agent's own"
    assert desk.status()["alarms"] == [failed]
    assert desk.why(d.id)["told"][0]["reward"] == 0.5
    desk.close()


def test_a_rule_decides_if_the_agent_fails(tmp_path, monkeypatch):
    desk = desk_at(str(tmp_path / "shop.db"), fallback=lambda step, state: [0.25])

    def fail(*arguments):
        raise MemoryError("a fault of the agent's own")

    monkeypatch.setattr(desk.agent, "act_play", fail)
    d = desk.ask([0.3], episode="a")
    assert (d.by, d.action.tolist()) == ("fallback", [0.25])
    assert "a fault of the agent's own" in desk.fault
    desk.tell(d.id, 0.5, [0.4])
    monkeypatch.undo()
    assert desk.ask([0.4], episode="a").by == "agent"
    desk.verify()
    desk.close()


def test_an_apprentice_learns_beside_a_rule_and_says_when_it_is_better(tmp_path):
    rule = lambda step, state: [0.0]  # noqa: E731
    desk = desk_at(str(tmp_path / "shop.db"), apprentice=rule)
    shop, guide = Shop(desk, seed=0), None
    for _ in range(60):
        shop.run(100)
        guide = desk.agent.guide
        if not guide.is_open:
            break
    by = [d.by for d in shop.made]
    assert set(by[:1000]) == {"rule"}
    assert "agent" in by
    assert not guide.is_open
    assert desk.ask([0.3], episode="next").by == "rule"  # it decides until it is told not to
    found = desk.status()
    assert (found["plays"], "the agent is better: promote()" in found["apprentice"]) == (
        "the rule",
        True,
    )
    desk.pause_exploring()
    assert desk.ask([0.3], episode="paused").by == "rule"
    desk.promote()
    assert desk.ask([0.3], episode="other").by == "recommended"
    desk.resume()
    assert desk.ask([0.3], episode="last").by == "agent"
    desk.verify()
    desk.close()
    with zooming.Desk.open(str(tmp_path / "shop.db"), learner="here", apprentice=rule) as again:
        assert again.agent.guide.words() == guide.words()


def test_a_desk_has_an_apprentice_from_the_start_and_is_opened_with_its_rule(tmp_path):
    rule = lambda step, state: [0.0]  # noqa: E731
    desk_at(str(tmp_path / "alone.db")).close()
    with pytest.raises(zooming.ConfigurationError, match="was made without an apprentice, and its"):
        zooming.Desk.open(tmp_path / "alone.db", apprentice=rule)
    desk_at(str(tmp_path / "shop.db"), apprentice=rule).close()
    desk = zooming.Desk.open(tmp_path / "shop.db", learner="here", fallback=rule)
    with pytest.raises(zooming.ConfigurationError, match="open it with apprentice=rule"):
        desk.ask([0.3], episode="a")
    desk.close()


def test_a_full_disk_loses_nothing(tmp_path):
    desk = desk_at(str(tmp_path / "shop.db"))
    shop = Shop(desk, seed=0)
    shop.run(30)
    open_one = desk.ask([0.5], episode="open")
    most = desk.storage.run("PRAGMA page_count")[0][0]
    desk.storage.run(f"PRAGMA max_page_count={most}")
    full = pytest.raises(OSError, match="full; nothing was written, so the same call can be made")
    with full:
        [desk.ask([0.3], episode=f"long name {k}" * 20) for k in range(2000)]
    n = desk.storage.read("SELECT COUNT(*) FROM decisions")[0][0]
    desk.storage.run("PRAGMA max_page_count=1000000")
    assert desk.ask([0.5], episode="open") == open_one
    assert desk.storage.read("SELECT COUNT(*) FROM decisions")[0][0] == n
    desk.tell(open_one.id, 0.5, [0.5])
    desk.verify()
    desk.tell(desk.ask([0.5], episode="open").id, 0.5, [0.5])
    desk.storage.run(f"PRAGMA max_page_count={most}")
    with full:
        desk.close()  # another process may learn then
    with zooming.Desk.open(tmp_path / "shop.db", learner="here") as again:
        assert again.storage.lead()
        again.verify()


def test_the_write_ahead_log_is_used_again_before_it_is_large(tmp_path):
    desk = desk_at(str(tmp_path / "shop.db"))
    for k in range(80):
        with desk.storage.transaction():
            desk.storage.run("INSERT INTO pieces VALUES (-1, ?, ?)", [k, bytes(500_000)])
    assert (tmp_path / "shop.db-wal").stat().st_size < 25e6
    desk.close()


def test_threads_ask_and_tell_while_one_learns_behind(place):
    desk = desk_at(place, NAMES[-1], learner="behind")
    shops = [Shop(desk, seed=k) for k in range(8)]
    threads = [threading.Thread(target=shop.run, args=(60,)) for shop in shops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert desk.wait()
    assert desk.fault is None
    assert desk._leader.failures == []
    ids = [d.id for shop in shops for d in shop.made]
    assert len(set(ids)) == len(ids)
    desk.verify()
    desk.close()


@pytest.mark.parametrize("work", ["prepare_play", "content"])
def test_no_ask_waits_for_a_plan_or_a_snapshot(place, monkeypatch, work):
    desk = desk_at(place, learner="behind")
    desk.tell(desk.ask([0.3], episode="a").id, 0.5, [0.4])
    assert desk.wait()
    owner = desk._leader.agent if work == "prepare_play" else desk._leader
    begun, go_on, usual = threading.Event(), threading.Event(), getattr(owner, work)

    def slow():
        begun.set()
        assert go_on.wait(60)
        return usual()

    monkeypatch.setattr(owner, work, slow)
    desk.ask([0.3], episode="b")  # a plan would be due now
    storing = threading.Thread(target=desk.snapshot)
    storing.start()
    assert begun.wait(60)
    d = desk.ask([0.4], episode="c")
    assert desk.tell(d.id, 0.5, [0.4]) == "tell"
    go_on.set()
    storing.join()
    assert desk.wait()
    desk.verify()
    desk.close()


def test_a_snapshot_is_stored_in_pieces_between_which_others_write(place, monkeypatch):
    agent = zooming.NetQ(oil(), spacing=0.01, seed=0)
    desk = zooming.Desk(agent, place, learner="here", durability="process")
    for state in (0.3, 0.4):  # the first one is stored at once
        desk.tell(desk.ask([state], episode="a").id, 0.5, [0.4])
    desk._stored = time.monotonic() + 60  # nothing is stored but by `snapshot`
    commits, write, commit = [], desk.storage.write, desk._commit

    def note(statement, values=()):
        commits[-1] += sum(len(value) for value in values if isinstance(value, bytes))
        write(statement, values)

    monkeypatch.setattr(desk.storage, "write", note)
    monkeypatch.setattr(desk, "_commit", lambda jobs: commits.append(0) or commit(jobs))
    desk.snapshot()
    size = len(desk._leader.content()[0])
    assert size > 3 * 65536
    assert (max(commits), sum(commits)) == (65536, size)
    monkeypatch.undo()
    desk.tell(desk.ask([0.5], episode="a").id, 0.5, [0.4])
    desk.verify()
    kept = desk.storage.read("SELECT COUNT(DISTINCT seq) FROM pieces")[0][0]
    assert kept == 2  # the last one, and the one before it
    desk.close()


def test_jobs_of_one_transaction_see_what_earlier_ones_wrote(desk):
    first = desk.ask([0.3], episode="a")
    answers = {}

    def call(name, work):
        answers[name] = work()

    works = {
        "one": lambda: desk.ask([0.5], episode="b"), "two": lambda: desk.ask([0.5], episode="b"),
        "tell": lambda: desk.tell(first.id, 0.5, [0.3]),
        "next": lambda: desk.ask([0.3], episode="a"),
        "same": lambda: desk.tell(first.id, 0.5, [0.3]),
    }  # fmt: skip
    threads = [threading.Thread(target=call, args=pair) for pair in works.items()]
    desk._writer = -1  # so that all of them wait
    for n, thread in enumerate(threads):
        thread.start()
        while len(desk._queue) < n + 1:
            time.sleep(0.001)
    with desk._turn:
        desk._writer = 0
        desk._turn.notify_all()
    for thread in threads:
        thread.join()
    assert answers["one"] == answers["two"]
    assert (answers["tell"], answers["same"]) == ("tell", "same")
    assert answers["next"].step == 1


def test_a_transaction_takes_two_ways_to_the_server(server, monkeypatch):
    pytest.importorskip("psycopg")
    desk, ways = desk_at(server.url("ways"), learner="elsewhere"), []
    sent = desk.storage.run_all
    monkeypatch.setattr(desk.storage, "run_all", lambda queries: ways.append(1) or sent(queries))
    for step in range(5):
        ways.clear()
        d = desk.ask([0.1 * step], episode="a")
        assert len(ways) == 2
        desk.tell(d.id, 0.5, [0.1 * step + 0.1])
        assert len(ways) == 4
    desk.close()


@pytest.mark.process
@pytest.mark.slow
def test_no_kill_loses_an_answer(place):
    lost, n_answers, n_events = attack(place, kills=12, askers=3, learners=2, seed=0)
    assert lost == []
    assert min(n_answers, n_events) > 100


# --- seen -----------------------------------------------------------------------------------------


def test_the_command_prints_and_writes_a_page(tmp_path, capsys):
    path = tmp_path / "shop.db"
    with desk_at(str(path), reward_wait="1h", default_reward=0.5) as desk:
        Shop(desk, seed=0, name="<script>alert(1)</script>").run(400)
        desk.ask([0.5], episode="open")
    cli.main(["desk", str(path), "--verify"])
    printed = capsys.readouterr().out
    for words in ("asks: ", "tells: ", "waiting: ", "return: ", "verified: ", "shop.html"):
        assert words in printed
    page = path.with_suffix(".html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    with pytest.raises(SystemExit):
        cli.main(["desk", str(tmp_path / "none.db")])
    assert "does not exist" in capsys.readouterr().err


def test_the_command_changes_nothing_in_the_database(tmp_path, monkeypatch):
    path, clock = tmp_path / "shop.db", SQLite.clock
    with desk_at(str(path), reward_wait="2d") as desk:
        desk.ask([0.3], episode="a")
    with contextlib.closing(sqlite3.connect(path)) as database:
        before = list(database.iterdump())
        monkeypatch.setattr(SQLite, "clock", lambda storage: clock(storage) + 10 * 86400)
        with pytest.warns(UserWarning, match="10 days, 0:00:00 have passed since the last event"):
            cli.main(["desk", str(path), "--verify"])
        assert list(database.iterdump()) == before


def test_damaged_settings_are_refused_in_words(tmp_path):
    path = tmp_path / "shop.db"
    desk_at(str(path)).close()
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE meta SET value = '{' WHERE name = 'settings'")
    with pytest.raises(
        zooming.CheckpointError, match=r"shop\.db: the settings of the desk are dam"
    ):
        zooming.Desk.open(str(path))


def test_alarms_are_raised_if_returns_fall_or_rewards_are_missing(tmp_path):
    desk = desk_at(str(tmp_path / "shop.db"), reward_wait="1h", default_reward=0.2)
    for k in range(120):
        d = desk.ask([0.5], episode=f"e{k}")
        if k < 105:
            reward = (0.9 if k < 80 else 0.1) + 0.01 * (k % 3)
            desk.tell(d.id, reward, terminated=True)
        else:
            desk.ask([0.6], episode=f"e{k}")  # so that the default is learned for the first step
    assert [one for one in desk.status()["alarms"] if "returns fall" in one]
    assert "in the last 26 episodes" in desk.status()["return"]
    assert desk.status()["explored"].endswith("of the decisions of the last 105 episodes")
    pass_time(desk, 7200)
    assert any("30 rewards were missing or late" in one for one in desk.status()["alarms"])
    assert (desk.status()["defaults"], desk.status()["not learned"]["missing"]) == (15, 15)
    desk.verify()
    desk.close()


EXAMPLES = Path(__file__).parent.parent / "examples" / "desk"


def test_the_service_asks_and_tells_over_http(tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    monkeypatch.setenv("DESK", str(tmp_path / "shop.db"))
    code = (EXAMPLES / "service.py").read_text()
    assert len(code.splitlines()) <= 40
    module = types.ModuleType("service")
    monkeypatch.setitem(sys.modules, "service", module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

        exec(compile(code, "service.py", "exec"), vars(module))
        client = TestClient(module.app)
    question = {"episode": "store-17", "observation": [5.0]}
    made = client.post("/ask", json=question).json()
    assert made == client.post("/ask", json=question).json()
    outcome = {"reward": 3.0, "next_observation": [4.0]}
    assert client.post(f"/tell/{made['id']}", json=outcome).json() == {"kind": "tell"}
    refused = client.post("/tell/99", json=outcome)
    assert (refused.status_code, "ids come from ask" in refused.json()["detail"]) == (422, True)
    module.desk.close()


@pytest.mark.process
@pytest.mark.slow
def test_an_exported_policy_is_a_model_of_mlflow(tmp_path):
    pytest.importorskip("mlflow")
    path = EXAMPLES / "mlflow_policy.py"
    assert len(path.read_text().splitlines()) <= 30
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "model")], capture_output=True, text=True,
        cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    exported, own = re.fullmatch(r"\[\(([\d.]+),\)\] \[([\d.]+)\]", done.stdout.strip()).groups()
    assert exported == own
