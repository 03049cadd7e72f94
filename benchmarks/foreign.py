"""Problems unlike those of the gallery: the judge of `Auto`, by which no constant was chosen.

Run `python benchmarks/foreign.py` to compute the reference values of all problems again. They are
kept in `foreign.json`: the optimal value V*, the value of random actions, of the rule, and of the
best constant action. `python benchmarks/learning.py --set foreign` measures agents. Studies and
leaderboards know the problems with V* as `foreign:hotel-v0`, and so on, in this folder.

V* is that of `zooming.solve`, or exact where a problem is a sum of independent parts. Problems of
other packages have no V*; there the rule takes its place. The zero of the scale is the value of
random actions. Where these are a catastrophe, it is the value of the constant action `zero`:
otherwise every policy but the worst would be at 100 %.

The rule is one line that a practitioner would write. The best constant action is searched with a
budget of 100 episodes for each of 41 actions on a line, or for each of 60 d + 40 actions in d
dimensions (the last 40 around the best so far), then 1,000 for each of the best five, and 4,000
others for the value that is stated.

Half of the problems are kept: they run only with `--final`, so that no choice depends on them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numba
import numpy as np

import zooming
from zooming.agents.files.container import write_atomically

FACTS = Path(__file__).with_suffix(".json")
INSTALL = "pip install 'zooming[foreign]' && pip install --no-deps or-gym==0.5.0"
Policy = Callable[[int, Any], Any]


class Foreign(NamedTuple):
    """A problem: how to make it, the rule of a practitioner, and V* with an optimal policy.

    `zero` is the constant action whose value is the zero of the scale, if it is not that of random
    actions. `kept` problems are looked at once. `rewards` is their range, if random actions do not
    show it.
    """

    make: Callable[[], Any]
    rule: Policy
    best: Callable[[], tuple[float, Policy]] | None = None
    zero: Any = None
    kept: bool = False
    rewards: tuple[float, float] | None = None


class Part(NamedTuple):
    """A solvable problem, and the places of its axes in the problem that is a sum of parts."""

    env: Any
    resolution: int
    states: slice = slice(None)
    actions: slice = slice(None)


def box(*bounds: tuple[float, float]) -> Any:
    """Return the Box with these (low, high) of each axis."""
    low, high = np.array(bounds, np.float64).T
    return gym.spaces.Box(low, high, dtype=np.float64)


def by_parts(*parts: Part) -> tuple[float, Policy]:
    """Return the sum of the optimal values of independent parts, and an optimal policy."""
    solved = [zooming.solve(part.env, part.resolution) for part in parts]

    def choose(step: int, state: Any) -> Any:
        if isinstance(parts[0].env.observation_space, gym.spaces.Discrete):
            return solved[0].action(step, state)
        chosen = [
            one.action(step, state[part.states]) for one, part in zip(solved, parts, strict=True)
        ]
        return chosen[0] if len(parts) == 1 else np.concatenate(chosen)

    return sum(one.return_ for one in solved), choose


def solved(make: Callable[[], Any], resolution: int) -> Callable[[], tuple[float, Policy]]:
    return lambda: by_parts(Part(make(), resolution))


def spread(mean: float, deviation: float, n: int = 9) -> tuple[Any, Any]:
    """Return n values around the mean and the weights of a normal law."""
    values = mean + deviation * np.linspace(-2.5, 2.5, n)
    weights = np.exp(-0.5 * ((values - mean) / deviation) ** 2)
    return values, weights / weights.sum()


# ---- Maintenance: wear, and failures that are rare and dear. ----


def maintain(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    """Repair a share of the wear. A failure costs thirty times what a good day earns."""
    cost = 1.0 + 3.0 * action[0] if action[0] > 0.05 else 0.0
    left = state[0] * (1.0 - action[0]) if action[0] > 0.05 else state[0]
    after[0] = 0.0 if outcome[1] > 0.5 else min(1.0, left + outcome[0])
    return 2.0 - cost - 60.0 * outcome[1]


def failing(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    left = state[0] * (1.0 - action[0]) if action[0] > 0.05 else state[0]
    chance = 0.25 * left**4
    for i in range(len(values)):
        weights[i] = (chance if values[i, 1] > 0.5 else 1.0 - chance) / 3.0


def make_maintenance() -> Any:
    grown = [[growth, failed] for growth in (0.02, 0.06, 0.14) for failed in (0.0, 1.0)]
    return zooming.compiled_env(
        maintain, box((0, 1)), box((0, 1)), 12, start=[0.2], outcomes=(grown, failing)
    )


# ---- Hotel: 15 rooms, 30 days of booking; who books late pays more. ----


def let_rooms(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    sold = min(state[0], outcome[0])
    after[0] = state[0] - sold
    return action[0] * sold


def guests(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    mean = (1.4 if step % 7 < 5 else 2.2) * math.exp(-action[0] / (70.0 + 3.0 * step))
    weights[0] = 1.0
    for i in range(1, len(values)):
        weights[i] = weights[i - 1] * mean / i


def make_hotel() -> Any:
    return zooming.compiled_env(
        let_rooms, box((0, 15)), box((20, 400)), 30, start=[15.0], outcomes=(range(9), guests)
    )


# ---- Bakery: weekdays, yesterday's bread, a cost of lighting the oven. ----

WEEK = (60.0, 60.0, 70.0, 80.0, 120.0, 150.0, 40.0)


def bake(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    demand = params[step % 7] * outcome[0]
    old = min(state[0], 0.2 * demand)
    fresh = min(action[0], demand - old)
    after[0] = min(100.0, action[0] - fresh)
    return 3.0 * fresh + 1.5 * old - action[0] - (20.0 if action[0] > 5.0 else 0.0)


def make_bakery() -> Any:
    return zooming.compiled_env(
        bake, box((0, 100)), box((0, 200)), 14, start=[0.0], params=WEEK, outcomes=spread(1.0, 0.25)
    )


# ---- Disc: nothing pays but a disc of radius 0.3 far from the start. ----

CENTER, RADIUS = (0.7, 0.65), 0.3


def walk(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    for i in range(2):
        after[i] = min(1.0, max(0.0, state[i] + action[i]))
    way = math.hypot(after[0] - params[1], after[1] - params[2])
    return params[0] if way <= params[3] else 0.0


def make_disc(scale: float) -> Any:
    return zooming.compiled_env(
        walk, box((0, 1), (0, 1)), box((-0.1, 0.1), (-0.1, 0.1)), 10, start=[0.1, 0.1],
        params=[scale, *CENTER, RADIUS], outcomes=([0.0], [1.0]),
    )  # fmt: skip


def to_center(step: int, state: Any) -> Any:
    return np.clip(np.array(CENTER) - state, -0.1, 0.1)


def disc(scale: float, kept: bool) -> Foreign:
    # The fourth step at full speed is the first that can reach the disc: it pays 7 times of 10.
    return Foreign(
        lambda: make_disc(scale),
        lambda step, x: np.clip(0.6 - x, -0.1, 0.1),
        lambda: (7.0 * scale, to_center),
        kept=kept,
    )


# ---- Vendor: what is left is charged times what is ordered, so exploring costs millions. ----


def vend(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    sold = min(state[0], outcome[0])
    left, short = state[0] - sold, outcome[0] - sold
    after[0] = action[0]
    return 50.0 * sold - 25.0 * left * action[0] - 2.0 * left - 5.0 * short


def make_vendor() -> Any:
    return zooming.compiled_env(
        vend, box((0, 2000)), box((0, 2000)), 10, start=[0.0], outcomes=spread(200.0, 14.0, 21)
    )


# ---- Crop: water a field from a tank; only the harvest pays. ----


def water(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    used = min(action[0], state[1])
    grown = state[0] * (1.0 + 0.5 * (1.0 - state[0] / 10.0) * used / (0.5 + used))
    after[0] = min(10.0, grown if used > 0.3 else 0.9 * grown)
    after[1] = min(8.0, state[1] - used + outcome[0])
    return 10.0 * after[0] + after[1] if step == 9 else 0.0


def make_crop() -> Any:
    return zooming.compiled_env(
        water, box((0, 10), (0, 8)), box((0, 3)), 10, start=[1.0, 5.0],
        outcomes=([0.0, 1.0, 3.0], [0.6, 0.3, 0.1]),
    )  # fmt: skip


# ---- Dosing: one axis of the state and of the action matter, four do not. ----


def dose(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    x = state[0] + 0.35 * math.sin(3.0 * action[0]) - 0.3 * state[0] ** 2 + outcome[0]
    after[0] = min(1.0, max(0.0, x))
    for i in range(1, len(after)):
        after[i] = outcome[i]
    return 1.0 - 2.5 * abs(after[0] - 0.6) - 0.2 * action[0]


def make_dosing(n_useless: int = 3) -> Any:
    noise, weights = spread(0.0, 0.04)
    n = 20 if n_useless else 1  # rows of useless numbers for each noise
    useless = np.random.default_rng(7).uniform(size=(9 * n, n_useless))
    rows, weights = np.column_stack([np.repeat(noise, n), useless]), np.repeat(weights / n, n)
    extra = [(0.0, 1.0)] * n_useless
    return zooming.compiled_env(
        dose, box((0, 1), *extra), box((0, 1), *extra[:1]), 8, start=[0.1, *[0.5] * n_useless],
        outcomes=(rows, weights),
    )  # fmt: skip


# ---- Plant: three machines with three axes of state and of action; V* is a sum. ----


@numba.njit  # type: ignore[untyped-decorator]
def machine(kind: Any, x: Any, a: Any, step: Any, noise: Any) -> Any:
    """Return (next state, reward) of a tank, of a thing that follows a season, of a fish pond."""
    if kind == 0:
        after = min(1.0, max(0.0, x + 0.3 + 0.2 * noise - a))
        return after, math.sqrt(min(a, x)) - (5.0 * (after - 0.85) if after > 0.85 else 0.0)
    if kind == 1:
        after = min(1.0, max(0.0, 0.5 * x + 0.5 * a + 0.1 * noise))
        return after, 1.0 - 3.0 * abs(after - 0.5 - 0.35 * math.sin(1.3 * step))
    left = x * (1.0 - a)
    after = min(1.0, left + 1.2 * left * (1.0 - left) * (1.0 + 0.5 * noise))
    return after, 2.0 * x * a


def run_plant(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    total = 0.0
    for i in range(len(state)):
        kind = int(params[i])
        after[i], reward = machine(kind, state[i], action[i], step, outcome[kind])
        total += reward
    return total


def make_plant(*kinds: float) -> Any:
    units = [(0.0, 1.0)] * len(kinds)
    noise = np.random.default_rng(3).uniform(-1.0, 1.0, (40, 3))
    return zooming.compiled_env(
        run_plant, box(*units), box(*units), 8, start=[0.5] * len(kinds), params=kinds,
        outcomes=(noise - noise.mean(0), np.full(40, 1 / 40)),
    )  # fmt: skip


def plant_parts() -> tuple[float, Policy]:
    return by_parts(*(Part(make_plant(float(i)), 100, slice(i, i + 1)) for i in range(3)))


# ---- Dividends: who pays out too much is ruined, and the episode ends. ----


def pay_out(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    paid = min(action[0], state[0])
    left = state[0] - paid
    after[0] = min(20.0, max(0.0, left + outcome[0])) if left > 0.0 else 0.0
    return paid


class Ending(gym.Wrapper[Any, Any, Any, Any]):
    """Ends an episode in the absorbing state 0."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or bool(observation[0] <= 0), truncated, info


def make_dividends() -> Any:
    income = ([-5.0, 0.5, 1.5, 2.0], [0.12, 0.28, 0.4, 0.2])
    return zooming.compiled_env(
        pay_out, box((0, 20)), box((0, 5)), 20, start=[4.0], outcomes=income
    )


# ---- Clinic: 200 kinds of patients, each with its own best dose. ----


def treat(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    after[0] = outcome[0]
    kind = int(state[0])
    return 1.0 - math.sqrt(abs(action[0] - params[kind])) + 0.1 * ((kind + step) % 3 - 1)


def make_clinic() -> Any:
    best = np.random.default_rng(11).uniform(0.05, 0.95, 200)
    return zooming.compiled_env(
        treat, gym.spaces.Discrete(200), box((0, 1)), 5, start="uniform", params=best,
        outcomes=(range(200), np.full(200, 1 / 200)),
    )  # fmt: skip


# ---- Kept: a greenhouse with seasons and kinks. ----


def heat(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    outside = 12.0 + 10.0 * math.sin(0.55 * step)
    t = state[0] + 0.3 * (outside - state[0]) + 9.0 * action[0] + outcome[0]
    after[0] = min(40.0, max(0.0, t))
    dried = state[1] * (1.0 - 0.02 * max(0.0, after[0] - 15.0)) + 0.06
    after[1] = min(1.0, max(0.0, dried - 0.3 * max(0.0, -action[0])))
    grown = after[1] * math.exp(-(((after[0] - 22.0) / 5.0) ** 2))
    return 2.0 * grown - 0.3 * abs(action[0]) - (1.0 if after[0] > 30.0 else 0.0)


def make_greenhouse() -> Any:
    return zooming.compiled_env(
        heat, box((0, 40), (0, 1)), box((-1, 1)), 12, start=[15.0, 0.6], outcomes=spread(0.0, 1.5)
    )


# ---- Kept: two springs, each with place and speed; 4 axes of state and 2 of action. ----


def swing(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    total = 0.0
    for i in range(len(action)):
        x, v = state[2 * i], state[2 * i + 1]
        v = v - 0.3 * x - 0.4 * x**3 + 0.4 * action[i] + outcome[i]
        after[2 * i] = min(1.5, max(-1.5, x + 0.5 * v))
        after[2 * i + 1] = min(1.5, max(-1.5, 0.9 * v))
        total += 1.0 - abs(after[2 * i] - params[i]) - 0.1 * action[i] ** 2
    return total


def make_springs(*targets: float) -> Any:
    n, noise = len(targets), np.random.default_rng(5).normal(0.0, 0.05, (30, 2))
    return zooming.compiled_env(
        swing, box(*[(-1.5, 1.5)] * 2 * n), box(*[(-1, 1)] * n), 10, start=[-0.8, 0.0] * n,
        params=targets, outcomes=((noise - noise.mean(0))[:, :n], np.full(30, 1 / 30)),
    )  # fmt: skip


def spring_parts() -> tuple[float, Policy]:
    # The noise of the second spring has another sample of 30 than that of the first.
    noise = np.random.default_rng(5).normal(0.0, 0.05, (30, 2))
    noise -= noise.mean(0)
    parts = []
    for i, target in enumerate((0.5, -0.3)):
        env = zooming.compiled_env(
            swing, box((-1.5, 1.5), (-1.5, 1.5)), box((-1, 1)), 10, start=[-0.8, 0.0],
            params=[target], outcomes=(noise[:, i : i + 1], np.full(30, 1 / 30)),
        )  # fmt: skip
        parts.append(Part(env, 30, slice(2 * i, 2 * i + 2)))
    return by_parts(*parts)


# ---- Kept: a fishery that collapses below a threshold. ----


def fish(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    left = state[0] * (1.0 - action[0])
    growth = 1.1 * left * (1.0 - left) * (left - 0.15) / 0.5
    after[0] = min(1.0, max(0.0, left + growth * outcome[0]))
    return 10.0 * state[0] * action[0] - 0.3 * action[0] / (0.1 + state[0])


def make_fishery() -> Any:
    return zooming.compiled_env(
        fish, box((0, 1)), box((0, 1)), 15, start=[0.6], outcomes=spread(1.0, 0.4)
    )


# ---- Kept: a dike; floods are rare, and cost a thousand times what raising it does. ----


def build(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    height = min(6.0, state[0] + action[0])
    flood = 1000.0 * (outcome[0] - height) if outcome[0] > height else 0.0
    after[0] = max(0.0, height - 0.1)
    return -(1.0 + 2.0 * action[0] if action[0] > 0.05 else 0.0) - flood


def make_dike() -> Any:
    tide = np.linspace(0.25, 6.0, 24)
    chance = np.exp(-1.5 * tide)
    return zooming.compiled_env(
        build, box((0, 6)), box((0, 1)), 15, start=[3.0], outcomes=(tide, chance / chance.sum())
    )


# ---- Kept: an exam; only the last day pays, and being tired then halves it. ----


def study(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    learned = 0.35 * action[0] * (1.0 - state[1]) * (1.0 - state[0]) * outcome[0]
    after[0] = min(1.0, state[0] * 0.98 + learned)
    after[1] = min(1.0, 0.7 * state[1] + 0.5 * action[0] ** 2)
    if step < 11:
        return 0.0
    return 100.0 * after[0] * (1.0 if after[1] < 0.4 else 0.5)


def make_exam() -> Any:
    return zooming.compiled_env(
        study, box((0, 1), (0, 1)), box((0, 1)), 12, start=[0.1, 0.0], outcomes=spread(1.0, 0.3)
    )


# ---- Kept: purchase with quantity discounts: the cost jumps at 20 and 40 pieces. ----


def purchase(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    price = 2.0 if action[0] < 20.0 else 1.6 if action[0] < 40.0 else 1.25
    stock = min(80.0, state[0] + action[0])
    sold = min(stock, outcome[0])
    after[0] = stock - sold
    return 3.0 * sold - price * action[0] - 0.1 * after[0] - (4.0 if action[0] > 1.0 else 0.0)


def make_purchase() -> Any:
    return zooming.compiled_env(
        purchase, box((0, 80)), box((0, 60)), 8, start=[10.0], outcomes=spread(14.0, 5.0)
    )


# ---- Kept: a crossing; green for one street, for the other, or slowly for both. ----


def serve(state: Any, action: Any, step: Any, params: Any, outcome: Any, after: Any) -> Any:
    total = 0.0
    for i in range(2):
        served = 4.0 if action[0] == i else 1.2 if action[0] == 2.0 else 0.0
        after[i] = min(20.0, max(0.0, state[i] - served) + outcome[i])
        total -= after[i] / 10.0 + (2.0 if after[i] > 12.0 else 0.0)
    return total


def make_crossing() -> Any:
    cars = [[a, b] for a in (0.0, 1.0, 3.0) for b in (0.0, 2.0, 6.0)]
    weights = [p * q for p in (0.4, 0.3, 0.3) for q in (0.5, 0.35, 0.15)]
    return zooming.compiled_env(
        serve, box((0, 20), (0, 20)), gym.spaces.Discrete(3), 15, start=[6.0, 3.0],
        outcomes=(cars, weights),
    )  # fmt: skip


# ---- Problems of other packages. ----


class Adapted(gym.Env[Any, Any]):
    """An environment of another package, with bounded spaces, action repeat, and one reward.

    Observations are clipped to the box. `is_old` has the interface of gym before 0.26, and draws
    from NumPy's global generator.
    """

    def __init__(
        self, env: Any, observations: Any, actions: Any, repeat: int = 1, is_old: bool = False
    ) -> None:
        self.env, self.repeat, self.is_old = env, repeat, is_old
        self.observation_space, self.action_space = observations, actions

    def _clipped(self, observation: Any) -> Any:
        space = self.observation_space
        return np.clip(np.asarray(observation, np.float64), space.low, space.high)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if not self.is_old:
            return self._clipped(self.env.reset(seed=seed)[0]), {}
        if seed is not None:
            np.random.seed(seed)
        return self._clipped(self.env.reset()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        total, ended, cut = 0.0, False, False
        played = action if np.ndim(action) == 0 else np.asarray(action, np.float32)
        for _ in range(self.repeat):
            if self.is_old:
                one = float(played[0]) if np.ndim(played) else int(played)
                observation, reward, ended, _ = self.env.step(one)
            else:
                observation, reward, ended, cut, _ = self.env.step(played)
            total += float(np.sum(reward))
            if ended or cut:
                break
        return self._clipped(observation), total, bool(ended), bool(cut), {}


def package(name: str) -> Any:
    """Import a module of an optional package. Exit with the command that installs it if missing."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")  # gym says that nobody maintains it
            found = __import__(name, fromlist=["_"])
            if name.startswith("or_gym"):
                __import__("gym").logger.set_level(40)
            return found
    except ImportError as error:
        raise SystemExit(f"{name} cannot be imported ({error}); install it: {INSTALL}") from error


def limited(env: Adapted, steps: int) -> Any:
    return gym.wrappers.TimeLimit(env, steps)


def make_or_newsvendor() -> Any:
    """Return or-gym's newsvendor with lead time 1 and 10 steps: 6 axes of state."""
    kind = package("or_gym.envs.classic_or.newsvendor").NewsvendorEnv
    env = kind(env_config={"lead_time": 1, "step_limit": 10})
    bounds = zip(env.observation_space.low, env.observation_space.high, strict=True)
    return limited(Adapted(env, box(*bounds), box((0, 2000)), is_old=True), 10)


def make_knapsack() -> Any:
    """Return or-gym's online knapsack with 50 offers; the same items in every process."""
    kind = package("or_gym.envs.classic_or.knapsack").OnlineKnapsackEnv
    np.random.seed(0)
    bounds = box((0, 200), (0, 200), (0, 100), (0, 100))
    return limited(
        Adapted(kind(env_config={"mask": False}), bounds, gym.spaces.Discrete(2), is_old=True), 50
    )


def make_reservoir() -> Any:
    """Return mo-gymnasium's reservoir over 30 days; the sum of its two rewards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of precision
        env = package("mo_gymnasium").make("water-reservoir-v0", time_limit=30)
    return limited(Adapted(env, box((0, 250)), box((0, 100))), 30)


def make_control(name: str, repeat: int, steps: int, *bounds: tuple[float, float]) -> Any:
    env = gym.make(name, max_episode_steps=steps)
    space = env.action_space
    if isinstance(space, gym.spaces.Box):
        space = box(*zip(space.low, space.high, strict=True))
    return limited(Adapted(env, box(*bounds), space, repeat), math.ceil(steps / repeat))


def make_pendulum() -> Any:
    return make_control("Pendulum-v1", 5, 200, (-1, 1), (-1, 1), (-8, 8))


def make_mountain_car() -> Any:
    return make_control("MountainCarContinuous-v0", 25, 999, (-1.2, 0.6), (-0.07, 0.07))


def make_cart_pole() -> Any:
    bounds = ((-4.8, 4.8), (-3.0, 3.0), (-0.42, 0.42), (-3.5, 3.5))
    return make_control("CartPole-v1", 4, 200, *bounds)


def up_from(x: Any) -> Any:
    """Return the torque that holds a pendulum up, or else brings it the energy to get there."""
    push = 2.0 if x[2] ** 2 / 6 + 5 * x[0] < 5 else -2.0
    return -10.0 * x[1] - 2.0 * x[2] if x[0] > 0.7 else push * np.sign(x[2] or 1.0)


def clip(value: Any, low: float, high: float) -> Any:
    return np.clip([float(value)], low, high)


FOREIGN = {
    # Repair fully at wear above a half.
    "maintenance": Foreign(
        make_maintenance, lambda step, x: [1.0 * (x[0] > 0.5)], solved(make_maintenance, 400)
    ),
    # Begin at 110, and ask 3 more every day.
    "hotel": Foreign(make_hotel, lambda step, x: [110.0 + 3 * step], solved(make_hotel, 30)),
    # The mean of the weekday, less half of the old bread.
    "bakery": Foreign(
        make_bakery,
        lambda step, x: clip(WEEK[step % 7] - 0.5 * x[0], 0, 200),
        solved(make_bakery, 400),
    ),
    "disc-0.001": disc(0.001, False),
    "disc-1000": disc(1000.0, False),
    # Nine tenths of the mean demand.
    "vendor": Foreign(make_vendor, lambda step, x: [180.0], solved(make_vendor, 400), zero=[0.0]),
    # 0.8 of water a day, the mean rain and a share of the tank.
    "crop": Foreign(make_crop, lambda step, x: [0.8], solved(make_crop, 40), rewards=(0.0, 108.0)),
    # In proportion to the distance from the target.
    "dosing": Foreign(
        make_dosing,
        lambda step, x: np.clip([0.1 + 0.8 * (0.6 - x[0]), 0.5], 0, 1),
        lambda: useless_added(by_parts(Part(make_dosing(0), 200, slice(0, 1)))),
    ),
    # Keep the tank at a half, follow the season, fish a third.
    "plant": Foreign(
        lambda: make_plant(0.0, 1.0, 2.0),
        lambda step, x: np.clip([x[0] - 0.3, 0.5 + 0.7 * math.sin(1.3 * step), 0.35], 0, 1),
        plant_parts,
    ),
    # Pay out what exceeds 6, and all in the last two periods.
    "dividends": Foreign(
        lambda: Ending(make_dividends()),
        lambda step, x: clip(x[0] - 6 * (step < 18), 0, 5),
        solved(make_dividends, 400),
    ),
    # The middle dose.
    "clinic": Foreign(make_clinic, lambda step, x: [0.5], solved(make_clinic, 200)),
    # 0.7 of the mean demand.
    "or-newsvendor": Foreign(make_or_newsvendor, lambda step, x: [0.7 * x[4]], zero=[0.0]),
    "pendulum": Foreign(make_pendulum, lambda step, x: clip(up_from(x), -2, 2)),
    # Push the way it moves. Random actions reach the goal as well, so standing still is the zero.
    "mountain-car": Foreign(make_mountain_car, lambda step, x: [np.sign(x[1]) or 1.0], zero=[0.0]),
    # Heat or cool toward 22 degrees.
    "greenhouse": Foreign(
        make_greenhouse,
        lambda step, x: clip((22 - x[0]) / 9, -1, 1),
        solved(make_greenhouse, 40),
        kept=True,
    ),
    # A spring and a damper toward each target.
    "springs": Foreign(
        lambda: make_springs(0.5, -0.3),
        lambda step, x: np.clip([1 - 2 * x[0] - 2 * x[1], -0.6 - 2 * x[2] - 2 * x[3]], -1, 1),
        spring_parts,
        kept=True,
    ),
    # Fish down to 0.65, and in the last two years all.
    "fishery": Foreign(
        make_fishery,
        lambda step, x: clip(1 - 0.65 * (step < 13) / max(x[0], 0.65), 0, 1),
        solved(make_fishery, 400),
        kept=True,
    ),
    "disc-1": disc(1.0, True),
    # Raise it by 1 below 4.5, but not in the last three years.
    "dike": Foreign(
        make_dike,
        lambda step, x: [1.0 * (x[0] < 4.5 and step < 12)],
        solved(make_dike, 240),
        kept=True,
    ),
    # Work a little less than half of every day.
    "exam": Foreign(
        make_exam, lambda step, x: [0.45], solved(make_exam, 40), kept=True, rewards=(0.0, 100.0)
    ),
    # Order 40 when the stock is below 15.
    "purchase": Foreign(
        make_purchase,
        lambda step, x: [40.0 * (x[0] < 15)],
        solved(make_purchase, 400),
        kept=True,
    ),
    # Green for the longer queue.
    "crossing": Foreign(
        make_crossing, lambda step, x: int(x[1] > x[0]), solved(make_crossing, 100), kept=True
    ),
    # Accept what is worth more than its weight, if it fits.
    "knapsack": Foreign(
        make_knapsack, lambda step, x: int(x[3] > x[2] and x[0] + x[2] <= 200), kept=True
    ),
    # Release the demand of 50, and what may overflow.
    "reservoir": Foreign(
        make_reservoir, lambda step, x: clip(max(50, x[0] - 10), 0, 100), kept=True
    ),
    # Push toward the side to which the pole falls.
    "cart-pole": Foreign(make_cart_pole, lambda step, x: int(x[2] + 0.5 * x[3] > 0), kept=True),
}


def useless_added(found: tuple[float, Policy]) -> tuple[float, Policy]:
    """Add the middle of a useless axis to the actions of a policy."""
    value, choose = found
    return value, lambda step, state: np.append(choose(step, state), 0.5)


def play(env: Any, policy: Policy, episodes: int, seed: int) -> float:
    """Return the mean return of a policy: `zooming.evaluate` without its checks."""
    total = 0.0
    for episode in range(episodes):
        state, _ = env.reset(seed=seed if episode == 0 else None)
        step, is_over = 0, False
        while not is_over:
            state, reward, ended, cut, _ = env.step(np.asarray(policy(step, state)))
            total, step, is_over = total + float(reward), step + 1, ended or cut
    return total / episodes


def best_constant(env: Any) -> tuple[Any, float]:
    """Return the best constant action, with the budget that the head of this file states."""
    space, rng = env.action_space, np.random.default_rng(0)

    def value(action: Any, episodes: int, seed: int) -> float:
        return play(env, lambda step, x: action, episodes, seed)

    if isinstance(space, gym.spaces.Discrete):
        tried = [(value(action, 1000, 1), action) for action in range(int(space.n))]
    else:
        low, high, d = space.low, space.high, len(space.low)
        if d == 1:
            actions = [*np.linspace(low, high, 41)]
        else:
            actions = [*rng.uniform(low, high, (60 * d, d))]
        tried = [(value(action, 100, 1), action) for action in actions]
        if d > 1:
            center = max(tried, key=lambda one: one[0])[1]
            near = np.clip(center + 0.1 * (high - low) * rng.normal(size=(40, d)), low, high)
            tried += [(value(action, 100, 1), action) for action in near]
        tried = sorted(tried, key=lambda one: -one[0])[:5]
        tried = [(value(action, 1000, 2), action) for _, action in tried]
    action = max(tried, key=lambda one: one[0])[1]
    return action, value(action, 4000, 3)


def compute(name: str) -> dict[str, Any]:
    """Return the reference values of a problem."""
    problem = FOREIGN[name]
    random = zooming.Random(problem.make(), reward_range=(-1e9, 1e9), seed=12345)
    action, constant = best_constant(problem.make())
    facts = {
        "best": problem.best()[0] if problem.best else None,
        "random": float(random.learn(4000).returns.mean()),
        "rule": play(problem.make(), problem.rule, 4000, 3),
        "constant": constant,
        "action": np.atleast_1d(action).round(4).tolist(),
    }
    if problem.best:
        low, high = zooming.reward_range(problem.make(), 2000)
        beyond = 0.5 * (high - low)  # rare outcomes
        facts["rewards"] = problem.rewards or (low - beyond, high + beyond)
    if problem.zero is not None:
        facts["zero"] = play(problem.make(), lambda step, x: problem.zero, 4000, 3)
    return facts


def reference(name: str) -> tuple[float, float]:
    """Return (one, zero) of the scale of a problem: V*, or the rule's value; random's, or zero's.

    Raise KeyError if the values of the problem were not computed.
    """
    facts = json.loads(FACTS.read_text())[name]
    one = facts["rule"] if facts["best"] is None else facts["best"]
    return one, facts.get("zero", facts["random"])


def make_stated(name: str) -> Any:
    """Make a problem with V*; it states V* and the range of its rewards."""
    env, facts = FOREIGN[name].make(), json.loads(FACTS.read_text())[name]
    env.metadata = {**env.metadata, "optimal_return": facts["best"]}
    env.unwrapped.reward_range = tuple(facts["rewards"])
    return env


for _name in [name for name, one in FOREIGN.items() if one.best]:  # foreign:hotel-v0, for studies
    gym.register(
        f"{_name}-v0", functools.partial(make_stated, _name), disable_env_checker=True,
        order_enforce=False,
    )  # fmt: skip


def percent(name: str, which: str) -> float:
    """Return the rule's or the constant's place on the scale of a problem."""
    one, zero = reference(name)
    return 100 * (json.loads(FACTS.read_text())[name][which] - zero) / (one - zero)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("problems", nargs="*", help="by default all")
    names = parser.parse_args().problems or list(FOREIGN)
    for name in names:
        facts = json.loads(FACTS.read_text()) if FACTS.exists() else {}
        facts[name] = compute(name)
        facts = {one: facts[one] for one in FOREIGN if one in facts}
        write_atomically(FACTS, (json.dumps(facts, indent=1) + "\n").encode())
        found = facts[name]
        print(f"{name:14} {found}   rule {percent(name, 'rule'):.1f} %, constant "
              f"{percent(name, 'constant'):.1f} %", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
