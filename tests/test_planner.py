"""The planner: its kernels against plain Python, its promises, its files, and what it learns."""

import contextlib
import itertools
import math

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, Drift, box, knowledge, same_history
from plain_planner import PlainPlan
from zooming.agents.training.replay import kept_transitions
from zooming.kernels import IS_JIT_DISABLED
from zooming.kernels.plans import exogenous, grids, planning, smoothing, step_models
from zooming.kernels.plans import layout as plan_layout
from zooming.kernels.plans import play as plan_episodes
from zooming.kernels.plans.grids import center_states, cut_axis, lay_grid, sort_by_step
from zooming.kernels.plans.layout import (
    ALIKE,
    CATEGORIES,
    ENDED,
    ORDERED,
    PRIOR,
    SHARES,
    SMOOTH,
)
from zooming.partitions.cells import make_grid
from zooming.validation import ANY_REWARD

compiled_only = pytest.mark.skipif(IS_JIT_DISABLED, reason="plans take seconds if not compiled")


def grid_of(*axes):
    """A grid with (kind, edges) of each axis."""
    kinds = np.array([kind for kind, _ in axes])
    units = np.array([edges[-1] for _, edges in axes])
    bins = np.array([len(edges) - 1 for _, edges in axes])
    rows = np.zeros((len(axes), max(bins) + 1), np.int64)
    for row, (_, edges) in zip(rows, axes, strict=True):
        row[: len(edges)] = edges
    return make_grid(kinds, units, bins, rows, len(axes))  # no axis of actions: all have centers


MIXED = [(SMOOTH, [0, 3, 4, 9, 27]), (CATEGORIES, [0, 1, 2, 3]), (ORDERED, [0, 1, 3, 4, 5])]
PLANE = [(SMOOTH, [0, 1, 2, 9, 18, 27]), (SMOOTH, [0, 9, 18, 27])]


def dense_kernel(grid, widths):
    """The kernel between all pairs of cells, written out."""
    kernel = np.ones((1, 1))
    for j, n in enumerate(grid.bins):
        along = np.ones((n, n))
        for a, b in itertools.product(range(n), range(n)):
            gap = abs(grid.centers[j, a] - grid.centers[j, b])
            if grid.kinds[j] == CATEGORIES:
                gap = float(a != b)
            if widths[j] < plan_layout.FLAT:
                along[a, b] = math.exp(-gap / 2.0 ** widths[j])
        kernel = np.kron(kernel, along)
    return kernel


def decay_of(grid, widths):
    decay = np.ones((len(grid.bins), max(grid.bins)))
    smoothing.set_decay(grid, np.array(widths), decay)
    return decay


# --- smoothing ------------------------------------------------------------------------------------


@pytest.mark.plain
@pytest.mark.parametrize("axes", [MIXED, PLANE, PLANE[:1], MIXED[1:], MIXED[2:] + MIXED])
@pytest.mark.parametrize("width", [-3.0, 0.0, 2.0])
def test_smoothing_is_the_product_with_the_dense_kernel(axes, width):
    grid = grid_of(*axes)
    widths = np.array([width, -1.0, 1.0, 0.0][: len(axes)])
    values = np.random.default_rng(0).random(math.prod(grid.bins))
    expected = dense_kernel(grid, widths) @ values
    smoothing.smooth(values, grid, decay_of(grid, widths), np.empty(3 * len(values)))
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def samples_on(grid, n, seed=0):
    """(cell of each sample, its target); some cells have several samples, some none."""
    rng = np.random.default_rng(seed)
    n_cells = math.prod(grid.bins)
    return rng.choice(n_cells // 2, n) * 2 % n_cells, rng.normal(size=n) + 3.0


def work_of(grid, cells, targets):
    work = np.zeros((plan_layout.N_ROWS, math.prod(grid.bins)))
    for cell, target in zip(cells, targets, strict=True):
        work[:3, cell] += (1.0, target, target**2)
    return work


def predict(grid, widths, cells, targets, share):
    """The prediction of every cell, by the definition, without a trend."""
    kernel = dense_kernel(grid, widths)
    mean = kernel[:, cells] @ targets / (kernel[:, cells].sum(axis=1) + PRIOR)
    n = np.bincount(cells, minlength=len(mean))
    total = np.bincount(cells, targets, minlength=len(mean))
    return mean + (total - n * mean) / (n + share)


@pytest.mark.plain
@pytest.mark.parametrize("axes", [MIXED, PLANE])
def test_leave_one_out_is_refitting_without_each_sample(axes):
    grid = grid_of(*axes)
    widths = np.array([-2.0, 0.0, -1.0][: len(axes)])
    cells, targets = samples_on(grid, 25)
    work, errors = work_of(grid, cells, targets), np.empty(len(SHARES))
    buffer, visited = np.empty(3 * work.shape[1]), np.unique(cells)
    decay = decay_of(grid, widths)
    best, error = smoothing.regress(work, visited, grid, decay, False, buffer)
    assert smoothing.leave_one_out(work, visited, errors) == (best, error)
    for share, found in zip(SHARES, errors, strict=True):
        expected = 0.0
        for i in range(len(cells)):
            rest = np.arange(len(cells)) != i
            without = predict(grid, widths, cells[rest], targets[rest], share)
            expected += (targets[i] - without[cells[i]]) ** 2
        assert found == pytest.approx(expected, rel=1e-9)
    assert error * len(cells) == pytest.approx(min(errors))
    smoothing.predict_cells(work, SHARES[best])
    expected = predict(grid, widths, cells, targets, SHARES[best])
    np.testing.assert_allclose(work[plan_layout.MEAN], expected, rtol=1e-9)


# --- the grid -------------------------------------------------------------------------------------


def cut_plainly(counts, most, even):
    """The edges by the definition: cut the bin of the largest merit, again and again."""
    n_units, edges = len(counts), [0, len(counts)]

    def merit(low, high):
        places = np.flatnonzero(counts[low:high])
        if high - low < 2 or (even == 0 and len(places) < 2):
            return 0.0
        if high - low == n_units:
            return 1.0
        share = sum(counts[low:high]) / sum(counts)
        width = (high - low) / n_units
        return ((1 - even) * share + even * width) * width**plan_layout.WIDTH_POWER

    while True:
        merits = [merit(*pair) for pair in itertools.pairwise(edges)]
        worst = int(np.argmax(merits))
        low, high = edges[worst : worst + 2]
        n_parts = 3 if high - low >= 3 else 2
        if merits[worst] <= 0 or len(edges) - 1 + n_parts - 1 > most:
            return edges
        inner = [low + ((high - low) * i + n_parts // 2) // n_parts for i in range(1, n_parts)]
        edges[worst + 1 : worst + 1] = inner


@pytest.mark.plain
@pytest.mark.parametrize("n_units", [2, 7, 81])
@pytest.mark.parametrize("even", [0.0, 0.1])
@pytest.mark.parametrize("most", [1, 2, 5, 27])
def test_an_axis_is_cut_as_its_definition_says(n_units, even, most):
    rng = np.random.default_rng(most)
    counts = np.bincount(rng.integers(0, n_units, 40) // 2, minlength=n_units).astype(float)
    edges = np.zeros(n_units + 3, np.int64)
    n_bins = cut_axis(counts, most, even, edges)
    assert edges[: n_bins + 1].tolist() == cut_plainly(counts.tolist(), most, even)
    assert n_bins <= most


def samples_at(places, steps=None, numbers=None):
    n = len(places)
    return plan_layout.Samples(
        np.zeros(n, np.int32) if steps is None else np.array(steps, np.int32),
        np.array(places, np.int16),
        np.tile([1.0, 0.0, 0.0], (n, 1)) if numbers is None else np.array(numbers, float),
    )


def laid(samples, n, kinds, units, n_state, n_cells, varies=True):
    """The (bins, edges) of `lay_grid`."""
    bins = np.zeros(len(units), np.int64)
    edges = np.zeros((len(units), max(units) + 3), np.int64)
    varies = np.broadcast_to(varies, len(units))
    given = samples.places, samples.numbers, n, kinds, units, varies
    lay_grid(*given, n_state, n_cells, bins, edges)
    return bins, edges


@pytest.mark.plain
def test_axes_share_the_cells_and_those_with_few_values_leave_theirs_to_others():
    rng = np.random.default_rng(0)
    state, action = rng.integers(0, 6561, (2, 300))
    kinds = np.array([SMOOTH, CATEGORIES, ORDERED, SMOOTH])
    units = np.array([6561, 3, 2, 6561])
    zero = np.zeros(300, int)
    places = np.column_stack([state, zero, zero, action, state, zero])
    bins, edges = laid(samples_at(places), 300, kinds, units, 2, 486)
    assert bins.tolist() == [9, 3, 2, 9]
    assert edges[1, :4].tolist() == [0, 1, 2, 3]
    still = np.column_stack([zero, zero, zero, action, zero, zero])
    bins, _ = laid(samples_at(still), 300, kinds, units, 2, 486)
    assert bins.tolist() == [1, 3, 2, 21]  # a state that never changes needs one bin


@pytest.mark.plain
def test_actions_get_the_cells_that_states_leave_however_many_places_were_seen():
    kinds, units = np.full(6, SMOOTH), np.full(6, 6561)
    for n in (100, 4000):  # with 4,000 samples, the states were seen in all places
        column = np.linspace(0, 6560, n).astype(int)
        bins, _ = laid(samples_at(np.tile(column[:, None], 10)), n, kinds, units, 4, 2401)
        assert bins.tolist() == [3, 3, 3, 3, 5, 5]
    varies = np.arange(6) % 3 == 0  # two axes of states, and one of actions, do not
    bins, _ = laid(samples_at(np.tile(column[:, None], 10)), n, kinds, units, 4, 2401, varies)
    assert bins.tolist() == [49, 1, 1, 49, 1, 1]


@compiled_only
@pytest.mark.parametrize(
    ("n_state", "pays", "wanted"),
    [(4, 1.0, [2, 3]), (4, 0.0, [0, 1, 2, 3]), (8, 1.0, [6, 7]), (8, 0.0, [0, 1, 2, 3, 4, 5])],
)
@pytest.mark.filterwarnings("ignore:Boxes. 9 axes are many")
def test_state_axes_that_do_not_matter_have_one_bin(n_state, pays, wanted):
    rng, unit = np.random.default_rng(0), (0.0, 1.0)
    agent = zooming.Planner(Boxes(box(*[unit] * n_state), box(unit)), horizon=3, seed=0)
    states, actions = rng.random((3, 501, n_state)), rng.random((3, 500, 1))
    for episode in range(500):
        for step in range(3):  # the last axis matters only later: it becomes the one before it
            x, after = states[step, episode], states[step, episode + 1].copy()
            after[-2] = x[-1]
            reward = pays * (x[-2] - actions[step, episode, 0]) ** 2 + 0.1 * rng.normal() * pays
            agent.update(step, x, actions[step, episode], reward, after)
    agent.act(0, [0.5] * n_state)
    bins = agent.table.grid.bins
    assert np.flatnonzero(bins > 1).tolist() == [*wanted, n_state]


@pytest.mark.plain
def test_cells_grow_with_the_root_of_the_samples():
    cells = plan_layout.wanted_cells
    assert [cells(0.0, 1, n_axes) for n_axes in (1, 2, 3, 4, 5)] == [729, 729, 2401, 2401, 6561]
    assert cells(1e6, 1, 2) == 2300
    assert cells(1e12, 1, 2) == cells(0.0, 50_000, 3) == plan_layout.MOST_CELLS
    assert cells(0.0, 200, 1) == 6561  # 32 bins for each category
    assert cells(1e4, 200, 1) == 10_000  # 50 bins
    assert cells(1e4, 3, 1) == 3 * 729
    assert cells(0.0, 1000, 2) == 9000


@pytest.mark.plain
def test_samples_are_sorted_by_step_with_their_cells():
    grid = grid_of(*PLANE)
    places = [[0, 26, 8], [20, 0, ENDED], [1, 9, 26]]
    samples = samples_at(places, [1, 0, 1], [[1, 5, 0], [2, 6, 1], [1, 7, 0]])
    rows = sort_by_step(samples, 3, grid, 1, 2)
    assert rows.cells.tolist() == [4 * 3 + 0, 0 * 3 + 2, 1 * 3 + 1]
    assert rows.nexts.tolist() == [ENDED, 2, 4]
    assert rows.weights.tolist() == [2, 1, 1]
    assert rows.rewards.tolist() == [6, 5, 7]
    assert rows.spreads.tolist() == [1, 0, 0]
    assert rows.first.tolist() == [0, 1, 3]
    # Place 8 is 2.5 places beyond the center of bin 2, and the next center is 8 away from it.
    np.testing.assert_allclose(rows.shares[:, 0], [0.0, 3.0 / 8.0, 0.0])
    assert rows.neighbors[:, 0].tolist() == [ENDED, 3, 4]


@pytest.mark.plain
def test_the_center_of_a_bin_of_states_is_the_mean_of_the_states_in_it():
    grid = grid_of(*PLANE)
    before = grid.centers.copy()
    samples = samples_at(
        [[3, 26, 8], [20, 0, ENDED], [20, 9, 20]], numbers=[[1, 5, 0], [2, 6, 1], [1, 7, 0]]
    )
    center_states(handle_of(core_of(1), samples, grid, plan_of(1)), 3)
    np.testing.assert_allclose(grid.centers[0, 2:] * 27, [(3.5 + 8.5) / 2, 13.5, 20.5])
    np.testing.assert_array_equal(grid.centers[0, :2], before[0, :2])  # no state in them
    np.testing.assert_array_equal(grid.centers[1], before[1])  # actions are played at their centers


# --- planning -------------------------------------------------------------------------------------


def core_of(horizon, n_state=1, n_action=1):
    core = np.zeros(1, plan_layout.CORE)
    core["horizon"], core["n_state"], core["n_action"] = horizon, n_state, n_action
    core["reward_low"], core["reward_high"] = ANY_REWARD
    core["least"], core["most"] = 0.0, 1.0
    return core


def random_samples(n, horizon, units=27, seed=0, is_exogenous=False):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, units, (n, 3))
    if not is_exogenous:  # the next state depends on state and action
        after = (places[:, :2].sum(axis=1) + rng.integers(0, 3, n)) // 2
        places[:, 2] = np.minimum(after, units - 1)
    steps = rng.integers(0, horizon, n)
    places[rng.random(n) < 0.2, 2] = ENDED
    numbers = np.column_stack([np.ones(n), rng.random(n), np.zeros(n)])
    return samples_at(places, steps, numbers)


def plan_of(horizon):
    """An empty plan on PLANE."""
    return plan_layout.Plan(
        *np.zeros((4, horizon, 15)), np.zeros(15), np.zeros((horizon, 5), np.int32),
        np.zeros((horizon + 1, 5)),
    )  # fmt: skip


def handle_of(core, samples, grid, plan):
    return plan_layout.pack_cells(plan_layout.Cells(core, samples, grid, plan, np.zeros((1, 5))))


def make_plan(core, samples, n, grid, widths, apart, plan, is_learning):
    handle = handle_of(core, samples, grid, plan)
    planning.make_plan(handle, n, widths, apart, is_learning)


def joint_law(samples, grid):
    """Return a function that averages values over the law of all next states, for PlainPlan."""
    goes_on, weights = samples.places[:, 2] != ENDED, samples.numbers[:, 0]
    bins = grid.bin_of[0, samples.places[goes_on, 2]]
    law = np.bincount(bins, weights[goes_on], grid.bins[0]) / weights[goes_on].sum()
    return lambda step, values: np.full(len(values), law @ values)


@pytest.mark.plain
@pytest.mark.parametrize("is_exogenous", [False, True])
@pytest.mark.parametrize("rewards", [(0, 0, 0), (0, 0, 1), (1, 0, 1)])
@pytest.mark.parametrize("values", [(0, 0, 0), (0, 1, 0)])
@pytest.mark.parametrize(("n_plans", "is_learning"), [(0, True), (11, True), (0, False)])
def test_a_plan_is_that_of_plain_numpy(rewards, values, is_exogenous, n_plans, is_learning):
    grid, horizon = grid_of(*PLANE), 3
    samples, core = random_samples(90, horizon, is_exogenous=is_exogenous), core_of(horizon)
    samples.numbers[:, 0] = 1 + np.arange(90) % 2  # some rows are joined
    samples.numbers[:, 2] = 0.1 * (np.arange(90) % 2)
    samples.numbers[samples.steps == 2, 1] += 3.0
    core["n_plans"], core["spread"] = n_plans, 0.2
    apart = np.array([rewards, values])
    widths = np.array([[[-1.0, 0.0], [0.0, -1.0]], [[-2.0, 1.0], [2.0, -1.0]]])
    before = core.tobytes(), widths.tobytes(), apart.tobytes()
    facts = {"n_plans": n_plans, "spread": 0.2, "is_exact": 0}
    facts["exogenous"] = joint_law(samples, grid) if is_exogenous else None
    plan, own = plan_of(horizon), (widths.copy(), apart.copy())
    wanted = PlainPlan(
        plan_layout.CONSTANTS, SHARES, grid, 1, horizon, samples, facts, *own, is_learning
    )
    make_plan(core, samples, 90, grid, widths, apart, plan, is_learning)
    np.testing.assert_array_equal(widths, own[0])
    np.testing.assert_array_equal(apart, own[1])
    for name in ("q", "bonus", "values", "way"):
        found, right = getattr(plan, name), getattr(wanted, name)
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-9, err_msg=name)
    total = (plan.q + plan.bonus).reshape(horizon, 5, 3)
    assert (plan.best == total.argmax(axis=2)).all()
    if not is_learning:  # a plan of the policy changes nothing
        assert (core.tobytes(), widths.tobytes(), apart.tobytes()) == before
        assert not plan.way.any()


@pytest.mark.plain
@pytest.mark.parametrize("seed", range(3))
def test_a_plan_on_categories_is_that_of_plain_numpy(seed):
    grid, rng = grid_of(*MIXED), np.random.default_rng(seed)
    places = np.column_stack([rng.integers(0, n, 120) for n in (27, 3, 5, 27, 3)])
    places[:, 3] = (places[:, 0] + 5 * places[:, 2]) // 2
    places[:, 4] = places[:, 1]  # no axis is exogenous
    numbers = np.column_stack([np.ones(120), places[:, 1] + rng.random(120), np.zeros(120)])
    samples = samples_at(places, rng.integers(0, 2, 120), numbers)
    core = core_of(2, n_state=2)
    n_cells, shape = math.prod(grid.bins), (2, math.prod(grid.bins))
    plan = plan_layout.Plan(
        *(np.zeros(shape) for _ in range(4)), np.zeros(n_cells), np.zeros((2, 12), np.int32),
        np.zeros((3, 12)),
    )  # fmt: skip
    apart, widths = np.zeros((2, 2), np.int64), np.full((2, 2, 3), -2.0)
    facts = {"n_plans": 0, "spread": 0.0, "is_exact": 0, "exogenous": None}
    own = widths.copy(), apart.copy()
    wanted = PlainPlan(plan_layout.CONSTANTS, SHARES, grid, 2, 2, samples, facts, *own, True)
    make_plan(core, samples, 120, grid, widths, apart, plan, True)
    np.testing.assert_array_equal(widths, own[0])
    for name in ("q", "bonus", "values", "way"):
        found, right = getattr(plan, name), getattr(wanted, name)
        np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.plain
def test_no_bonus_tempts_to_what_is_predicted_to_lose_much():
    grid, samples, core = grid_of(*PLANE), random_samples(60, 1), core_of(1)
    samples.numbers[samples.places[:, 1] < 9, 1] -= 50.0  # the first action ruins
    plans = [plan_of(1), plan_of(1)]
    for plan, spread in zip(plans, (0.0, 1.0), strict=True):
        core["spread"], apart = spread, np.zeros((2, 1), np.int64)
        make_plan(core, samples, 60, grid, np.full((2, 2, 2), -1.0), apart, plan, True)
    free, priced = (plan.bonus[0].reshape(5, 3) for plan in plans)
    assert (free[:, 0] > 0.0).all()
    assert (priced[:, 0] == 0.0).all()
    q = plans[1].q[0].reshape(5, 3)
    is_dear = q.max(axis=1, keepdims=True) - q > plan_layout.PRICE
    assert (priced[is_dear] == 0.0).all()
    assert (priced[~is_dear] > 0.0).all()


@pytest.mark.plain
def test_what_ruins_does_not_blur_which_of_the_other_actions_is_best():
    """The samples of ruinous cells have no part in the second fit, nor in its noise."""
    grid, samples, core = grid_of(*PLANE), random_samples(300, 1), core_of(1)
    action, ruin = samples.places[:, 1] // 9, 50.0 + 50.0 * samples.places[:, 0]
    samples.numbers[:, 1] = np.where(action == 0, -ruin, 0.1 * samples.numbers[:, 1] + action)
    core["spread"], plan, apart = 10.0, plan_of(1), np.zeros((2, 1), np.int64)
    make_plan(core, samples, 300, grid, np.full((2, 2, 2), -4.0), apart, plan, True)
    q, bonus = plan.q[0].reshape(5, 3), plan.bonus[0].reshape(5, 3)
    np.testing.assert_allclose(q[:, 1:], np.tile([1.05, 2.05], (5, 1)), atol=0.05)
    assert (plan.best == 2).all()
    assert (bonus[:, 1:] < 0.1).all()
    assert (q[:, 0] < -40.0).all()
    assert core["reward_noise"] < 0.01


@pytest.mark.plain
def test_rare_bad_luck_stays_in_the_samples():
    """Cells that were unlucky once in a while have no larger risk than their neighbors."""
    grid, samples, core = grid_of(*PLANE), random_samples(300, 1), core_of(1)
    samples.numbers[::50, 1] = -1000.0
    core["spread"], plan, apart = 0.1, plan_of(1), np.zeros((2, 1), np.int64)
    make_plan(core, samples, 300, grid, np.full((2, 2, 2), -1.0), apart, plan, True)
    assert core["reward_noise"] > 1e4


@pytest.mark.plain
@pytest.mark.skipif(not IS_JIT_DISABLED, reason="compiled kernels do not see the replaced function")
@pytest.mark.parametrize("seed", range(8))
def test_what_is_kept_from_step_to_step_changes_no_plan(seed, monkeypatch):
    """Plans equal those in which every fit counts its samples anew, to the last bit."""
    rng = np.random.default_rng(seed)
    horizon, choose = int(rng.integers(2, 5)), step_models.choose_members
    samples = random_samples(60, horizon, seed=seed, is_exogenous=seed % 4 == 0)
    samples.numbers[:, 0] = rng.integers(1, 4, 60)
    samples.numbers[:, 1] += rng.random() * samples.steps
    forms, first = rng.integers(0, 2, (2, horizon)), rng.choice([-4.0, -1.0, 2.0], (2, 2, 2))

    def plan_it(is_learning):
        core, plan, widths, apart = core_of(horizon), plan_of(horizon), first.copy(), forms.copy()
        core["n_plans"] = seed + 6  # some of these tune bandwidths, or compare forms
        grid = grid_of(*PLANE)
        make_plan(core, samples, 60, grid, widths, apart, plan, is_learning)
        return b"".join(array.tobytes() for array in (*plan, core, widths, apart))

    kept = [plan_it(True), plan_it(False)]
    monkeypatch.setattr(step_models, "choose_members", lambda *given: choose(*given) or True)
    assert [plan_it(True), plan_it(False)] == kept


@pytest.mark.plain
def test_a_step_apart_that_was_never_reached_is_worth_nothing():
    grid, samples = grid_of(*PLANE), random_samples(60, 1)
    plan, widths = plan_of(2), np.full((2, 2, 2), -1.0)
    apart = np.array([[0, 1], [0, 0]])
    make_plan(core_of(2), samples, 60, grid, widths, apart, plan, False)
    assert not plan.q[1].any()
    assert plan.q[0].any()


@pytest.mark.plain
def test_the_bonus_is_larger_where_there_are_fewer_samples_and_values_are_capped():
    grid, horizon = grid_of(*PLANE), 2
    places = [[0, 0, 0]] * 30 + [[26, 26, 26]]
    numbers = [[1.0, 0.5 + 0.1 * (i % 2), 0.0] for i in range(31)]
    samples, core = samples_at(places, [i % 2 for i in range(31)], numbers), core_of(horizon)
    core["n_episodes"] = 20
    plan, apart = plan_of(2), np.zeros((2, 2), np.int64)
    widths = np.full((2, 2, 2), -2.0)
    make_plan(core, samples, 31, grid, widths, apart, plan, True)
    assert plan.bonus[0, 14] > 2 * plan.bonus[0, 0] > 0
    assert plan.values[0].max() <= 2 * 0.6
    assert plan.values[1].max() <= 0.6
    assert core["n_planned"][0] == 31
    assert core["due"][0] == 22


@pytest.mark.plain
@pytest.mark.parametrize(("n_plans", "least", "most"), [(0, 0.5, 2.0), (11, 0.0, 0.1)])
def test_rewards_that_grow_from_step_to_step_are_carried_after_some_plans(n_plans, least, most):
    grid, horizon = grid_of(*PLANE), 5
    samples, core = random_samples(600, horizon), core_of(horizon)
    action = samples.places[:, 1] // 9  # bins of the action
    samples.numbers[:, 1] *= 0.2
    samples.numbers[:, 1] += 0.5 * samples.steps * action
    core["n_plans"], plan = n_plans, plan_of(horizon)
    apart, widths = np.zeros((2, horizon), np.int64), np.full((2, 2, 2), -1.0)
    make_plan(core, samples, 600, grid, widths, apart, plan, False)
    # At the last step, the value is the reward.
    assert least <= abs(plan.q[4] - (0.1 + 2.0 * (np.arange(15) % 3))).mean() <= most


@pytest.mark.plain
def test_a_step_with_rewards_of_its_own_is_set_apart_and_leaves_the_others_alike():
    grid, horizon = grid_of(*PLANE), 3
    samples, core = random_samples(300, horizon), core_of(horizon)
    samples.numbers[samples.steps == 2, 1] += samples.places[samples.steps == 2, 1] / 13.0
    apart, widths = np.zeros((2, horizon), np.int64), np.full((2, 2, 2), -1.0)
    make_plan(core, samples, 300, grid, widths, apart, plan_of(horizon), True)
    assert apart[0, :2].tolist() == [ALIKE, ALIKE]
    assert apart[0, 2] != ALIKE
    assert apart[1].tolist() == [ALIKE] * 3


def exogenous_axes(samples, n_state, grid, horizon):
    """What `find_exogenous` finds: whether any, the parts of the state's number, the shares."""
    rows = sort_by_step(samples, len(samples.steps), grid, n_state, horizon)
    n_states = int(np.prod(grid.bins[:n_state]))
    places, chances = np.zeros(n_states, np.int64), np.zeros((horizon, n_states))
    has_any = exogenous.find_exogenous(rows, grid, places, chances)
    return has_any, places, chances, rows.nexts


@pytest.mark.plain
def test_an_axis_that_depends_on_nothing_is_exogenous_and_one_that_is_moved_is_not():
    rng, n = np.random.default_rng(0), 400
    grid = grid_of(PLANE[1], PLANE[1], PLANE[1])  # two states, one action
    places = rng.integers(0, 27, (n, 5))
    places[:, 3] = (places[:, 0] + places[:, 2] + rng.integers(0, 5, n)) // 3  # moved
    samples = samples_at(places, rng.integers(0, 2, n))
    has_any, parts, chances, nexts = exogenous_axes(samples, 2, grid, 2)
    assert has_any
    assert parts.tolist() == [0, 1, 2] * 3  # of the second axis alone
    np.testing.assert_allclose(chances[0, :3], np.bincount(nexts % 3) / n)
    np.testing.assert_array_equal(chances[0], chances[1])  # no law depends on the step
    values, after = rng.random(9), np.ones(10)
    exogenous.average_out(values, True, chances[0], parts, after)
    expected = values.reshape(3, 3) @ chances[0, :3]
    np.testing.assert_allclose(after, [*np.repeat(expected, 3), 0.0])
    after[-1] = 1.0
    exogenous.average_out(values, False, chances[0], parts, after)
    np.testing.assert_array_equal(after, [*values, 0.0])


@pytest.mark.plain
def test_an_exogenous_law_that_changes_with_the_step_is_counted_for_each_step():
    rng, n = np.random.default_rng(1), 300
    steps = rng.integers(0, 2, n)
    places = rng.integers(0, 27, (n, 3))
    places[:, 2] = np.where(steps == 0, rng.integers(0, 12, n), rng.integers(15, 27, n))
    samples = samples_at(places, steps)
    has_any, _, chances, _ = exogenous_axes(samples, 1, grid_of(*PLANE), 2)
    assert has_any
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert chances[0, 4] < 0.02
    assert chances[1, :3].sum() < 0.02


@pytest.mark.plain
@pytest.mark.parametrize("kind", [SMOOTH, CATEGORIES])
def test_an_axis_whose_spread_alone_depends_on_the_action_is_not_exogenous(kind):
    rng, n = np.random.default_rng(2), 600
    grid = grid_of((kind, [0, 1, 2, 3]), (CATEGORIES, [0, 1, 2]))
    places = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n), np.ones(n, int)])
    spread = places[:, 1] == 1
    places[spread, 2] = rng.choice([0, 2], spread.sum())  # the mean is that of the other action
    assert not exogenous_axes(samples_at(places), 1, grid, 1)[0]
    places[:, 2] = rng.integers(0, 3, n)
    assert exogenous_axes(samples_at(places), 1, grid, 1)[0]


@pytest.mark.plain
def test_an_axis_that_moves_another_one_is_not_exogenous_but_two_correlated_ones_may_be():
    rng, n = np.random.default_rng(3), 600
    grid = grid_of(PLANE[1], PLANE[1], PLANE[1])  # stock and demand, one action
    places = rng.integers(0, 27, (n, 5))
    places[:, 3] = np.clip(places[:, 0] - places[:, 4] // 2, 0, 26)  # the stock falls by the demand
    assert not exogenous_axes(samples_at(places), 2, grid, 1)[0]
    places[:, 3] = np.clip(places[:, 4] + rng.integers(-3, 4, n), 0, 26)
    has_any, parts, _, _ = exogenous_axes(samples_at(places), 2, grid, 1)
    assert has_any
    assert parts.tolist() == list(range(9))  # both axes


@pytest.mark.plain
def test_a_step_without_next_states_has_the_law_of_all_steps():
    rng, n = np.random.default_rng(5), 400
    steps = np.arange(n) % 3
    places = rng.integers(0, 27, (n, 3))
    places[:, 2] = np.where(steps == 0, rng.integers(0, 12, n), rng.integers(15, 27, n))
    places[steps == 2, 2] = ENDED
    _, _, chances, nexts = exogenous_axes(samples_at(places, steps), 1, grid_of(*PLANE), 3)
    seen = nexts[nexts != ENDED]
    np.testing.assert_allclose(chances[2], np.bincount(seen, minlength=5) / len(seen))
    assert chances[1, :3].sum() < 0.05


@pytest.mark.plain
def test_with_few_samples_no_axis_counts_as_exogenous():
    samples = random_samples(30, 2, is_exogenous=True)
    has_any, parts, chances, _ = exogenous_axes(samples, 1, grid_of(*PLANE), 2)
    assert not has_any
    assert not parts.any()
    assert not chances.any()


# --- exploring ------------------------------------------------------------------------------------


@pytest.mark.plain
def test_the_covering_radius_is_that_of_balls_which_fill_the_space():
    line, plane = grid_of(PLANE[0], (SMOOTH, [0, 27])), grid_of(*PLANE)
    assert grids.covering_radius(line, 10.0) == pytest.approx(0.05)
    assert grids.covering_radius(plane, 50.0) == pytest.approx(0.1)  # 50 (2 r)^2 / 2 = 1


@pytest.mark.plain
def test_the_way_leads_to_the_farthest_cell_that_samples_lead_to():
    # From state bin 0, the first action leads to bin 4, where nothing was ever tried.
    grid, core, plan = grid_of(*PLANE), core_of(2), plan_of(2)
    samples = samples_at([[0, 0, 26], [0, 13, 0], [0, 26, 0]] * 9)  # all rewards are equal
    distances, apart = np.zeros(15), np.zeros((2, 2), np.int64)
    grids.measure_distances(np.arange(3), grid, distances)
    make_plan(core, samples, 27, grid, np.full((2, 2, 2), -9.0), apart, plan, True)
    np.testing.assert_array_equal(plan.way[1], distances)
    assert plan.way[0, 0] == pytest.approx(distances.reshape(5, 3)[4].max(), rel=0.3)
    assert plan.way[0, 1:3].max() < 0.5 * plan.way[0, 0]
    assert (plan.way[0] >= distances).all()


# --- the agent ------------------------------------------------------------------------------------


def oil(**options):
    return gym.make("zooming/Oil-v0", **{"sharpness": 10.0, "center": 0.7071, **options})


@pytest.mark.parametrize("options", [
    pytest.param({}, marks=pytest.mark.plain),
    pytest.param({"horizon": 1}, marks=pytest.mark.plain),
    {"dims": 2, "noise": 0.1, "horizon": 3},
])  # fmt: skip
def test_both_drivers_give_the_same_run(options):
    fused, python = (zooming.Planner(oil(**options), seed=3) for _ in range(2))
    n = 4 if IS_JIT_DISABLED else 60
    assert same_history(fused.learn(n), python.learn(n, driver="python"))
    assert knowledge(fused) == knowledge(python)
    state = fused.env.observation_space.low
    assert fused.value(0, state) == python.value(0, state)


@compiled_only
def test_a_shorter_or_longer_horizon_than_the_environments_gives_the_same_run():
    for horizon in (2, 5, 7):
        too_long = pytest.warns(UserWarning, match="too optimistic")
        with too_long if horizon == 7 else contextlib.nullcontext():
            fused, python = (zooming.Planner(oil(), horizon=horizon, seed=3) for _ in range(2))
        assert same_history(fused.learn(20), python.learn(20, driver="python"))
        assert knowledge(fused) == knowledge(python)


@compiled_only
def test_the_visits_of_a_plan_are_the_same_after_loading(tmp_path):
    agent = zooming.Planner(gym.make("zooming/Ambulance-v0", arrivals="shifting"), seed=0)
    for episodes in (15, 5, 20, 60):  # some plans change which steps are apart
        agent.learn(episodes)
        agent.save(tmp_path / "planner.zoom")
        loaded = zooming.load(tmp_path / "planner.zoom")
        np.testing.assert_array_equal(loaded.table.plan.visits, agent.table.plan.visits)
    assert agent.table.apart.any()


def gamble(state, action, step, params, rng, next_state):
    next_state[0] = rng.random()
    return state[0] + step * action[0] - (1000.0 if action[0] > 0.8 else 0.0)


@compiled_only
def test_after_a_second_fit_a_planner_is_loaded_and_goes_on_as_it_was(tmp_path):
    unit = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    env = zooming.compiled_env(gamble, unit, unit, 4, start="uniform")
    agent = zooming.Planner(env, seed=0)
    for episodes in (20, 30, 60):
        agent.learn(episodes)
        agent.save(tmp_path / "planner.zoom")
        loaded = zooming.load(tmp_path / "planner.zoom", env)
        np.testing.assert_array_equal(loaded.table.plan.visits, agent.table.plan.visits)
    assert agent.table.apart.any()
    assert agent.table.plan.q.min() < -500.0
    assert (loaded.learn(60).returns == agent.learn(60).returns).all()


@compiled_only
def test_the_policy_has_the_step_forms_of_a_plan_that_was_played(tmp_path):
    agent = zooming.Planner(gym.make("zooming/Ambulance-v0", arrivals="shifting"), seed=0)
    agent.learn(10)
    while (agent.table.apart == agent.table.played_apart).all():
        agent.learn(1)
    agent.save(tmp_path / "planner.zoom")
    loaded = zooming.load(tmp_path / "planner.zoom")
    observations, steps = np.linspace(0, 1, 30).reshape(-1, 1), np.arange(30) % 5
    before = agent.predict(observations, steps)[0]
    np.testing.assert_array_equal(loaded.predict(observations, steps)[0], before)
    agent.table.apart[:] = ALIKE  # the forms chosen for the next plan
    agent.update(0, [0.5], [0.5], 0.5, [0.5])
    loaded.update(0, [0.5], [0.5], 0.5, [0.5])
    np.testing.assert_array_equal(
        agent.predict(observations, steps)[0], loaded.predict(observations, steps)[0]
    )


@compiled_only
def test_a_file_of_another_version_of_planner_is_refused_by_name():
    agent = zooming.Planner(oil(), seed=0)
    values, arrays = agent.saved_state()
    arrays["core"] = np.zeros(1, [*plan_layout.CORE.descr, ("usual", "f8")])
    with pytest.raises(ValueError, match=r"another version of Planner; learn again"):
        zooming.Planner(oil(), seed=0).restore_state(values, arrays)


@compiled_only
def test_a_terminal_transition_has_no_future():
    ended, went_on = (zooming.Planner(oil(horizon=2), seed=0) for _ in range(2))
    for agent, is_ended in ((ended, True), (went_on, False)):
        for _ in range(5):
            agent.act(0, [0.2])
            agent.update(0, [0.2], [0.5], 0.5, [0.5], is_ended)
            agent.update(1, [0.5], [0.5], 1.0, [0.5])
        agent.act(0, [0.2])
    assert went_on.q_value(0, [0.2], [0.5]) > ended.q_value(0, [0.2], [0.5]) + 0.3
    assert ended.visits(0, [0.2], [0.5]) == 5
    assert ended.visits(1, [0.2], [0.5]) == 0


@compiled_only
def test_rewards_of_any_size_are_learned_alike():
    def shop(state, action, step, params, rng, next_state):
        next_state[0] = action[0]
        return params[0] + params[1] * (1.0 - abs(action[0] - 0.3))

    unit = gym.spaces.Box(0.0, 1.0, (1,), np.float64)

    def learned(offset, scale):
        env = zooming.compiled_env(shop, unit, unit, horizon=2, start=[0.5], params=[offset, scale])
        agent = zooming.Planner(env, seed=1)
        agent.learn(60)
        return agent.predict([0.5])[0], agent

    for offset, scale in ((0.0, 1.0), (-1024.0, 1.0), (0.0, 2.0**20)):
        action, agent = learned(offset, scale)
        assert abs(action[0] - 0.3) < 0.05
        assert agent.value(0, [0.5]) == pytest.approx(2 * offset + 2 * scale, abs=0.1 * scale)


@compiled_only
def test_a_given_range_refuses_or_clips_and_none_refuses_what_is_not_finite():
    drift = {"horizon": 3, "seed": 0}
    with pytest.raises(zooming.TransitionError, match="outside the reward range"):
        zooming.Planner(Drift(), reward_range=(0.0, 0.1), **drift).learn(20)
    clipping = zooming.Planner(Drift(), reward_range=(0.0, 0.1), rewards="clip", **drift)
    with pytest.warns(UserWarning, match="clipped"):
        clipping.learn(20)
    assert clipping.n_clipped > 0
    assert clipping.table.core["most"][0] <= 0.1
    free = zooming.Planner(Drift(), **drift)
    state = np.zeros(2)
    free.update(0, state, state, -1e6, state)
    for bad in (np.inf, -np.inf, np.nan):
        with pytest.raises(zooming.TransitionError, match="check the environment"):
            free.update(0, state, state, bad, state)
    assert free.n_episodes == 1


@compiled_only
def test_categories_order_and_weights_shape_the_grid():
    spaces = gym.spaces.Dict({"kind": gym.spaces.Discrete(4), "x": box((0.0, 1.0))})
    env = Boxes(spaces, gym.spaces.MultiDiscrete([5, 3]))
    agent = zooming.Planner(env, horizon=2, ordered=["action"], weights={"action[1]": 0}, seed=0)
    assert agent.partition(0).low.shape == (4, 4)  # one cell for each category
    rng = np.random.default_rng(0)
    for _ in range(30):
        state = {"kind": rng.integers(4), "x": rng.random(1)}
        for step in (0, 1):
            action = agent.act(step, state)
            reward = float(action[0] == state["kind"])
            agent.update(step, state, action, reward, state)
    bins = dict(zip(agent.axes.names, agent.table.grid.bins.tolist(), strict=True))
    assert bins['state["kind"]'] == 4
    assert bins["action[0]"] == 5
    assert bins["action[1]"] == 1
    view = agent.partition(1)
    assert view.n_visits.sum() == 30
    assert len(view) == np.prod(agent.table.policy().grid.bins)
    with pytest.raises(zooming.SpaceError, match="ordered="):
        zooming.Planner(Boxes(gym.spaces.Discrete(500), gym.spaces.Discrete(500)), horizon=2)


@compiled_only
def test_full_memory_joins_samples_and_forgets_none():
    agent = zooming.Planner(oil(noise=0.1), max_samples=1000, seed=0)
    agent.learn(600)
    assert agent.table.n_samples <= 1100
    assert agent.status()["samples"] == 3000
    numbers = agent.table.samples.numbers[: agent.table.n_samples]
    fused, python = (zooming.Planner(oil(), max_samples=1000, seed=0) for _ in range(2))
    history = fused.learn(300)
    assert same_history(history, python.learn(300, driver="python"))
    assert knowledge(fused) == knowledge(python)
    total = (numbers[:, 0] * numbers[:, 1]).sum()
    assert total == pytest.approx(zooming.Planner(oil(noise=0.1), max_samples=1000, seed=0)
                                  .learn(600).returns.sum())  # fmt: skip
    with pytest.raises(zooming.ConfigurationError, match="max_samples"):
        zooming.Planner(oil(), max_samples=10)


@compiled_only
def test_the_policy_is_that_of_a_plan_that_was_played_and_learning_does_not_see_it():
    asked, silent = (zooming.Planner(oil(), seed=2) for _ in range(2))
    asked.learn(20, callback=lambda agent, history: agent.predict([0.5]) is not None)
    silent.learn(20)
    assert knowledge(asked) == knowledge(silent)
    before = asked.value(4, [0.5])
    asked.update(4, [0.5], [0.7], 1.0, [0.5])
    assert asked.value(4, [0.5]) == before
    assert asked.visits(4, [0.5], [0.7]) == silent.visits(4, [0.5], [0.7]) + 1
    assert asked.table.kept.grid is not asked.table.grid


@compiled_only
def test_without_episodes_of_its_own_a_planner_recommends_from_all_samples():
    agent = zooming.Planner(oil(), seed=2)
    played = zooming.Planner(oil(), seed=3)
    played.learn(20)
    agent.learn_transitions(kept_transitions(played))
    before = agent.value(4, [0.5])
    agent.update(4, [0.5], [0.7], 1.0, [0.5])
    assert agent.table.kept is None
    assert agent.value(4, [0.5]) != before


@compiled_only
def test_the_status_says_what_matters():
    env = gym.make("zooming/Ambulance-v0", arrivals="uniform", travel_weight=0.0)
    agent = zooming.Planner(env, seed=0)
    assert agent.status()["samples"] == 0
    agent.learn(150)
    status = agent.status()
    assert status["samples"] == 750
    assert status["episodes"] == 150 < status["next plan"]
    assert status["steps"] == "alike"
    assert list(status["axes"]) == ["state[0]", "action[0]"]
    assert status["axes"]["state[0]"][0] == np.inf  # where it was does not matter, free of charge
    assert 0.1 < status["reward noise"] < 0.4
    assert "state[0]: reward follows the trend" in str(status)
    assert "750 samples" in repr(agent)
    agent.table.apart[0, 3] = 1
    assert agent.status()["steps"] == "rewards modeled apart at 1 of 5"


@pytest.mark.plain
def test_masks_are_respected_where_the_best_action_is_not_feasible():
    agent = zooming.Planner(oil(horizon=2), seed=0)
    agent.learn(15 if IS_JIT_DISABLED else 200)
    free, _ = agent.predict([0.5])
    info = {"action_low": [0.1], "action_high": [0.35]}
    action, _ = agent.predict([0.5], info=info)
    assert free[0] > 0.6
    assert 0.1 <= action[0] <= 0.35
    assert agent.value(0, [0.5], info=info) < agent.value(0, [0.5])
    for _ in range(20):
        assert 0.1 <= agent.act(0, [0.5], info=info)[0] <= 0.35
        drawn, _ = agent.predict([0.5], deterministic=False, info=info)
        assert 0.1 <= drawn[0] <= 0.35


@compiled_only
@pytest.mark.slow
def test_it_learns_a_noisy_problem_in_few_episodes():
    env = gym.make("zooming/Ambulance-v0", arrivals="beta", travel_weight=0.25)
    best = zooming.solve(env, 80).return_
    random = np.mean(zooming.Random(env, seed=0).learn(1000).returns)
    for seed in range(2):
        agent = zooming.Planner(env, seed=seed)
        agent.learn(300)
        found = zooming.evaluate(agent, env, 1000).mean
        assert found > random + 0.9 * (best - random)


@compiled_only
def test_with_a_tree_it_finds_a_large_reward_far_against_the_current():
    env = gym.make("zooming/RiverSwim-v0")
    agents = [zooming.Auto(env, seed=seed) for seed in range(8)]
    for agent in agents:
        agent.learn(300)
    # Best 11.18; near bank 1.
    assert sum(zooming.evaluate(agent, env, 200, seed=1).mean > 8 for agent in agents) >= 7


@compiled_only
def test_it_plays_both_ends_of_an_action_axis():
    agent = zooming.Planner(oil(), seed=0)
    agent.learn(50)
    actions = agent.table.samples.places[: agent.table.n_samples, 1]
    assert actions.min() == 0
    assert actions.max() == plan_layout.UNITS - 1


def agree_plainly(samples, grid, span):
    """Whether repeated transitions agree, from a dictionary of the last one in each cell."""
    last, found, n_axes = {}, [], len(grid.bins)
    for step, places, (_, reward, _) in zip(*samples, strict=True):
        cell = (step, *(grid.bin_of[j, x] for j, x in enumerate(places[:n_axes])))
        before, other = last.get(cell, (None, None))
        if before is not None and (before[:n_axes] == places[:n_axes]).all():
            off = np.abs(before[n_axes:].astype(int) - places[n_axes:])
            is_near = (off <= (grid.units[: len(off)] == plan_layout.UNITS)).all()
            found.append(is_near and abs(reward - other) <= plan_layout.CLOSE * span)
        last[cell] = places, reward
    n = len(found)
    return n >= plan_layout.LEAST_REPEATS and sum(found) >= plan_layout.AGREE * n


@pytest.mark.plain
@pytest.mark.parametrize(
    ("jitter", "noise", "wanted"),
    [(0, 0.0, True), (1, 0.0, True), (2, 0.0, False), (0, 0.2, False)],
)
def test_repeated_transitions_agree_as_those_of_a_dictionary(jitter, noise, wanted):
    rng = np.random.default_rng(0)
    grid = grid_of((SMOOTH, [0, 2000, 6561]), PLANE[1])
    places = np.column_stack([rng.integers(0, 2, 60), np.zeros(60, int), np.zeros(60, int)])
    places[:, 2] = 100 * places[:, 0] + jitter * rng.integers(0, 2, 60)
    rewards = places[:, 0] + noise * rng.random(60)
    numbers = np.column_stack([np.ones(60), rewards, np.zeros(60)])
    samples = samples_at(places, rng.integers(0, 2, 60), numbers)
    found = planning.repeats_agree(samples, 60, grid, 6, 1, 2, 1.0)
    assert found == agree_plainly(samples, grid, 1.0) == wanted
    assert not planning.repeats_agree(samples, 5, grid, 6, 1, 2, 1.0)  # too few


@pytest.mark.plain
def test_a_policy_is_valued_by_the_sum_of_q_at_its_actions():
    rng, horizon, values = np.random.default_rng(0), 2, range(12)
    parts, cells = [], []
    for states, actions in (([0, 2, 5, 12], [0, 3, 12]), ([0, 7, 12], [0, 1, 5, 12])):
        grid = grid_of((ORDERED, states), (ORDERED, actions))
        q, bonus = rng.normal(size=(2, horizon, 6))
        n_states = len(states) - 1
        best = (q + bonus).reshape(horizon, n_states, -1).argmax(axis=2)
        zeros = np.zeros((horizon, 6))
        plan = plan_layout.Plan(
            q, bonus, zeros, zeros, np.zeros(6), best.astype(np.int32), np.zeros((3, n_states))
        )
        parts.append((grid, plan))
    numbers = np.column_stack([rng.integers(1, 4, 40), rng.normal(size=(40, 2))])
    places = rng.integers(0, 12, (40, 3))
    samples = samples_at(places, rng.integers(0, horizon, 40), numbers)
    core, axes = core_of(horizon), np.zeros((2, 5))
    cells = [plan_layout.Cells(core, samples, *part, axes) for part in parts]
    handles = [plan_layout.pack_cells(one) for one in cells]
    expected = 0.0
    (own, plan), (other, policy) = parts
    for i in values:
        i, step, state = i + 5, samples.steps[i + 5], places[i + 5, 0]
        best = policy.best[step, other.bin_of[0, state]]
        action = int(other.centers[1, best] * 12)
        cell = own.bin_of[0, state] * own.bins[1] + own.bin_of[1, action]
        expected += numbers[i, 0] * plan.q[step, cell]
    assert plan_episodes.add_values(*handles, 5, 17) == pytest.approx(expected)


def play_returns(core, returns):
    """Let a planner play episodes of one step with these returns, one after another."""
    for one in returns:
        plan_episodes.begin_episode(core)
        core["n_episodes"] += 1  # as `record` does at step 0
        core["total"] += one


@pytest.mark.plain
def test_an_action_without_an_update_is_no_episode():
    core = core_of(1)
    core["due"], core["own"] = 10**9, -1
    play_returns(core, [3.0, 5.0])
    for _ in range(50):
        plan_episodes.begin_episode(core)
    assert core["plays"][0] == 2.0
    assert core["earned"][0] == 4.0


@pytest.mark.plain
def test_episodes_of_other_agents_do_not_count_as_earned_by_the_plan():
    grid, core = grid_of(*PLANE), core_of(2)
    core["own"] = -1
    samples = samples_at(np.zeros((6, 3), int), np.zeros(6, int), np.zeros((6, 3)))
    x = np.zeros(1)
    plan_episodes.begin_episode(core)
    for step, reward in ((0, 1.0), (1, 2.0), (0, 50.0), (1, 50.0)):  # the second is another's
        plan_episodes.record(core, samples, grid.units, step, x, x, reward, x, False)
    plan_episodes.begin_episode(core)
    assert core["plays"][0] == 1.0
    assert core["earned"][0] == 3.0


@compiled_only
def test_samples_never_exceed_their_number_by_more_than_a_tenth_and_an_episode():
    own, other = (zooming.Planner(oil(), max_samples=1000, seed=0) for _ in range(2))
    point, most = np.array([0.5]), 0
    for _ in range(30):
        own.learn(40)
        most = max(most, own.table.n_samples)
    assert 1000 < most <= 1100 + own.horizon
    for _ in range(3000):
        other.update(0, point, point, 0.5, point, True)
        assert other.table.n_samples <= 1101
    assert other.n_episodes == 3000


@compiled_only
def test_termination_is_kept_before_the_last_step_and_ignored_at_it():
    twins = [zooming.Planner(Drift(), horizon=2, seed=0) for _ in range(2)]
    for agent, terminated in zip(twins, (True, False), strict=True):
        for k in range(30):
            state, action = np.full(2, k / 30), np.full(2, (k % 7) / 7)
            agent.update(0, state, action, 0.5, state, k % 3 == 0)
            if k % 3:
                agent.update(1, state, action, 1.0, state, terminated)
        ended = agent.table.samples.places[: agent.table.n_samples, 4] == ENDED
        steps = agent.table.samples.steps[: agent.table.n_samples]
        assert ended[steps == 0].sum() == 10
        assert not ended[steps == 1].any()
        assert not agent.to_log().filter(step=1)["terminated"].any()
    assert knowledge(twins[0]) == knowledge(twins[1])
