"""Load balancing: which share of the work to send to the first of two servers.

The state is the work (x_1, x_2) in the queues of two servers, the action is the share a of the
first. In a period, work W arrives and server i completes S_i, which is its speed, or 0 if it
pauses. Pauses are independent. W is drawn from the work in the windows of a trace, scaled to the
mean `arrivals`:

    y_1 = max(x_1 + a W - S_1, 0),  y_2 = max(x_2 + (1 - a) W - S_2, 0),  x'_i = min(y_i, capacity)
    r = -(waiting (x'_1 + x'_2) + lost_cost (y_1 - x'_1 + y_2 - x'_2)).

The rules send a = 1/2 + step to the shorter queue. Round robin has step 0. Join the shortest queue
has step 1/2. Power of two choices has step 1/4: of two servers drawn with replacement, the shorter
queue gets the job, so the longer one gets it only if it is drawn twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count
from zooming.envs.gallery.systems.traces import TRACE, trace_of

N_WORK = 8  # amounts of work that arrive
N_PAUSES = 4  # outcomes of two servers that may pause


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Balancing`."""

    arrivals: float = amount(4.0, "the mean work that arrives in a period", 1e-6, 1e6)
    speeds: Sequence[float] = problem.number_list((4.0, 2.0), "work of each server in a period")
    pause: float = amount(0.1, "the probability that a server pauses", 0.0, 0.9)
    waiting: float = amount(1.0, "the cost of a unit of work that waits")
    lost_cost: float = amount(20.0, "the cost of a unit of lost work")
    capacity: float = amount(16.0, "the room of a queue", 1e-6, 1e6)
    horizon: int = count(12, "periods of an episode; it begins with empty queues")
    trace: str | None = problem.option(None, "str", TRACE)

    def check(self) -> None:
        problem.require(
            len(self.speeds) == 2 and all(0.0 < speed < np.inf for speed in self.speeds),
            f"speeds={self.speeds!r}: give two positive numbers, the work of a server in a period",
        )
        served = (1.0 - self.pause) * sum(self.speeds)
        problem.require(
            self.arrivals < served,
            f"arrivals={self.arrivals:g} are not below {served:g}, what both servers complete",
        )
        problem.require(self.waiting + self.lost_cost > 0, "waiting and lost_cost are both 0")


AT = problem.places(Settings, "first_speed", "second_speed", tail="work")


def serve(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next queues for `outcome` = (work, pauses), and return minus the costs."""
    work, pauses = params[AT.work + int(outcome[0])], int(outcome[1])
    cost = 0.0
    for i in range(2):
        sent = work * (action[0] if i == 0 else 1.0 - action[0])
        done = 0.0 if pauses >> i & 1 else params[AT.first_speed + i]
        queue = max(state[i] + sent - done, 0.0)
        next_state[i] = min(queue, params[AT.capacity])
        lost = queue - next_state[i]
        cost += params[AT.waiting] * next_state[i] + params[AT.lost_cost] * lost
    return -cost


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Write the joint weights: all amounts of work are equally likely, pauses are independent."""
    pause = params[AT.pause]
    for i in range(N_WORK):
        for j in range(N_PAUSES):
            first = pause if j & 1 else 1.0 - pause
            weights[N_PAUSES * i + j] = first * (pause if j & 2 else 1.0 - pause)


class Balancing(GalleryEnv):
    """The environment `zooming/Balancing-v0`: how to share work between two servers.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Balancing-v0")
    >>> sorted(env.unwrapped.rules)
    ['join the shortest queue', 'power of two choices', 'round robin']
    """

    model = Model(Settings, AT, serve, law)
    known: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "round robin": (0.5, 0.0),
        "power of two choices": (0.5, 0.25),
        "join the shortest queue": (0.5, 0.5),
    }

    def _layout(self, s: Any) -> Layout:
        work = trace_of(s.trace).work(N_WORK)
        work *= s.arrivals / work.mean()
        lost = max(work.max() - s.capacity, 0.0) + s.capacity
        most = 2 * s.waiting * s.capacity + s.lost_cost * min(work.max(), lost)
        return Layout(
            problem.box([0.0, 0.0], [s.capacity, s.capacity]), problem.box(0.0, 1.0),
            start=[0.0, 0.0], values=[(i, j) for i in range(N_WORK) for j in range(N_PAUSES)],
            reward_range=(-most, 0.0), resolution=48, further=s.speeds, tail=work.tolist(),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        def share(step: int, states: Any, numbers: Any) -> Any:
            return numbers[0] + numbers[1] * np.sign(states[:, 1] - states[:, 0])

        numbers = {"share": (0.5, 0.0, 1.0), "step": (0.5, 0.0, 1.0)}
        return "join the shortest queue", share, numbers
