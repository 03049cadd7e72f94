"""The lemmas of the paper's proof on a problem whose optimum is known in closed form.

In state x the action a earns x (1 - |x - a|), and the next state is 0.2 or 0.9,
equally likely. So a = x is optimal,
V*_h(x) = x + (H - 1 - h) 0.55,
and Q*_h(x, a) = x (1 - |x - a|) + (H - 1 - h) 0.55 is Lipschitz with L = 3: at most 2 along x
and 1 along a. What holds with probability 1 - delta / 2 is counted over runs with fixed seeds.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zooming
from helpers import Boxes, box
from zooming import bonuses, theory
from zooming.kernels import sides

CALLS = (0.2, 0.9)
MEAN = sum(CALLS) / 2
LIPSCHITZ = 3.0
DELTA = 0.1
RUNS = 20
# If a run fails with probability at most delta / 2 = 0.05, 6 or more of 20 do so with probability
# 3.3e-4.
MOST_FAILURES = 5


def reward_of(state, action):
    return state * (1 - abs(state - action))


def value_of(horizon, step, state):
    return state + (horizon - 1 - step) * MEAN


def q_of(horizon, step, state, action):
    return reward_of(state, action) + (horizon - 1 - step) * MEAN


@dataclass
class Visit:
    """One update: the ball's sides, what was played, where it led, and V of the partition at
    that moment."""

    low: np.ndarray
    high: np.ndarray
    n_visits: int
    state: float
    action: float
    after: float
    next_value: float


@dataclass
class Run:
    """An agent after learning, the visits of each step in order, and what was seen on the way."""

    agent: zooming.AdaptiveQ
    horizon: int
    episodes: int
    visits: list
    noise: float  # the sum of Lemma E.9, signed
    loudness: float  # the same sum of absolute values
    worst: float  # the smallest V - V* at any time

    def bonus(self, t):
        return theory.bonus(t, self.horizon, self.episodes, DELTA, LIPSCHITZ)

    def balls(self):
        """(step, low, high, Q, n, the visits of the ball and its ancestors) of all active balls."""
        for step in range(self.horizon):
            found = self.agent.partition(step)
            for low, high, q, n in zip(
                found.low, found.high, found.q_value, found.n_visits, strict=True
            ):
                mine = [
                    v for v in self.visits[step] if (v.low <= low).all() and (high <= v.high).all()
                ]
                yield step, low, high, q, int(n), mine


def learned(seed, horizon, episodes, bonus=None):
    env, rng = Boxes(box((0, 1)), box((0, 1))), random.Random(seed)
    if bonus is None:
        bonus = bonuses.Theory(episodes=episodes, delta=DELTA, lipschitz=LIPSCHITZ)
    agent = zooming.AdaptiveQ(
        env, bonus=bonus, cap="horizon", ties="first", horizon=horizon, seed=seed
    )
    run = Run(agent, horizon, episodes, [[] for _ in range(horizon)], 0.0, 0.0, math.inf)
    for _ in range(episodes):
        gaps = policy_gaps(agent, horizon)
        state = rng.choice(CALLS)
        for step in range(horizon):
            action, after = float(agent.act(step, [state])[0]), rng.choice(CALLS)
            next_value = agent.value(step + 1, [after]) if step + 1 < horizon else 0.0
            low, high = np.empty(2), np.empty(2)
            sides(agent.table.rows, agent._row_at(step, [state], [action]), 0, low, high)
            agent.update(step, [state], [action], reward_of(state, action), [after])
            n = agent.visits(step, [state], [action])
            run.visits[step].append(Visit(low, high, n, state, action, after, next_value))
            gap = gaps[step + 1]
            drift = sum(gap) / 2 - gap[CALLS.index(after)]
            run.noise, run.loudness = run.noise + drift, run.loudness + abs(drift)
            run.worst = min(run.worst, agent.value(step, [state]) - value_of(horizon, step, state))
            state = after
    return run


def policy_gaps(agent, horizon):
    """(V* - V of the greedy policy) at each call, for steps 0 to H, exactly: the policy looks at
    the two calls only."""
    values, gaps = [[0.0, 0.0]], [[0.0, 0.0]]
    for step in reversed(range(horizon)):
        ahead = sum(values[0]) / 2
        values.insert(0, [reward_of(x, float(agent.act(step, [x])[0])) + ahead for x in CALLS])
        gaps.insert(
            0, [value_of(horizon, step, x) - v for x, v in zip(CALLS, values[0], strict=True)]
        )
    return gaps


# --- what holds in every run ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs():
    """Twenty runs of two steps, and for the lemmas that hold in each of them one of another
    horizon."""
    return [*(learned(seed, 2, 30) for seed in range(RUNS)), learned(0, 4, 20)]


def test_lemma_q_is_the_weighted_sum_of_its_targets(runs):  # E.3
    for run in runs[-3:]:
        for _, _, _, q, n, visits in run.balls():
            assert [v.n_visits for v in visits] == list(range(1, n + 1))
            weights = theory.learning_rate_weights(n, run.horizon)
            targets = [
                reward_of(v.state, v.action) + v.next_value + run.bonus(v.n_visits) for v in visits
            ]
            assert q == pytest.approx(weights[0] * run.horizon + weights[1:] @ targets, rel=1e-12)
    fresh = zooming.AdaptiveQ(runs[0].agent.env, cap="horizon", horizon=3)
    assert fresh.q_value(2, [0.5], [0.5]) == 3  # t = 0: Q = H


def test_lemma_the_error_of_q_is_that_of_v_plus_noise_bonus_and_distance(runs):  # E.4
    for run in runs[-3:]:
        horizon = run.horizon
        for step, low, high, q, n, visits in run.balls():
            if n == 0:
                continue
            weights = theory.learning_rate_weights(n, horizon)[1:]
            for share in (0.0, 0.3, 0.9):
                state, action = low + share * (high - low)
                here, total = q_of(horizon, step, state, action), 0.0
                for weight, v in zip(weights, visits, strict=True):
                    best = value_of(horizon, step + 1, v.after) if step + 1 < horizon else 0.0
                    mean = value_of(horizon, step + 1, MEAN) if step + 1 < horizon else 0.0
                    away = q_of(horizon, step, v.state, v.action) - here
                    total += weight * (
                        v.next_value - best + best - mean + run.bonus(v.n_visits) + away
                    )
                assert q - here == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_lemma_the_samples_of_a_ball_are_as_near_as_its_visits_are_many(runs):  # E.6
    largest = 0.0
    for run in runs[-3:]:
        for step, low, high, _, n, visits in run.balls():
            weights = theory.learning_rate_weights(n, run.horizon)[1:]
            for share in (0.0, 0.999):
                here = q_of(run.horizon, step, *(low + share * (high - low)))
                away = [abs(q_of(run.horizon, step, v.state, v.action) - here) for v in visits]
                largest = max(largest, weights @ away * math.sqrt(n) / (4 * LIPSCHITZ))
    assert 0.02 < largest <= 1


@settings(max_examples=15)
@given(st.integers(1, 100), st.integers(1, 8), st.floats(0, 5), st.floats(0.01, 0.5))
def test_lemma_beta_lies_between_the_bounds_of_the_paper(t, horizon, lipschitz, delta):  # E.7
    # With reward 0 and nothing after it, Q is what the bonuses add up to: beta_t / 2. One atom: no
    # split.
    episodes = 500
    bonus = bonuses.Theory(episodes=episodes, delta=delta, lipschitz=lipschitz)
    agent = zooming.AdaptiveQ(
        Boxes(box((0, 1)), box((0, 1))),
        bonus=bonus,
        horizon=horizon,
        max_balls=horizon,
        steps_per_partition=1,
        seed=0,
    )
    for _ in range(t):
        agent.update(0, [0.5], [0.5], 0.0, [0.5], terminated=True)
    beta = 2 * agent.q_value(0, [0.5], [0.5])
    noise = math.sqrt(horizon**3 * math.log(4 * horizon * episodes / delta) / t)
    assert beta <= (8 * noise + 16 * lipschitz / math.sqrt(t)) * (1 + 1e-12)
    assert beta >= (4 * noise + 8 * lipschitz / math.sqrt(t)) * (1 - 1e-12)


@pytest.mark.slow
def test_lemma_the_best_of_a_lipschitz_function_over_the_actions_is_lipschitz():  # C.2
    # The smallest of cones of slope L is Lipschitz. As the reward of one step it is Q*, and V* is
    # its best over the actions.
    rng, n, lipschitz = np.random.default_rng(0), 6, 0.15

    def play(state, action, step, params, chance, next_state):
        next_state[0] = state[0]
        return params[6 * int(state[0]) + int(action[0])]

    space = gym.spaces.Discrete(n)
    places, actions = np.sort(rng.random((2, n)))
    along, across = np.abs(places[:, None] - places), np.abs(actions[:, None] - actions)
    cones = lipschitz * np.maximum(along[:, None, :, None], across[None, :, None, :])
    f = (rng.random((n, n)) + cones).min(axis=(2, 3)) / (1 + lipschitz)
    env = zooming.compiled_env(
        play, space, space, 1, start="uniform", params=f.ravel(), outcomes=([0.0], [1.0])
    )
    optimal = zooming.solve(env)
    assert [[optimal.q_value(0, x, a) for a in range(n)] for x in range(n)] == pytest.approx(f)
    g = np.array([optimal.value(0, x) for x in range(n)])
    assert g.max() - g.min() > 0.01
    assert (np.abs(g[:, None] - g) <= lipschitz / (1 + lipschitz) * along + 1e-12).all()


# --- what holds in most runs ----------------------------------------------------------------------


def test_lemma_the_noise_of_the_next_values_stays_within_hoeffdings_bound(runs):  # E.5
    failures = near = 0
    for run in runs[:RUNS]:
        largest = 0.0
        for step, _, _, _, n, visits in run.balls():
            weights = theory.learning_rate_weights(n, 2)[1:]
            noise = weights @ [
                v.after - MEAN if step == 0 else 0.0 for v in visits
            ]  # V* of the next step is x + constant
            squares = float(weights @ weights)
            assert squares <= 2 * 2 / n
            largest = max(
                largest,
                abs(noise) / (2 * math.sqrt(2 * squares * theory.iota(2, run.episodes, DELTA))),
            )
        failures, near = failures + (largest > 1), near + (largest > 0.05)
    assert failures <= MOST_FAILURES
    assert near > RUNS / 2  # the bound is loose, but the noise is there


def test_lemma_q_exceeds_the_optimum_by_no_more_than_beta_and_the_errors_of_v(runs):  # E.7
    failures = 0
    for run in runs[:RUNS]:
        failed = False
        for step, low, high, q, n, visits in run.balls():
            weights = theory.learning_rate_weights(n, 2)
            beta = 2 * weights[1:] @ [run.bonus(v.n_visits) for v in visits]
            ahead = [v.next_value - value_of(2, 1, v.after) if step == 0 else 0.0 for v in visits]
            above = [
                q - q_of(2, step, *(low + share * (high - low))) for share in (0.0, 0.5, 0.999)
            ]
            failed |= min(above) < 0 or max(above) > 2 * weights[0] + beta + weights[1:] @ ahead
        failures += failed
    assert failures <= MOST_FAILURES


def test_lemma_values_are_optimistic_in_most_runs_and_not_without_a_bonus(runs):  # E.8
    assert sum(run.worst < -1e-12 for run in runs[:RUNS]) <= MOST_FAILURES
    assert sum(learned(seed, 2, 20, bonus=0.0).worst < -1e-12 for seed in range(6)) >= 3


def test_lemma_the_surprises_of_all_steps_nearly_cancel(
    runs,
):  # E.9, with the absolute value outside the sum
    bound = 2 * math.sqrt(2 * 2**3 * runs[0].episodes * theory.iota(2, runs[0].episodes, DELTA))
    assert sum(abs(run.noise) > bound for run in runs[:RUNS]) <= MOST_FAILURES
    assert np.mean([abs(run.noise) / run.loudness for run in runs[:RUNS]]) < 0.5


def test_a_sum_of_absolute_surprises_exceeds_the_bound_that_lemma_e9_prints():
    # Each next state is a fair coin, and one of two actions loses 1 on one of its sides: |Z| = 1/2
    # at each of K H steps.
    horizon, episodes = 2, 10**4
    printed = 2 * math.sqrt(2 * horizon**3 * episodes * theory.iota(horizon, episodes, DELTA))
    assert (horizon - 1) * episodes * 0.5 > printed
