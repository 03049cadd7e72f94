"""Every agent passes the harness; an agent that breaks a promise is told which; an agent of
one's own can pass."""

import functools
import random

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import AGENTS, BOXES, KINDS, Drift
from zooming.errors import BrokenPromise
from zooming.testing import PROMISES

PLAIN_KINDS = [pytest.param(kind, marks=pytest.mark.plain) for kind in KINDS]


@pytest.mark.parametrize("kind", [*PLAIN_KINDS, *(kind for kind in AGENTS if kind not in KINDS)])
def test_every_agent_passes(kind):
    checked = zooming.check_agent(AGENTS[kind])
    skipped = {line.split(" (")[0] for line in checked.skipped if "Ambulance" in line}
    masks = "only actions that info allows are played, by act and by predict"
    ends = "after a terminal transition there is no future value"
    balls = "an agent with max_balls never has more balls than that"
    assert skipped == {masks} | (set() if kind in (*BOXES, "MetricQ") else {ends}) | (
        set() if kind in ("AdaptiveQ", "as_published", "MetricQ") else {balls}
    )
    everything = {line for line in checked.skipped if line.startswith("everything")}
    impossible = {"NoMovement": 2, "Median": 2, "MetricQ": 1}.get(kind, 0)  # of three problems
    assert len(everything) == impossible
    assert any("(Uneven)" in line for line in everything) == (impossible == 2)
    assert any("(Gears)" in line for line in everything) == (impossible > 0)
    assert (f"{masks} (Gears)" in checked.kept) == (impossible == 0)
    assert len(checked.kept) + len(checked.skipped) == impossible + (3 - impossible) * len(PROMISES)
    assert str(checked).count("\n") == len(checked.kept) + len(checked.skipped) - 1


def go(state, action, step, params, rng, next_state):
    next_state[0] = min(4.0, action[0] + float(int(1.25 * rng.random())))
    return 1.0 - abs(state[0] - action[0]) / 8.0


def five_places():
    """A compiled environment of Discrete spaces: where you say is where you go, now and then one
    further."""

    five = gym.spaces.Discrete(5)
    return zooming.compiled_env(go, five, five, 3, start="uniform")


METRIC_Q = functools.partial(zooming.MetricQ, metric=zooming.metrics.Discrete())


@pytest.mark.slow
@pytest.mark.parametrize("make", [zooming.AdaptiveQ, METRIC_Q, zooming.Random])
def test_every_agent_passes_on_discrete_spaces_that_are_compiled(make):
    checked = zooming.check_agent(make, five_places)
    assert (
        "the fused driver and the Python one give the same run to the last bit (CompiledEnv)"
        in checked.kept
    )


class Best(zooming.Agent):
    """Plays near the best action of each step so far. Sound; the agents below break one promise
    each."""

    def __init__(self, env, **options):
        super().__init__(env, **options)
        self.generator = np.random.default_rng(self.seed)
        self.best = [(-np.inf, self.middle())] * self.horizon

    def middle(self):
        return np.mean(self.axes.action_ends, axis=0)

    def act(self, step, observation, *, info=None):
        self.checked_state(step, observation)
        low, high = self.axes.action_ends
        near = self.best[step][1] + 0.1 * (high - low) * self.generator.standard_normal(len(low))
        return self.axes.shaped_action(self.nearest_feasible(step, np.clip(near, low, high), info))

    def update(
        self, step, observation, action, reward, next_observation, terminated=False, **options
    ):
        _, action, reward, _ = self.checked_transition(
            step, observation, action, reward, next_observation
        )
        self.best[step] = max(self.best[step], (reward, action), key=lambda pair: pair[0])

    def greedy(self, step, state):
        return self.best[step][1]


@pytest.mark.plain
def test_an_agent_of_ones_own_passes_and_learns():
    checked = zooming.check_agent(Best)
    assert any(
        line.startswith("an agent that is saved") for line in checked.skipped
    )  # load() builds zooming's own classes only
    env = gym.make("zooming/Oil-v0")
    assert zooming.evaluate(Best(env, seed=0), env, 2).mean < 4.0
    agent = Best(env, seed=0)
    agent.learn(300)
    assert zooming.evaluate(agent, env, 2).mean > 4.0


@pytest.mark.plain
def test_an_agent_for_one_problem_is_checked_on_it():
    class Here(Best):
        def __init__(self, env, seed):
            super().__init__(env, horizon=3, seed=seed)

    checked = zooming.check_agent(Here, make_env=Drift)
    assert all(line.endswith("(Drift)") for line in checked.kept)
    with pytest.raises(zooming.ConfigurationError, match="how long an episode is"):
        zooming.check_agent(Best, make_env=Drift)


@pytest.mark.parametrize("kind", ["AdaptiveQ", "NetQ", "Random", "Best"])
def test_sound_agents_pass_on_any_kind_of_space(kind):
    def make(env, seed):
        options = (
            {"squash": 5.0, "weights": {"state": 0.3}} if kind.endswith("Q") else {"squash": True}
        )
        return {**AGENTS, "Best": Best}[kind](env, seed=seed, **options)

    checked = zooming.check_agent(make, lambda: gym.make("CartPole-v1", max_episode_steps=4))
    assert any(line.startswith("predict accepts a batch") for line in checked.kept)
    assert any(line.startswith("an invalid state, action, reward or step") for line in checked.kept)


@pytest.mark.plain
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_what_predict_plays(kind):
    agent = AGENTS[kind](gym.make("zooming/Ambulance-v0", n_ambulances=2), seed=0)
    agent.learn(10)
    state = agent.checked_state(3, [0.2, 1.0 + 1e-9])
    assert state.tolist() == [0.2, 1.0]
    assert agent.greedy(3, state).tolist() == agent.predict([0.2, 1.0], state=[3])[0].tolist()


def test_a_policy_that_was_not_defined_is_named():
    class Aimless(Best):
        greedy = zooming.Agent.greedy

    message = r"NotImplementedError: Aimless .* define greedy\(self, step, state\)"
    with pytest.raises(BrokenPromise, match=message):
        zooming.check_agent(Aimless)


# --- one broken agent per promise -----------------------------------------------------------------


class OverrunsAStop(Best):
    def learn(self, episodes, callback=None, **options):
        history = super().learn(episodes, callback=callback, **options)
        if len(history) < episodes:
            self.generator.random()
        return history


class OtherFused(zooming.AdaptiveQ):
    def act(self, step, observation, **options):
        self.table.core["random"] += 1
        return super().act(step, observation, **options)


class GoesOnForever(zooming.AdaptiveQ):
    def update(self, step, observation, action, reward, after, terminated=False, **options):
        super().update(step, observation, action, reward, after, False, **options)


class ForgetsItsGenerator(Best):
    def save(self, path):
        np.savez(path.with_suffix(".npz"), *[np.append(*pair) for pair in self.best])

    @classmethod
    def load(cls, path, env=None):
        agent = cls(env, seed=0)
        pairs = np.load(path.with_suffix(".npz"))
        agent.best = [(pairs[name][0], pairs[name][1:]) for name in pairs]
        return agent


class Greedy(zooming.AdaptiveQ):
    """Takes a ball more than it was allowed."""

    def __init__(self, env, max_balls=None, **options):
        super().__init__(env, max_balls=None if max_balls is None else 2 * max_balls, **options)
        self.max_balls = max_balls


def acts(change):
    """Return an `act` that changes the agent or the action: `change(agent, step, action)`."""

    def act(self, step, observation, **options):
        return change(self, step, Best.act(self, step, observation, **options))

    return {"act": act}


def draws(self, *given):
    self.generator.random()
    return given[-1] if given else None


def overwrite(self, step, observation, **options):
    action = Best.act(self, step, observation, **options)
    if isinstance(observation, np.ndarray):
        observation[:] = self.axes.low[: self.axes.n_state]
    return action


def clip(self, step, observation, **options):
    space = self.axes.state_space
    if np.isfinite(observation).all():
        observation = np.clip(observation, space.low, space.high)
    return Best.act(self, step, observation, **options)


def believe(self, step, observation, action, reward, *rest, **options):
    step, action = self.problem.check_step(step), self.axes.flat_action(action)
    self.best[step] = max(self.best[step], (reward, action), key=lambda pair: pair[0])


def start_over(self, episodes, **options):
    self.generator = np.random.default_rng(self.seed)
    return Best.learn(self, episodes, **options)


def ignore_steps(self, observation, state=None, *rest, **options):
    _, after = Best.predict(self, observation, state, *rest, **options)
    return Best.predict(self, observation, None if len(after) > 1 else state)[0], after


def stay(self, *given, **options):
    actions, after = Best.predict(self, *given, **options)
    return actions, after - 1


def broken(name, base=Best, **members):
    return type(name, (base,), members)


SURFACE, INSIDE = (
    "an agent has learn, act, update, predict",
    "act and predict return actions of the action space",
)
SEEDS, BATCHES, MASKS = (
    "two agents with the same seed",
    "predict accepts a batch",
    "only actions that info allows",
)
INVALID, GLOBAL = (
    "an invalid state, action, reward or step",
    "an agent never uses the global random generators",
)
LATER, MOVED = "the returns differ from episode", "numpy.random or random has moved"
BROKEN = {
    broken("NoPredict", predict=None): (SURFACE, "it has no method predict"),
    broken("FloatBalls", n_balls=2.5): (SURFACE, "n_balls is 2.5, not a whole number"),
    broken("FewReturns", learn=lambda self, episodes,
        **options: Best.learn(self, episodes - 1, **options)): (r"learn\(n\) returns a history",
        "did not give 3 returns"),
    broken("Outside", **acts(lambda self, step, action: action + action.dtype.type(99))): (INSIDE,
        "which is not in Box"),
    broken("WrongType", **acts(lambda self, step, action: action.astype(np.float16))): (INSIDE,
        "'ndarray', 'float16', .*, not .*float64"),
    broken("WrongShape", **acts(lambda self, step, action: action[None])): (INSIDE,
        r"\(1, 1\)\), not .*\(1,\)\)"),
    broken("NumberAction", **acts(lambda self, step, action: float(action[0]))): (INSIDE,
        "'float', .*, not .*'ndarray'"),
    broken("Unseeded", **acts(lambda self, step,
        action: np.random.default_rng().permutation(self.axes.action_ends)[0])): (SEEDS,
        "the returns differ from episode 1 on"),
    broken("PredictDraws", greedy=lambda self, step,
        state: draws(self, Best.greedy(self, step,
        state))): ("predict changes nothing, and a second call", LATER),
    broken("PredictIsRandom", greedy=lambda self, step,
        state: np.random.default_rng().uniform(*self.axes.action_ends)): (SEEDS,
        "the histories agree, but the policies differ"),
    broken("StepStays", predict=stay): (BATCHES, "not one higher"),
    broken("IgnoresTheStep", predict=ignore_steps): (BATCHES, "one by one have different actions"),
    broken("IgnoresStarts", predict=lambda self, observation, state=None, episode_start=None, *rest,
        **options: (Best.predict(self, observation, state, None, *rest, **options))): (BATCHES,
        "episode_start=.* gave the steps"),
    broken("StartsOver", learn=start_over): (r"learn\(a\) then learn\(b\)", LATER),
    broken("Deaf", learn=lambda self, episodes, callback=None,
        **options: Best.learn(self, episodes, **options)): ("a callback sees every episode",
        r"called after the episodes \[\]"),
    OverrunsAStop: ("a callback sees every episode", LATER),
    ForgetsItsGenerator: ("an agent that is saved and loaded", LATER),
    OtherFused: ("the fused driver and the Python one", "differ"),
    broken("Credulous", update=believe): (INVALID, "a reward of nan was not refused"),
    broken("Crashes", act=lambda self, step, observation,
        **options: (self.best[step] and Best.act(self, step, observation, **options))): (INVALID,
        r"act at step 5 raised IndexError .*, which is no ValueError"),
    broken("LearnsThenRefuses", update=lambda self, *given,
        **options: draws(self) or Best.update(self, *given, **options)): (INVALID, LATER),
    broken("Clips", act=clip): (INVALID, r"act in the state \[2.\] was not refused"),
    GoesOnForever: ("after a terminal transition",
        "after terminated=True, and .* if the episode goes on"),
    broken("IgnoresMasks", act=lambda self, step, observation,
        **options: Best.act(self, step, observation)): (MASKS,
        r"act\(.* gave .*, which .*action_mask.* does not allow"),
    broken("PredictIgnoresMasks", predict=lambda self, observation, state=None, episode_start=None,
        deterministic=True, **options: (Best.predict(self, observation, state, episode_start,
        deterministic))): (MASKS, r"predict\(.* gave .*, which .*action_mask.* does not allow"),
    broken("KnowsNoMasks", act=lambda self, step,
        observation: Best.act(self, step, observation)): ("act and predict return actions",
        r"ConfigurationError: Gears says .* .* takes no info; add"),
    broken("Overwrites", act=overwrite): ("an agent does not change the arrays", "changed"),
    Greedy: ("an agent with max_balls", "balls with max_balls=20"),
    broken("GlobalNumPy", **acts(lambda self, step,
        action: (np.random.random(), action)[1])): (GLOBAL, MOVED),
    broken("GlobalPython", greedy=lambda self, step,
        state: (random.random(), Best.greedy(self, step, state))[1]): (GLOBAL, MOVED),
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_promise_is_named_with_what_was_seen(broken):
    promise, seen = BROKEN[broken]
    text = rf'{broken.__name__} on .* breaks the promise "{promise}.*": .*{seen}'
    with pytest.raises(BrokenPromise, match=text) as caught:
        zooming.check_agent(broken)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, zooming.ZoomingError)


def test_every_promise_has_an_agent_that_breaks_it():
    told = {promise.replace("\\", "") for promise, _ in BROKEN.values()}
    for check in PROMISES:
        assert any(check.__doc__.startswith(promise) for promise in told), check.__doc__
