"""Learning from a log is update row by row; every fault is counted, named, and changes nothing."""

import gzip
import sys
from datetime import timedelta

import gymnasium as gym
import numpy as np
import pandas as pd
import polars as pl
import pytest

import zooming
from helpers import Boxes, box, change, knowledge
from zooming.agents.training.replay import Transitions
from zooming.errors import LibraryError
from zooming.logs import learn, reading


def env():
    return gym.make("zooming/Oil-v0", noise=0.05)


def agent(seed=0, **options):
    return zooming.AdaptiveQ(env(), seed=seed, **options)


@pytest.fixture(scope="module")
def log():
    return zooming.record(env(), lambda step, state: 0.9 * state, 120, epsilon=0.5, seed=1)


@pytest.fixture(scope="module")
def taught(log):
    """What an agent knows after `update` with every row in turn."""
    found = agent()
    for row in log.iter_rows(named=True):
        found.update(
            row["step"], [row["state_0"]], [row["action_0"]], row["reward"],
            [row["next_state_0"]], row["terminated"],
        )  # fmt: skip
    assert found.n_balls > 20
    return knowledge(found)


def written(log, folder):
    """Return a log in every form that learn_from takes."""
    log.write_csv(folder / "log.csv")
    log.write_parquet(folder / "log.parquet")
    return {
        "polars": log,
        "pandas": pd.DataFrame(log.to_dict(as_series=False)),
        "dict": log.to_dict(as_series=False),
        "csv": folder / "log.csv",
        "parquet": str(folder / "log.parquet"),
    }


def test_files_of_other_programs_are_read(log, taught, tmp_path):
    text = log.write_csv()
    (tmp_path / "LOG.CSV").write_bytes(
        b"\xef\xbb\xbf" + f"{text}\n\n".replace("\n", "\r\n").encode()
    )
    wide = log.with_columns(pl.col("episode").cast(pl.Int128))
    for source in (tmp_path / "LOG.CSV", wide):
        learning = agent()
        learning.learn_from(source)
        assert knowledge(learning) == taught


@pytest.mark.parametrize("is_streamed", [False, True])
def test_learning_from_a_log_is_update_with_each_row(
    log, taught, tmp_path, monkeypatch, is_streamed
):
    if is_streamed:  # pieces that end within episodes
        monkeypatch.setattr(reading, "PIECE_ROWS", 83)
        monkeypatch.setattr(reading, "PIECE_BYTES", 4001)
    for kind, one in written(log, tmp_path).items():
        found = agent()
        said = found.learn_from(one)
        assert knowledge(found) == taught, kind
        assert (said.n_rows, said.n_learned, said.n_episodes) == (600, 600, 120)
        assert str(said) == "learned from 600 of 600 rows in 120 episodes"


@pytest.mark.parametrize("dropped", [("next_state_0",), ("step", "next_state_0"), ("episode",)])
def test_what_a_log_leaves_out_follows_from_the_other_columns(log, taught, dropped):
    found = agent()
    found.learn_from(log.drop(*dropped))
    assert knowledge(found) == taught


def test_columns_have_the_names_that_are_given(log, taught):
    names = {"state_0": "oil", "action_0": "drill", "next_state_0": "then", "reward": "money"}
    renamed = log.rename({**names, "episode": "year", "step": "day", "terminated": "end"})
    found = agent()
    options = {"episode": "year", "step": "day", "terminated": "end", "reward": "money"}
    found.learn_from(renamed, state=["oil"], action="drill", next_state="then", **options)
    assert knowledge(found) == taught


FAULTS = {
    "reward": (lambda log: change(log, 7, "reward", 1.7), r"\(row 7: reward 1.7\)", [7]),
    "state": (lambda log: change(log, 8, "state_0", 1.5), "state\\[0\\] = 1.5, but it runs", [8]),
    "action": (lambda log: change(log, 9, "action_0", -0.5), "with the action outside", [9]),
    "next state": (lambda log: change(log, 11, "next_state_0", 3.0), "next state outside", [11]),
    "missing": (lambda log: change(log, 12, "action_0", None), r"a missing value.* \(row 12", [12]),
    "step": (lambda log: change(log, 14, "step", 5), r"from 0 to 4 \(row 14: step 5\)", [14]),
    "duplicate": (lambda log: change(log, 16, "step", 0), r"repeating a step \(row 16", [16]),
    "gap": (lambda log: log[np.r_[0:17, 18:600]], "step 3 comes after step 1", []),
    "order": (
        lambda log: log[np.r_[0:21, 22, 21, 23:600]],
        r"1 row out of order \(row 22\).*rows after a gap.*Sort the rows by episode, and by step",
        [22],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_refused_or_its_row_skipped(log, fault):
    spoil, message, skipped = FAULTS[fault]
    spoiled = spoil(log)
    found = agent()
    before = knowledge(found)
    with pytest.raises(zooming.TransitionError, match=message):
        found.learn_from(spoiled)
    assert knowledge(found) == before
    said = found.learn_from(spoiled, bad="skip")
    assert fault in said.faults
    good = np.setdiff1d(np.arange(len(spoiled)), skipped)
    assert said.n_learned == len(good)
    same = agent()
    same.learn_transitions(
        Transitions(
            *(spoiled[name].to_numpy()[good].reshape(shape) for name, shape in (
                ("step", -1), ("state_0", (-1, 1)), ("action_0", (-1, 1)), ("reward", -1),
                ("next_state_0", (-1, 1)), ("terminated", -1),
            ))
        )
    )  # fmt: skip
    assert knowledge(found) == knowledge(same)


def test_an_episode_that_comes_back_is_out_of_order_in_any_piece(log, monkeypatch):
    monkeypatch.setattr(reading, "PIECE_ROWS", 50)
    back = pl.concat([log, log[:5]])
    with pytest.raises(zooming.TransitionError, match=r"5 rows out of order \(rows 600, 601, 602"):
        agent().learn_from(back)
    said = agent().learn_from(back, bad="skip")
    assert (said.n_learned, said.n_rows) == (600, 605)


def test_a_row_without_a_next_state_is_skipped_and_one_that_needs_none_is_not(log):
    cut = log.drop("next_state_0")[np.r_[0:3, 5:600]]  # the first episode breaks off
    with pytest.raises(zooming.TransitionError, match=r"1 row without a next state \(row 2\)"):
        agent().learn_from(cut)
    assert agent().learn_from(cut, bad="skip").n_learned == len(cut) - 1
    ended = cut.with_columns(terminated=pl.arange(len(cut)) == 2)
    assert agent().learn_from(ended).n_learned == len(cut)
    last = log.with_columns(pl.when(pl.col("step") < 4).then("next_state_0").alias("next_state_0"))
    assert agent().learn_from(last).n_learned == 600


def test_an_agent_that_clips_takes_rewards_outside_the_range(log):
    found = agent(rewards="clip")
    with pytest.warns(UserWarning, match="was clipped"):
        found.learn_from(change(log, 7, "reward", 1.7))
    assert found.n_clipped == 1


def test_mixed_axes_and_heuristics_take_a_log():
    spaces = gym.spaces.Tuple([gym.spaces.Discrete(3), box((0.0, 2.0))]), gym.spaces.Discrete(2)
    found = zooming.AdaptiveQ(Boxes(*spaces), horizon=2, seed=0)
    rows = {"episode": ["a", "a", "b"], "state_0": [0, 1, 2], "state_1_0": [0.5, 2.0, 1.0]}
    rows |= {"action": [0, 1, 1], "reward": [0.5, 1.0, 0.0], "terminated": [False, False, True]}
    assert found.learn_from(rows).n_learned == 3
    assert found.n_episodes == 2
    rows["state_0"] = [0, 1.5, 2]
    with pytest.raises(zooming.TransitionError, match=r"1\.5, which is not a whole number from 0"):
        found.learn_from(rows)
    rule = zooming.Median(env(), seed=0)
    assert rule.learn_from(zooming.record(env(), rule, 3)).n_episodes == rule.n_episodes == 3


def test_one_agent_teaches_another(log):
    planner = zooming.Planner(env(), seed=0)
    planner.learn_from(log)
    kept = planner.to_log()
    assert kept.columns == log.columns
    assert kept["step"].to_list() == log["step"].to_list()
    assert kept["reward"].to_list() == log["reward"].to_list()
    assert (kept["action_0"] - log["action_0"]).abs().max() <= 0.5 / 6561 + 1e-12
    pupil = agent()
    assert pupil.learn_from(kept).n_learned == 600
    assert pupil.n_episodes == 120
    again = zooming.record(env(), pupil, 2, seed=3)
    assert again["action_0"][0] == pupil.predict([again["state_0"][0]])[0][0]


def test_a_log_of_episodes_that_lack_their_first_step_keeps_them_apart(log):
    planner = zooming.Planner(env(), seed=0)
    planner.learn_from(change(log, 5, "reward", None), bad="skip")  # step 0 of the second episode
    kept = planner.to_log()
    assert len(kept) == len(log) - 1
    assert kept["episode"].n_unique() == log["episode"].n_unique()
    assert kept["step"][5] == 1


@pytest.mark.parametrize("bad", ["refuse", "skip"])
def test_steps_that_count_from_one_are_refused_even_if_faults_are_skipped(log, bad):
    late = log.with_columns(pl.col("step") + 1)
    message = r"from 1, .*step 5 occurs in 120 rows\. Steps count from 0 to 4: .*leave out step="
    found = agent()
    before = knowledge(found)
    with pytest.raises(zooming.TransitionError, match=message):
        found.learn_from(late, bad=bad)
    assert knowledge(found) == before
    assert found.learn_from(late.rename({"step": "day"})).n_learned == 600
    with pytest.raises(zooming.TransitionError, match="from 0, but no row has step 0"):
        agent().learn_from(late.filter(pl.col("step") < 5))  # episodes that break off


def test_a_text_is_named_with_its_column_in_every_kind_of_log(log, tmp_path):
    words = ["rain" if k % 7 == 3 else "0.5" for k in range(600)]
    spoiled = log.with_columns(state_0=pl.Series(words), terminated=pl.lit("FALSE"))
    message = r"column 'state_0' holds text, first 'rain' in row 3\. Map categories to the whole"
    kinds = written(spoiled, tmp_path)
    kinds["categories"] = spoiled.with_columns(pl.col("state_0").cast(pl.Categorical))
    for kind in kinds.values():
        with pytest.raises(zooming.TransitionError, match=message):
            agent().learn_from(kind)
    empty = change(log, 3, "reward", None).with_columns(pl.col("reward").cast(pl.String))
    with pytest.raises(zooming.TransitionError, match=r"0\. Correct these rows"):  # no text
        agent().learn_from(empty.with_columns(pl.col("reward").fill_null(" ")))


def test_a_rule_without_an_action_and_one_with_swapped_arguments_are_named(log):
    calls = [
        ("policy", lambda rule: zooming.record(env(), rule, 1)),
        ("rule", lambda rule: agent().warm_start(rule, 40)),
        ("policy", lambda rule: zooming.evaluate_on(log, rule, env=env())),
    ]
    for name, call in calls:
        with pytest.raises(zooming.ConfigurationError, match=f"the {name} returned None; it must"):
            call(lambda step, state: None)
        with pytest.raises(TypeError) as caught:
            call(lambda place, day: [place[0]])
        assert caught.value.__notes__ == [f"the {name} was called as {name}(step, observation)"]
        with pytest.raises(zooming.ConfigurationError, match=rf"{name} takes \(state, step\), but"):
            call(lambda state, step: [state[0]])


def test_bad_arguments_and_files_are_refused_with_a_sentence(log, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "no.parquet").write_text("nothing")
    log.write_csv(tmp_path / "semicolons.csv", separator=";")
    one = agent()
    refusals = [
        (lambda: one.learn_from(3), "3 is not a log; give a data frame"),
        (lambda: one.learn_from("log.xls"), "no log has the ending '.xls'"),
        (lambda: one.learn_from("none.csv"), "none.csv: there is no such file"),
        (lambda: one.learn_from(tmp_path / "empty.csv"), "is empty; the first line must name"),
        (lambda: one.learn_from(tmp_path / "no.parquet"), "is not a Parquet file"),
        (lambda: one.learn_from(log, bad="drop"), "bad='drop'"),
        (lambda: one.learn_from(log, state=3), "state=3: give one column for each of"),
        (lambda: one.learn_from(log, reward="reword"), "no column 'reword'.*did you mean 'reward'"),
        (
            lambda: one.learn_from(log, state=["a", "b"]),
            r"of the 1 axes, in their order: state\[0\]",
        ),
        (lambda: one.learn_from(tmp_path / "semicolons.csv"), r"read_csv\(path, separator=';'\)"),
        (lambda: one.learn_from(log.drop("episode", "step")), "no column 'episode' or 'step'"),
        (lambda: one.learn_from(log[:0]), "the log has no rows"),
        (lambda: one.learn_from({**log[:2].to_dict(), "reward": [1.0]}), "different lengths"),
        (lambda: one.learn_from(log.with_columns(action_0=[[1]] * 600)), "holds lists"),
        (lambda: one.to_log(), "AdaptiveQ keeps no transitions"),
        (lambda: zooming.Planner(env()).to_log(), "has no transitions yet"),
        (lambda: zooming.record(env(), 3, 1), "policy=3: give an agent, or a function"),
        (lambda: zooming.record(env(), one, 1, library="dask"), "library='dask'"),
        (lambda: zooming.record(env(), lambda h, x: [2.0], 1), "= 2, which is outside"),
        (lambda: zooming.record(env(), lambda x: [0.5], 1), r"takes \(x\); give a function"),
        (lambda: one.learn_from(log, reward="money"), "for reward=; its columns are"),
    ]
    before = knowledge(one)
    for ask, message in refusals:
        with pytest.raises(zooming.ConfigurationError, match=message):
            ask()
    assert knowledge(one) == before


def test_record_asks_for_polars_before_it_plays(monkeypatch):
    env = gym.make("zooming/Oil-v0")
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setattr(type(env), "reset", lambda *_, **__: pytest.fail("an episode was played"))
    with pytest.raises(LibraryError, match="record needs polars: pip install polars") as caught:
        zooming.record(env, lambda step, state: state, 3)
    assert isinstance(caught.value, ImportError)


# --- hostile logs ---------------------------------------------------------------------------------


def test_a_file_is_read_and_checked_once(log, tmp_path, monkeypatch):
    reads, feeds = [], []
    parse, feed = reading._read_csv, learn.Checker.feed
    monkeypatch.setattr(reading, "_read_csv", lambda *a, **b: (reads.append(1), parse(*a, **b))[1])
    monkeypatch.setattr(learn.Checker, "feed", lambda *a: (feeds.append(1), feed(*a))[1])
    log.write_csv(tmp_path / "log.csv")
    agent().learn_from(tmp_path / "log.csv")
    assert (len(reads), len(feeds)) == (2, 1)  # the line of names, and the rows


def test_newlines_in_quotes_do_not_end_a_row_at_the_border_of_a_piece(
    log, taught, tmp_path, monkeypatch
):
    note = 'line 1\nline 2, with a comma and a "quote"\n0,0,0.5'
    log.with_columns(pl.lit(note).alias("a\nb")).select("a\nb", *log.columns).write_csv(
        tmp_path / "log.csv"
    )
    for size in (10**9, 700, 150, 1):
        monkeypatch.setattr(reading, "PIECE_BYTES", size)
        found = agent()
        found.learn_from(tmp_path / "log.csv")
        assert knowledge(found) == taught, size


def test_a_quote_that_is_never_closed_does_not_read_the_whole_file(log, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "PIECE_BYTES", 100)
    monkeypatch.setattr(reading, "LONGEST_ROW", 500)
    (tmp_path / "log.csv").write_text(log.write_csv().replace("0.5", '"0.5', 1))
    with pytest.raises(zooming.ConfigurationError, match="quote that is not closed"):
        agent().learn_from(tmp_path / "log.csv")


ODD = {  # column, value, and what is said of it
    "-3.7": ("terminated", -3.7, "terminated that is not 0 or 1, true or false .*: -3.7"),
    "inf": ("terminated", np.inf, "terminated that is not 0 or 1, true or false .*: inf"),
    "1_000": ("terminated", "1_000", "'terminated' holds text, first '1_000' in row 7"),
    "other digits": ("reward", "\u0663", "'reward' holds text, first '\u0663' in row 7"),
    "10**400": ("state_0", 10**400, r"state\[0\] = inf, but it runs"),
    "a row after the end": ("terminated", True, r"2 rows after the end of .*\(rows 8, 9\)"),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("kind", ["dict", "pandas", "csv"])
def test_an_odd_value_is_refused_by_name(log, tmp_path, case, kind):
    column, value, message = ODD[case]
    spoiled = {name: log[name].to_list() for name in log.columns}
    spoiled["terminated"] = [0] * len(log)
    spoiled[column][7] = value
    if kind == "csv":
        lines = [
            ",".join(spoiled),
            *(",".join(map(str, row)) for row in zip(*spoiled.values(), strict=True)),
        ]
        (tmp_path / "log.csv").write_text("\n".join(lines))
        spoiled = tmp_path / "log.csv"
    elif kind == "pandas":
        spoiled = pd.DataFrame(spoiled)
    found = agent()
    before = knowledge(found)
    with pytest.raises(zooming.TransitionError, match=message):
        found.learn_from(spoiled)
    assert knowledge(found) == before
    n_bad = 2 if "after" in case else 1
    assert found.learn_from(spoiled, bad="skip").n_learned == len(log) - n_bad


def test_masked_numbers_are_missing(log):
    columns = {name: log[name].to_numpy() for name in log.columns}
    for name in ("reward", "step", "episode"):
        hidden = np.ma.array(columns[name], mask=np.arange(len(log)) == 7)
        with pytest.raises(zooming.TransitionError, match=r"a missing value.* \(row 7"):
            agent().learn_from({**columns, name: hidden})


def test_a_column_that_occurs_twice_is_refused_if_it_is_read(log, taught, tmp_path):
    head, rest = log.write_csv().split("\n", 1)
    for text in (head.replace("next_state_0", "state_0"), head.replace("terminated", "reward")):
        (tmp_path / "log.csv").write_text(f"{text}\n{rest}")
        with pytest.raises(zooming.ConfigurationError, match="occurs 2 times"):
            agent().learn_from(tmp_path / "log.csv")
    frame = pd.DataFrame(log.to_dict(as_series=False))
    with pytest.raises(zooming.ConfigurationError, match="'reward' occurs 2 times"):
        agent().learn_from(pd.concat([frame, frame[["reward"]]], axis=1))
    lines = log.write_csv().splitlines()
    noted = [f"{lines[0]},note,note", *(f"{line},a,b" for line in lines[1:])]
    (tmp_path / "log.csv").write_text("\n".join(noted))
    found = agent()
    found.learn_from(tmp_path / "log.csv")
    assert knowledge(found) == taught


def test_what_is_not_a_column_of_numbers_is_refused_by_name(log, tmp_path):
    columns = {name: log[name].to_numpy() for name in log.columns}
    n = len(log)
    mixed, lists = ([1, "1", None, 2.0, (1,)] * n)[:n], [[1]] * n
    compressed = tmp_path / "log.csv"
    compressed.write_bytes(gzip.compress(log.write_csv().encode())[:-9])
    log.write_parquet(tmp_path / "log.parquet")
    good = (tmp_path / "log.parquet").read_bytes()
    at = good.index(b"\x15", 8)
    (tmp_path / "log.parquet").write_bytes(good[:at] + b"\xff" * 30 + good[at + 30 :])
    days = pl.lit(timedelta(seconds=0))
    cases = [
        (compressed, "log.csv is not a CSV file"),
        (tmp_path / "log.parquet", "log.parquet is not a Parquet file"),
        (log.with_columns(state_0=pl.lit(b"ab")), "'state_0' holds Binary"),
        (log.with_columns(pl.Series("state_0", [object()] * n, pl.Object)), "'state_0' holds Obje"),
        (log.with_columns(reward=days), "'reward' holds Duration"),
        ({**columns, "reward": 0.5}, "'reward' is 0.5; give a sequence"),
        ({**columns, "reward": (x for x in range(n))}, "'reward' is <generator.*; give a sequence"),
        ({**columns, "reward": "a" * n}, "'reward' is 'a.*; give a sequence"),
        ({**columns, "reward": np.ones((n, 2))}, "'reward' holds lists"),
        ({**columns, "reward": np.zeros(n, "m8[s]")}, "'reward' holds timedelta64"),
        ({**columns, "episode": mixed}, "'episode' holds lists"),
        ({**columns, "episode": lists}, "'episode' holds lists"),
        (pd.DataFrame({**columns, "episode": lists}), "'episode' holds lists"),
    ]
    one = agent()
    before = knowledge(one)
    for case, message in cases:
        with pytest.raises(zooming.ConfigurationError, match=message):
            one.learn_from(case)
    assert knowledge(one) == before


def test_episodes_without_a_name_are_missing_in_every_library(log):
    frame = pd.DataFrame(log.to_dict(as_series=False))
    numbers = pd.array([None if k == 7 else k // 5 for k in range(len(log))], "Int64")
    dates = pd.to_datetime(["NaT" if k == 7 else f"20{10 + k // 5 % 80}-1-1" for k in range(600)])
    words = pd.Series([float("nan") if k == 7 else f"e{k // 5}" for k in range(600)], dtype=object)
    for names in (numbers, words, dates):
        with pytest.raises(zooming.TransitionError, match=r"a missing value.* \(row 7\)"):
            agent().learn_from(frame.assign(episode=names)[:400])
