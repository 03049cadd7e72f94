"""Traces of requests: the shipped one, the reader of CSV files, and the problems that play them."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.envs.gallery.systems.traces import HALF_LIFE, SHIPPED, Trace, read_trace

NAMES = ("Caching", "Balancing", "Prefetching")


def make_trace(n, seed, n_objects=400):
    """Return the trace of the generator that the head of `traces` states."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, n_objects + 1.0) ** -0.9
    names = rng.permutation(n_objects)
    sizes = np.exp(rng.normal(0.0, 0.8, n_objects))
    objects, gaps = [], []
    while len(objects) < n:
        length, scans = int(rng.integers(40, 200)), bool(rng.random() < 0.3)
        if scans:
            first = int(rng.integers(n_objects))
            objects += [(first + i) % n_objects for i in range(length)]
        else:
            objects += names[rng.choice(n_objects, length, p=weights / weights.sum())].tolist()
        gaps += rng.exponential(1.0 / 3.0 if scans else 1.0, length).tolist()
    chosen = np.array(objects[:n])
    return Trace(np.cumsum(gaps[:n]), chosen.astype(np.float64), sizes[chosen])


def test_the_shipped_trace_is_that_of_the_stated_generator():
    found, made = read_trace(SHIPPED), make_trace(2048, seed=0)
    assert found.object.tolist() == made.object.tolist()
    assert np.abs(found.time - made.time).max() <= 0.05 + 1e-9
    assert np.abs(found.size - made.size).max() <= 0.005 + 1e-9


def write(path, rows):
    path.write_text("\n".join(["time,object,size", *rows]) + "\n")
    return path


def rows(n=64, line=None, text=None):
    found = [f"{i},{i % 7},1.5" for i in range(n)]
    if line is not None:
        found[line] = text
    return found


@pytest.mark.parametrize(("lines", "message"), [
    (rows(line=9, text="9,1,nan"), "line 11: size='nan' is not a finite number"),
    (rows(line=9, text="x,1,1"), "line 11: time='x' is not a finite number"),
    (rows(line=9, text="9,1,0"), "line 11: sizes must be positive, got time 9, size 0"),
    (rows(line=9, text="2,1,1"), "line 11: times must not decrease, got time 2"),
    (rows(line=9, text="9"), "line 11: size=None is not a finite number"),
    (rows(63), "63 requests; a trace has at least 64"),
    ([f"0,{i},1" for i in range(64)], "64 requests; a trace has at least 64, at different"),
])  # fmt: skip
def test_a_bad_line_of_a_trace_is_named(tmp_path, lines, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        read_trace(write(tmp_path / "requests.csv", lines))


@pytest.mark.parametrize(("content", "message"), [
    (b"time,key,size\n", "no column 'object'; a trace has"),
    (b"time,object,size\n\xff,1,1\n", "give a CSV file in UTF-8"),
    (None, "give a CSV file in UTF-8 .*No such file"),
])  # fmt: skip
def test_what_is_no_trace_is_refused(tmp_path, content, message):
    path = tmp_path / "requests.csv"
    _ = content is None or path.write_bytes(content)
    with pytest.raises(zooming.ConfigurationError, match=message):
        gym.make("zooming/Caching-v0", trace=str(path))
    with pytest.raises(zooming.ConfigurationError, match="5: give a CSV file in UTF-8"):
        gym.make("zooming/Caching-v0", trace=5)


def test_objects_may_have_any_names(tmp_path):
    names = ["7", "8", "a/b", "'; DROP TABLE b", "a/b", "9"]
    path = write(tmp_path / "requests.csv", [f"{i},{names[i % 6]},1" for i in range(66)])
    found = read_trace(path).object[:6]
    assert found[[0, 1, 5]].tolist() == [7.0, 8.0, 9.0]
    assert found[2] == found[4] != found[3]
    assert (found[2:5] < 0).all()  # never the number of another object


def test_the_count_of_an_object_halves_with_time_and_grows_with_requests():
    n = 128
    trace = Trace(np.arange(n, dtype=float), np.repeat(np.arange(n / 2), 2), np.ones(n))
    rates = trace.classes(1, 2)[0, :, 1]
    again = 0.5 ** (1 / HALF_LIFE) * np.log(2) / HALF_LIFE  # every second request is a repetition
    assert rates == pytest.approx([0.0, again])


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_plays_the_trace_of_a_user(name, tmp_path):
    busy = [f"{i * i},{i},{1 + i % 5}" for i in range(400)]
    path = write(tmp_path / "requests.csv", busy)
    own, shipped = gym.make(f"zooming/{name}-v0", trace=str(path)), gym.make(f"zooming/{name}-v0")
    assert own.unwrapped.params.tolist() != shipped.unwrapped.params.tolist()
    assert np.isfinite(zooming.Random(own, seed=0).learn(20).returns).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_by_name_reaches_the_optimum(name):
    env = gym.make(f"zooming/{name}-v0")
    optimal = zooming.solve(env, {"Caching": 30, "Balancing": 12, "Prefetching": 16}[name])
    values = [
        zooming.evaluate(rule, env, episodes=400).mean for rule in env.unwrapped.rules.values()
    ]
    assert max(values) < optimal.return_
    assert len(set(values)) == len(values) > 1
