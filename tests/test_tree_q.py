"""TreeQ: its rule against a plain reference, one partition for all steps, and files."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, box, knowledge, recorded, same_history
from zooming import kernels
from zooming.agents.training.replay import Transitions
from zooming.kernels.boxes import trees
from zooming.lab.study.problems import agent_named

pytestmark = pytest.mark.kernels

HORIZON = 4


class Leaf:
    """A ball of the reference: a box of the unit cube and what it learned."""

    def __init__(self, low, high, reward, future, noise, weight, visits):
        self.low, self.high, self.reward, self.future = low, high, reward, future
        self.noise, self.weight, self.visits = noise, weight, visits


class Reference:
    """The rule of `docs/trees.md` in plain Python: lists of leaves, every index computed anew."""

    def __init__(self, shared, slope, weights, n_state, low, high):
        self.slope, self.lengths, self.n_state = slope, np.array(weights), n_state
        self.low_reward, self.high_reward, self.span = low, high, high - low
        n = len(weights)
        worth = high, max(high, 0.0), 0.0, 0.0, 0
        first = [[Leaf(np.zeros(n), np.ones(n), *worth)] for _ in range(HORIZON)]
        self.leaves = [first[0 if shared else step] for step in range(HORIZON)]

    def width(self, leaf):
        return float(((leaf.high - leaf.low) * self.lengths).max())

    def index(self, step, leaf):
        w = self.width(leaf)
        bonus = self.slope * w**3 / (w**2 + 8 * leaf.noise)
        return leaf.reward + (HORIZON - 1 - step) * leaf.future + self.span * bonus

    def relevant(self, step, state):
        n = self.n_state
        return [leaf for leaf in self.leaves[step] if self.contains(leaf, state, slice(0, n))]

    @staticmethod
    def contains(leaf, point, axes):
        low, high = leaf.low[axes], leaf.high[axes]
        return bool(((point >= low) & ((point < high) | (high == 1.0))).all())

    def value(self, step, state):
        cap = self.high_reward * (HORIZON - step) if self.high_reward > 0 else self.high_reward
        return min(cap, max(self.index(step, leaf) for leaf in self.relevant(step, state)))

    def update(self, step, state, action, reward, after, terminated):
        left, point = HORIZON - 1 - step, np.concatenate([state, action])
        value = 0.0 if terminated or left == 0 else self.value(step + 1, after)
        (leaf,) = (one for one in self.leaves[step] if self.contains(one, point, slice(None)))
        leaf.visits += 1
        leaf.weight += 1
        rate = (HORIZON + 1) / (HORIZON + leaf.weight)
        error = reward - leaf.reward
        if left:
            error += left * (value / left - leaf.future)
            leaf.future += rate * (value / left - leaf.future)
        leaf.reward += rate * (reward - leaf.reward)
        if leaf.weight > 1:
            leaf.noise = (1 - rate) * (leaf.noise + rate * (error / self.span) ** 2)
        w = self.width(leaf)
        if leaf.weight >= 1 / w - 1e-9 and leaf.weight * w * w >= 16 * leaf.noise:
            self.split(step, leaf)

    def split(self, step, leaf):
        sides = (leaf.high - leaf.low) * self.lengths
        parts = [(leaf.low, leaf.high)]
        for axis in np.flatnonzero(sides > sides.max() / 2 * (1 + 1e-9)):
            middle, halves = (leaf.low[axis] + leaf.high[axis]) / 2, []
            for low, high in parts:
                new_high, new_low = high.copy(), low.copy()
                new_high[axis] = new_low[axis] = middle
                halves += [(low, new_high), (new_low, high)]
            parts = halves
        weight = max(1.0, leaf.weight / 2)
        self.leaves[step].remove(leaf)  # steps that share leaves have one list
        self.leaves[step].extend(
            Leaf(low, high, leaf.reward, leaf.future, leaf.noise, weight, leaf.visits)
            for low, high in parts
        )


UNIT = Boxes(box((0.0, 1.0), (0.0, 1.0)), box((0.0, 1.0)))


def smooth_record(n_episodes, low=0.0, high=1.0, seed=0):
    """Return random transitions whose reward depends on state and action, with a little noise."""
    given, rng = recorded(UNIT, n_episodes, seed), np.random.default_rng(seed)
    share = 1.0 - abs(given.actions[:, 0] - given.states[:, 0])
    share = np.clip(share - 0.1 * rng.random(len(share)), 0.0, 1.0)
    return given._replace(rewards=low + (high - low) * share)


@pytest.mark.plain
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("weights", "reward_range"), [((1.0, 1.0, 1.0), (0.0, 1.0)), ((1.0, 0.4, 0.7), (-3.0, -1.0))]
)
def test_it_learns_and_splits_as_the_plain_reference(shared, weights, reward_range):
    agent = zooming.TreeQ(
        UNIT, shared=shared, slope=0.6, weights=weights, reward_range=reward_range,
        horizon=HORIZON, seed=0,
    )  # fmt: skip
    plain = Reference(shared, 0.6, weights, 2, *reward_range)
    given = smooth_record(40 if kernels.IS_JIT_DISABLED else 80, *reward_range)
    for step, state, action, reward, after, terminated in zip(*given, strict=True):
        agent.update(int(step), state, action, float(reward), after, bool(terminated))
        plain.update(int(step), state, action, float(reward), after, bool(terminated))
    for step in range(HORIZON):
        found = agent.partition(step)
        order = np.lexsort(found.low.T)
        leaves = sorted(plain.leaves[step], key=lambda leaf: tuple(leaf.low[::-1]))
        assert np.array_equal(found.low[order], [leaf.low for leaf in leaves])
        assert np.array_equal(found.high[order], [leaf.high for leaf in leaves])
        assert found.n_visits[order].tolist() == [leaf.visits for leaf in leaves]
        expected = [plain.index(step, leaf) for leaf in leaves]
        assert found.q_value[order] == pytest.approx(expected, rel=1e-10)
        for state in given.states[:20]:
            assert agent.value(step, state) == pytest.approx(plain.value(step, state), rel=1e-10)
    assert agent.n_balls > 30
    assert agent.table.fault() is None


@pytest.mark.parametrize("shared", [True, False])
def test_selection_finds_the_largest_index_at_every_step(shared):
    agent = zooming.TreeQ(UNIT, shared=shared, horizon=HORIZON, seed=0)
    agent.learn_transitions(smooth_record(500))
    rng = np.random.default_rng(1)
    for step in range(HORIZON):
        balls = agent.partition(step)
        for state in rng.random((40, 2)):
            inside = ((balls.low[:, :2] <= state) & (state < balls.high[:, :2])).all(axis=1)
            best = balls.q_value[inside].max()
            assert agent.q_value(step, state, agent.act(step, state)) == best
            assert agent.value(step, state) == min(HORIZON - step, best)


def test_a_sample_of_one_step_teaches_the_others_if_they_share():
    shared, apart = (
        zooming.TreeQ(UNIT, shared=is_shared, horizon=HORIZON, seed=0)
        for is_shared in (True, False)
    )
    state, action = np.array([0.3, 0.3]), np.array([0.5])
    for agent in (shared, apart):
        agent.update(1, state, action, 0.2, state, True)
    assert shared.n_balls == 8  # a split of the only ball
    assert apart.n_balls == 11
    assert shared.visits(3, state, action) == 1
    assert apart.visits(3, state, action) == 0
    # After one sample, r = 0.2 and v = 0; a part of side 1/2 has the bonus 0.6 / 2.
    for step, agent in ((0, shared), (3, shared), (1, apart)):
        assert agent.q_value(step, state, action) == pytest.approx(0.2 + 0.3)
    assert apart.q_value(0, state, action) == pytest.approx(4.0 + 0.6)
    one, other = shared.partition(0), shared.partition(3)
    assert np.array_equal(one.low, other.low)
    assert np.array_equal(one.n_visits, other.n_visits)


@pytest.mark.parametrize("shared", [True, False])
def test_no_more_balls_than_asked_for_and_none_finer_than_the_stack_allows(shared):
    env = gym.make("zooming/Oil-v0", dims=2)
    agent = zooming.TreeQ(env, shared=shared, max_balls=60, seed=0)
    history = agent.learn(300)
    assert 40 < history.n_balls.max() <= 60
    assert agent.table.fault() is None
    point = Boxes(box((0.0, 1.0)), box((0.0, 1.0)))
    deep = zooming.TreeQ(point, shared=shared, horizon=1, seed=0)
    n = 1000 if kernels.IS_JIT_DISABLED else 2**19
    place = np.full((n, 1), 1 / 3)
    same = Transitions(
        np.zeros(n, np.int64), place, place, np.full(n, 0.5), place, np.ones(n, bool)
    )
    deep.learn_transitions(same)
    assert deep.partition(0).depth.max() == (10 if kernels.IS_JIT_DISABLED else 18)
    assert deep.table.fault() is None


@pytest.mark.plain
@pytest.mark.parametrize("shared", [True, False])
def test_a_file_continues_exactly_and_a_damaged_one_is_refused(tmp_path, shared):
    env = gym.make("zooming/Ambulance-v0", n_ambulances=2)
    n = 10 if kernels.IS_JIT_DISABLED else 200
    agent = zooming.TreeQ(env, shared=shared, slope=0.3, split="longest", max_balls=500, seed=2)
    agent.learn(n)
    agent.save(tmp_path / "tree.zoom")
    again = zooming.load(tmp_path / "tree.zoom")
    assert repr(again) == repr(agent)
    assert same_history(agent.learn(n), again.learn(n))
    assert knowledge(agent) == knowledge(again)

    def damage(change, sentence):
        values, arrays = agent.saved_state()
        arrays = {name: array.copy() for name, array in arrays.items()}
        change(arrays)
        fresh = zooming.TreeQ(env, shared=shared, slope=0.3, split="longest", max_balls=500, seed=2)
        with pytest.raises(ValueError, match=sentence):
            fresh.restore_state(values, arrays)

    def set_stat(row, column, value):
        return lambda arrays: arrays["stats"].__setitem__((row, column), value)

    active = int(np.flatnonzero(agent.table.rows["child"][: agent.table.rows_in_use] == 0)[-1])
    damage(set_stat(active, trees.NOISE, -1.0), "a number that a ball keeps is negative")
    damage(set_stat(active, trees.REWARD, np.nan), "a value is not finite")
    damage(set_stat(0, trees.FIRST_INDEX, 99.0), "does not hold the largest value below it")
    damage(lambda arrays: arrays.update(stats=arrays["stats"][:, :3]), "do not fit the rows")
    damage(
        lambda arrays: arrays["balls"]["threshold"].__setitem__(active, 7.0),
        "due at another number of visits",
    )
    damage(
        lambda arrays: arrays["core"].__setitem__("lipschitz", 1.0), "lipschitz is 1.0 in the table"
    )


def test_it_passes_the_harness():
    checked = zooming.check_agent(zooming.TreeQ)
    for env in ("Uneven", "Gears"):
        assert any(f"({env})" in line for line in checked.kept)
    masks = "only actions that info allows are played, by act and by predict (Gears)"
    assert masks in checked.kept


def test_studies_make_it_and_bad_options_are_refused():
    made = agent_named("tree-q:shared=False:slope=0.3").make(gym.make("zooming/Oil-v0"), seed=0)
    assert (made.shared, made.slope) == (False, 0.3)
    env = gym.make("zooming/Oil-v0")
    for options, sentence in (
        ({"shared": 1}, "shared=1: give True or False"),
        ({"slope": -0.1}, "slope=-0.1: give a finite number, at least 0"),
        ({"split": "halves"}, "split='halves'"),
        ({"max_balls": 4, "shared": False}, r"at least one ball per partition \(5\)"),
        ({"bonus": 0.1}, "bonus"),
    ):
        with pytest.raises((zooming.ConfigurationError, TypeError), match=sentence):
            zooming.TreeQ(env, **options)
