"""`max_balls` and `max_bytes`: a full table removes the ball that matters least."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from helpers import Boxes, box, recorded, same_history
from references import ReferenceBudgetQ
from zooming import kernels
from zooming.agents.files import container
from zooming.agents.training.replay import update_each
from zooming.kernels import ATOMS, WEIGHT


def oil(**options):
    return gym.make("zooming/Oil-v0", **{"sharpness": 10.0, **options})


def agreeing(agent, reference):
    """Check that the table has the balls of the reference: rows, boxes and numbers, to the bit."""
    table = agent.table
    assert table.fault() is None
    assert agent.n_balls == len(reference.balls()) <= agent.max_balls
    assert table.core["mean_reward"][0] == reference.mean_reward
    for step in range(reference.horizon):
        balls = {ball.row: ball for ball in reference.roots[reference.number(step)].active()}
        rows, low, high = table.boxes(step)
        assert rows.tolist() == sorted(balls)
        for row, *corners in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
            ball = balls[row]
            assert list(zip(*corners, strict=True)) == ball.box()
            found = table.rows[row]
            assert (found["value"], found["n_visits"]) == (ball.q_value, ball.n_visits)
            assert found["due_at"] == pytest.approx(ball.due, rel=1e-15)
            assert table.stats[row, -1 - len(agent.axes) :].tolist() == [ball.last, *ball.sides]


SPACES = {
    "1 + 1": ([(0, 1.0)], [(0, 1.0)]),
    "2 + 1": ([(0, 1.0), (0, 1.0)], [(0, 1.0)]),
    "1 + 2, weights": ([(0, 1.0)], [(0, 0.5), (0, 0.3)]),
    "integers": ([(9, 1.0)], [(6, 1.0)]),
    "category, interval": ([(-3, 1.0), (0, 1.0)], [(5, 1.0)]),
}


@pytest.mark.plain
@settings(max_examples=12 if kernels.IS_JIT_DISABLED else 40)
@given(
    space=st.sampled_from(list(SPACES)),
    split=st.sampled_from(["all", "longest"]),
    horizon=st.integers(1, 3),
    together=st.integers(1, 3),
    spare=st.integers(0, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_ball_row_and_removal_agrees_with_the_reference(
    space, split, horizon, together, spare, seed
):
    kinds = [*SPACES[space][0], *SPACES[space][1]]
    n_state = len(SPACES[space][0])
    spaces = [
        gym.spaces.Tuple([box((0, 1)) if n == 0 else Discrete(abs(n)) for n, _ in part])
        for part in SPACES[space]
    ]
    env = Boxes(*spaces)
    named = zooming.AdaptiveQ(env, horizon=1, seed=0).axes.names
    n_first = -(-horizon // together) * (3 if space.startswith("category") else 1)
    agent = zooming.AdaptiveQ(
        env, horizon=horizon, bonus=0.3, split=split, max_balls=n_first + spare, seed=0,
        steps_per_partition=together,
        ordered=[name for name, (n, _) in zip(named, kinds, strict=True) if n > 0],
        weights=[weight for _, weight in kinds],
    )  # fmt: skip
    axes = [
        (int(axis[ATOMS]), n < 0, float(axis[WEIGHT]))
        for axis, (n, _) in zip(agent.axes.table, kinds, strict=True)
    ]
    reference = ReferenceBudgetQ(
        axes, n_state, horizon, 0.3, n_first + spare, split, None, together
    )
    rng = np.random.default_rng(seed)
    places = rng.random((6, len(kinds)))
    for number in range(120):
        here, there = places[rng.integers(len(places), size=2)] + 0.02 * rng.random((2, len(kinds)))
        here, there = np.clip(here, 0, 0.999), np.clip(there, 0, 0.999)
        step, reward = int(rng.integers(horizon)), float(rng.random())
        units, given = [], []
        for point in (here, there):
            whole = [int(x * abs(n)) for x, (n, _) in zip(point, kinds, strict=True)]
            each = list(zip(point.tolist(), whole, kinds, strict=True))
            values = [np.array([x]) if n == 0 else k for x, k, (n, _) in each]
            given.append((tuple(values[:n_state]), tuple(values[n_state:])))
            units.append([x if n == 0 else (k + 0.5) / abs(n) for x, k, (n, _) in each])
        agent.update(step, given[0][0], given[0][1], reward, given[1][0])
        reference.update(step, units[0][:n_state], units[0][n_state:], reward, units[1][:n_state])
        if number % 20 == 19:
            agreeing(agent, reference)


@pytest.mark.plain
def test_a_run_agrees_with_the_reference_over_many_removals():
    options = {"max_balls": 17, "steps_per_partition": 2, "memory": 9}
    agent = zooming.AdaptiveQ(oil(), ties="first", seed=0, **options)
    reference = ReferenceBudgetQ([(0, False, 1.0)] * 2, 1, 5, 0.1, 17, together=2, memory=9)
    rng = np.random.default_rng(0)
    for _ in range(60):
        state = rng.random(1)
        for step in range(5):
            action = agent.act(step, state)
            assert action.tolist() == reference.act(step, state.tolist())
            after, reward = rng.random(1), float(np.exp(-3 * abs(action[0] - state[0])))
            agent.update(step, state, action, reward, after)
            reference.update(step, state.tolist(), action.tolist(), reward, after.tolist())
            state = after
    agreeing(agent, reference)
    assert reference.n_removed > 20


AGENTS = {
    "adaptive": zooming.AdaptiveQ,
    "uniform actions": lambda env, **options: zooming.AdaptiveQ(env, action="uniform", **options),
    "longest side": lambda env, **options: zooming.AdaptiveQ(env, split="longest", **options),
    "exact bonus": lambda env, **options: zooming.AdaptiveQ(
        env, bonus=zooming.bonuses.Exact(delta=0.1, lipschitz=1.0), **options
    ),
    "shared tree": zooming.TreeQ,
    "trees": lambda env, **options: zooming.TreeQ(env, shared=False, **options),
}


@pytest.mark.parametrize("kind", AGENTS)
def test_both_drivers_agree_and_never_exceed_the_budget(kind):
    fused, plain = (AGENTS[kind](oil(), max_balls=41, seed=3) for _ in range(2))
    history = fused.learn(400)
    assert same_history(history, plain.learn(400, driver="python"))
    assert history.n_balls.max() == fused.n_balls == 41
    assert fused.table.fault() is None
    n = fused.table.rows_in_use
    for mine, other in zip(fused.table.state().values(), plain.table.state().values(), strict=True):
        assert mine.tobytes() == other.tobytes()
    assert len(fused.table.rows) == n  # nothing is reserved beyond the budget
    assert not (fused.table.rows["child"][:n] <= np.arange(n)).all()


@pytest.mark.parametrize("kind", AGENTS)
def test_save_load_and_continue_equals_a_run_that_never_stopped(kind, tmp_path):
    agent = AGENTS[kind](oil(), max_balls=30, seed=1)
    agent.learn(300)
    agent.save(tmp_path / "agent.zoom")
    loaded = zooming.load(tmp_path / "agent.zoom")
    assert (loaded.max_balls, loaded.nbytes) == (30, agent.nbytes)
    assert same_history(loaded.learn(300), agent.learn(300))
    assert loaded.n_balls == 30


@pytest.mark.parametrize("kind", AGENTS)
def test_until_the_table_is_full_the_run_is_that_of_an_unlimited_agent(kind):
    free = AGENTS[kind](oil(), seed=2)
    n_episodes = 0
    while free.n_balls < 90:
        free.learn(1)
        n_episodes += 1
    apart = {} if "tree" in kind else {"steps_per_partition": 1}
    limited = AGENTS[kind](oil(), max_balls=free.n_balls, seed=2, **apart)
    whole = AGENTS[kind](oil(), seed=2)
    assert same_history(limited.learn(n_episodes), whole.learn(n_episodes))
    for step in range(5):
        ours, theirs = limited.partition(step), whole.partition(step)
        assert (ours.low == theirs.low).all()
        assert (ours.q_value == theirs.q_value).all()
    assert limited.learn(1000).n_balls.max() == limited.max_balls


def late_return(env, **options):
    """Return the mean of the last tenth of 2,000 episodes over four seeds."""
    agents = [zooming.AdaptiveQ(env, seed=seed, **options) for seed in range(4)]
    return np.mean([agent.learn(2000).returns[-200:].mean() for agent in agents])


def test_a_budget_adapts_where_stopping_would_not():
    """With 40 balls, 28 % of the unlimited return was left when splits only stopped."""
    free, small = (late_return(oil(), max_balls=most) for most in (None, 40))
    assert small > 0.9 * free


def test_steps_share_partitions_where_balls_are_few_and_earn_more_for_it():
    """With 60 balls for 12 steps of a queue, five balls a step learned next to nothing."""
    assert [
        zooming.AdaptiveQ(oil(), max_balls=most, seed=0).steps_per_partition
        for most in (1, 40, 60, 100, 200)
    ] == [5, 5, 3, 2, 1]
    queue = gym.make("zooming/Queue-v0")
    own, shared = (late_return(queue, max_balls=60, steps_per_partition=n) for n in (1, None))
    assert shared > own + 20
    with pytest.raises(zooming.ConfigurationError, match="steps_per_partition=2 needs a budget"):
        zooming.AdaptiveQ(oil(), steps_per_partition=2)


def test_values_of_shared_partitions_count_later_steps_but_the_first_of_each():
    agent = zooming.AdaptiveQ(oil(), max_balls=30, steps_per_partition=3, seed=0)
    agent.learn(500)
    mean = agent.table.core["mean_reward"][0]
    assert 0.5 < mean < 1
    values = [agent.q_value(step, [0.75], [0.75]) for step in range(5)]
    assert np.diff(values[:3]) == pytest.approx([-mean, -mean])
    assert values[3] - values[4] == pytest.approx(mean)
    assert agent.partition(0).q_value.max() == agent.partition(2).q_value.max() + 2 * mean
    assert agent.partition(2).q_value.max() == agent.table.rows["value"][0] + mean
    (law,) = (law for law in zooming.audit(agent).laws if law.name == "split rule")
    assert "3 steps in a row share balls" in law.found


@pytest.mark.parametrize("together", [1, 3])
def test_an_older_file_goes_on_unless_shared_partitions_may_mean_another_q(tmp_path, together):
    path = tmp_path / "agent.zoom"
    agent = zooming.AdaptiveQ(oil(), max_balls=20, steps_per_partition=together, seed=0)
    agent.learn(60)
    agent.save(path)
    header, arrays = container.read_container(path)
    del header["options"]["memory"]
    names = [name for name in arrays["core"].dtype.names if name != "memory"]
    older = np.zeros(1, [(name, arrays["core"].dtype[name]) for name in names])
    for name in names:
        older[name] = arrays["core"][name]
    container.write_container(path, header, {**arrays, "core": older})
    if together == 1:
        assert same_history(zooming.load(path).learn(100), agent.learn(100))
        return
    with pytest.raises(zooming.CheckpointError, match=r"what Q means has changed .* learn again"):
        zooming.load(path)


@pytest.mark.parametrize("max_balls", [None, 60])
def test_an_agent_with_a_memory_recovers_when_the_law_has_changed(max_balls):
    """Without one, the learning rate is near 1 / t, and the old well is believed in for long."""
    late = {}
    for memory in (None, 50):
        returns = []
        for seed in range(3):
            env = oil(center=0.4)
            agent = zooming.AdaptiveQ(env, max_balls=max_balls, memory=memory, seed=seed)
            before = agent.learn(1000).returns[-100:].mean()
            env.unwrapped.params[:] = oil(center=0.8).unwrapped.params
            returns.append(agent.learn(1500).returns[-100:].mean() / before)
        late[memory] = np.mean(returns)
    assert late[None] < 0.6 < 0.8 < late[50]


def test_memory_is_checked_and_saved_and_has_no_bound(tmp_path):
    agent = zooming.AdaptiveQ(oil(), memory=50, seed=0)
    agent.learn(200)
    agent.save(tmp_path / "agent.zoom")
    assert same_history(zooming.load(tmp_path / "agent.zoom").learn(100), agent.learn(100))
    assert agent.against_bound().startswith("with memory=50, the learning rate")
    for wrong in (0, -1, 1.5, True, 2**32):
        with pytest.raises(zooming.ConfigurationError, match=r"memory="):
            zooming.AdaptiveQ(oil(), memory=wrong)


def test_a_joined_ball_of_a_tree_has_the_index_of_its_larger_box():
    agent = zooming.TreeQ(oil(noise=0.1), max_balls=25, seed=0)
    agent.learn(500)
    table = agent.table
    before = table.rows["value"].copy(), table.stats.copy()
    agent.rescale(agent.scale)  # computes every index anew
    assert (table.rows["value"] == before[0]).all()
    assert (table.stats == before[1]).all()


def test_categories_are_never_joined_and_masks_are_kept():
    class Sized(Boxes):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 1, {"action_mask": np.array([1, 1, 0, 1, 0, 1, 1, 1], np.int8)}

        def step(self, action):
            assert action not in (2, 4)
            return 1, action / 10, False, False, {"action_mask": np.ones(8, np.int8)}

    env = Boxes(gym.spaces.Tuple([Discrete(2), box((0, 1))]), Discrete(4))
    agent = zooming.AdaptiveQ(env, horizon=2, ordered=["action"], max_balls=9, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        state = (int(rng.integers(2)), rng.random(1))
        agent.update(int(rng.integers(2)), state, int(rng.integers(4)), rng.random(), state)
        assert agent.n_balls <= 9
    low, high = agent.table.boxes(0)[1:]
    assert set(high[:, 0] - low[:, 0]) == {0.5}
    masked = zooming.AdaptiveQ(
        Sized(Discrete(3), Discrete(8)), horizon=1, ordered=True, max_balls=3, seed=0
    )
    masked.learn(60)
    assert masked.n_balls == 3


def test_learning_from_recorded_transitions_equals_single_updates():
    replayed, updated = (zooming.AdaptiveQ(oil(), max_balls=20, seed=0) for _ in range(2))
    log = recorded(oil(), 100, horizon=5)
    replayed.learn_transitions(log)
    update_each(updated, log)
    assert replayed.n_balls == 20
    assert replayed.table.rows.tobytes() == updated.table.rows.tobytes()


def test_max_bytes_is_never_exceeded_and_used_up():
    agent = zooming.AdaptiveQ(oil(), max_bytes=4096, seed=0)
    agent.learn(2000)
    assert 4096 - 2 * 56 < agent.nbytes <= 4096
    assert agent.n_balls == agent.max_balls == 36
    assert zooming.TreeQ(oil(), max_bytes=10_000, max_balls=7, seed=0).max_balls == 7
    with pytest.raises(zooming.ConfigurationError, match=r"336 bytes hold 5 first balls, .* 112"):
        zooming.AdaptiveQ(oil(), max_bytes=335, steps_per_partition=1)
    assert zooming.AdaptiveQ(oil(), max_bytes=336, steps_per_partition=1).max_balls == 5
    assert zooming.AdaptiveQ(oil(), max_bytes=112).max_balls == 1
    for wrong in (0, -1, 1.5, True, "4k"):
        with pytest.raises(zooming.ConfigurationError, match=r"max_bytes=.*whole number"):
            zooming.AdaptiveQ(oil(), max_bytes=wrong)


def test_a_budget_without_room_for_a_split_is_kept():
    agent = zooming.AdaptiveQ(oil(), max_balls=5, steps_per_partition=1, seed=0)
    agent.learn(50)
    assert agent.n_balls == 5
    assert np.isinf(agent.table.rows["due_at"][:5]).all()
    with pytest.raises(zooming.ConfigurationError, match=r"at least one ball per partition \(5\)"):
        zooming.AdaptiveQ(oil(), max_balls=4, steps_per_partition=1)


def allow_few(agent):
    agent.max_balls = agent.table.core["max_balls"] = 6


CRAFTED = {
    "there are more than 6 active balls": allow_few,
    "a side is longer than its ball": lambda a: a.table.stats.__setitem__((-1, -1), 1.0),
    "a ball was visited after": lambda a: a.table.stats.__setitem__((-1, -3), 1e6),
    "a number that a ball keeps is negative": lambda a: a.table.stats.__setitem__((-1, -2), -1.0),
    "a ball is due at another": lambda a: a.table.rows["due_at"].__setitem__(-1, 0.0),
}


@pytest.mark.parametrize("cause", CRAFTED)
def test_a_table_with_wrong_contents_is_refused(cause, tmp_path):
    agent = zooming.AdaptiveQ(oil(), max_balls=20, steps_per_partition=1, seed=0)
    agent.learn(100)
    assert agent.table.rows["child"][-1] == kernels.ACTIVE
    CRAFTED[cause](agent)
    agent.save(tmp_path / "agent.zoom")
    with pytest.raises(zooming.CheckpointError, match=cause):
        zooming.load(tmp_path / "agent.zoom")


def test_rows_that_form_a_cycle_are_refused():
    agent = zooming.AdaptiveQ(oil(), max_balls=60, seed=0)
    agent.learn(300)
    rows = agent.table.rows
    child = rows["child"].astype(int)
    inner = np.flatnonzero(child)
    below = next(r for r in inner if r in child[inner] and not child[child[r] : child[r] + 2].any())
    top = rows["parent"][below]
    # `top` takes the children of `below`, which becomes its own ancestor.
    rows["child"][top], rows["child"][below] = child[below], child[top]
    rows["parent"][child[below] : child[below] + 2] = top
    rows["parent"][child[top] : child[top] + 2] = below
    rows["n_visits"], rows["value"] = 1, 1.0
    assert agent.table.fault() == "some rows form a cycle"
