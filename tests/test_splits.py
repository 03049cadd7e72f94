"""Split rules: one kernel for all of them, the same run by both drivers, and an audit that says
what a rule breaks."""

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import Boxes, box, knowledge
from zooming import kernels

pytestmark = pytest.mark.kernels


class Cubes:
    """The paper's rule, written as a user would."""

    def due_at(self, low, high):
        return (1.0 / max(high - low)) ** 2

    def axes(self, low, high):
        return range(len(low))


class Longest:
    """One longest side, by name."""

    def due_at(self, low, high):
        return (1.0 / max(high - low)) ** 2

    def axes(self, low, high):
        return [["state[0]", "action[0]"][int(np.argmax(high - low))]]


class AtOnce(Cubes):
    def due_at(self, low, high):
        return 1


class Never(Cubes):
    def due_at(self, low, high):
        return np.inf


class OneAxis(Cubes):
    def axes(self, low, high):
        return [1]

    def due_at(self, low, high):
        return (1.0 / (high[1] - low[1])) ** 2


def named(rule):
    return rule if isinstance(rule, str) else type(rule).__name__


def oil(**options):
    return gym.make("zooming/Oil-v0", **options)


EPISODES = 20 if kernels.IS_JIT_DISABLED else 500


@pytest.mark.plain
@pytest.mark.parametrize(("rule", "name"), [(Cubes, "all"), (Longest, "longest")])
@pytest.mark.parametrize("driver", ["fused", "python"])
@pytest.mark.parametrize(
    "bonus", [0.1, zooming.bonuses.Exact(episodes=500, lipschitz=0.1)], ids=["scaled", "exact"]
)
def test_a_rule_of_ones_own_runs_as_the_built_in_one_does(rule, name, driver, bonus):
    own, built_in = (
        zooming.AdaptiveQ(oil(), split=split, bonus=bonus, seed=3) for split in (rule(), name)
    )
    histories = own.learn(EPISODES, driver=driver), built_in.learn(EPISODES)
    assert histories[0].returns.tobytes() == histories[1].returns.tobytes()
    assert histories[0].n_balls.tolist() == histories[1].n_balls.tolist()
    for step in range(5):
        ours, theirs = own.partition(step), built_in.partition(step)
        for field in ("low", "high", "q_value", "n_visits", "depth", "radius"):
            assert getattr(ours, field).tobytes() == getattr(theirs, field).tobytes()


@pytest.mark.plain
@pytest.mark.parametrize("split", ["all", "longest", Cubes(), AtOnce(), OneAxis()], ids=named)
@pytest.mark.parametrize("weights", [None, [1.0, 0.3], [0.0, 1.0]])
def test_both_drivers_agree_and_max_balls_holds_for_every_rule(split, weights):
    agents = [
        zooming.AdaptiveQ(oil(), split=split, weights=weights, max_balls=60, seed=1)
        for _ in range(2)
    ]
    histories = [
        agent.learn(EPISODES, driver=driver)
        for agent, driver in zip(agents, ("fused", "python"), strict=True)
    ]
    assert histories[0].returns.tobytes() == histories[1].returns.tobytes()
    assert knowledge(agents[0]) == knowledge(agents[1])
    assert histories[0].n_balls.max() <= 60
    assert agents[0].n_balls > 10


@pytest.mark.parametrize("split", ["longest", Cubes(), AtOnce()], ids=named)
def test_learning_in_two_parts_is_learning_at_once(split):
    whole, parts = (zooming.AdaptiveQ(oil(), split=split, seed=5) for _ in range(2))
    both = parts.learn(130) + parts.learn(170)
    assert whole.learn(300).returns.tobytes() == both.returns.tobytes()
    assert knowledge(whole) == knowledge(parts)


@pytest.mark.plain
def test_a_rule_that_always_splits_stops_before_borders_meet():
    agent = zooming.AdaptiveQ(Boxes(box((0, 1)), box((0, 1))), split=AtOnce(), horizon=1, seed=0)
    for _ in range(100):
        agent.update(0, [0.3], [0.3], 0.5, [0.3])
    balls = agent.partition(0)
    assert (balls.high > balls.low).all()
    assert balls.depth.max() == 16
    assert agent.visits(0, [0.3], [0.3]) == 100


@pytest.mark.plain
def test_the_longest_side_is_halved_and_aspects_stay_within_two():
    agent = zooming.AdaptiveQ(oil(dims=2), split="longest", seed=0)
    agent.learn(20 if kernels.IS_JIT_DISABLED else 2000)
    for step in range(5):
        balls = agent.partition(step)
        sides = balls.high - balls.low
        assert (sides.max(axis=1) <= 2 * sides.min(axis=1)).all()
        assert (balls.radius == sides.max(axis=1)).all()
        if not kernels.IS_JIT_DISABLED:
            assert (sides.max(axis=1) > sides.min(axis=1)).any()


@pytest.mark.plain
def test_weights_say_how_far_apart_an_axis_keeps_points():
    agent = zooming.AdaptiveQ(oil(), weights={"state[0]": 0.25}, seed=0)
    agent.learn(40 if kernels.IS_JIT_DISABLED else 2000)
    balls = agent.partition(1)
    sides = balls.high - balls.low
    assert (sides[:, 0] == np.minimum(1.0, 4 * sides[:, 1])).all()  # squares of the weighted metric
    assert (balls.radius == sides[:, 1]).all()
    assert sides[:, 0].min() < 1 or kernels.IS_JIT_DISABLED


def test_only_the_ratio_of_weights_matters():
    runs = [
        zooming.AdaptiveQ(oil(), weights=weights, seed=0).learn(500)
        for weights in ([0.5, 1.0], [3.0, 6.0])
    ]
    assert runs[0].returns.tobytes() == runs[1].returns.tobytes()


# --- an axis that does not matter -----------------------------------------------------------------


def oil_with_a_dial(state, action, step, params, rng, next_state):
    """The oil problem, and a second action that changes nothing."""
    next_state[0] = action[0]
    return max(0.0, np.exp(-10.0 * abs(action[0] - 0.75)) - abs(state[0] - action[0]))


def test_longest_side_splits_have_less_regret_per_ball_where_an_axis_does_not_matter():
    one, two = (gym.spaces.Box(0.0, 1.0, (n,), np.float64) for n in (1, 2))
    env = zooming.compiled_env(oil_with_a_dial, one, two, 5, start=[0.5])
    regret, n_balls = {}, {}
    for split in ("all", "longest"):
        for most in (None, 300):
            agents = zooming.learn_many(
                lambda env, seed, split=split,
                most=most: zooming.AdaptiveQ(env, split=split, max_balls=most, seed=seed),
                env, range(8), 4000,
            )  # fmt: skip
            regret[split, most] = np.array([(4.75 - history.returns).sum() for history in agents])
            n_balls[split, most] = np.array([history.n_balls[-1] for history in agents])
    # Free to grow: as little regret with two thirds of the balls. On a budget: a fraction of the
    # regret, seed by seed.
    assert regret["longest", None].mean() < 1.1 * regret["all", None].mean()
    assert n_balls["longest", None].mean() < 0.75 * n_balls["all", None].mean()
    assert regret["longest", 300].mean() < 0.5 * regret["all", 300].mean()
    assert (regret["longest", 300] < regret["all", 300]).mean() >= 0.75


# --- the audit of a rule --------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["all", "longest", Cubes()], ids=named)
@pytest.mark.parametrize("weights", [None, [0.3, 1.0]])
def test_the_audit_of_a_sound_rule_reports_its_constants(split, weights):
    agent = zooming.AdaptiveQ(oil(), split=split, weights=weights, seed=0)
    agent.learn(2000)
    report = zooming.audit(agent)
    assert report.holds, str(report)
    assert 0.25 <= report.c1 <= report.c2 <= 2**0.5 + 1e-9
    assert report.aspect <= (2 if weights is None or split == "longest" else 4)
    assert "aspect ratio up to" in str(report)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (AtOnce(), "too early, c1 = "),
        (Never(), "too late, c2 = "),
        (OneAxis(), "too long, aspect ratio "),
    ],
    ids=["early", "late", "long"],
)
def test_the_audit_warns_when_a_rule_breaks_the_conditions(rule, fault):
    agent = zooming.AdaptiveQ(oil(), split=rule, seed=0)
    agent.learn(500)
    with pytest.warns(UserWarning, match=fault):
        report = zooming.audit(agent)
    assert not report.holds
    assert fault in str(report)


def test_the_audit_of_atoms_finds_nothing_to_complain_about():
    space = gym.spaces.Discrete(3)
    agent = zooming.AdaptiveQ(Boxes(space, space), horizon=2, seed=0)
    for _ in range(20):
        agent.update(0, 1, agent.act(0, 1), 0.5, 2)
    report = zooming.audit(agent)
    assert report.holds
    assert np.isnan(report.c1)


# --- rules that see statistics and choose thresholds ----------------------------------------------


class TreeCubes:
    """The paper's rule, by what a ball says about itself."""

    def due_at(self, ball):
        return 1 / ball.diameter**2

    def cuts(self, ball):
        return ball.names


class Thirds(TreeCubes):
    """The lower third of the longest side."""

    def cuts(self, ball):
        axis = int(ball.lengths.argmax())
        return [(axis, ball.low[axis] + (ball.high[axis] - ball.low[axis]) / 3)]


class Tariff(TreeCubes):
    """The rule of the documentation."""

    def due_at(self, ball):
        patience = 2 if ball.q_value < 0.5 * (2 - ball.step) else 1
        return (patience / ball.diameter) ** 2

    def cuts(self, ball):
        if ball.low[1] < 0.3 < ball.high[1]:
            return [("action[0]", 0.3)]
        return [ball.lengths.argmax()]


@pytest.mark.plain
@pytest.mark.parametrize("driver", ["fused", "python"])
def test_a_rule_of_balls_runs_as_the_built_in_one_does(driver):
    own, built_in = (
        zooming.AdaptiveQ(oil(), split=split, seed=3) for split in (TreeCubes(), "all")
    )
    assert (
        own.learn(EPISODES, driver=driver).returns.tobytes()
        == built_in.learn(EPISODES).returns.tobytes()
    )
    for field in ("low", "high", "q_value", "n_visits", "depth"):
        assert (
            getattr(own.partition(1), field).tobytes()
            == getattr(built_in.partition(1), field).tobytes()
        )


@pytest.mark.plain
@pytest.mark.parametrize("rule", [Thirds(), Tariff()], ids=named)
def test_both_drivers_agree_on_thresholds_and_the_audit_reports_their_constants(rule):
    agents = [zooming.AdaptiveQ(oil(horizon=2), split=rule, seed=1) for _ in range(2)]
    histories = [
        agent.learn(EPISODES, driver=driver)
        for agent, driver in zip(agents, ("fused", "python"), strict=True)
    ]
    assert histories[0].returns.tobytes() == histories[1].returns.tobytes()
    assert knowledge(agents[0]) == knowledge(agents[1])
    report = zooming.audit(agents[0])
    assert report.holds, str(report)
    assert 0.1 <= report.c1 <= report.c2 <= 4
    assert 1 < report.aspect <= 4
    borders = {round(b, 9) for step in range(2) for b in agents[0].partition(step).high.ravel()} - {
        1.0
    }
    assert borders & ({round(1 / 3, 9)} if isinstance(rule, Thirds) else {0.3})


@pytest.mark.plain
@pytest.mark.parametrize(
    "bonus",
    [0.3, zooming.bonuses.Exact(episodes=30), zooming.bonuses.Bernstein(episodes=30)],
    ids=["scaled", "exact", "bernstein"],
)
def test_a_rule_is_told_what_the_agent_knows_about_the_ball(bonus):
    asked, following = [], []

    class Watched(TreeCubes):
        def cuts(self, ball):
            center = (ball.low + ball.high) / 2
            assert ball.q_value == agent.q_value(ball.step, center[:1], center[1:])
            assert ball.n_visits == agent.visits(ball.step, center[:1], center[1:])
            with pytest.raises(ValueError, match="read-only"):
                ball.low[0] = 0.5
            asked.append(ball)
            return super().cuts(ball)

    agent = zooming.AdaptiveQ(oil(horizon=3), split=Watched(), bonus=bonus, seed=0)
    for k in range(16):
        following.append(agent.value(2, [k / 16]))
        agent.update(1, [0.3], [0.3], 0.5, [k / 16])
        agent.update(2, [k / 16], [0.1], k / 16, [0.0])
    mine = [ball for ball in asked if ball.step == 1]
    assert [(ball.n_visits, ball.depth, ball.diameter) for ball in mine] == [
        (1, 0, 1.0),
        (4, 1, 0.5),
        (16, 2, 0.25),
    ]
    for ball in mine:
        weights = zooming.theory.learning_rate_weights(ball.n_visits, 3)[1:]
        next_values = np.array(following[: ball.n_visits])
        expected = {}
        if isinstance(bonus, zooming.bonuses.Exact):
            distance = weights @ [1.0, *[0.5] * 3, *[0.25] * 12][: ball.n_visits]
            width = ball.q_value - weights @ (0.5 + next_values)
            expected = {"squared_weights": weights @ weights, "distance": distance, "width": width}
        elif isinstance(bonus, zooming.bonuses.Bernstein):
            expected = {
                "next_mean": next_values.mean(),
                "next_variance": next_values.var(),
                "beta": ball.kept["beta"],
            }
            assert ball.kept["beta"] > 0
        assert ball.kept == pytest.approx(expected)


@pytest.mark.plain
def test_a_rule_that_does_not_cut_says_when_it_is_asked_again():
    class Hesitates(TreeCubes):
        asked = ()

        def due_at(self, ball):
            return ball.n_visits + 5 if ball.depth == 0 else np.inf

        def cuts(self, ball):
            self.asked = *self.asked, ball.n_visits
            return ["action[0]"] if ball.n_visits >= 12 else []

    rule = Hesitates()
    agent = zooming.AdaptiveQ(Boxes(box((0, 1)), box((0, 1))), split=rule, horizon=1, seed=0)
    for _ in range(40):
        agent.update(0, [0.3], [0.3], 0.5, [0.3])
    assert rule.asked == (5, 10, 15)
    assert agent.n_balls == 2


@pytest.mark.plain
def test_a_threshold_on_whole_values_lies_between_two_of_them():
    class At(TreeCubes):
        def cuts(self, ball):
            return [("action", 0.31)] if ball.low[1] < 0.31 < ball.high[1] else []

    space = gym.spaces.Discrete(10)
    agent = zooming.AdaptiveQ(Boxes(space, space), ordered=True, split=At(), horizon=1, seed=0)
    for _ in range(9):
        agent.update(0, 1, 3, 0.5, 1)
    # First at 0.3; then 0.31 is nearest to the end of its side, and the next border is 0.4; a
    # single value is not cut.
    assert sorted(agent.table.boxes(0)[2][:, 1].tolist()) == [0.3, 0.4, 1.0]
    assert agent.visits(0, 1, 3) == 9


@pytest.mark.plain
def test_slivers_end_where_selection_has_no_room_for_more_forks():
    class Sliver(TreeCubes):
        def due_at(self, ball):
            return 1

        def cuts(self, ball):  # the last thousandth of the action
            return [("action[0]", ball.high[1] - 1e-3 * (ball.high[1] - ball.low[1]))]

    agent = zooming.AdaptiveQ(
        Boxes(box((0, 1)), box((0, 1))), split=Sliver(), horizon=1, ties="first", seed=0
    )
    for _ in range(100):
        agent.update(0, [0.3], [0.0], 0.5, [0.3])
    assert agent.n_balls == 1 + int(kernels.most_splits(1))
    assert 0 <= agent.act(0, [0.3])[0] <= 1
    with pytest.warns(UserWarning, match="too long, aspect ratio"):
        assert zooming.audit(agent).laws[-1].holds  # the ball table


def sell(state, action, step, params, rng, next_state):
    """Any price below 0.3 is paid, and hardly any above."""
    next_state[0] = rng.random()
    if action[0] < 0.3:
        return action[0] / 0.3 * (0.5 + 0.5 * state[0])
    return 0.4 * (1.0 - action[0])


@pytest.mark.slow
def test_a_threshold_that_is_known_halves_the_regret():
    unit, regret = gym.spaces.Box(0.0, 1.0, (1,), np.float64), {}
    env = zooming.compiled_env(sell, unit, unit, horizon=2, start="uniform")
    for split in ("all", Tariff()):
        agents = zooming.learn_many(
            lambda env, seed, split=split: zooming.AdaptiveQ(
                env, split=split, max_balls=20, seed=seed
            ),
            env,
            range(8),
            2000,
        )
        regret[named(split)] = np.array([(1.5 - history.returns).sum() for history in agents])
    assert (regret["Tariff"] < 0.7 * regret["all"]).all()  # seed by seed
    assert regret["Tariff"].mean() < 0.5 * regret["all"].mean()


# --- what a rule may not do -----------------------------------------------------------------------


class Wrong:
    def __init__(self, due=1.0, axes=(0,)):
        self.due, self.halved = due, axes

    def due_at(self, low, high):
        return self.due

    def axes(self, low, high):
        return self.halved


@pytest.mark.plain
@pytest.mark.parametrize("due", [0, -1, np.nan, None, "soon", True])
def test_a_rule_without_a_number_of_visits_is_refused(due):
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"Wrong.due_at gave .* for the ball \[0, 1\] x \[0, 1\]; give a number above 0",
    ):
        zooming.AdaptiveQ(oil(), split=Wrong(due=due))


@pytest.mark.plain
@pytest.mark.parametrize("axis", [2, -1, "gear", None, 0.5, True])
def test_a_rule_that_names_no_axis_is_refused_and_the_table_is_sound(axis):
    agent = zooming.AdaptiveQ(oil(), split=Wrong(axes=[axis]), seed=0)
    with pytest.raises(zooming.ConfigurationError, match=r"Wrong.axes gave .*the axes are"):
        agent.learn(10)
    assert agent.n_balls == 5
    assert agent.table.core["n_balls"][0] == 5


@pytest.mark.plain
def test_a_rule_that_halves_nothing_leaves_the_ball_alone():
    agent = zooming.AdaptiveQ(oil(), split=Wrong(axes=[]), seed=0)
    agent.learn(10)
    assert agent.n_balls == 5


@pytest.mark.plain
@pytest.mark.parametrize("split", ["half", 3, None, Cubes], ids=str)
def test_what_is_no_rule_is_refused(split):
    with pytest.raises(
        zooming.ConfigurationError,
        match=r"choose 'all', 'longest', or give an object with due_at.*or with due_at\(ball\)",
    ):
        zooming.AdaptiveQ(oil(), split=split)


@pytest.mark.plain
def test_a_rule_of_ones_own_cannot_be_saved(tmp_path):
    with pytest.raises(
        zooming.ConfigurationError, match=r"a split rule of your own \(Cubes\) cannot be saved"
    ):
        zooming.AdaptiveQ(oil(), split=Cubes(), seed=0).save(tmp_path / "own.zoom")


@pytest.mark.plain
def test_many_axes_are_for_the_longest_side():
    env = Boxes(gym.spaces.Box(0.0, 1.0, (12,)), gym.spaces.Box(0.0, 1.0, (3,)))
    with pytest.raises(
        zooming.ConfigurationError,
        match=r'15 axes are too many.*at most 12 axes are supported.*split="longest"',
    ):
        zooming.AdaptiveQ(env, horizon=1)
    agent = zooming.AdaptiveQ(env, horizon=1, split="longest", seed=0)
    for _ in range(30):
        state = env.observation_space.sample()
        agent.update(0, state, agent.act(0, state), 0.5, state)
    assert agent.n_balls == 31


@pytest.mark.plain
@pytest.mark.parametrize("axes", [None, 5, "action[0]"])
def test_a_rule_that_gives_no_list_of_axes_is_refused(axes):
    with pytest.raises(
        zooming.ConfigurationError, match=r"Wrong.axes gave .*; give a list of axes, \[\] for none"
    ):
        zooming.AdaptiveQ(oil(), split=Wrong(axes=axes), seed=0).learn(1)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("cuts", "explanation"),
    [
        (
            [(0, 1.0)],
            r"Wrong.cuts gave \(0, 1.0\) for the ball .*; a cut must lie between 0 and 1, "
            r"the ends of that side",
        ),
        ([("action[0]", -0.1)], "a cut must lie between 0 and 1"),
        ([(0, np.nan)], "a cut must lie between 0 and 1"),
        ([(0, "half")], "a cut must lie between 0 and 1"),
        ([(0, True)], "a cut must lie between 0 and 1"),
        ([(2, 0.5)], "the axes are"),
        ([(0, 0.3, 0.5)], "the axes are"),
        ([(0, 0.3), (0, 0.4)], r"Wrong.cuts gave two cuts of the axis state\[0\]"),
        (
            None,
            r"Wrong.cuts gave None .*; give a list of axes or pairs \(axis, cut\), \[\] for "
            r"none",
        ),
    ],
)
def test_cuts_that_cannot_be_made_are_refused_and_the_ball_is_whole(cuts, explanation):
    class Wrong(TreeCubes):
        def cuts(self, ball):
            return cuts

    agent = zooming.AdaptiveQ(oil(), split=Wrong(), seed=0)
    with pytest.raises(zooming.ConfigurationError, match=explanation):
        agent.learn(1)
    assert agent.n_balls == 5


@pytest.mark.plain
@pytest.mark.parametrize("n_axes", [18, 32])
def test_a_rule_that_halves_too_many_axes_at_once_is_refused(n_axes):
    env = Boxes(gym.spaces.Box(0.0, 1.0, (n_axes - 1,)), gym.spaces.Box(0.0, 1.0, (1,)))
    agent = zooming.AdaptiveQ(env, split=AtOnce(), horizon=1, seed=0)
    state = env.observation_space.sample()
    with pytest.raises(
        zooming.ConfigurationError,
        match=rf"AtOnce.axes halves {n_axes} axes of .* at once.*name at most 12",
    ):
        agent.update(0, state, agent.act(0, state), 0.5, state)


@pytest.mark.plain
@pytest.mark.parametrize(
    "bonus", [0.1, zooming.bonuses.Exact(episodes=50, lipschitz=0.1)], ids=["scaled", "exact"]
)
def test_a_rule_that_fails_leaves_the_ball_whole_and_due(bonus):
    class Fails(Cubes):
        is_broken = True

        def due_at(self, low, high):
            if self.is_broken and low[0] >= 0.5 and low[1] >= 0.5:
                raise RuntimeError("mine")
            return super().due_at(low, high)

    rule, sound = Fails(), zooming.AdaptiveQ(oil(), split=Cubes(), bonus=bonus, seed=0)
    agent = zooming.AdaptiveQ(oil(), split=rule, bonus=bonus, seed=0)
    with pytest.raises(RuntimeError, match="mine"):
        agent.update(0, [0.5], [0.5], 0.5, [0.5])
    assert agent.n_balls == 5
    assert agent.visits(0, [0.5], [0.5]) == 1
    assert zooming.audit(agent).laws[-1].holds  # the ball table
    rule.is_broken = False
    for one in (agent, sound, sound):
        one.update(0, [0.5], [0.5], 0.5, [0.5])
    assert agent.n_balls == 8
    assert agent.visits(0, [0.5], [0.5]) == sound.visits(0, [0.5], [0.5]) == 2


def test_a_rule_is_not_asked_again_for_a_ball_whose_halves_do_not_fit():
    class Counted(Cubes):
        n_asked = 0

        def axes(self, low, high):
            self.n_asked += 1
            return super().axes(low, high)

    rule = Counted()
    agent = zooming.AdaptiveQ(oil(), split=rule, max_balls=19, seed=0)
    agent.learn(1000)
    assert agent.n_balls == 17  # room for two more, and four halves of each ball
    assert rule.n_asked <= 25  # once for each ball, not at each of 5,000 visits


def test_the_audit_sees_a_rule_that_never_splits_whatever_max_balls_is():
    for max_balls in (5, 6, 8):
        agent = zooming.AdaptiveQ(oil(), split=Never(), max_balls=max_balls, seed=0)
        agent.learn(500)
        with pytest.warns(UserWarning, match="too late, c2 = "):
            assert not zooming.audit(agent).holds
        full = zooming.AdaptiveQ(oil(), split=Cubes(), max_balls=max_balls, seed=0)
        full.learn(2000)
        assert zooming.audit(full).holds  # its balls would be split if they fitted in
