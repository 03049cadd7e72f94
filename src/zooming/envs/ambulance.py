"""Ambulance stationing: station k ambulances on [0, 1] before each call comes in. [SBY19 sec. 7]

The action is the station of every ambulance. A call p ~ F_h comes in, and the nearest ambulance
goes there (the first, if two are equally near). The others stay:

    r = 1 - (c |x - a|_1 / k + (1 - c) min_i |p - a_i|),    x' = a with the nearest ambulance at p.

With one ambulance, x' is the call itself, as in the paper. Heuristics such as Median read the calls
from x'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.envs.compiled import MOST_AXES, CompiledEnv, Outcomes
from zooming.errors import ConfigurationError
from zooming.kernels import jit_inline
from zooming.validation import as_floats, check_float, check_int, short_repr

ARRIVALS = ("beta", "uniform", "shifting")
# Intervals of "shifting" per step; longer episodes repeat them.
SHIFTING = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0), (0.45, 0.55))
# params: travel weight, then (kind, first, second) per step, then all observed locations. The kinds
# are uniform on (first, second), Beta(5, 2), and `second` locations from params[first] on.
_WEIGHT, _TABLE = 0, 1
_INTERVAL, _BETA, _OBSERVED = 0.0, 1.0, 2.0
MOST_STEPS = 100_000  # params hold a law per step

Arrivals = str | ArrayLike | Sequence[str | ArrayLike]


def ambulance(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the call of a step, write the next state and return the reward."""
    return respond(state, action, params, draw_call(step, params, rng), next_state)


def ambulance_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the call of a step into `outcome[0]`."""
    outcome[0] = draw_call(step, params, rng)
    return 0.0


def ambulance_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the call `outcome[0]` and return the reward."""
    return respond(state, action, params, outcome[0], next_state)


@jit_inline
def draw_call(step: Any, params: Any, rng: Any) -> Any:
    """Return the call of a step.

    It is a function of its own so that `ambulance` has no branches. Numba then finds that it need
    not count references, which would take 7 % of a step.
    """
    place = _TABLE + 3 * step
    first = params[place + 1]
    second = params[place + 2]
    if params[place] == _INTERVAL:
        request = first + rng.random() * (second - first)
    elif params[place] == _OBSERVED:
        request = params[int(first) + int(rng.random() * second)]
    else:
        # Beta(5, 2) is the second largest of six uniforms: faster than rng.beta, and the same
        largest = 0.0
        request = 0.0
        for _ in range(6):
            u = rng.random()
            request = max(request, min(largest, u))
            largest = max(largest, u)
    return request


@jit_inline
def respond(state: Any, action: Any, params: Any, request: Any, next_state: Any) -> Any:
    """Write the next state for the call `request` and return the reward."""
    n = state.shape[0]
    way = 0.0
    nearest = 0
    for i in range(n):
        way += abs(state[i] - action[i])
        next_state[i] = action[i]
        if abs(request - action[i]) < abs(request - action[nearest]):
            nearest = i
    next_state[nearest] = request
    weight = params[_WEIGHT]
    return 1.0 - (weight * way / n + (1.0 - weight) * abs(request - action[nearest]))


class Ambulance(CompiledEnv):
    """The environment `zooming/Ambulance-v0`: station ambulances before each call comes in.

    Parameters
    ----------
    arrivals : {"beta", "uniform", "shifting"}, array, or a list of these, default "beta"
        Law of the calls: Beta(5, 2), uniform, uniform on an interval that changes with the step, or
        observed locations in [0, 1], resampled with replacement. A list gives one law per step.
    travel_weight : float, default 0.25
        c, the weight of the distance to the stations, from 0 to 1. The distance to the call has
        weight 1 - c.
    n_ambulances : int, default 1
        k, the number of ambulances: dimension of states and actions.
    start : float, array or "uniform", default 0.5
        Start state, or "uniform" for a random one. A number counts for every ambulance.
    horizon : int, default 5
        Steps of an episode.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Ambulance-v0", arrivals=[0.2, 0.25, 0.7], travel_weight=0.0)
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(np.array([0.25]))
    >>> float(observation[0]) in (0.2, 0.25, 0.7)
    True
    """

    def __init__(
        self,
        arrivals: Arrivals = "beta",
        travel_weight: float = 0.25,
        n_ambulances: int = 1,
        start: ArrayLike | str = 0.5,
        horizon: int = 5,
    ) -> None:
        travel_weight = check_float(travel_weight, "travel_weight", 0.0, 1.0)
        horizon = check_int(horizon, "horizon", 1, MOST_STEPS)
        n_ambulances = check_int(n_ambulances, "n_ambulances", 1, MOST_AXES)
        if isinstance(arrivals, np.ndarray) and arrivals.dtype.kind in "UO":
            arrivals = arrivals.tolist()
        self.arrivals, self.travel_weight = arrivals, travel_weight
        self.laws = _laws(arrivals, horizon)
        rows: list[float] = []
        observed: list[float] = []
        place: dict[int, float] = {}  # index in params by id of the array: shared by steps
        for law in self.laws:
            if isinstance(law, tuple):
                rows += [_INTERVAL, *law]
            elif isinstance(law, str):
                rows += [_BETA, 0.0, 0.0]
            else:
                if id(law) not in place:
                    place[id(law)] = float(_TABLE + 3 * len(self.laws) + len(observed))
                    observed += law.tolist()
                rows += [_OBSERVED, place[id(law)], float(len(law))]
        box = gym.spaces.Box(0.0, 1.0, (n_ambulances,), np.float64)
        kind = arrivals if isinstance(arrivals, str) else "observed"
        several = f" x{n_ambulances}" if n_ambulances > 1 else ""
        super().__init__(
            ambulance, box, box, horizon, start=start, params=[travel_weight, *rows, *observed],
            given=ambulance_given, draw=ambulance_draw, reward_range=(0.0, 1.0),
            name=f"ambulance {kind} {travel_weight:g}{several}",
        )  # fmt: skip

    def outcomes(self, step: int, n: int) -> Outcomes:
        """Return the calls of a step and their probabilities.

        Observed calls are exact. A density is cut into n slices, and each slice is represented by
        its mean.
        """
        law = self.laws[step]
        if isinstance(law, tuple):
            low, high = law
            return (low + (high - low) * (np.arange(n) + 0.5) / n)[:, None], np.full(n, 1 / n)
        if isinstance(law, str):
            edge = np.arange(n + 1) / n
            weights = np.diff(6 * edge**5 - 5 * edge**6)  # Beta(5, 2) has density 30 x^4 (1 - x)
            return (np.diff(5 * edge**6 - 30 / 7 * edge**7) / weights)[:, None], weights
        calls, counts = np.unique(law, return_counts=True)
        return calls[:, None], counts / counts.sum()


def _laws(arrivals: Any, horizon: int) -> list[Any]:
    """Return the law of every step: an interval (low, high), "beta", or observed locations."""
    if not isinstance(arrivals, str) and _is_per_step(arrivals):
        if len(arrivals) != horizon:
            raise ConfigurationError(
                f"arrivals has {len(arrivals)} entries, one per step; the horizon is {horizon}"
            )
        return [_law(arrival, step) for step, arrival in enumerate(arrivals)]
    if isinstance(arrivals, str):
        return [_law(arrivals, step) for step in range(horizon)]
    return [_law(arrivals, 0)] * horizon


def _is_per_step(arrivals: Any) -> bool:
    if isinstance(arrivals, np.ndarray):
        return arrivals.ndim == 2
    return isinstance(arrivals, Sequence) and any(
        isinstance(entry, Sequence) or getattr(entry, "ndim", 0) > 0 for entry in arrivals
    )


def _law(arrival: Any, step: int) -> Any:
    if isinstance(arrival, str):
        if arrival not in ARRIVALS:
            raise ConfigurationError(
                f"arrivals={arrival!r}: choose one of {ARRIVALS}, or give an array of observed "
                "locations"
            )
        if arrival == "beta":
            return arrival
        return (0.0, 1.0) if arrival == "uniform" else SHIFTING[step % len(SHIFTING)]
    try:
        locations: NDArray[np.float64] = as_floats(arrival)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"arrivals: {short_repr(arrival)} is not an array of locations"
        ) from error
    if locations.ndim != 1 or not len(locations):
        raise ConfigurationError(
            f"arrivals of step {step}: give at least one observed location, as a one-dimensional "
            "array"
        )
    if not ((locations >= 0) & (locations <= 1)).all():
        raise ConfigurationError(
            f"arrivals of step {step}: locations run from {locations.min()} to {locations.max()}; "
            "rescale them to [0, 1]"
        )
    return locations
