"""Resolver: plans on the noise that it has seen, never on the law that is declared."""

import math
import warnings

import gymnasium as gym
import numpy as np
import pytest

import zooming
from helpers import box, same_history
from zooming.agents.files import container
from zooming.agents.resolver import changed_after
from zooming.envs.state_grid import GridPolicy
from zooming.export import regions

pytestmark = pytest.mark.kernels

STOCK = box((0.0, 20.0))
KNOWN = ["Newsvendor", "Regulator", "GraphAmbulance", "Bidding", "Allocation"]


def day(state, action, step, params, outcome, next_state):
    level = min(state[0] + action[0], 20.0)
    sold = min(level, outcome[0])
    next_state[0] = level - sold
    return 3.0 * sold - (level - state[0]) - 0.2 * (level - sold)


def shop(law=((0.0,), (1.0,)), horizon=4):
    return zooming.compiled_env(day, STOCK, STOCK, horizon, start=[0.0], outcomes=law)


class Shop(gym.Env):
    """A shop in Python, which shows sales and hides demand beyond the stock."""

    def __init__(self, mean=5.0, hides=False, horizon=4):
        self.observation_space = self.action_space = STOCK
        self.mean, self.hides, self.horizon = mean, hides, horizon

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock, self.now = 0.0, 0
        return np.array([self.stock]), {}

    def step(self, action):
        demand, after = float(min(self.np_random.poisson(self.mean), 20)), np.empty(1)
        level = min(self.stock + float(action[0]), 20.0)
        reward = day([self.stock], action, self.now, None, [demand], after)
        self.stock, self.now = float(after[0]), self.now + 1
        info = {"outcome": demand}
        if self.hides:
            info = {"outcome": min(demand, level), "censored": demand >= level}
        return after, reward, self.now == self.horizon, False, info


def guess(state, action, step, params, outcome, next_state):
    next_state[0] = outcome[0]
    return 1.0 - abs(action[0] - state[0] / 60.0)


def test_numbers_of_categories_are_never_condensed_to_what_lies_between_them():
    law = np.arange(60.0), np.full(60, 1 / 60)  # more values than a law for a plan has
    env = zooming.compiled_env(
        guess, gym.spaces.Discrete(60), box((0.0, 1.0)), 4, start="uniform", outcomes=law
    )
    agent = zooming.Resolver(env, seed=0)
    assert agent.learn(60).returns[20:].mean() > 3.9  # the optimum is 4


# --- the policy on a grid -------------------------------------------------------------------------


def plain_action(policy, step, state):
    """The action of a state, by the formula at the head of `kernels.solve.policies`."""
    shape = policy.cells + 1
    low, width = policy.frame[0, : len(state)], policy.frame[1, : len(state)]
    unit = (np.asarray(state) - low) / width
    place = np.clip(np.floor(unit * policy.cells + 0.5).astype(int), 0, policy.cells)
    own = np.ravel_multi_index(place, shape)
    action = policy.best[step, own].copy()
    for j in range(len(state)):
        away = unit[j] - place[j] / policy.cells[j]
        side = int(away > 0)
        if policy.mixes[step, own, 2 * j + side]:
            beside = place.copy()
            beside[j] += 2 * side - 1
            there = policy.best[step, np.ravel_multi_index(beside, shape)]
            action += abs(away) * policy.cells[j] * (there - policy.best[step, own])
    high = policy.frame[3, : len(action)]
    return np.clip(action, policy.frame[2, : len(action)], high)


@pytest.mark.plain
@pytest.mark.parametrize("n_state", [1, 2])
def test_actions_between_grid_points_are_mixed_as_the_formula_says(n_state):
    rng = np.random.default_rng(0)
    states, actions = box(*[(-1.0, 3.0)] * n_state), box((0.0, 1.0), (-5.0, 5.0))
    policy = GridPolicy(states, actions, (False, False), 3, 4)
    policy.best[:] = actions.low + rng.random(policy.best.shape) * (actions.high - actions.low)
    inner = np.full(policy.mixes.shape, 1, np.uint8)
    from zooming.envs.state_grid import _neighbors

    policy.mixes[:] = inner & _neighbors(policy.cells) & rng.integers(0, 2, inner.shape)
    points = states.low + rng.random((200, n_state)) * (states.high - states.low)
    steps = rng.integers(0, 3, 200)
    found = policy.actions(steps, points)
    expected = [plain_action(policy, h, x) for h, x in zip(steps, points, strict=True)]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


def test_the_plan_for_a_law_is_the_optimum_for_it():
    law = (np.arange(12.0), np.full(12, 1 / 12))
    env = shop(law)
    policy = GridPolicy.of(env, 4)
    policy.solve(env, [(law[0][:, None], law[1])] * 4)
    optimal = zooming.solve(env)

    def play(step, observation):
        return policy.actions(np.array([step]), np.atleast_2d(observation))[0]

    assert policy.value(0, np.zeros(1)) == pytest.approx(optimal.return_, abs=1e-3)
    earned = zooming.evaluate(play, env, exact=True).mean
    assert earned == pytest.approx(optimal.return_, abs=1e-3)


# --- the agent ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_both_drivers_make_the_same_run(name):
    fused, python = (zooming.Resolver(gym.make(f"zooming/{name}-v0"), seed=3) for _ in range(2))
    assert same_history(fused.learn(17, driver="fused"), python.learn(17, driver="python"))
    assert fused.records.values.tobytes() == python.records.values.tobytes()


@pytest.mark.parametrize(("name", "share"), [("Newsvendor", 0.97), ("Regulator", 0.99)])
def test_a_few_episodes_are_enough(name, share):
    env = gym.make(f"zooming/{name}-v0")
    best = zooming.solve(env).return_
    least = zooming.Random(env, seed=0).learn(2000).returns.mean()
    found = []
    for seed in range(4):
        agent = zooming.Resolver(env, seed=seed)
        agent.learn(30)
        found.append(zooming.evaluate(agent, env, exact=True).mean)
    assert np.mean(found) > least + share * (best - least)


def test_it_plans_within_the_first_episode():
    """Once after steps 1, 2 and 4, with both drivers; without it, the first episode is lost."""
    for driver in ("fused", "python"):
        agent = zooming.Resolver(gym.make("zooming/Newsvendor-v0"), seed=3)
        first = agent.learn(1, driver=driver).returns[0]
        assert agent.status()["plans"] == 3
        assert (
            first == zooming.Resolver(gym.make("zooming/Newsvendor-v0"), seed=3).learn(1).returns[0]
        )
    returns = [
        zooming.Resolver(gym.make("zooming/Newsvendor-v0"), seed=seed).learn(1).returns[0]
        for seed in range(10)
    ]
    assert np.mean(returns) > 51.5  # of random orders; the optimum is 63.9


def picky(state, action, step, params, outcome, next_state):
    next_state[0] = state[0] if outcome[0] != 5.0 else np.nan
    return -abs(action[0] - outcome[0])


def test_values_that_smoothing_adds_may_be_refused_by_the_dynamics():
    env = zooming.compiled_env(picky, STOCK, STOCK, 2, start=[0.0], outcomes=([0.0], [1.0]))
    agent = zooming.Resolver(env, seed=0)
    agent.learn_records(zooming.Records([[1.0, 3.0], [4.0, 6.0], [7.0, 9.0], [2.0, 8.0]]))
    assert 5.0 not in agent._laws[0][0]
    with pytest.raises(zooming.ConfigurationError, match=r"next_state\[0\] is nan"):
        agent.learn_records(zooming.Records([[1.0, 5.0], [4.0, 6.0]]))
    assert agent.n_episodes == len(agent.records.values) == 4  # nothing has changed


def test_the_declared_law_is_never_read(monkeypatch):
    env = gym.make("zooming/Newsvendor-v0").unwrapped

    def forbidden(*arguments):
        raise AssertionError("the declared law was read")

    monkeypatch.setattr(env, "outcomes", forbidden)
    monkeypatch.setattr(env, "weigh", forbidden)
    agent = zooming.Resolver(env, seed=0)
    agent.learn(12)
    assert agent.status()["noise"] == 12 * 7
    assert agent.q_value(0, [0.0], [6.0]) <= agent.value(0, [0.0]) + 1e-6


def test_a_model_and_told_outcomes_serve_any_environment():
    runs = [
        zooming.Resolver(Shop(), model=shop(), horizon=4, seed=0),
        zooming.Resolver(
            Shop(), model=shop(), horizon=4, seed=0,
            outcome=lambda before, action, reward, after, info: [info["outcome"]],
        ),
    ]  # fmt: skip
    assert same_history(*(agent.learn(30) for agent in runs))
    with pytest.raises(zooming.ConfigurationError, match="its dynamics are unknown"):
        zooming.Resolver(Shop(), horizon=4)
    with pytest.raises(zooming.ConfigurationError, match="give a model of the same spaces"):
        zooming.Resolver(Shop(), model=gym.make("zooming/Oil-v0"), horizon=4)
    with pytest.raises(zooming.ConfigurationError, match="outcome=3: give a function"):
        zooming.Resolver(Shop(), model=shop(), horizon=4, outcome=3)


def test_a_log_without_outcomes_is_refused():
    env = gym.make("zooming/Newsvendor-v0")
    agent = zooming.Resolver(env, seed=0)
    with pytest.raises(zooming.ConfigurationError, match="a log has no outcomes, so nothing would"):
        agent.learn_from(zooming.record(env, env.unwrapped.rule, 2))
    assert agent.n_episodes == 0


def test_a_bad_outcome_changes_nothing():
    agent = zooming.Resolver(Shop(), model=shop(), horizon=4, seed=0)
    agent.learn(3)
    before = agent.records.values.tobytes()
    for bad in ("many", [1.0, 2.0], np.nan):
        with pytest.raises(
            zooming.TransitionError, match=r"step 0: the outcome .* is not 1 finite"
        ):
            agent.update(0, [0.0], [1.0], 0.0, [0.0], next_info={"outcome": bad})
    assert (agent.records.values.tobytes(), agent.n_episodes) == (before, 3)
    with pytest.warns(UserWarning, match="was given no outcome"):
        agent.update(0, [0.0], [1.0], 0.0, [0.0])
    assert "without an outcome" in agent.status()["warnings"][0]


def test_dynamics_that_draw_with_rng_are_refused():
    def drawing(state, action, step, params, rng, next_state):
        next_state[0] = rng.random()
        return 0.0

    env = zooming.compiled_env(drawing, STOCK, STOCK, 3, start=[0.0])
    with pytest.raises(zooming.ConfigurationError, match="does not tell its outcomes"):
        zooming.Resolver(env)


def four(state, action, step, params, outcome, next_state):
    next_state[:] = state
    return 0.0


def test_more_state_axes_than_can_be_solved_are_named():
    cube = box(*[(0.0, 1.0)] * 4)
    env = zooming.compiled_env(four, cube, STOCK, 2, start=0.5, outcomes=([0.0], [1.0]))
    with pytest.raises(zooming.ConfigurationError, match=r"4 state axes .* zooming.Auto\(env\)"):
        zooming.Resolver(env)


def test_a_change_of_the_law_is_noticed_and_old_noise_dropped():
    env = Shop(mean=3.0)
    agent = zooming.Resolver(env, model=shop(), horizon=4, seed=0)
    agent.learn(200)
    assert "law changed" not in agent.status()
    env.mean = 8.0
    agent.learn(50)
    assert 190 <= int(agent.status()["law changed"].split()[-1]) <= 215
    assert agent.records.values.mean() > 7.0


@pytest.mark.plain
def test_a_change_of_the_law_is_noticed_on_the_noise_within_50_episodes():
    """By an agent that looks every five episodes, as `Resolver` does."""
    delays = {"mean": [], "spread": []}
    for kind, found in delays.items():
        for seed in range(20):
            rng = np.random.default_rng(seed)
            after = rng.poisson(8.0, (50, 4)) if kind == "mean" else rng.choice([0, 10], (50, 4))
            seen = np.concatenate([rng.poisson(5.0, (300, 4)), after])[:, :, None].astype(float)
            looks = (n for n in range(305, 351, 5) if changed_after(seen[:n]) is not None)
            found.append(next(looks, 999) - 300)
    assert max(delays["mean"]) <= 50
    assert max(delays["spread"]) <= 50


@pytest.mark.plain
def test_alarms_without_a_change_are_one_in_thousands_of_episodes():
    alarms = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        seen = rng.poisson(5.0, (1000, 4, 1)) + rng.normal(size=(1000, 1, 1)) * (seed % 2)
        alarms += sum(changed_after(seen[:n]) is not None for n in range(25, 1001, 5)) > 0
    assert alarms <= 2


def test_it_keeps_the_promises_of_every_agent():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of updates without an outcome
        checked = zooming.check_agent(zooming.Resolver)
    assert len(checked.kept) >= 13
    assert any("fused driver" in promise for promise in checked.kept)


def test_auto_plays_a_resolver_where_the_dynamics_are_known(tmp_path):
    agent = zooming.Auto(Shop(), resolver={"model": shop()}, horizon=4, seed=0)
    agent.learn(60)
    status = agent.status()
    assert (status["plays"], status["recommended"]) == ("resolver", "resolver")
    assert status["resolver"] == {"noise": 240, "plans": 25, "law": "one for all steps"}
    assert agent.resolver.n_episodes == agent.planner.n_episodes == 60  # all learn from all
    assert not status["warnings"]
    with pytest.raises(zooming.ConfigurationError, match=r"save agent\.resolver"):
        agent.save(tmp_path / "auto.zoom")
    env = shop((np.arange(12.0), np.full(12, 1 / 12)))
    agent = zooming.Auto(env, resolver=True, seed=0)
    agent.learn(20)
    agent.save(tmp_path / "auto.zoom")
    loaded = zooming.load(tmp_path / "auto.zoom", env=env)
    assert same_history(loaded.learn(10), agent.learn(10))
    assert zooming.evaluate(agent, env, exact=True).mean > 0.98 * zooming.solve(env).return_
    for bad in ({"resolver": 3}, {"resolver": True, "rule": (order, {"level": (0.0, 9.0)})}):
        with pytest.raises(zooming.ConfigurationError, match="give True, or a dict of options"):
            zooming.Auto(env, **bad)


def order(step, stock, level):
    return [max(0.0, level - stock[0])]


def sell(state, action, step, params, outcome, next_state):
    sold = min(state[0], outcome[0])
    next_state[0] = state[0] - sold
    return sold * action[0]


def customers(state, action, step, params, values, weights):
    weights[0] = action[0] / 20.0
    weights[1] = 1.0 - weights[0]


def test_auto_drops_a_resolver_where_the_noise_depends_on_the_action():
    """Few buy at a high price. Who plans as if they were as few at each price sells nothing."""
    env = zooming.compiled_env(sell, STOCK, STOCK, 3, start=[9.0], outcomes=([0.0, 1.0], customers))
    alone, agent = zooming.Resolver(env, seed=0), zooming.Auto(env, resolver=True, seed=0)
    alone.learn(300)
    agent.learn(300)
    best = zooming.solve(env, 20).return_
    assert zooming.evaluate(alone, env, exact=True).mean < 0.5 * best
    assert zooming.evaluate(agent, env, exact=True).mean > 0.9 * best
    assert agent.status()["recommended"] == "planner"


def test_hidden_demand_is_learned_all_the_same():
    law = np.array([math.exp(-5.0) * 5.0**k / math.factorial(k) for k in range(21)])
    truth = shop((np.arange(21.0), law / law.sum()))
    best = zooming.solve(truth).return_
    least = zooming.Random(truth, seed=0).learn(2000).returns.mean()
    for seed in range(2):
        agent = zooming.Resolver(Shop(hides=True), model=shop(), horizon=4, seed=seed)
        agent.learn(150)
        assert agent.records.censored.any()
        earned = zooming.evaluate(agent, truth, exact=True).mean
        assert earned > least + 0.98 * (best - least)


class HiddenPrices(gym.Wrapper):
    """Auctions that tell the highest other bid only to the winner."""

    def step(self, action):
        *rest, info = self.env.step(action)
        price, bid = float(info["outcome"][0]), float(action[0])
        is_lost = price > bid
        seen = np.nextafter(bid, np.inf) if is_lost else price
        return *rest, {"outcome": seen, "censored": is_lost}


def test_prices_of_lost_auctions_are_hidden_and_bids_learned_all_the_same():
    env = gym.make("zooming/Bidding-v0")
    best = env.unwrapped.closed_form()
    least = zooming.Random(env, seed=0).learn(4000).returns.mean()
    shares = []
    for seed in range(3):
        agent = zooming.Resolver(HiddenPrices(env), model=env, seed=seed)
        agent.learn(300)
        assert agent.records.censored.mean() > 0.3
        earned = zooming.evaluate(agent, env, exact=True).mean
        shares.append((earned - least) / (best - least))
    assert np.mean(shares) > 0.96


@pytest.mark.parametrize(
    ("chosen", "how", "said"),
    [
        ({"by": ("week", "week", (6, "end"), (6, "end"))}, "season", "one law per season"),
        ({"law": "step"}, "step", "one per step"),
    ],
)
def test_a_chosen_law_is_kept_while_it_goes_on_learning(tmp_path, chosen, how, said):
    env = shop((np.arange(12.0), np.full(12, 1 / 12)))
    agent = zooming.Resolver(env, seed=0)
    values = np.random.default_rng(0).integers(0, 12, (20, 4)).astype(float)
    agent.learn_records(zooming.Records(values, names="demand", **chosen))
    agent.learn(8)
    agent.learn_records(zooming.Records(values))  # which chooses nothing
    agent.save(tmp_path / "shop.zoom")
    loaded = zooming.load(tmp_path / "shop.zoom", env=env)
    loaded.learn(80)
    agent.learn(80)
    assert agent.plan.best.tobytes() == loaded.plan.best.tobytes()
    for one in (agent, loaded):
        assert one.records.choice(4)[0] == how
        assert one.status()["law"] == said
    laws = [law.tobytes() for law, _ in agent.records.laws(4)]
    assert laws == [law.tobytes() for law, _ in loaded.records.laws(4)]


def test_a_file_without_the_choice_of_a_law_loads(tmp_path):
    env, path = shop((np.arange(12.0), np.full(12, 1 / 12))), tmp_path / "shop.zoom"
    agent = zooming.Resolver(env, seed=0)
    agent.learn_records(zooming.Records(np.arange(8.0).reshape(2, 4), law="step"))
    agent.save(path)
    header, arrays = container.read_container(path)
    stored = header["values"].pop("records")
    container.write_container(path, header, arrays)
    assert zooming.load(path, env=env).records.kind == "auto"
    header["values"]["records"] = {**stored, "law": "odd"}
    container.write_container(path, header, arrays)
    with pytest.raises(zooming.CheckpointError, match="odd"):
        zooming.load(path, env=env)


# --- files and exports ----------------------------------------------------------------------------


def test_a_loaded_agent_plays_without_its_environment(tmp_path):
    env = shop((np.arange(12.0), np.full(12, 1 / 12)))
    agent = zooming.Resolver(env, seed=0)
    agent.learn(15)
    agent.save(tmp_path / "shop.zoom")
    loaded = zooming.load(tmp_path / "shop.zoom")
    batch = np.linspace(0.0, 20.0, 23)[:, None]
    steps = np.arange(23) % 4
    assert (loaded.predict(batch, steps)[0] == agent.predict(batch, steps)[0]).all()
    assert loaded.value(0, [3.3]) == agent.value(0, [3.3])
    with pytest.raises(zooming.ConfigurationError, match="loaded without its environment"):
        loaded.q_value(0, [0.0], [1.0])
    again = zooming.load(tmp_path / "shop.zoom", env=env)
    assert again.q_value(0, [0.0], [1.0]) == agent.q_value(0, [0.0], [1.0])
    assert same_history(again.learn(10), agent.learn(10))


@pytest.mark.parametrize("told", [(), ("outcome",), ("outcome", "censored")])
def test_a_loaded_agent_is_told_its_functions_and_goes_on_as_if_never_stopped(tmp_path, told):
    path, model = tmp_path / "shop.zoom", shop()
    functions = {
        "outcome": lambda before, action, reward, after, info: info["outcome"] + 1.0,
        "censored": lambda before, action, reward, after, info: info["outcome"] > 4.0,
    }
    functions = {"model": model, **{name: functions[name] for name in told}}
    agent = zooming.Resolver(Shop(), horizon=4, seed=0, **functions)
    agent.learn(7)
    agent.save(path)
    zooming.load(path).save(path)  # which forgets nothing
    loaded = zooming.load(path, env=Shop())
    batch, steps = np.linspace(0.0, 20.0, 23)[:, None], np.arange(23) % 4
    assert (loaded.predict(batch, steps)[0] == agent.predict(batch, steps)[0]).all()
    named = ", ".join(f"{name}={name}" for name in functions)
    with pytest.raises(zooming.ConfigurationError, match=rf"agent\.tell\({named}\)"):
        loaded.learn(1)
    for wrong in ({"model": 3}, {"outcome": 3}, {"model": gym.make("zooming/Oil-v0")}):
        with pytest.raises(zooming.ConfigurationError):
            loaded.tell(**wrong)
    for name, function in functions.items():
        loaded.tell(**{name: function})
    assert loaded.q_value(0, [0.0], [1.0]) == agent.q_value(0, [0.0], [1.0])
    assert same_history(loaded.learn(40), agent.learn(40))
    assert loaded.plan.best.tobytes() == agent.plan.best.tobytes()
    assert loaded.records.hash == agent.records.hash
    on_the_model = zooming.load(path, env=shop((np.arange(12.0), np.full(12, 1 / 12))))
    assert len(on_the_model.learn(5)) == 5


def test_auto_names_the_resolver_to_save_and_it_goes_on(tmp_path):
    agent = zooming.Auto(Shop(), resolver={"model": shop()}, horizon=4, seed=0)
    agent.learn(5)
    agent.resolver.save(tmp_path / "shop.zoom")
    loaded = zooming.load(tmp_path / "shop.zoom", env=Shop())
    loaded.tell(model=shop())
    loaded.learn(5)
    assert loaded.n_episodes == 10


@pytest.mark.parametrize(
    ("name", "setting"),
    [("Newsvendor", {}), ("Storage", {"prices": (0.2, 0.3)}), ("GraphAmbulance", {})],
)
def test_an_exported_plan_plays_what_predict_plays(name, setting, tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "MOST_SAMPLES", 64)  # states that explain and show ask about
    env = gym.make(f"zooming/{name}-v0", **setting)
    agent = zooming.Resolver(env, seed=0)
    agent.learn(3)
    played = {}
    exec(agent.export(tmp_path / "policy.py").read_text(), played)
    env.observation_space.seed(0)
    for k in range(200):
        state = env.observation_space.sample()
        expected = np.atleast_1d(agent.predict(state, np.array([k % agent.horizon]))[0])
        found = played["act"](k % agent.horizon, np.atleast_1d(state).tolist())
        assert tuple(np.atleast_1d(found)) == tuple(expected.tolist())
    for ending in (".json", ".h", ".sql"):
        assert agent.export(tmp_path / f"policy{ending}").stat().st_size > 0
    assert agent.explain(0, episodes=0)
    agent.show(tmp_path / "policy.html", episodes=1)
