"""Oil discovery: move to where a survey predicts oil, and pay for the way. [SBY19 sec. 7]

S = A = [0, 1]^d with the distance |u - v| = |u - v|_1 / d. Action a in state x gives

    x' = a,    r = clip(f(a) + noise - |x - a|, 0, 1),
    f(a) = exp(-lam |a - c|)  (laplace)    or    1 - lam |a - c|^2  (quadratic).

The authors' program has two more problems, for d = 1. There, the oil also depends on the state or
on the step h = 0, 1, ..., and the noise moves the agent. With z ~ N(0, 1),

    x' = clip(a + noise (x + a) z, 0, 1),    r = clip(f - |x - a|, 0, 1),
    f = exp(-lam |x a - 0.7|)  (noisy)    or    h/5 exp(-lam |x - c_h|)  (sparse),
    c_h = 1/2, 1/4, 1/2, 3/4 in the steps 1 to 4; the first step pays nothing.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from zooming.envs.compiled import MOST_AXES, CompiledEnv, Outcomes
from zooming.errors import ConfigurationError
from zooming.kernels import jit_inline
from zooming.validation import as_floats, check_float, check_int, short_repr

SURVEYS = ("laplace", "quadratic", "noisy", "sparse")
NOISY = 2.0  # params[_SURVEY] of the first of the two further surveys
SPREADS = {"noisy": math.sqrt(0.1), "sparse": math.sqrt(0.05)}  # `noise` in the authors' program
_SURVEY, _SHARPNESS, _NOISE, _CENTER = 0, 1, 2, 3  # places in params


def oil(state: Any, action: Any, step: Any, params: Any, rng: Any, next_state: Any) -> Any:
    """Draw the noise, write the next state and return the reward."""
    noise = rng.standard_normal() if params[_NOISE] > 0.0 else 0.0
    return drill(state, action, step, params, noise, next_state)


def oil_draw(state: Any, action: Any, step: Any, params: Any, rng: Any, outcome: Any) -> Any:
    """Draw the standard noise into `outcome[0]`."""
    outcome[0] = rng.standard_normal() if params[_NOISE] > 0.0 else 0.0
    return 0.0


def oil_given(
    state: Any, action: Any, step: Any, params: Any, outcome: Any, next_state: Any
) -> Any:
    """Write the next state for the noise `outcome[0]` and return the reward."""
    return drill(state, action, step, params, outcome[0], next_state)


@jit_inline
def drill(state: Any, action: Any, step: Any, params: Any, noise: Any, next_state: Any) -> Any:
    """Write the next state for a given value of the standard noise, and return the reward."""
    if params[_SURVEY] >= NOISY:
        x, a = state[0], action[0]
        next_state[0] = min(1.0, max(0.0, a + params[_NOISE] * (x + a) * noise))
        if params[_SURVEY] == NOISY:
            found = math.exp(-params[_SHARPNESS] * abs(x * a - 0.7))
        else:
            center = 1.0
            if step == 1 or step == 3:
                center = 0.5
            elif step == 2:
                center = 0.25
            elif step == 4:
                center = 0.75
            found = 0.2 * step * math.exp(-params[_SHARPNESS] * abs(x - center))
        return min(1.0, max(0.0, found - abs(x - a)))
    n = state.shape[0]
    off_center = 0.0
    way = 0.0
    for i in range(n):
        off_center += abs(action[i] - params[_CENTER + i])
        way += abs(state[i] - action[i])
        next_state[i] = action[i]
    off_center /= n
    way /= n
    if params[_SURVEY] == 0.0:
        found = math.exp(-params[_SHARPNESS] * off_center)
    else:
        found = 1.0 - params[_SHARPNESS] * off_center * off_center
    return min(1.0, max(0.0, found + params[_NOISE] * noise - way))


class Oil(CompiledEnv):
    """The environment `zooming/Oil-v0`: move to where a survey predicts oil, and pay for the way.

    Parameters
    ----------
    survey : {"laplace", "quadratic", "noisy", "sparse"}, default "laplace"
        Form of f, the oil that the survey predicts. The last two are for one dimension.
    sharpness : float, default 1.0
        lam, how fast f falls with the distance from its center.
    center : float or array, default 0.75
        c, the location of the most oil: one number, or one per dimension. "noisy" and "sparse"
        have their own locations.
    noise : float, optional
        Standard deviation of Gaussian noise on f, by default 0. For "noisy" and "sparse" that of
        the next state, divided by x + a: by default sqrt(0.1) and sqrt(0.05).
    dims : int, default 1
        d, the dimension of states and actions.
    start : float, array or "uniform", default 0.5
        Start state, or "uniform" for a random one. A number counts for every dimension.
    horizon : int, default 5
        Steps of an episode.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0", survey="laplace", sharpness=10.0)
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(np.array([0.75]))
    >>> float(observation[0]), reward
    (0.75, 0.75)
    """

    def __init__(
        self,
        survey: str = "laplace",
        sharpness: float = 1.0,
        center: ArrayLike = 0.75,
        noise: float | None = None,
        dims: int = 1,
        start: ArrayLike | str = 0.5,
        horizon: int = 5,
    ) -> None:
        if survey not in SURVEYS:
            raise ConfigurationError(f"survey={survey!r}: choose one of {SURVEYS}")
        sharpness = check_float(sharpness, "sharpness", 0.0, math.inf)
        noise = SPREADS.get(survey, 0.0) if noise is None else noise
        noise = check_float(noise, "noise", 0.0, math.inf)
        dims = check_int(dims, "dims", 1, MOST_AXES)
        try:
            where = np.broadcast_to(as_floats(center), (dims,))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"center={short_repr(center)}: give one number, or one per dimension ({dims})"
            ) from error
        if not ((where >= 0) & (where <= 1)).all():
            raise ConfigurationError(f"center={center!r} must lie in [0, 1]")
        if survey in SPREADS and (dims > 1 or (where != 0.75).any()):
            raise ConfigurationError(
                f"survey={survey!r} has one dimension and locations of its own; leave out dims and "
                "center"
            )
        self.survey, self.sharpness, self.center, self.noise = survey, sharpness, where, noise
        box = gym.spaces.Box(0.0, 1.0, (dims,), np.float64)
        params = [float(SURVEYS.index(survey)), sharpness, noise, *where]
        name = f"oil {survey} {sharpness:g}"
        super().__init__(
            oil, box, box, horizon, start=start, params=params, given=oil_given, draw=oil_draw,
            reward_range=(0.0, 1.0), name=name,
        )  # fmt: skip

    def outcomes(self, step: int, n: int) -> Outcomes:
        """Return n outcomes: the medians of n equally likely slices of the noise.

        Without noise there is one outcome.
        """
        n = n if self.noise > 0 else 1
        normal = NormalDist()
        return np.array([[normal.inv_cdf((i + 0.5) / n)] for i in range(n)]), np.full(n, 1 / n)
