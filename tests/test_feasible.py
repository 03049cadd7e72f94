"""Feasible actions: masks and bounds that depend on the state are respected in selection, in
values and in predictions."""

import itertools
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from helpers import Boxes, box
from zooming import kernels
from zooming.spaces.masks import feasible

pytestmark = pytest.mark.kernels

UNIT = box((0, 1))
EVERY = {
    "AdaptiveQ": zooming.AdaptiveQ,
    "uniform": partial(zooming.AdaptiveQ, action="uniform"),
    "longest": partial(zooming.AdaptiveQ, split="longest", ordered=True),
    "NetQ": partial(zooming.NetQ, spacing=0.3),
    "published net": partial(zooming.NetQ.as_published, bonus=0.5, spacing=0.3),
    "Random": zooming.Random,
}
ACTIONS = Dict({
    "gear": Discrete(5, start=1), "gas": Box(-2.0, 3.0, (2,), np.float32), "lights": MultiBinary(2),
    "more": Tuple([MultiDiscrete([3, 4]), Box(0, 20, (1,), np.int32)]),
})  # fmt: skip


@st.composite
def infos(draw):
    """(info, function that says whether an action is feasible) for ACTIONS."""

    def some(n):
        mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.int8)
        mask[draw(st.integers(0, n - 1))] = 1
        return mask

    gear, first, second = some(5), some(3), some(4)
    lights = np.array(draw(st.lists(st.integers(0, 2), min_size=2, max_size=2)), np.int8)
    low = np.array([draw(st.floats(-3, 2.875, width=32)) for _ in range(2)])
    high = np.array([draw(st.floats(max(a, -2), 4, width=32)) for a in low.tolist()])
    least, most = sorted(draw(st.tuples(st.integers(0, 20), st.integers(0, 20))))
    info = {
        "action_mask": {"gear": gear, "lights": lights, "more": ((first, second), None)},
        "action_low": {"gas": low, "more": (None, [least])},
        "action_high": {"gas": high, "more": (None, [most])},
    }

    def fits(action):
        return (
            gear[action["gear"] - 1] == 1
            and ((lights == 2) | (action["lights"] == lights)).all()
            and (action["gas"] >= low).all()
            and (action["gas"] <= high).all()
            and first[action["more"][0][0]] == 1
            and second[action["more"][0][1]] == 1
            and least <= action["more"][1][0] <= most
        )

    return info, fits


@pytest.mark.parametrize("kind", EVERY)
@settings(max_examples=8)
@given(given_info=infos(), seed=st.integers(0, 99))
def test_every_action_is_feasible_and_in_the_space(kind, given_info, seed):
    info, fits = given_info
    env = Boxes(UNIT, ACTIONS)
    weights = {'action["gear"]': 1.0, 'action["more"]': 0.4}
    weights |= {'action["gas"]': 0.3} if kind in ("NetQ", "published net") else {}
    agent = EVERY[kind](env, horizon=1, weights=weights, seed=seed)
    for i in range(10):
        state = np.array([(i * 0.37) % 1])
        action = agent.act(0, state, info=info)
        assert action in ACTIONS
        assert fits(action)
        agent.update(0, state, action, 0.5, state, next_info=info)
        for deterministic in (True, False):
            predicted = agent.predict(state, deterministic=deterministic, info=info)[0]
            assert predicted in ACTIONS
            assert fits(predicted)


@pytest.mark.parametrize("kind", EVERY)
@settings(max_examples=10)
@given(data=st.data(), seed=st.integers(0, 99))
def test_masks_and_bounds_together_leave_what_both_allow(kind, data, seed):
    """A mask is about all values of a space, also where bounds= leaves the agent some of them."""
    low, high = sorted(data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9))))
    masks = [
        np.array(data.draw(st.lists(st.booleans(), min_size=10, max_size=10)), np.int8)
        for _ in range(2)
    ]
    for mask in masks:
        mask[data.draw(st.integers(low, high))] = 1
    start = data.draw(st.integers(-3, 3))
    bounds = {"action": (low + start, high + start)}
    spaces = {
        "one": (Discrete(10, start=start), masks[0]),
        "list": (Discrete(10, start=start), masks[0].tolist()),
        "two": (MultiDiscrete([10, 10], start=[start, start]), tuple(masks)),
    }
    for space, mask in spaces.values():
        options = {} if kind == "longest" else {"ordered": True}
        agent = EVERY[kind](Boxes(UNIT, space), horizon=1, bounds=bounds, seed=seed, **options)
        for _ in range(4):
            action = agent.act(0, [0.5], info={"action_mask": mask})
            for value, allowed in zip(np.atleast_1d(action), masks, strict=False):
                assert allowed[value - start] == 1
                assert low <= value - start <= high
            agent.update(0, [0.5], action, 0.5, [0.5], next_info={"action_mask": mask})


class Always(zooming.Agent):
    """An agent of one's own, whose policy is one flat action."""

    def __init__(self, env, action, **options):
        super().__init__(env, horizon=1, **options)
        self.action = action

    def act(self, step, observation, *, info=None):
        return self.axes.shaped_action(self.nearest_feasible(step, self.action, info))

    def update(self, *transition, next_info=None):
        pass

    def greedy(self, step, state):
        return self.action


@pytest.mark.plain
@pytest.mark.parametrize("form", [np.array, list])
def test_the_policy_of_an_own_agent_is_moved_to_the_nearest_feasible_action(form):
    for action, mask, nearest in (
        (1, [1, 0, 1, 1], 0),
        (0, [0, 0, 0, 1], 3),
        (3, [0, 1, 0, 0], 1),
        (2, [1, 1, 1, 0], 2),
    ):
        agent = Always(Boxes(UNIT, Discrete(4, start=5)), [5.0 + action])
        info = {"action_mask": form(mask)}
        assert agent.predict([0.5], info=info)[0] == agent.act(0, [0.5], info=info) == 5 + nearest
    agent = Always(Boxes(UNIT, Dict(gas=Box(0.0, 4.0, (1,)), gear=Discrete(3))), [1.0, 1.0])
    found = agent.predict(
        [0.5], info={"action_mask": {"gear": form([0, 0, 1])}, "action_low": {"gas": 2.5}}
    )[0]
    assert (found["gas"].tolist(), found["gear"]) == ([2.5], 2)


@pytest.mark.plain
@pytest.mark.parametrize("n", [5, 6])
def test_the_center_of_a_ball_of_integers_is_the_feasible_value_nearest_to_its_middle(n):
    agent = zooming.AdaptiveQ(Boxes(UNIT, Discrete(n)), horizon=1, ordered=True, seed=0)
    for mask in itertools.islice(itertools.product((0, 1), repeat=n), 1, None):
        nearest = min(np.flatnonzero(mask), key=lambda k: abs(k - (n - 1) / 2))
        assert agent.act(0, [0.5], info={"action_mask": np.array(mask, np.int8)}) == nearest


# --- selection and values are those of the feasible balls -----------------------------------------


@pytest.mark.plain
@settings(max_examples=10 if kernels.IS_JIT_DISABLED else 25)
@given(
    values=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=30, max_size=30),
    low=st.floats(0, 1),
    width=st.floats(0, 1),
    split=st.sampled_from(["all", "longest"]),
)
def test_the_value_is_the_largest_q_over_balls_that_meet_the_feasible_set(
    values, low, width, split
):
    agent = zooming.AdaptiveQ(Boxes(UNIT, UNIT), horizon=1, bonus=0.0, split=split, seed=0)
    rng = np.random.default_rng(0)
    for reward in values:
        agent.update(0, rng.random(1), rng.random(1), reward, [0.5])
    info = {"action_low": [low], "action_high": [min(low + width, 1.0)]}
    x, balls = np.array([0.3]), agent.partition(0)
    relevant = (balls.low[:, 0] <= x) & (x < balls.high[:, 0])
    meets = (balls.low[:, 1] <= info["action_high"][0]) & (
        (low < balls.high[:, 1]) | (balls.high[:, 1] == 1.0)
    )
    best = min(1.0, balls.q_value[relevant & meets].max())
    assert agent.value(0, x, info=info) == best
    played = agent.act(0, x, info=info)
    assert low <= played[0] <= info["action_high"][0]
    assert min(1.0, agent.q_value(0, x, played)) == best


@pytest.mark.plain
def test_a_mask_of_everything_changes_no_value_and_a_mask_of_one_leaves_one():
    agent = zooming.AdaptiveQ(Boxes(UNIT, Discrete(6)), horizon=2, bonus=0.0, ties="first", seed=0)
    for action in range(6):
        agent.update(1, [0.5], action, action / 5, [0.5])
    everything = {"action_mask": np.ones(6, np.int8)}
    assert agent.value(1, [0.5], info=everything) == agent.value(1, [0.5]) == 1.0
    assert agent.predict([0.5], [1], info=everything)[0] == agent.predict([0.5], [1])[0] == 5
    for action in range(6):
        only = {"action_mask": np.eye(6, dtype=bool)[action]}
        assert agent.value(1, [0.5], info=only) == action / 5
        assert agent.act(1, [0.5], info=only) == agent.predict([0.5], [1], info=only)[0] == action
        # The next value of an update is that of the feasible actions; after a terminal state there
        # is none.
        agent.update(0, [0.5], action, 0.0, [0.5], next_info=only)
        assert agent.q_value(0, [0.5], action) == pytest.approx(action / 5)
    agent.update(0, [0.5], 5, 0.0, [0.5], True, next_info={"action_mask": np.zeros(6)})
    assert agent.q_value(0, [0.5], 5) < 1.0


@pytest.mark.plain
def test_ties_among_feasible_balls_are_broken_as_the_agent_says():
    first = zooming.AdaptiveQ(Boxes(UNIT, Discrete(6)), horizon=1, ties="first", seed=0)
    mask = {"action_mask": np.array([0, 0, 1, 1, 0, 1])}
    assert first.act(0, [0.5], info=mask) == 2
    chance = zooming.AdaptiveQ(Boxes(UNIT, Discrete(6)), horizon=1, seed=0)
    counts = np.bincount([chance.act(0, [0.5], info=mask) for _ in range(600)], minlength=6)
    assert (counts[[0, 1, 4]] == 0).all()
    assert (counts[[2, 3, 5]] > 150).all()


class Corridor(gym.Env):
    """Rooms 0 to 4: 0 goes left, 1 right, 2 takes the prize of room 4; walls are not feasible,
    and complained about."""

    def __init__(self, bounded=False):
        self.bounded = bounded
        self.observation_space = Discrete(5)
        self.action_space = Box(-1.0, 1.0, (1,)) if bounded else Discrete(3)

    def _info(self):
        if self.bounded:
            return {
                "action_low": [-1.0 if self.room else 0.0],
                "action_high": [1.0 if self.room < 4 else 0.0],
            }
        return {"action_mask": np.array([self.room > 0, self.room < 4, self.room == 4], np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = 0
        return np.int64(self.room), self._info()

    def step(self, action):
        if self.bounded:
            move = int(np.sign(np.round(action[0])))
            assert self._info()["action_low"] <= action <= self._info()["action_high"]
        else:
            assert self._info()["action_mask"][action]
            move = (-1, 1, 0)[action]
        self.room += move
        return np.int64(self.room), float(move == 0 and self.room == 4), False, False, self._info()


@pytest.mark.parametrize("bounded", [False, True])
def test_the_python_driver_and_evaluate_pass_on_what_is_feasible(bounded):
    env = Corridor(bounded)
    agent = zooming.AdaptiveQ(env, horizon=6, bonus=0.05, seed=0)
    agent.learn(600)
    assert zooming.evaluate(agent, env, 2).mean >= (
        1.0 if bounded else 2.0
    )  # four steps there, two prizes
    zooming.Random(env, horizon=6, seed=0).learn(20)


@pytest.mark.plain
def test_a_batch_has_an_info_per_environment():
    agent = zooming.AdaptiveQ(Boxes(UNIT, Discrete(3)), horizon=1, seed=0)
    masks = [{"action_mask": np.eye(3)[k]} for k in (2, 0, 1)]
    actions, _ = agent.predict(np.full((4, 1), 0.5), info=[*masks, None])
    assert actions[:3].tolist() == [2, 0, 1]
    with pytest.raises(zooming.ConfigurationError, match="info has 3 entries for 4 observations"):
        agent.predict(np.full((4, 1), 0.5), info=masks)


@pytest.mark.plain
@pytest.mark.parametrize("space", [Discrete(3), Dict(gear=Discrete(3))], ids=["mask", "nested"])
def test_a_vector_environment_of_gymnasium_gives_one_dict_of_arrays(space):
    class Masked(gym.Env):
        observation_space, action_space = UNIT, space

        def __init__(self, mask):
            self.mask = mask

        def reset(self, *, seed=None, options=None):
            nested = {"gear": self.mask} if isinstance(space, Dict) else self.mask
            return np.array([0.5]), {} if self.mask is None else {"action_mask": nested, "other": 1}

    masks = [np.eye(3, dtype=np.int8)[k] for k in (2, 0, 1)]
    envs = gym.vector.SyncVectorEnv([lambda mask=mask: Masked(mask) for mask in [*masks, None]])
    observations, info = envs.reset()
    agent = zooming.AdaptiveQ(Masked(None), horizon=1, seed=0)
    actions = agent.predict(observations, info=info)[0]
    assert (actions["gear"] if isinstance(space, Dict) else actions)[:3].tolist() == [2, 0, 1]
    envs.close()


@pytest.mark.plain
def test_an_info_that_is_none_is_refused():
    agent = zooming.AdaptiveQ(Boxes(UNIT, Discrete(3)), horizon=1, seed=0)
    mask = {"action_mask": np.ones(3)}
    text = "for one observation give the dict that came with it"
    with pytest.raises(zooming.ConfigurationError, match=text):
        agent.predict([0.5], info=[mask])
    said = r"info\[1\] is 3; give the dict of each environment, or None"
    with pytest.raises(zooming.ConfigurationError, match=said):
        agent.predict(np.full((2, 1), 0.5), info=[mask, 3])
    message = r"info\['action_mask'\] has 3 entries for 2 observations"
    with pytest.raises(zooming.ConfigurationError, match=message):
        agent.predict(np.full((2, 1), 0.5), info={"action_mask": np.ones((3, 3))})


@pytest.mark.plain
def test_the_mask_of_a_shaped_multidiscrete_is_nested_as_sample_takes_it():
    space = MultiDiscrete([[2, 3], [2, 2]])
    mask = (
        (np.array([0, 1], np.int8), np.array([0, 0, 1], np.int8)),
        (np.array([1, 0], np.int8), np.array([0, 1], np.int8)),
    )
    assert space.sample(mask=mask).tolist() == [[1, 2], [0, 1]]
    agent = zooming.AdaptiveQ(Boxes(UNIT, space), horizon=1, seed=0)
    assert agent.act(0, [0.5], info={"action_mask": mask}).tolist() == [[1, 2], [0, 1]]


# --- what is not a feasible set -------------------------------------------------------------------

BAD = {
    "short mask": (Discrete(3), {"action_mask": np.ones(2)},
        r"info\['action_mask'\] is .*; expected 3 entries of 0 or 1"),
    "mask of shares": (Discrete(3), {"action_mask": [0.5, 0.5, 0]}, "expected 3 entries of 0 or 1"),
    "mask of words": (Discrete(3), {"action_mask": ["a", "b", "c"]}, "is not an array of"),
    "empty mask": (Discrete(3), {"action_mask": np.zeros(3)},
        "step 0: no value of action is feasible; an environment must"),
    "binary": (MultiBinary(2), {"action_mask": [0, 3]},
        r"expected 2 entries of 0, 1 or 2 \(either\)"),
    "components": (MultiDiscrete([2, 3]), {"action_mask": (np.ones(2),)},
        "one array for each of its 2 components"),
    "mask of a box": (UNIT, {"action_mask": [1]}, "action is a Box, which has no mask; give info"),
    "unknown key": (Dict(gear=Discrete(2)), {"action_mask": {"gaer": [1, 1]}},
        r"expected a dict with some of the keys \['gear'\]"),
    "short tuple": (Tuple([UNIT, UNIT]), {"action_low": ([0.0],)},
        "expected 2 parts, None where every value is feasible"),
    "bounds of another shape": (box((0, 1), (0, 1)), {"action_low": [0, 0, 0]},
        r"expected numbers of the shape \(2,\)"),
    "bound that is no number": (UNIT, {"action_high": [np.nan]},
        r"expected numbers of the shape \(1,\)"),
    "crossed": (UNIT, {"action_low": 0.6, "action_high": 0.4},
        r"no value of action\[0\] is feasible: it must be at least 0.6"),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize(("space", "info", "text"), BAD.values(), ids=BAD)
def test_a_feasible_set_of_the_wrong_form_is_refused_by_name(space, info, text):
    for make in (zooming.AdaptiveQ, zooming.Random):
        agent = make(Boxes(UNIT, space), horizon=2, seed=0)
        for call in (
            lambda agent=agent: agent.act(0, [0.5], info=info),
            lambda agent=agent: agent.predict([0.5], info=info),
        ):
            with pytest.raises(zooming.ZoomingError, match=text):
                call()
    with pytest.raises(zooming.ZoomingError, match=text.replace("step 0", "step 1")):
        zooming.AdaptiveQ(Boxes(UNIT, space), horizon=2).update(
            0, [0.5], space.sample(), 0.5, [0.5], next_info=info
        )


@pytest.mark.plain
def test_bounds_are_rounded_inwards_to_float32():
    agent = zooming.Random(Boxes(UNIT, Box(0.0, 1.0, (1,), np.float32)), horizon=1, seed=0)
    found = feasible(agent.axes, {"action_low": [0.1], "action_high": [0.1 + 1e-8]}, "here")
    assert 0.1 <= found.low[0] <= found.high[0] <= 0.1 + 1e-8
    assert np.float32(found.low[0]) == found.low[0]
