"""What several test files compare with: problems whose values are known, and plain references."""

import math
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

import zooming

# --- problems -------------------------------------------------------------------------------------

OIL = {("laplace", 1): 4.75, ("laplace", 10): 4.75, ("laplace", 50): 4.75}
OIL |= {("quadratic", 1): 4.8, ("quadratic", 10): 4.755, ("quadratic", 50): 4.751}
AMBULANCE = {("beta", 0): 4.3547, ("beta", 0.25): 4.3698, ("beta", 1): 5.0}
AMBULANCE |= {
    ("uniform", 0): 3.75,
    ("uniform", 0.25): 3.8866,
    ("uniform", 1): 5.0,
    ("shifting", 0): 4.725,
}
SHIFTING = [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1), (0.45, 0.55)]


def ambulance_optimum(laws, weight, start=0.5, n=2001):
    """V* by definition: the call does not depend on the action, so each step is a problem of its
    own.

    `laws` are intervals of uniform calls; the state of step h > 0 is the call of step h - 1.
    """
    actions = np.linspace(0, 1, n)
    total, states = 0.0, np.array([start])
    for low, high in laws:
        calls = low + (high - low) * (np.arange(400) + 0.5) / 400
        cost = (1 - weight) * np.abs(calls[:, None] - actions).mean(axis=0)
        total += np.mean([np.max(1 - weight * np.abs(state - actions) - cost) for state in states])
        states = calls
    return total


def stay(state, action, step, params, rng, next_state):
    for i in range(len(state)):
        next_state[i] = state[i]
    return 0.5


def unit_env(n_state, n_action, horizon=3):
    """An environment of which only the spaces matter."""
    state, action = (gym.spaces.Box(0.0, 1.0, (n,), np.float64) for n in (n_state, n_action))
    return zooming.compiled_env(stay, state, action, horizon, start=0.5)


class Tables(gym.Env):
    """A random tabular problem."""

    def __init__(self, n_states, n_actions, horizon, seed):
        rng = np.random.default_rng(seed)
        self.observation_space = gym.spaces.Discrete(n_states)
        self.action_space = gym.spaces.Discrete(n_actions)
        self.n_steps = horizon
        self.chances = rng.dirichlet(np.ones(n_states), (horizon, n_states, n_actions))
        self.rewards = rng.random((horizon, n_states, n_actions))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.now = np.int64(0), 0
        return self.state, {}

    def step(self, action):
        reward = float(self.rewards[self.now, self.state, action])
        chances = self.chances[self.now, self.state, action]
        self.state = np.int64(self.np_random.choice(self.observation_space.n, p=chances))
        self.now += 1
        return self.state, reward, self.now >= self.n_steps, False, {}


# --- references -----------------------------------------------------------------------------------


def same_balls(balls, root):
    """Every ball, value and count of a partition, compared with those below a reference's root."""
    centers = map(tuple, ((balls.low + balls.high) / 2).tolist())
    found = zip(balls.q_value, balls.n_visits, balls.radius, strict=True)
    ours = dict(zip(centers, found, strict=True))
    theirs = {ball.center: (ball.q_value, ball.n_visits, ball.radius) for ball in root.active()}
    assert ours.keys() == theirs.keys()
    for center, (q, n, r) in theirs.items():
        assert ours[center] == (pytest.approx(q, rel=1e-12, abs=1e-12), n, r)


def agreeing(agent, reference):
    """The partitions of all steps, compared with those of the reference."""
    for step in range(agent.horizon):
        same_balls(agent.partition(step), reference.roots[step])
    assert agent.n_balls == reference.n_balls


class Brute:
    """Algorithm 1 on a product of finite metric spaces, by the definitions."""

    def __init__(self, space, horizon, bonus, lazy=False, split_after=1.0):
        """`bonus`: a number c for c / sqrt(t), or a function (brute, step, ball) that gives Q
        from all visits of a ball."""
        self.space, self.horizon, self.bonus = space, horizon, bonus
        self.lazy, self.split_after = lazy, split_after
        self.along, self.across = space.distances.tolist(), space.action_distances.tolist()
        self.shape = len(space.distances), len(space.action_distances)
        x, a = space.middle()
        self.balls = [
            [{"x": x, "a": a, "depth": 0, "q": float(horizon - h), "n": 0, "visits": []}]
            for h in range(horizon)
        ]
        self.episode = 0

    def contains(self, ball, x, a):
        along, across, power = self.along[ball["x"]][x], self.across[ball["a"]][a], self.space.power
        apart = along + across if power else max(along, across)
        return apart <= self.space.reach * 0.5 ** ((power or 1.0) * ball["depth"])

    def owner(self, h, x, a):
        """The ball of smallest radius that holds the pair, the oldest of these."""
        holding = [ball for ball in self.balls[h] if self.contains(ball, x, a)]
        return max(holding, key=lambda ball: ball["depth"])

    def domain(self, h, ball):
        return {(x, a) for x, a in np.ndindex(self.shape) if self.owner(h, x, a) is ball}

    def value(self, h, x):
        return min(self.horizon - h, max(self.owner(h, x, a)["q"] for a in range(self.shape[1])))

    def update(self, h, x, a, reward, after, terminated=False):
        ball = self.owner(h, x, a)
        next_value = 0.0 if terminated or h + 1 == self.horizon else self.value(h + 1, after)
        ball["n"] += 1
        if callable(self.bonus):
            self.episode += h == 0
            across = min(1.0, 3.0 * 0.5 ** ball["depth"]) if len(self.domain(h, ball)) > 1 else 0.0
            ball["visits"].append((reward, next_value, across, self.episode))
            ball["q"] = self.bonus(self, h, ball)
        else:
            rate = (self.horizon + 1) / (self.horizon + ball["n"])
            target = reward + next_value + self.bonus / math.sqrt(ball["n"])
            ball["q"] = (1 - rate) * ball["q"] + rate * target
        if ball["n"] >= self.split_after * 4 ** ball["depth"] and len(self.domain(h, ball)) > 1:
            if self.lazy:
                self.add(h, ball, x, a)
            else:
                self.cover(h, ball)

    def cover(self, h, ball):
        order = [
            (int(y), int(b))
            for y in self.space.orders[ball["x"]]
            for b in self.space.action_orders[ball["a"]]
        ]
        for y, b in order:
            if self.owner(h, y, b) is ball:
                self.add(h, ball, y, b)

    def add(self, h, parent, x, a):
        inherited = {"q": parent["q"], "n": parent["n"], "visits": list(parent["visits"])}
        self.balls[h].append({"x": x, "a": a, "depth": parent["depth"] + 1, **inherited})

    def active(self, h):
        sizes = Counter(id(self.owner(h, x, a)) for x, a in np.ndindex(self.shape))
        listed = [(ball, sizes[id(ball)]) for ball in self.balls[h]]
        return [
            (b["x"], b["a"], b["depth"], b["n"], n, pytest.approx(b["q"], rel=1e-12))
            for b, n in listed
            if n
        ]


def shown(agent, h):
    found = agent.balls(h)
    counts = found.depth, found.n_visits, found.n_points
    columns = found.state[:, 0], found.action[:, 0], *counts, found.q_value
    return list(zip(*(column.tolist() for column in columns), strict=True))


class UcbH:
    """Jin et al. 2018, algorithm 1: Q-learning with the bonus c / sqrt(t) on tables, the first
    of the best actions."""

    def __init__(self, n_states, n_actions, horizon, c):
        self.horizon, self.c, self.shape = horizon, c, (horizon, n_states, n_actions)
        self.q = np.full(self.shape, float(horizon))
        self.v = np.full((horizon + 1, n_states), float(horizon))
        self.v[horizon] = 0
        self.n = np.zeros(self.shape, int)

    def bonus(self, at, rate, value):
        return self.c / math.sqrt(self.n[at])

    def learn(self, env, episodes, seed):
        trajectory = []
        for episode in range(episodes):
            state, _ = env.reset(seed=seed if episode == 0 else None)
            for step in range(self.horizon):
                action = int(np.argmax(self.q[step, state]))
                after, reward, *_ = env.step(action)
                at, value = (step, state, action), self.v[step + 1, after]
                self.n[at] += 1
                rate = (self.horizon + 1) / (self.horizon + self.n[at])
                target = reward + value + self.bonus(at, rate, value)
                self.q[at] = (1 - rate) * self.q[at] + rate * target
                self.v[step, state] = min(self.horizon, self.q[step, state].max())
                trajectory.append((int(state), action, reward))
                state = after
        return trajectory

    def compare(self, agent, env, episodes, seed):
        """Assert that the agent plays the same episodes and learns the same table."""
        expected, trajectory = self.learn(env, episodes, seed), []
        for episode in range(episodes):
            state, _ = env.reset(seed=seed if episode == 0 else None)
            for step in range(self.horizon):
                action = agent.act(step, state)
                after, reward, terminated, *_ = env.step(action)
                agent.update(step, state, action, reward, after, terminated)
                trajectory.append((int(state), int(action), reward))
                state = after
        assert trajectory == expected
        for at in np.ndindex(self.shape):
            assert agent.q_value(*at) == pytest.approx(self.q[at], rel=1e-9)
            assert agent.visits(*at) == self.n[at]


class UcbB(UcbH):
    """Jin et al. 2018, algorithm 2: sums of V and V^2 give the variance."""

    def __init__(self, n_states, n_actions, horizon, c1, c2, iota):
        super().__init__(n_states, n_actions, horizon, 0.0)
        self.c1, self.c2, self.iota = c1, c2, iota
        self.mu, self.sigma, self.beta = (np.zeros(self.shape) for _ in range(3))

    def bonus(self, at, rate, value):
        self.mu[at] += value
        self.sigma[at] += value**2
        t, h, iota, (_, n_states, n_actions) = self.n[at], self.horizon, self.iota, self.shape
        w = self.sigma[at] / t - (self.mu[at] / t) ** 2
        lower_order = math.sqrt(h**7 * n_states * n_actions) * iota / t
        by_variance = self.c1 * (math.sqrt(h / t * (w + h) * iota) + lower_order)
        before, self.beta[at] = (
            self.beta[at],
            min(by_variance, self.c2 * math.sqrt(h**3 * iota / t)),
        )
        return (self.beta[at] - (1 - rate) * before) / (2 * rate)
