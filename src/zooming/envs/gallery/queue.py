"""Control of a queue: how fast to serve (Queue), or how many to let in (Admission).

The state is the number of jobs x in a room for `capacity` jobs. In a period, A jobs arrive and the
server completes min(S, x) of the waiting jobs. A and S are Poisson. Jobs that find the room full
are lost:

    x' = min(x - min(S, x) + A, capacity),    lost = x - min(S, x) + A - x'.

Queue: the action is the service rate a, S has mean a, A has mean `arrivals`, and

    r = -(waiting x' + energy a^2 + lost_cost lost).

Admission: the action is the share a of arrivals to admit, A has mean a `arrivals`, S has mean
`service`, and r = price (A - lost) - waiting x'.

There are no closed forms. The rule of Queue is a rate that grows with the queue. The rule of
Admission is a threshold above which nobody is admitted. [Naor 1969]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index, fill_poisson

MOST_JOBS = 200.0  # mean arrivals or services in a period
DEVIATIONS = 4.0  # where the law of the arrivals is cut
ARRIVING = "the mean number of jobs that arrive in a period"


@dataclass(frozen=True)
class Room(problem.Settings):
    """Numbers of both problems. Each has a default of its own for most of them."""

    waiting: float = amount(1.0, "the cost of a waiting job for a period")
    capacity: int = count(15, "room for jobs", 1, 200)
    start: int = count(0, "jobs at the start", 0, 200)
    horizon: int = count(12, "periods of an episode")

    def check(self) -> None:
        problem.require(
            self.start <= self.capacity,
            f"start={self.start} jobs do not fit into a room for capacity={self.capacity}",
        )


@dataclass(frozen=True)
class QueueSettings(Room):
    """Numbers of the service problem; see `Queue`."""

    fastest: float = amount(6.0, "the fastest service rate, in jobs a period", 1e-6, MOST_JOBS)
    energy: float = amount(0.5, "the cost of serving at rate 1; it grows with the square")
    lost_cost: float = amount(10.0, "the cost of a lost job")
    start: int = count(5, "jobs at the start", 0, 200)
    arrivals: float | Sequence[float] = problem.profile(3.0, ARRIVING, 0.0, MOST_JOBS)

    def check(self) -> None:
        mean = float(np.mean(self.arrivals))
        problem.require(
            mean < self.fastest,
            f"arrivals={mean:g} a period on average are not below the rate fastest="
            f"{self.fastest:g}: the queue grows whatever the server does",
        )
        super().check()


@dataclass(frozen=True)
class AdmissionSettings(Room):
    """Numbers of the admission problem; see `Admission`."""

    service: float = amount(4.0, "the service rate, in jobs a period", 1e-6, MOST_JOBS)
    price: float = amount(5.0, "what an admitted job pays")
    arrivals: float | Sequence[float] = problem.profile(6.0, ARRIVING, 0.0, MOST_JOBS)


AT = problem.places(QueueSettings, "n_arrivals")
IN = problem.places(AdmissionSettings, "n_arrivals")


def serve(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for `outcome` = (arrivals, services) and return the reward."""
    lost = shift(state, params[AT.capacity], outcome, next_state)
    cost = params[AT.waiting] * next_state[0] + params[AT.energy] * action[0] * action[0]
    return -(cost + params[AT.lost_cost] * lost)


def serve_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw `outcome` = (arrivals, services) at the chosen rate."""
    n, capacity = int(params[AT.n_arrivals]), int(params[AT.capacity])
    return draw_both(params[AT.arrivals + step], n, action[0], capacity + 1, rng, outcome)


def serve_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of all (arrivals, services) at the chosen rate."""
    n, capacity = int(params[AT.n_arrivals]), int(params[AT.capacity])
    fill_both(params[AT.arrivals + step], n, action[0], capacity + 1, weights)


def admit(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for `outcome` = (admitted arrivals, services), return the reward."""
    lost = shift(state, params[IN.capacity], outcome, next_state)
    return params[IN.price] * (outcome[0] - lost) - params[IN.waiting] * next_state[0]


def admit_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw `outcome` = (admitted arrivals, services)."""
    n, capacity = int(params[IN.n_arrivals]), int(params[IN.capacity])
    mean = params[IN.arrivals + step] * action[0]
    return draw_both(mean, n, params[IN.service], capacity + 1, rng, outcome)


def admit_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of all (admitted arrivals, services)."""
    n, capacity = int(params[IN.n_arrivals]), int(params[IN.capacity])
    fill_both(params[IN.arrivals + step] * action[0], n, params[IN.service], capacity + 1, weights)


@jit_inline
def shift(state: Any, capacity: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next number of jobs and return how many were lost."""
    jobs = state[0] - min(outcome[1], state[0]) + outcome[0]
    next_state[0] = min(jobs, capacity)
    return jobs - next_state[0]


@jit_kernel
def draw_both(arrivals: Any, n: Any, services: Any, m: Any, rng: Any, outcome: Any) -> Any:
    """Draw arrivals below n and services below m with the given means."""
    weights = np.empty(n)
    fill_poisson(arrivals, weights)
    outcome[0] = draw_index(weights, rng)
    weights = np.empty(m)
    fill_poisson(services, weights)
    outcome[1] = draw_index(weights, rng)
    return 0.0


@jit_kernel
def fill_both(arrivals: Any, n: Any, services: Any, m: Any, weights: Any) -> None:
    """Write the joint weights of Poisson arrivals below n and services below m."""
    first, second = np.empty(n), np.empty(m)
    fill_poisson(arrivals, first)
    fill_poisson(services, second)
    for i in range(n):
        for j in range(m):
            weights[i * m + j] = first[i] * second[j]


def _layout(s: Any, actions: Any, n: int, reward_range: tuple[float, float]) -> Layout:
    """Return the layout of either problem, with n numbers of arrivals."""
    return Layout(
        problem.box(0.0, s.capacity), actions, start=[float(s.start)],
        values=[(float(i), float(j)) for i in range(n) for j in range(s.capacity + 1)],
        reward_range=reward_range, resolution=problem.align_cells(s.capacity, 60),
        further=[n],
    )  # fmt: skip


class Queue(GalleryEnv):
    """The environment `zooming/Queue-v0`: how fast to serve a queue.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Queue-v0")
    >>> optimal = zooming.solve(env, 30)
    >>> [round(float(optimal.action(0, [jobs])[0]), 1) for jobs in (0.0, 5.0, 10.0)]
    [0.0, 3.5, 5.5]
    """

    model = Model(QueueSettings, AT, serve, serve_law, serve_draw)

    def _layout(self, s: Any) -> Layout:
        n = problem.largest(max(s.arrivals), DEVIATIONS) + 1
        most = s.waiting * s.capacity + s.energy * s.fastest**2 + s.lost_cost * (n - 1)
        return _layout(s, problem.box(0.0, s.fastest), n, (-max(most, 1e-6), 0.0))

    def _rule(self) -> RuleParts:
        s = self.settings

        def rate(step: int, states: Any, numbers: Any) -> Any:
            return numbers[0] + numbers[1] * states

        steep = math.sqrt(s.waiting / s.energy) if s.energy > 0 else s.fastest
        numbers = {
            "idle rate": (0.0, -s.fastest, s.fastest),
            "per job": (steep / 2, 0.0, s.fastest),
        }
        return "rate in proportion to the queue", rate, numbers


class Admission(GalleryEnv):
    """The environment `zooming/Admission-v0`: how many jobs to let into a queue.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Admission-v0")
    >>> optimal = zooming.solve(env, 30)
    >>> [round(float(optimal.action(0, [jobs])[0]), 1) for jobs in (0.0, 6.0, 12.0)]
    [1.0, 0.7, 0.0]
    """

    model = Model(AdmissionSettings, IN, admit, admit_law, admit_draw)

    def _layout(self, s: Any) -> Layout:
        n = problem.largest(max(s.arrivals), DEVIATIONS) + 1
        least, most = -max(s.waiting * s.capacity, 1e-6), s.price * min(n - 1, s.capacity)
        return _layout(s, problem.box(0.0, 1.0), n, (least, most))

    def _rule(self) -> RuleParts:
        s = self.settings

        def share(step: int, states: Any, numbers: Any) -> Any:
            return np.where(states < numbers[0], numbers[1], 0.0)

        naor = s.price * s.service / s.waiting if s.waiting > 0 else s.capacity
        level = min(float(s.capacity), naor / 2)  # half of what a selfish customer accepts
        return (
            "threshold",
            share,
            {"threshold": (level, 0.0, s.capacity + 1.0), "share": (1.0, 0.0, 1.0)},
        )
