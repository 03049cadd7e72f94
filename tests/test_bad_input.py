"""What must not be learned from is refused in words, and the agent is as it was before."""

import inspect
import re
from decimal import Decimal
from fractions import Fraction
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from helpers import (
    AGENTS,
    KINDS,
    LEARNERS,
    Boxes,
    Drift,
    assert_drivers_agree,
    box,
    knowledge,
    oil,
)  # fmt: skip
from zooming import bonuses, metrics, validation

EVERY_AGENT = pytest.mark.parametrize("kind", KINDS)
BAD = [np.nan, np.inf, -np.inf, 1.5, -0.25, 1e300, 1.00001, -0.00001]
GOOD = np.array([0.5, 0.25])
HUGE = 10**400  # beyond floating point


def taught(kind, n_transitions=30, **options):
    """An agent on zooming/Oil-v0 in two dimensions that has learned a little."""
    agent = AGENTS[kind](gym.make("zooming/Oil-v0", dims=2, horizon=2), seed=0, **options)
    rng = np.random.default_rng(1)
    for i in range(n_transitions):
        state = rng.random(2)
        agent.update(i % 2, state, agent.act(i % 2, state), rng.random(), rng.random(2))
    return agent


def assert_refused(agent, call, fragment, *fragments, error=zooming.TransitionError):
    """`call` raises an error of ours that has all the fragments in its text, and the agent has
    not changed."""
    before = knowledge(agent)
    with pytest.raises(error, match=re.escape(fragment)) as caught:
        call()
    assert all(one in str(caught.value) for one in fragments)
    assert knowledge(agent) == before


# --- states, actions and rewards through act, update and predict ----------------------------------


@pytest.mark.plain
@EVERY_AGENT
def test_a_bad_coordinate_or_reward_is_refused_and_named(kind):
    agent = taught(kind)
    for bad in BAD:
        wrong = np.array([0.5, bad])
        calls = [
            (partial(agent.act, 1, wrong), "state[1]"),
            (partial(agent.predict, [GOOD, wrong], [0, 1]), "state[1]"),
            (partial(agent.update, 1, wrong, GOOD, 0.5, GOOD), "state[1]"),
            (partial(agent.update, 1, GOOD, wrong, 0.5, GOOD), "action[1]"),
            (partial(agent.update, 1, GOOD, GOOD, 0.5, wrong), "next state[1]"),
        ]
        if kind in LEARNERS:
            calls += [
                (partial(agent.value, 1, wrong), "state[1]"),
                (partial(agent.q_value, 1, wrong, GOOD), "state[1]"),
                (partial(agent.visits, 1, GOOD, wrong), "action[1]"),
            ]
        for call, name in calls:
            assert_refused(agent, call, "zooming/Oil-v0", "step 1", f"{name} = {bad}")
    for bad in (np.nan, np.inf, -np.inf, 1.5, -0.25, 1.0000001, np.float32(2.0), -1, 7):
        said = "zooming/Oil-v0, step 0", "reward", str(bad), "[0.0, 1.0]"
        assert_refused(agent, partial(agent.update, 0, GOOD, GOOD, bad, GOOD), *said)
    negative = partial(agent.update, 0, GOOD, GOOD, -3.0, GOOD)
    assert_refused(agent, negative, "reward_range=(low, high)")


@EVERY_AGENT
def test_a_bad_step_is_refused(kind):
    agent = taught(kind)
    refused = partial(assert_refused, agent, fragment="step", error=zooming.ZoomingError)
    for step in (-1, 2, 10**9, np.int64(2), np.nan, np.inf, 0.5, "0", None, [0]):
        refused(call=partial(agent.act, step, GOOD))
        refused(call=partial(agent.update, step, GOOD, GOOD, 0.5, GOOD))
    for steps in ([0, -1], [0, 2], [0, 0.5], [0, np.nan], [0, "now"], [0, 1, 0]):
        refused(call=partial(agent.predict, [GOOD, GOOD], steps))
    assert agent.predict([GOOD, GOOD], None)[1].tolist() == [1, 1]


# --- what is not a point at all -------------------------------------------------------------------

NO_POINTS = [
    [0.5],
    [0.5, 0.5, 0.5],
    0.5,
    None,
    "here",
    ["0.5", "0.5"],
    [[0.5], [0.5, 0.5]],
    {"x": 0.5},
    object(),
    np.array([0.5 + 1j, 0.5]),
    np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"),
    np.zeros((3, 3, 3)),
    [HUGE, 0.5],
    [0.5, Fraction(-HUGE)],
    np.array([10**5000, 0.5], object),
]
NO_REWARDS = [
    None, "0.5", b"1", [0.5, 0.5], {}, 0.5j, np.array([0.1, 0.2]), np.array([0.5]), Decimal(1),
    HUGE, -HUGE, Fraction(HUGE), np.array(HUGE, object), 10**5000,
]  # fmt: skip


@EVERY_AGENT
def test_what_is_no_point_or_no_reward_is_refused(kind):
    agent = taught(kind)
    for wrong in NO_POINTS:
        for call, name in (
            (partial(agent.act, 0, wrong), "observation"),
            (partial(agent.predict, wrong), "observation"),
            (partial(agent.update, 0, wrong, GOOD, 0.5, GOOD), "observation"),
            (partial(agent.update, 0, GOOD, wrong, 0.5, GOOD), "action"),
            (partial(agent.update, 0, GOOD, GOOD, 0.5, wrong), "next observation"),
        ):
            assert_refused(agent, call, name, error=zooming.ZoomingError)
    for reward in NO_REWARDS:
        call = partial(agent.update, 0, GOOD, GOOD, reward, GOOD)
        assert_refused(agent, call, "reward", error=zooming.ZoomingError)


# --- what looks odd but is a point ----------------------------------------------------------------


@pytest.mark.plain
@EVERY_AGENT
@settings(max_examples=25)
@given(
    sides=st.lists(st.sampled_from([0.0, 1.0]), min_size=6, max_size=6), excess=st.floats(0, 1e-9)
)
def test_rounding_just_outside_a_bound_is_clipped(kind, sides, excess):
    exact = np.array(sides).reshape(3, 2)
    outside = np.where(exact == 0, exact - excess, exact + excess)
    one, other = taught(kind, 6), taught(kind, 6)
    for agent, (state, action, after) in ((one, exact), (other, outside)):
        played = agent.act(0, state)
        assert agent.env.action_space.contains(played)
        assert agent.env.action_space.contains(agent.predict(state)[0])
        agent.update(0, state, action, 0.5, after)
    assert one.act(0, exact[0]).tobytes() == other.act(0, outside[0]).tobytes()
    assert knowledge(one) == knowledge(other)


def test_rounding_is_measured_in_units_of_the_axis():
    agent = zooming.AdaptiveQ(Drift(low=-5e6, high=5e6), horizon=3, seed=0)
    agent.act(0, [5e6 + 1.0, -5e6 - 1.0])
    with pytest.raises(zooming.TransitionError, match=r"state\[1\] = 5000100"):
        agent.act(0, [0.0, 5e6 + 100.0])


def read_only(values):
    array = np.array(values)
    array.flags.writeable = False
    return array


FORMS = {
    "list": list,
    "tuple": tuple,
    "float32": lambda values: np.array(values, np.float32),
    "float16": lambda values: np.array(values, np.float16),
    "long double": lambda values: np.array(values, np.longdouble),
    "big endian": lambda values: np.array(values, ">f8"),
    "objects": lambda values: np.array(values, object),
    "read-only": read_only,
    "reversed": lambda values: np.array(values[::-1])[::-1],
    "every third": lambda values: np.repeat(np.array(values), 3)[::3],
    "column": lambda values: np.array([[value, 0.0] for value in values])[:, 0],
    "unaligned": lambda values: np.frombuffer(b"x" + np.array(values).tobytes(), np.uint8)[1:].view(
        np.float64
    ),
    "scalars": lambda values: [np.float32(value) for value in values],
    "masked": lambda values: np.ma.array(values),
}
SINGLE_FORMS = {
    **FORMS,
    "0-d": lambda values: np.array(values[0]),
    "number": lambda values: float(values[0]),
    "NumPy number": lambda values: np.float32(values[0]),
}


def assert_form_is_no_matter(kind, dims, form):
    """The same 12 transitions, once as float64 arrays and once in another form, teach the same."""
    plain, odd = (
        AGENTS[kind](gym.make("zooming/Oil-v0", dims=dims, horizon=2), seed=0) for _ in range(2)
    )
    points = (
        np.random.default_rng(0).integers(0, 33, (12, 2, dims)) / 32
    ).tolist()  # exact in every precision
    for i, (state, after) in enumerate(points):
        action = plain.act(i % 2, np.array(state))
        again = odd.act(i % 2, form(state))
        assert again.tobytes() == action.tobytes()
        assert (again.dtype, again.shape) == (action.dtype, action.shape)
        plain.update(i % 2, np.array(state), np.array(after), 0.5, np.array(after))
        half = (0.5, np.float32(0.5), np.array(0.5), np.longdouble(0.5))[i % 4]
        odd.update(i % 2, form(state), form(after), half, form(after), np.bool_(False))
        assert (
            odd.predict(form(state), 0)[0].tobytes()
            == plain.predict(np.array(state), 0)[0].tobytes()
        )
    assert knowledge(odd) == knowledge(plain)


@pytest.mark.plain
@EVERY_AGENT
@pytest.mark.parametrize("dims", [1, 2])
def test_points_come_in_any_form(kind, dims):
    for form in (FORMS if dims == 2 else SINGLE_FORMS).values():
        assert_form_is_no_matter(kind, dims, form)


# --- from inside learn ----------------------------------------------------------------------------


@EVERY_AGENT
def test_what_was_learned_before_the_bad_transition_is_kept_and_nothing_else(kind):
    rewards = []

    def flaw(step, state, reward):
        rewards.append(reward)
        return state, (np.nan if len(rewards) == 20 else reward)

    agent = AGENTS[kind](Drift(flaw=flaw), horizon=3, seed=0)
    with pytest.raises(zooming.TransitionError, match="step 1: reward nan"):
        agent.learn(50)
    sound = AGENTS[kind](Drift(), horizon=3, seed=0)
    sound.learn(6)  # and the 19th transition, and the choice of the 20th action
    state, _ = sound.env.reset()
    action = sound.act(0, state)
    after, reward, *_ = sound.env.step(action)
    sound.update(0, state, action, reward, after)
    sound.act(1, after)
    assert knowledge(agent) == knowledge(sound)


def rarely_bad(state, action, step, params, rng, next_state):
    """params: the step, the kind of flaw (0: reward, 1: state) and its value; about one episode
    in 30 has it."""
    next_state[0] = 0.5 * (state[0] + action[0])
    next_state[1] = rng.random()
    is_bad = rng.random() < 0.03 and step == params[0]
    if is_bad and params[1] == 1.0:
        next_state[1] = params[2]
    return params[2] if is_bad and params[1] == 0.0 else 1.0 - abs(action[0] - 0.3)


def rarely_starts_badly(params, rng, state):
    state[0] = 0.5
    state[1] = params[2] if rng.random() < 0.03 else rng.random()


def flawed(step, flaw, bad, start="uniform"):
    spaces = box((0, 1), (0, 1)), box((0, 1))
    return zooming.compiled_env(
        rarely_bad, *spaces, horizon=3, start=start, params=[step, flaw, bad], name="flawed"
    )


def assert_drivers_refuse_alike(make, make_env, text):
    agents, messages = [], []
    for driver in ("fused", "python"):
        agents.append(make(make_env(), seed=4))
        with pytest.raises(zooming.TransitionError, match=re.escape(text)) as caught:
            agents[-1].learn(1000, driver=driver)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert agents[0].n_episodes > 3
    assert knowledge(agents[0]) == knowledge(agents[1])
    return messages[0]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.5, -0.25])
def test_both_drivers_refuse_what_is_bad_and_leave_the_same_agent(kind, bad):
    for step in (0, 1, 2):
        text = f"flawed, step {step}: reward {bad} is outside"
        assert_drivers_refuse_alike(AGENTS[kind], partial(flawed, step, 0, bad), text)
    for step in (1, 2):
        text = f"flawed, step {step}: next state[1] = {bad} is outside"
        assert_drivers_refuse_alike(AGENTS[kind], partial(flawed, step, 1, bad), text)
    text = f"flawed, step 0: state[1] = {bad} is outside"
    assert_drivers_refuse_alike(
        AGENTS[kind], partial(flawed, -1, 0, bad, rarely_starts_badly), text
    )


def rarely_between(state, action, step, params, rng, next_state):
    next_state[0] = (
        params[0] if rng.random() < 0.03 and step == 1 else float(int(3.0 * rng.random()))
    )
    return 0.5


def rarely_starts_between(params, rng, state):
    state[0] = params[0] if rng.random() < 0.03 else 1.0


METRIC_Q = partial(zooming.MetricQ, metric=zooming.metrics.Discrete())


@pytest.mark.kernels
@pytest.mark.parametrize("make", [zooming.AdaptiveQ, METRIC_Q, zooming.Random])
@pytest.mark.parametrize("bad", [-1.0, 3.0, 0.999, np.nan])
@pytest.mark.parametrize("start", [1, rarely_starts_between])
def test_both_drivers_refuse_what_is_not_whole_on_a_discrete_side_and_say_so(make, bad, start):
    three, text = gym.spaces.Discrete(3), f"state = {bad} is not a whole number from 0 to 2; check"
    make_env = partial(
        zooming.compiled_env, rarely_between, three, three, 3, start=start, params=[bad],
        name="between",
    )  # fmt: skip
    said = assert_drivers_refuse_alike(make, make_env, text)
    assert ("between, step 1: next state" if start == 1 else "between, step") in said


@pytest.mark.plain
@pytest.mark.parametrize("kind", LEARNERS)
def test_a_state_just_outside_is_clipped_alike_by_both_drivers(kind):
    assert_drivers_agree(lambda: AGENTS[kind](flawed(1, 1, 1 + 1e-9), seed=4), 60)


# --- at construction ------------------------------------------------------------------------------


UNIT = box((0, 1))
SPACES = {
    "unbounded": (box((-np.inf, np.inf)),
        r"unbounded: axis \w+\[0\] runs from -inf to inf. Give .*bounds=.*or squash=True"),
    "text": (gym.spaces.Text(4),
        "is Text; supported are Box, Discrete, MultiDiscrete, MultiBinary, and Tuple and Dict of"),
    "nested": (gym.spaces.Dict(x=gym.spaces.Tuple([UNIT, gym.spaces.Text(4)])),
        r'_space\["x"\]\[1\] is Text; supported are'),
    "nothing": (gym.spaces.Tuple([]), "has no axes: its space is empty"),
    "halves": (gym.spaces.Box(0, 1, (1,), np.float16),
        "Box of float16; boxes of float32, float64 and integers are supported"),
    "too many axes": (gym.spaces.Box(0.0, 1.0, (48,)),
        "at most 48 axes are supported. Give the agent fewer features"),
    "unbounded integers": (gym.spaces.Box(-(2**62), 2**62, (1,), np.int64),
        r"\w+\[0\] runs from .* are not exact as floats"),
    "no width": (box((0, 1), (2, 2)), r"\w+\[1\] runs from 2.0 to 2.0: it has no width. Drop it"),
    "too wide": (box((-1.7e308, 1.7e308)), r"\w+\[0\] runs from -1.7e\+308"),
    "too narrow": (box((0, 5e-324)), r"\w+\[0\] runs from 0.0 to 5e-324"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["AdaptiveQ", "MetricQ", "Random"])
@pytest.mark.parametrize("where", ["observation_space", "action_space"])
def test_an_unsupported_space_is_refused(kind, where):
    for space, text in SPACES.values():
        env = Boxes(UNIT, UNIT)
        setattr(env, where, space)
        with pytest.raises(zooming.ConfigurationError, match=text):
            AGENTS[kind](env, horizon=2)


@EVERY_AGENT
def test_a_missing_horizon_names_both_fixes(kind):
    message = r"Drift .*horizon=\.\.\..*max_episode_steps"
    with pytest.raises(zooming.ConfigurationError, match=message):
        AGENTS[kind](Drift())


@EVERY_AGENT
def test_a_bad_horizon_reward_range_or_seed_is_refused(kind):
    def refused(text, **options):
        with pytest.raises(zooming.ConfigurationError, match=text):
            AGENTS[kind](Drift(), **{"horizon": 3, **options})

    for horizon in (0, -3, True, 2.0, 2.5, np.nan, "5", [5]):
        refused(r"horizon=.*whole number >= 1", horizon=horizon)
    for pair in ((1, 0), (0, 0), (0, np.inf), (np.nan, 1), (0,), (0, 1, 2), 5, ("a", "b")):
        refused(r"reward_range=.*give two", reward_range=pair)
    for seed in (-1, 1.5, 1.0, True, "0", [1], np.float64(3)):
        refused(r"seed=.*whole number >= 0", seed=seed)


def test_the_horizon_comes_from_the_argument_then_from_the_spec():
    env = gym.make("Pendulum-v1", max_episode_steps=7)
    assert zooming.AdaptiveQ(env, reward_range=(-20, 0)).horizon == 7
    assert zooming.AdaptiveQ(env, reward_range=(-20, 0), horizon=np.int64(3)).horizon == 3


@pytest.mark.parametrize("agent", [zooming.AdaptiveQ, zooming.NetQ])
@pytest.mark.parametrize(("options", "text"), [
    ({"bonus": -0.1}, "bonus c=-0.1: give a finite number, at least 0"),
    ({"bonus": np.inf}, "bonus c=inf: give a finite number, at least 0"),
    ({"bonus": "big"}, r"bonus='big': give a number c >= 0 .*Scaled, Theory"),
    ({"bonus": True}, r"bonus=True: give a number c >= 0"),
    ({"cap": "none"}, "cap='none': choose one of 'remaining', 'horizon'"),
    ({"ties": "last"}, "ties='last': choose one of 'random', 'first'"),
    ({"ties": ["first"]}, r"ties=\['first'\]: choose one of"),
    ({"action": "middle"}, "action='middle': choose one of 'center', 'uniform'"),
], ids=str)  # fmt: skip
def test_a_bad_option_of_a_tabled_agent_is_refused(agent, options, text):
    with pytest.raises(zooming.ConfigurationError, match=text):
        agent(Drift(), horizon=3, **options)


def test_a_bad_number_of_balls_is_refused():
    for max_balls in (0, -1, 2**31, 10.5, np.nan, "many", True):
        with pytest.raises(zooming.ConfigurationError, match=r"max_balls=.*at least one ball per"):
            zooming.AdaptiveQ(Drift(), horizon=3, max_balls=max_balls)


def test_a_bad_or_too_fine_net_is_refused_before_it_is_made():
    for name, values, text in (
        ("spacing", (0, -0.1, 1.5, np.nan, np.inf, "fine"), "(above 0 and at most 1|from 0 to 1)"),
        ("spacing", (1e-3, 1e-9, 1e-300), "balls; use a coarser net"),
        ("episodes", (0, -5, np.nan, "many", 2.5), "whole number >= 1"),
    ):
        for value in values:
            with pytest.raises(zooming.ConfigurationError, match=rf"{name}=.*{text}"):
                zooming.NetQ(Drift(), horizon=3, **{name: value})


@EVERY_AGENT
def test_a_bad_number_of_episodes_or_driver_is_refused(kind):
    agent = taught(kind)
    refused = partial(assert_refused, agent, error=zooming.ConfigurationError)
    for episodes in (-1, 1.0, 2.5, True, None, "10", np.nan, [5]):
        refused(partial(agent.learn, episodes), "episodes=", "whole number >= 0")
    for driver in ("slow", None, 1, ["fused"]):
        refused(partial(agent.learn, 1, driver=driver), "driver=", "auto", "fused", "python")


@EVERY_AGENT
def test_the_fused_driver_says_what_it_needs(kind):
    agent = AGENTS[kind](Drift(), horizon=3, seed=0)
    call = partial(agent.learn, 1, driver="fused")
    said = ("compiled environment", 'driver="python"')
    assert_refused(agent, call, *said, error=zooming.ConfigurationError)


@pytest.mark.parametrize("kind", ["NoMovement", "Median"])
def test_a_rule_that_plays_states_needs_equal_spaces(kind):
    with pytest.raises(zooming.ConfigurationError, match="both spaces must be the same box"):
        AGENTS[kind](Boxes(UNIT, box((0, 2))), horizon=2)
    if kind == "Median":
        uneven = box((0, 1), (0, 2))
        with pytest.raises(zooming.ConfigurationError, match="same bounds"):
            zooming.Median(Boxes(uneven, uneven), horizon=2)


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "message"), [
    (lambda env: zooming.AdaptiveQ(env, bonsu=1),
     "AdaptiveQ has no option 'bonsu'; did you mean 'bonus'?"),
    (lambda env: zooming.AdaptiveQ.as_published(env, 1.0, max_ball=9),
     "AdaptiveQ has no option 'max_ball'; did you mean"),
    (lambda env: zooming.MetricQ(env, zooming.metrics.LInf(), lasy=1),
     "MetricQ has no option 'lasy'; did you mean 'lazy'"),
    (lambda env: zooming.Median(env, quantile=3), "Median has no option 'quantile'"),
    (lambda env: zooming.evaluate(zooming.Median(env), env, episode=3),
     "evaluate has no option 'episode'; did you mean 'episodes'?"),
    (lambda env: zooming.load("oil.zoom", envv=env), "load has no option 'envv'; did you mean"),
    (lambda env: zooming.load(), "missing 1 required positional argument: 'path': call load(path"),
])  # fmt: skip
def test_a_misspelled_option_is_named_with_the_nearest_one(make, message):
    with pytest.raises(zooming.ConfigurationError, match=re.escape(message)):
        make(gym.make("zooming/Oil-v0"))


def test_signatures_are_those_that_were_written():
    for made in (zooming.AdaptiveQ, zooming.NetQ, zooming.MetricQ, zooming.Study):
        parameters = inspect.signature(made).parameters
        assert not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values()), (
            made
        )
    assert inspect.signature(zooming.AdaptiveQ).parameters["cap"].default == "remaining"


def test_an_agent_of_ones_own_may_keep_options_to_itself_and_has_its_misspelled_ones_named():
    class Mine(zooming.Random):
        def __init__(self, env, **options):
            self.mine = options.pop("mine", None)
            super().__init__(env, **options)

    env = gym.make("zooming/Oil-v0")
    assert Mine(env, mine=3, seed=1).mine == 3
    message = "Mine has no option 'sed'; did you mean 'seed'"
    with pytest.raises(zooming.ConfigurationError, match=message):
        Mine(env, mine=3, sed=1)


def episode_of(agent, **given):
    episode = agent.begin()
    episode.act([0.5])
    episode.update(0.5, [0.5], **given)


SEVERAL = np.arange(2)
WRONG_TYPES = [
    (lambda agent: agent.save(None), "None is not a path; give the name of a file"),
    (lambda agent: agent.export(7), "7 is not a path"),
    (lambda agent: agent.show([]), r"\[\] is not a path"),
    (lambda agent: zooming.load(b"oil.zoom"), "b'oil.zoom' is not a path"),
    (lambda agent: agent.act(0, [0.5], info=7), "info is 7; give the dict that came with the"),
    (lambda agent: episode_of(agent, next_info=b"x"), "info is b'x'; give the dict"),
    (lambda agent: episode_of(agent, step=[]), r"step=\[\]: only steps 0 wait"),
    (lambda agent: agent.export("oil.h", number=[]), r"number=\[\]: choose one of 'double'"),
    (lambda agent: agent.save(""), "'' is not a path"),
    (
        lambda agent: agent.act(0, [0.5], info=SEVERAL),
        r"info is array\(\[0, 1\]\); give the dict",
    ),
    (lambda agent: agent.update(0, [0.5], [0.5], 0.5, [0.5], SEVERAL), r"terminated=array\("),
    (lambda agent: agent.predict([0.5], deterministic=SEVERAL), r"deterministic=array\("),
    (lambda agent: episode_of(agent, step=SEVERAL), r"step=array\(\[0, 1\]\): only steps 0 wait"),
    (lambda agent: zooming.Desk(agent, "shop.db", reward_wait=HUGE), "reward_wait=1000"),
    (lambda agent: episode_of(agent, next_info=SEVERAL), r"info is array\(\[0, 1\]\)"),
    (lambda agent: agent.export("oil.py", name=SEVERAL), r"name=array\("),
    (lambda agent: zooming.export_policy(7, "oil.py"), "agent=7 is not an agent"),
    (lambda agent: zooming.evaluate(agent, exact=SEVERAL), r"exact=array\("),
    (lambda agent: zooming.AdaptiveQ(oil(), ordered=[SEVERAL]), "ordered: no axis is named array"),
    (
        lambda agent: zooming.Auto(oil(), rule=np.zeros((2, 2))),
        r"(?s)rule=array\(.* give \(function",
    ),
    (
        lambda agent: zooming.Auto(oil(), resolver={7: 7}),
        r"resolver=\{7: 7\}: give True, or a dict",
    ),
    (lambda agent: zooming.Records([1.0], dependent=SEVERAL), r"dependent=array\("),
    (lambda agent: zooming.Records([HUGE]), "row 0 is 1000"),
    (lambda agent: zooming.record(oil(), agent, 1, library=SEVERAL), r"library=array\("),
    (lambda agent: zooming.check_agent(int), "int"),
    (lambda agent: agent.learn(2, driver=["fused"]), r"driver=\['fused'\]: choose one of"),
    (lambda agent: zooming.evaluate(agent, seed=-1), "seed=-1: give a whole number"),
    (lambda agent: zooming.audit(agent, seed=0.5), "seed=0.5: give a whole number"),
    (lambda agent: zooming.Records([1.0], names=5), "names=5: give a list of names"),
    (lambda agent: zooming.Records(object()), "row 0 is <object.*, which is not a number"),
    (lambda agent: zooming.Records.read({"a": [1.0]}, noise=5), "noise=5: give a list of names"),
    (lambda agent: zooming.Records.read({"a": [1.0]}, "a", context=5), "context=5: give a list"),
    (lambda agent: zooming.Study(None, ["random"], 5, 1), "problems=None: give a list of names"),
    (lambda agent: zooming.Study(["oil-laplace-1"], 5, 5, 1), "agents=5: give a list of names"),
]


@pytest.mark.filterwarnings("ignore:.*has not learned from any episode")
@pytest.mark.parametrize(("call", "message"), WRONG_TYPES, ids=[text for _, text in WRONG_TYPES])
def test_an_argument_of_another_type_is_told_what_to_give(call, message):
    with pytest.raises(zooming.ConfigurationError, match=message):
        call(zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0))


@pytest.mark.parametrize("name", zooming.__all__)
def test_every_public_function_names_an_option_that_it_does_not_know(name):
    function = getattr(zooming, name)
    if inspect.ismodule(function):
        return
    with pytest.raises(zooming.ConfigurationError, match=r"has no option 'wrong_option'|: call "):
        function(wrong_option=1)


@pytest.mark.parametrize("checkpoints", ["12", 12, [2.5], [None]])
def test_checkpoints_are_a_list_of_episodes(checkpoints):
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    with pytest.raises(zooming.ConfigurationError, match="give numbers of episodes from 1 to 20"):
        agent.learn(20, checkpoints=checkpoints)


class Shrinking(gym.Env):
    """Has three actions, and two from its third episode on."""

    observation_space, n_episodes = gym.spaces.Box(0.0, 1.0), 0

    def __init__(self):
        self.action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n_episodes += 1
        self.action_space = gym.spaces.Discrete(3 if self.n_episodes < 3 else 2)
        return [0.5], {}

    def step(self, action):
        assert self.action_space.contains(action)
        return [0.5], 0.5, False, False, {}


@pytest.mark.parametrize("kind", [zooming.AdaptiveQ, zooming.Auto, zooming.Random])
def test_an_action_space_that_changes_is_refused_and_the_fix_is_named(kind):
    agent = kind(Shrinking(), horizon=2, seed=0)
    with pytest.raises(zooming.ConfigurationError, match=r"Discrete\(2\) now; .*action_mask"):
        agent.learn(10)
    assert agent.n_episodes == 2


# --- what float() cannot take ----------------------------------------------------------------


class Width:
    def __init__(self, value):
        self.value = value

    def scale(self, horizon, reward_span):
        return self.value


@pytest.mark.parametrize(
    "value", [HUGE, -HUGE, Fraction(HUGE)], ids=["int", "negative", "fraction"]
)
def test_a_category_beyond_floating_point_is_refused(value):
    agent = zooming.AdaptiveQ(
        Boxes(gym.spaces.Discrete(3), gym.spaces.Discrete(3)), horizon=2, seed=0
    )
    with pytest.raises(zooming.ZoomingError, match="observation is not an array of numbers"):
        agent.act(0, value)
    with pytest.raises(zooming.ZoomingError, match="action is not an array of numbers"):
        agent.update(0, 1, value, 0.5, 1)


def unbounded():
    return Boxes(gym.spaces.Box(-np.inf, np.inf, (1,), np.float64), box((0, 1)))


def declared(**options):
    def dynamics(state, action, step, params, outcome, next_state):
        next_state[0] = state[0]
        return 0.5

    given = {"start": [0.5], "outcomes": ([0.0], [1.0]), **options}
    return zooming.compiled_env(dynamics, box((0, 1)), box((0, 1)), 2, **given)


EDGES = {
    "bonus": (lambda v: zooming.AdaptiveQ(oil(), bonus=v), r"bonus c=-?inf: give a finite number"),
    "bonus.scale": (lambda v: zooming.AdaptiveQ(oil(), bonus=Width(v)),
        "has the scale -?inf; it must be finite"),
    "reward_range": (lambda v: zooming.AdaptiveQ(oil(), reward_range=(0, v)),
        "reward_range=.*give two finite numbers"),
    "weights": (lambda v: zooming.AdaptiveQ(oil(), weights={"state[0]": v}),
        r"weight of state\[0\]: .*not a finite number"),
    "bounds": (lambda v: zooming.AdaptiveQ(oil(), bounds={"state[0]": (0, v)}),
        r"bounds of state\[0\]: \(0.0, -?inf\)"),
    "squash": (lambda v: zooming.AdaptiveQ(unbounded(), horizon=2, squash={"state[0]": v}),
        r"squash of state\[0\].*no|not a scale"),
    "horizon": (lambda v: zooming.AdaptiveQ(oil(), horizon=v), "horizon=.*give a whole number"),
    "max_balls": (lambda v: zooming.MetricQ(oil(), metrics.LInf(9), max_balls=v),
        "max_balls=.*give a whole number"),
    "lipschitz": (lambda v: bonuses.Exact(lipschitz=v), "Exact: lipschitz=.*give a finite number"),
    "start": (lambda v: gym.make("zooming/Oil-v0", start=v), "start=.*beyond floating point"),
    "arrivals": (lambda v: gym.make("zooming/Ambulance-v0", arrivals=[v]),
        "arrivals: .*not an array of locations"),
    "params": (lambda v: declared(params=[v]), "params=.*give a sequence of numbers"),
    "outcomes": (lambda v: declared(outcomes=([v], [1.0])), "outcomes=.*give .values, weights"),
    "weighted start": (lambda v: declared(start=([[0.5]], [v])), "start=.*give .states, weights"),
    "Matrix": (lambda v: metrics.Matrix([[0, v], [v, 0]]), "Matrix: the rows must hold numbers"),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("value", [HUGE, -HUGE], ids=["large", "small"])
@pytest.mark.parametrize("edge", EDGES)
def test_an_option_beyond_floating_point_is_refused_in_words(edge, value):
    make, match = EDGES[edge]
    with pytest.raises(zooming.ZoomingError, match=match):
        make(value)


def test_an_action_beyond_floating_point_is_refused_by_the_environment():
    env = oil()
    env.reset(seed=0)
    with pytest.raises(zooming.TransitionError, match=r"step 0: action .* is not in Box"):
        env.unwrapped.step([HUGE])


@pytest.mark.parametrize("value", [Decimal(1), "1", b"1", None, 1j, [0.5], True], ids=repr)
def test_what_is_no_real_number_is_refused_in_words(value):
    with pytest.raises(zooming.ConfigurationError, match="give a finite number"):
        validation.check_float(value, "it", 0.0, 1.0)


@pytest.mark.parametrize("value", [0, 3, 2**53, np.int64(7)], ids=repr)
def test_whole_numbers_in_range_are_taken_as_they_are(value):
    assert validation.check_int(value, "it", 0) == value
    assert validation.check_int(10**40, "seed", 0, most=None) == 10**40
