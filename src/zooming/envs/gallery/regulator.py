"""Linear-quadratic regulator: hold a quantity at 0 against noise, at little effort.

The state is the deviation x. The action is the push u in [-strongest, strongest]. eps is a fair
coin with values 1 and -1:

    x' = gain x + push u + noise eps,    r = -(state_cost x^2 + push_cost u^2).

The state space is as wide as an episode can reach from its start, so that no state is cut off. The
optimum is u = -K_h x, by the Riccati recursion P_H = 0, c_H = 0,

    K_h = gain push P_{h+1} / (push_cost + push^2 P_{h+1}),
    P_h = state_cost + gain^2 P_{h+1} - gain push P_{h+1} K_h,    c_h = c_{h+1} + noise^2 P_{h+1},

and V*_0(x) = -(P_0 x^2 + c_0), as long as no reachable state needs more than the strongest push.
The rule is u = -k x with one k for all steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zooming.envs.gallery import problem
from zooming.envs.gallery.problem import GalleryEnv, Layout, Model, RuleParts, amount, count

MOST_WIDE = 1e6
N_ITERATIONS = 1000  # of the Riccati recursion, for the gain that does not depend on the step


@dataclass(frozen=True)
class Settings(problem.Settings):
    """Numbers of the problem; see `Regulator`."""

    gain: float = amount(1.0, "the share of a deviation that stays", 0.0, 2.0)
    push: float = amount(1.0, "the effect of a unit of push", 1e-6)
    noise: float = amount(0.1, "the size of the noise; up or down with equal probability")
    state_cost: float = amount(1.0, "the cost of a deviation of 1; it grows with the square", 1e-6)
    push_cost: float = amount(0.5, "the cost of a push of 1; it grows with the square", 1e-6)
    strongest: float = amount(1.0, "the strongest push", 1e-6)
    start: float = amount(1.0, "the deviation at the start", -MOST_WIDE, MOST_WIDE)
    horizon: int = count(5, "steps of an episode")

    def check(self) -> None:
        problem.require(
            self.widest() <= MOST_WIDE,
            f"gain={self.gain:g} lets deviations grow to {self.widest():.3g} in "
            f"{self.horizon} steps; give a smaller gain or horizon",
        )

    def widest(self) -> float:
        """Return the largest deviation that an episode can reach."""
        reached = most = abs(self.start)
        for _ in range(self.horizon):
            reached = self.gain * reached + self.push * self.strongest + self.noise
            most = max(most, reached)
        return most


AT = problem.places(Settings, "widest")


def steer(state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any) -> Any:
    """Write the next state for the coin value `outcome[0]` and return the reward."""
    x, u = state[0], action[0]
    after = params[AT.gain] * x + params[AT.push] * u + params[AT.noise] * outcome[0]
    next_state[0] = min(max(after, -params[AT.widest]), params[AT.widest])
    return -(params[AT.state_cost] * x * x + params[AT.push_cost] * u * u)


def coin(state: Any, action: Any, step: Any, params: Any, values: Any, weights: Any) -> None:
    """Fill in the weights of a fair coin."""
    weights[0] = weights[1] = 0.5


class Regulator(GalleryEnv):
    """The environment `zooming/Regulator-v0`: hold a quantity at 0, at little effort.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Regulator-v0")
    >>> round(env.unwrapped.closed_form(), 2), round(zooming.solve(env, 400).return_, 2)
    (-1.42, -1.42)
    """

    model = Model(Settings, AT, steer, coin)

    def _layout(self, s: Any) -> Layout:
        widest = s.widest()
        most = s.state_cost * widest**2 + s.push_cost * s.strongest**2
        return Layout(
            problem.box(-widest, widest), problem.box(-s.strongest, s.strongest), start=[s.start],
            values=(1.0, -1.0), reward_range=(-most, 0.0), resolution=400, further=[widest],
        )  # fmt: skip

    def _rule(self) -> RuleParts:
        s = self.settings

        def push(step: int, states: Any, numbers: Any) -> Any:
            return -numbers[0] * states

        usual = self.riccati(N_ITERATIONS)[0][0]
        return "push in proportion", push, {"k": (usual, 0.0, 2.0 * (s.gain + 1.0) / s.push)}

    def riccati(self, n_steps: int) -> tuple[list[float], float, float]:
        """Return (K_0, ..., K_{n-1}), P_0 and c_0 for an episode of n steps."""
        s = self.settings
        gains: list[float] = []
        weight = constant = 0.0
        for _ in range(n_steps):
            k = s.gain * s.push * weight / (s.push_cost + s.push**2 * weight)
            constant += s.noise**2 * weight
            weight = s.state_cost + s.gain**2 * weight - s.gain * s.push * weight * k
            gains.insert(0, k)
        return gains, weight, constant

    def closed_form(self) -> float | None:
        """Return -(P_0 x^2 + c_0), or None if the optimum may need more than the strongest push."""
        s = self.settings
        gains, weight, constant = self.riccati(s.horizon)
        reached = abs(s.start)
        for k in gains:
            if k * reached > s.strongest:
                return None
            reached = abs(s.gain - s.push * k) * reached + s.noise
        return -float(weight * s.start**2 + constant)
