"""Autoscaling over a day: how many servers to run, hour by hour, when the load is predictable.

The state is the number of servers x that run. The action is the number a to run in this hour. The
load N, in units of work, is Poisson with the mean m_h of the hour, cut at 6 deviations. Work above
the capacity is lost:

    x' = a,    r = -(server_cost a + start_cost (a - x)+ + penalty (N - per_server a)+).

The law changes with the hour, so the policy must change, too. If starting a server is free, the
hours are independent, and each is a newsvendor's problem:

    V* = -sum_h min_a (server_cost a + penalty E (N_h - per_server a)+).

The rule runs as many servers as the forecast needs plus a headroom, and scales down slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount
from zooming.kernels.solve.laws import fill_poisson

DAY = (
    8.0, 6.0, 5.0, 4.0, 4.0, 6.0, 10.0, 18.0, 28.0, 34.0, 36.0, 35.0,
    30.0, 32.0, 34.0, 33.0, 30.0, 26.0, 24.0, 28.0, 30.0, 24.0, 16.0, 11.0,
)  # fmt: skip


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Autoscaling`."""

    load: Sequence[float] = problem.profile(DAY, "the mean load of an hour")
    per_server: float = amount(4.0, "the load that a server carries", 1e-6)
    server_cost: float = amount(1.0, "the cost of a server for an hour")
    start_cost: float = amount(1.5, "the cost of starting a server")
    penalty: float = amount(1.0, "the cost of a unit of lost work")
    most_servers: float = amount(16.0, "the largest number of servers", 1e-6, 1e6)
    start: float = amount(2.0, "the number of servers at the start")

    def check(self) -> None:
        problem.require(
            self.start <= self.most_servers,
            f"start={self.start:g} servers exceed most_servers={self.most_servers:g}",
        )
        problem.require(
            max(self.load) <= self.per_server * self.most_servers,
            f"the load rises to {max(self.load):g}, but most_servers={self.most_servers:g} with "
            f"per_server={self.per_server:g} carry only {self.per_server * self.most_servers:g}",
        )
        problem.require(
            self.server_cost + self.start_cost + self.penalty > 0,
            "server_cost, start_cost and penalty are all 0, so that nothing costs anything",
        )


AT = problem.places(Settings)


def run(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for the load `outcome[0]` and return the reward."""
    next_state[0] = action[0]
    started = max(action[0] - state[0], 0.0)
    lost = max(outcome[0] - params[AT.per_server] * action[0], 0.0)
    cost = params[AT.server_cost] * action[0] + params[AT.start_cost] * started
    return -(cost + params[AT.penalty] * lost)


def law(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the probabilities of the loads of this hour, a Poisson law."""
    fill_poisson(params[AT.load + step], weights)


class Autoscaling(GalleryEnv):
    """The environment `zooming/Autoscaling-v0`: how many servers to run, hour by hour.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Autoscaling-v0", start_cost=0.0)
    >>> round(env.unwrapped.closed_form(), 2), round(zooming.solve(env, 64).return_, 2)
    (-162.3, -162.3)
    """

    model = Model(Settings, AT, run, law)

    def _layout(self, s: Any) -> Layout:
        n = problem.largest(max(s.load)) + 1
        # The cost is convex in a, so its largest value is that of no server or of all.
        all_run = (s.server_cost + s.start_cost) * s.most_servers
        left = s.penalty * max(n - 1 - s.per_server * s.most_servers, 0.0)
        servers = problem.box(0.0, s.most_servers)
        return Layout(
            servers, servers, start=[s.start], values=range(n),
            reward_range=(-max(s.penalty * (n - 1), all_run + left), 0.0),
            resolution=problem.align_cells(s.most_servers * s.per_server, 100),
            horizon=len(s.load),
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings

        def scale(step: int, states: Any, numbers: Any) -> Any:
            needed = s.load[step] / s.per_server * (1.0 + numbers[0])
            return np.maximum(needed, numbers[1] * states)

        numbers = {"headroom": (0.2, -0.5, 2.0), "keep": (0.8, 0.0, 1.0)}
        return "forecast plus headroom", scale, numbers

    def closed_form(self) -> float | None:
        """Return minus the sum of the least costs of all hours if starting is free, else None."""
        s = self.settings
        if s.start_cost > 0:
            return None
        n = problem.largest(max(s.load))
        loads = np.arange(n + 1.0)
        # The cost of an hour is convex with kinks where the servers carry a whole load.
        servers = np.minimum(np.append(loads / s.per_server, s.most_servers), s.most_servers)
        lost = np.maximum(0.0, loads[None] - s.per_server * servers[:, None])
        costs = [
            (s.server_cost * servers + s.penalty * lost @ problem.poisson(mean, n)).min()
            for mean in s.load
        ]
        return -float(sum(costs))
