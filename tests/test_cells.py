"""The planner's table: samples, cells and files, against plain Python on problems of few cells."""

import collections
import itertools
import statistics

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, box, knowledge
from zooming.kernels.plans.layout import CATEGORIES, ORDERED, SMOOTH, UNITS
from zooming.partitions import cells
from zooming.partitions.cells import (
    CellTable,
    condense,
    join,
    number_rows,
    quantile,
    spread_of_returns,
)

pytestmark = pytest.mark.plain
THREE, TWO = gym.spaces.Discrete(3), gym.spaces.Discrete(2)


def planner(state=THREE, action=TWO, **options):
    return zooming.Planner(Boxes(state, action), horizon=2, seed=0, **options)


def play(agent, n_episodes, seed=0):
    """Let an agent of THREE and TWO learn at random; return its transitions."""
    rng, transitions = np.random.default_rng(seed), []
    for _, step in itertools.product(range(n_episodes), range(2)):
        state, action, after = (int(rng.integers(n)) for n in (3, 2, 3))
        transitions.append((step, state, action, rng.random(), after, rng.random() < 0.3))
        agent.update(*transitions[-1])
    return transitions


@pytest.fixture(scope="module")
def learned():
    agent = planner()
    return agent, play(agent, 12)


def table_of(agent, rows, max_samples):
    """A table that keeps at most `max_samples`, with rows of (step, places, reward)."""
    table = CellTable(agent.axes, agent.table.core.copy(), max_samples)
    table.reserve(len(rows))
    for i, (step, places, reward) in enumerate(rows):
        table.samples.steps[i], table.samples.places[i] = step, places
        table.samples.numbers[i] = 1.0, reward, 0.0
    table.core["n_samples"] = len(rows)
    return table


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 20, 101])
def test_quantiles_of_sorted_numbers_are_those_of_numpy(n):
    numbers = np.sort(np.random.default_rng(n).normal(size=n))
    for share in (0.0, 0.5, 0.95, 1.0):
        assert quantile(numbers, share) == np.quantile(numbers, share)


def test_only_long_plans_are_made_in_a_thread(monkeypatch):
    calls, agent = [], planner()
    monkeypatch.setattr(cells, "call_in_thread", lambda work: calls.append(work) or work())
    play(agent, 12)
    agent.table.refit()
    agent.table.policy()
    assert not calls
    monkeypatch.setattr(cells, "SHORT", 0)
    agent.table.refit()
    agent.table.policy()
    assert len(calls) == 2


# --- samples --------------------------------------------------------------------------------------


def test_joined_samples_have_the_number_mean_and_spread_of_all():
    rewards = [[0.25, 1.0, 0.5], [2.0], [4.0, 3.5]]
    first = [(len(some), statistics.fmean(some), spread(some)) for some in rewards]
    found = join(np.array(first, float), np.array([1, 0, 1]), 2)
    both = rewards[0] + rewards[2]
    assert found == pytest.approx(
        np.array([[1, 2.0, 0.0], [5, statistics.fmean(both), spread(both)]])
    )


def spread(rewards):
    return sum((reward - statistics.fmean(rewards)) ** 2 for reward in rewards)


def condense_plainly(rows, max_samples, units):
    """Samples joined as `condense` says: {key: rewards} in the order of time."""
    groups, side = [(step, tuple(places), [reward]) for step, places, reward in rows], 1
    while 3 * len(groups) > 2 * max_samples and side <= 3 * UNITS:
        side *= 3
        joined = {}
        for step, places, rewards in groups:
            sides = [side if n == UNITS or side > UNITS else 1 for n in units]
            key = step, *(place // width for place, width in zip(places, sides, strict=True))
            joined.setdefault(key, (step, places, []))[2].extend(rewards)
        groups = list(joined.values())
    return groups


@pytest.mark.parametrize(
    ("state", "max_samples"),
    [(box((0.0, 1.0)), 60), (box((0.0, 1.0)), 30), (THREE, 30), (THREE, 9)],
)
def test_similar_samples_are_joined_until_a_third_of_the_memory_is_free(state, max_samples):
    agent, rng = planner(state, THREE), np.random.default_rng(0)
    units = [*agent.table.units, agent.table.units[0]]
    rows = [
        (int(rng.integers(2)), [int(rng.integers(n)) for n in units], float(rng.random()))
        for _ in range(90)
    ]
    expected = condense_plainly(rows, max_samples, units)
    table = table_of(agent, rows, max_samples)
    found = condense(table.samples, table.n_samples, table.units, max_samples)
    assert 3 * len(expected) <= 2 * max_samples
    assert found.steps.tolist() == [step for step, _, _ in expected]
    assert found.places.tolist() == [list(places) for _, places, _ in expected]
    assert found.numbers == pytest.approx(
        np.array([(len(some), statistics.fmean(some), spread(some)) for _, _, some in expected])
    )
    assert found.numbers[:, 0].sum() == 90
    assert found.numbers.flags.c_contiguous


def test_equal_rows_have_equal_numbers_however_many_columns_there_are():
    rows = np.random.default_rng(0).integers(-1, 3, (500, 40))
    rows[:, 0] *= 6000
    rows[250:] = rows[:250]
    numbers = number_rows(rows.T)
    assert len(set(numbers)) == len(np.unique(rows, axis=0))
    assert (numbers[250:] == numbers[:250]).all()


def test_memory_grows_by_half_or_by_what_is_needed_and_keeps_the_samples():
    table = table_of(planner(), [(1, [2, 1, 0], 0.5)], 10)
    sizes = []
    for n_more in (0, 1023, 1024, 3000):
        table.reserve(n_more)
        sizes.append(len(table.samples.steps))
    assert sizes == [1024, 1024, 1536, 3001]
    assert {len(part) for part in table.samples} == {3001}
    assert table.samples.places[0].tolist() == [2, 1, 0]
    assert table.samples.numbers[0].tolist() == [1.0, 0.5, 0.0]


def test_there_is_room_for_the_episodes_until_the_next_plan():
    agent = planner()
    table = agent.table
    assert (table.n_samples, table.is_due) == (0, False)
    table.prepare(7)  # the first plan is due after one episode
    assert len(table.samples.steps) == 1024
    table.core["due"], table.core["n_samples"] = 5000, 0
    table.prepare(600)
    assert len(table.samples.steps) == 1536
    table.prepare(9000)
    assert len(table.samples.steps) == 2 * 5000
    assert int(table.core["n_plans"][0]) == 0
    table.core["n_episodes"] = 5000
    assert table.is_due
    table.prepare(1)
    assert int(table.core["n_plans"][0]) == 1


# --- cells ----------------------------------------------------------------------------------------


def test_places_follow_the_kind_the_values_and_the_weight_of_an_axis():
    state = gym.spaces.Dict({"a": THREE, "b": box((0.0, 1.0)), "c": TWO})
    agent = planner(
        state,
        gym.spaces.MultiDiscrete([7, 5, UNITS + 1]),
        ordered=["action"],
        weights={'state["c"]': 0},
    )
    found = dict(
        zip(agent.axes.names, zip(agent.table.kinds, agent.table.units, strict=True), strict=True)
    )
    assert found == {
        'state["a"]': (CATEGORIES, 3),
        'state["b"][0]': (SMOOTH, UNITS),
        'state["c"]': (SMOOTH, 1),
        "action[0]": (ORDERED, 7),
        "action[1]": (ORDERED, 5),
        "action[2]": (SMOOTH, UNITS),
    }
    assert (agent.table.n_categories, agent.table.n_others) == (3, 4)
    assert agent.table.grid.bins.tolist() == [3, 1, 1, 1, 1, 1]  # before any sample
    with pytest.raises(zooming.SpaceError, match=r"alone make 250,000 cells, .* at most 60,000"):
        planner(gym.spaces.Discrete(500), gym.spaces.Discrete(500))


def test_the_cells_of_categories_are_their_values_and_count_their_samples(learned):
    agent, transitions = learned
    counts = collections.Counter(transition[:3] for transition in transitions)
    for step in range(2):
        view = agent.partition(step)
        middle = (view.low + view.high) / 2
        assert middle.tolist() == [[x, a] for x in range(3) for a in range(2)]
        assert (view.high - view.low).tolist() == [[1.0, 1.0]] * 6
        assert view.n_visits.tolist() == [counts[step, x, a] for x in range(3) for a in range(2)]
        assert view.depth.tolist() == [1] * 6  # rint(log_3 of 3 values and of 2)
        assert view.q_value.tolist() == [
            agent.q_value(step, x, a) for x in range(3) for a in range(2)
        ]
        assert (view.step, view.names) == (step, ("state", "action"))
    assert agent.n_balls == 2 * 6
    table = agent.table
    assert agent.nbytes == table.n_samples * (4 + 2 * 3 + 3 * 8) + sum(
        part.nbytes for part in (*table.grid, *table.plan, table.widths, table.apart, table.core)
    )


def test_outer_cells_of_an_unbounded_axis_are_unbounded():
    agent = planner(box((-np.inf, np.inf)), box((2.0, 4.0)), squash=1.0)
    view = agent.partition(0)
    assert (view.low.tolist(), view.high.tolist()) == ([[-np.inf, 2.0]], [[np.inf, 4.0]])
    assert view.depth.tolist() == [0]
    assert view.radius.tolist() == [1.0]


def test_a_policy_is_planned_anew_only_after_a_change():
    agent = planner()
    play(agent, 3)
    table = agent.table
    plan = table.policy().plan
    assert table.policy().plan is plan
    assert table.counts().sum() == 6
    agent.update(1, 0, 0, 1.0, 0)
    assert table.policy().plan is not plan  # nobody has played: it is made from all samples
    assert table.counts().sum() == 7


# --- files ----------------------------------------------------------------------------------------


def test_what_is_restored_is_what_was_stored(learned):
    agent, _ = learned
    other = planner()
    other.restore_state(*agent.saved_state())
    assert knowledge(other) == knowledge(agent)
    for name in agent.table.plan._fields:
        if name != "values":  # made anew with each plan
            ours, theirs = (getattr(one.table.plan, name) for one in (agent, other))
            assert theirs.tolist() == ours.tolist(), name
    assert [part.tolist() for part in other.table.grid] == [
        part.tolist() for part in agent.table.grid
    ]
    again = planner()
    again.restore_state(*other.saved_state())
    for one in (other, again):
        play(one, 3, seed=5)
    assert knowledge(other) == knowledge(again)
    assert other.n_episodes == 15


def spoiled(name, index, value):
    def spoil(arrays):
        arrays[name][index] = value

    return spoil


def without_last(name):
    def spoil(arrays):
        arrays[name] = arrays[name][:-1]

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoiled("core", "n_planned", -1), "the plan was made of -1 of 24 samples"),
        (spoiled("core", "n_planned", 25), "the plan was made of 25 of 24 samples"),
        (spoiled("places", (0, 0), -1), "a sample lies outside of the axes"),
        (spoiled("places", (0, 1), 2), "a sample lies outside of the axes"),
        (spoiled("places", (0, 2), -2), "a sample lies outside of the axes"),
        (spoiled("places", (0, 2), 3), "a sample lies outside of the axes"),
        (spoiled("steps", 3, -1), "a sample has a step outside of the episode"),
        (spoiled("steps", 3, 2), "a sample has a step outside of the episode"),
        (spoiled("numbers", (3, 0), 0.5), "a sample has no valid weight or reward"),
        (spoiled("numbers", (3, 1), np.nan), "numbers has an entry that is not finite"),
        (spoiled("numbers", (3, 1), 1.5), "a reward is outside of the range of rewards seen"),
        (spoiled("numbers", (3, 1), -1.5), "a reward is outside of the range of rewards seen"),
        (spoiled("numbers", (3, 2), -0.1), "the spread of a sample is negative"),
        (without_last("steps"), r"steps is int32 \(23,\), not int32 \(24,\)"),
        (without_last("places"), "places is"),
        (without_last("numbers"), "numbers is"),
        (without_last("widths"), "widths is"),
        (without_last("bins"), "bins is"),
        (without_last("edges"), "edges is"),
        (without_last("q"), "q is"),
        (without_last("bonus"), "bonus is"),
        (without_last("played"), "played is"),
        (spoiled("bins", 0, 0), "an axis has no bins, or more bins than places"),
        (spoiled("bins", 0, 4), "an axis has no bins, or more bins than places"),
        (spoiled("edges", (0, 0), 1), "the edges of the bins are not in order"),
        (spoiled("edges", (0, 1), 2), "the edges of the bins are not in order"),
        (spoiled("edges", (0, 3), 4), "the edges of the bins are not in order"),
        (without_last("centers"), "centers is"),
        (spoiled("centers", (0, 0), 0.9), "the center of a bin is outside of it"),
        (spoiled("q", (0, 0), np.inf), "q has an entry that is not finite"),
        (spoiled("numbers", (3, 0), 1e20), "a sample has no valid weight or reward"),
        (spoiled("numbers", (3, 0), 1e300), "a sample has no valid weight or reward"),
        (spoiled("core", "most", 1e308), "a reward is outside of the range of rewards seen"),
        (spoiled("core", "plays", -1.0), "the returns of the planner's episodes are invalid"),
        (spoiled("core", "spread", -1.0), "the returns of the planner's episodes are invalid"),
        (spoiled("core", "earned", np.nan), "the returns of the planner's episodes are invalid"),
        (spoiled("core", "horizon", 5), "horizon is 5, but 2 in the options"),
    ],
)
def test_a_stored_table_that_cannot_be_is_refused(learned, spoil, message):
    values, arrays = learned[0].saved_state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    fresh = planner()
    before = knowledge(fresh)
    spoil(arrays)
    with pytest.raises(ValueError, match=message):
        fresh.restore_state(values, arrays)
    assert knowledge(fresh) == before


def test_a_stored_grid_of_too_many_cells_is_refused():
    agent = planner(box((0.0, 1.0)), box((0.0, 1.0)))
    values, arrays = agent.saved_state()
    edges = np.arange(UNITS + 1)
    arrays = {**arrays, "bins": np.full(2, UNITS), "edges": np.tile(edges, (2, 1))}
    with pytest.raises(ValueError, match=r"43,046,721 cells are too many"):
        agent.restore_state(values, arrays)


def test_a_few_catastrophes_do_not_spread_the_returns():
    rewards = np.arange(100.0)
    usual, rare = (samples_of(np.zeros(100, int), rewards) for _ in range(2))
    rare.numbers[:40, 1] = -1e9
    assert spread_of_returns(usual, 100, 0.0) == pytest.approx(2 * 0.45 * 99)
    assert spread_of_returns(rare, 100, 0.0) == spread_of_returns(usual, 100, 0.0)
    assert spread_of_returns(usual, 1, 7.0) == 7.0  # one return has no spread


def samples_of(steps, rewards):
    """Return samples of one axis of state and one of action with these steps and rewards."""
    n = len(steps)
    numbers = np.column_stack([np.ones(n), rewards, np.zeros(n)])
    return cells.Samples(steps.astype(np.int32), np.zeros((n, 3), np.int16), numbers)
