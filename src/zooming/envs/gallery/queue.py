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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import Decide, GalleryEnv, amount, count, profile, require
from zooming.kernels import jit_inline, jit_kernel
from zooming.kernels.solve.laws import draw_index, fill_poisson

# Places in params. PER_JOB is the cost of a lost job, or the price of an admitted one.
_WAITING, _ENERGY, _PER_JOB, _CAPACITY, _N_ARRIVALS, _SERVICE, _MEANS = range(7)
MOST_JOBS = 200.0  # mean arrivals or services in a period
DEVIATIONS = 4.0  # where the law of the arrivals is cut


@dataclass(frozen=True)
class QueueSettings:
    """Numbers of the service problem; see `Queue`."""

    arrivals: float | Sequence[float] = 3.0
    fastest: float = 6.0
    waiting: float = 1.0
    energy: float = 0.5
    lost_cost: float = 10.0
    capacity: int = 15
    start: int = 5
    horizon: int = 12

    def __post_init__(self) -> None:
        count(self, "horizon")
        profile(self, "arrivals", "the mean number of jobs that arrive in a period", 0.0, MOST_JOBS)
        amount(self, "fastest", "the fastest service rate, in jobs a period", 1e-6, MOST_JOBS)
        mean = float(np.mean(self.arrivals))
        require(
            mean < self.fastest,
            f"arrivals={mean:g} a period on average are not below the rate fastest="
            f"{self.fastest:g}: the queue grows whatever the server does",
        )
        amount(self, "waiting", "the cost of a waiting job for a period")
        amount(self, "energy", "the cost of serving at rate 1")
        amount(self, "lost_cost", "the cost of a lost job")
        _check_room(self)


@dataclass(frozen=True)
class AdmissionSettings:
    """Numbers of the admission problem; see `Admission`."""

    arrivals: float | Sequence[float] = 6.0
    service: float = 4.0
    price: float = 5.0
    waiting: float = 1.0
    capacity: int = 15
    start: int = 0
    horizon: int = 12

    def __post_init__(self) -> None:
        count(self, "horizon")
        profile(self, "arrivals", "the mean number of jobs that arrive in a period", 0.0, MOST_JOBS)
        amount(self, "service", "the service rate, in jobs a period", 1e-6, MOST_JOBS)
        amount(self, "price", "what an admitted job pays")
        amount(self, "waiting", "the cost of a waiting job for a period")
        _check_room(self)


def _check_room(settings: Any) -> None:
    count(settings, "capacity", 1, 200)
    count(settings, "start", 0, 200)
    require(
        settings.start <= settings.capacity,
        f"start={settings.start} jobs do not fit into a room for capacity={settings.capacity}",
    )


def queue(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw arrivals and services at the chosen rate, write the next state and return the reward."""
    arrived, served = draw_both(params[_MEANS + step], action[0], params, rng)
    return serve(state, action, params, arrived, served, next_state)


def queue_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw `outcome` = (arrivals, services) at the chosen rate."""
    outcome[0], outcome[1] = draw_both(params[_MEANS + step], action[0], params, rng)
    return 0.0


def queue_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for `outcome` = (arrivals, services) and return the reward."""
    return serve(state, action, params, outcome[0], outcome[1], next_state)


def queue_law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of all (arrivals, services) at the chosen rate."""
    fill_both(params[_MEANS + step], action[0], params, weights)


@jit_inline
def serve(state: Any, action: Any, params: Any, arrived: Any, served: Any, next_state: Any) -> Any:
    """Write the next state and return minus the costs of waiting, energy and lost jobs."""
    lost = shift(state, params, arrived, served, next_state)
    cost = params[_WAITING] * next_state[0] + params[_ENERGY] * action[0] * action[0]
    return -(cost + params[_PER_JOB] * lost)


def admission(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw admitted arrivals and services, write the next state and return the reward."""
    arrived, served = draw_both(params[_MEANS + step] * action[0], params[_SERVICE], params, rng)
    return admit(state, params, arrived, served, next_state)


def admission_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw `outcome` = (admitted arrivals, services)."""
    mean = params[_MEANS + step] * action[0]
    outcome[0], outcome[1] = draw_both(mean, params[_SERVICE], params, rng)
    return 0.0


def admission_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for `outcome` = (arrivals, services) and return the reward."""
    return admit(state, params, outcome[0], outcome[1], next_state)


def admission_law(
    state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any
) -> None:
    """Fill in the probabilities of all (admitted arrivals, services)."""
    fill_both(params[_MEANS + step] * action[0], params[_SERVICE], params, weights)


@jit_inline
def admit(state: Any, params: Any, arrived: Any, served: Any, next_state: Any) -> Any:
    """Write the next state and return the payments of admitted jobs minus the cost of waiting."""
    lost = shift(state, params, arrived, served, next_state)
    return params[_PER_JOB] * (arrived - lost) - params[_WAITING] * next_state[0]


@jit_inline
def shift(state: Any, params: Any, arrived: Any, served: Any, next_state: Any) -> Any:
    """Write the next number of jobs and return how many were lost."""
    jobs = state[0] - min(served, state[0]) + arrived
    next_state[0] = min(jobs, params[_CAPACITY])
    return jobs - next_state[0]


@jit_kernel
def draw_both(arrivals: Any, services: Any, params: Any, rng: Any) -> Any:
    """Draw (arrivals, services) with the given means."""
    weights = np.empty(int(params[_N_ARRIVALS]))
    fill_poisson(arrivals, weights)
    arrived = draw_index(weights, rng)
    weights = np.empty(int(params[_CAPACITY]) + 1)
    fill_poisson(services, weights)
    return float(arrived), float(draw_index(weights, rng))


@jit_kernel
def fill_both(arrivals: Any, services: Any, params: Any, weights: Any) -> None:
    """Write the joint weights of Poisson arrivals and services.

    Services are cut at the capacity.
    """
    n, m = int(params[_N_ARRIVALS]), int(params[_CAPACITY]) + 1
    first, second = np.empty(n), np.empty(m)
    fill_poisson(arrivals, first)
    fill_poisson(services, second)
    for i in range(n):
        for j in range(m):
            weights[i * m + j] = first[i] * second[j]


class Queue(GalleryEnv):
    """The environment `zooming/Queue-v0`: how fast to serve a queue.

    Parameters
    ----------
    arrivals : float or sequence, default 3.0
        Mean number of jobs that arrive in a period: one number, or one per period.
    fastest : float, default 6.0
        Fastest service rate, in jobs a period. It must exceed the mean arrivals.
    waiting : float, default 1.0
        Cost of a waiting job for a period.
    energy : float, default 0.5
        Cost of serving at rate 1 for a period. It grows with the square of the rate.
    lost_cost : float, default 10.0
        Cost of a job that finds the room full.
    capacity, start : int, default 15, 5
        Room for jobs, and jobs at the start.
    horizon : int, default 12
        Periods of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Queue-v0")
    >>> optimal = zooming.solve(env, 30)
    >>> [round(float(optimal.action(0, [jobs])[0]), 1) for jobs in (0.0, 5.0, 10.0)]
    [0.0, 3.5, 5.5]
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(QueueSettings, "Queue", options)
        self.settings = s
        n = problem.largest(max(s.arrivals), DEVIATIONS) + 1
        most = s.waiting * s.capacity + s.energy * s.fastest**2 + s.lost_cost * (n - 1)
        numbers = [s.waiting, s.energy, s.lost_cost, s.capacity, n, 0.0]
        super().__init__(
            queue, gym.spaces.Box(0.0, float(s.capacity), (1,), np.float64),
            gym.spaces.Box(0.0, s.fastest, (1,), np.float64), s.horizon,
            start=[float(s.start)], params=[*numbers, *s.arrivals],
            given=queue_given,
            draw=queue_draw, n_noise=2, weigh=queue_law, values=_pairs(n, s.capacity),
            resolution=problem.align_cells(s.capacity, 60),
            reward_range=(-max(most, 1e-6), 0.0), name="queue", render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
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

    Parameters
    ----------
    arrivals : float or sequence, default 6.0
        Mean number of jobs that arrive in a period: one number, or one per period.
    service : float, default 4.0
        Service rate, in jobs a period.
    price : float, default 5.0
        What an admitted job pays.
    waiting : float, default 1.0
        Cost of a waiting job for a period.
    capacity, start : int, default 15, 0
        Room for jobs, and jobs at the start.
    horizon : int, default 12
        Periods of an episode.
    render_mode : {"rgb_array", "human", "ansi"}, optional
        See `CompiledEnv.render`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Admission-v0")
    >>> optimal = zooming.solve(env, 30)
    >>> [round(float(optimal.action(0, [jobs])[0]), 1) for jobs in (0.0, 6.0, 12.0)]
    [1.0, 0.7, 0.0]
    """

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        s: Any = problem.read(AdmissionSettings, "Admission", options)
        self.settings = s
        n = problem.largest(max(s.arrivals), DEVIATIONS) + 1
        most_admitted = min(n - 1, s.capacity)
        numbers = [s.waiting, 0.0, s.price, s.capacity, n, s.service]
        super().__init__(
            admission, gym.spaces.Box(0.0, float(s.capacity), (1,), np.float64),
            gym.spaces.Box(0.0, 1.0, (1,), np.float64), s.horizon,
            start=[float(s.start)], params=[*numbers, *s.arrivals],
            given=admission_given,
            draw=admission_draw, n_noise=2, weigh=admission_law, values=_pairs(n, s.capacity),
            resolution=problem.align_cells(s.capacity, 60),
            reward_range=(-max(s.waiting * s.capacity, 1e-6), s.price * most_admitted),
            name="admission", render_mode=render_mode,
        )  # fmt: skip

    def _rule(self) -> tuple[str, Decide, Mapping[str, tuple[float, float, float]]]:
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


def _pairs(n: int, capacity: int) -> Any:
    """Return all pairs (arrivals, services) in the order of `fill_both`."""
    return [(float(i), float(j)) for i in range(n) for j in range(capacity + 1)]
