"""The optimum of a problem: optimal values, actions and return, with their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zooming.envs.state_grid import Grid
from zooming.errors import ConfigurationError
from zooming.kernels.solve.backups import GIVEN_ACTIONS
from zooming.validation import Floats, Ints, check_float

POINTS_LOG2 = 16  # at about 2^16 points the gap is computed


@dataclass(frozen=True)
class Optimal:
    """The optimum of an environment: optimal values and actions for every step and state.

    Returned by `zooming.solve`. Steps are counted from 0.

    Attributes
    ----------
    grid
        The grid of states that holds the values.
    resolution
        Cells per axis; None if the optimum is exact.
    return_
        Expected return of the optimal policy from the start distribution: the mean of the values,
        or the nearer end of [return_low, return_high] if that mean is outside.
    error
        Error of every value: an estimate, or a bound if `lipschitz` was given.
    return_error
        Error of `return_`: the larger of its distances to `return_low` and `return_high`.
    return_low, return_high
        Interval of the optimal return. If outcomes and start states are finite sets, with at
        least two outcomes, `return_low` is proved: it is what a policy earns (lower end of a 95 %
        interval over sampled episodes). `return_high` is then an estimate. Otherwise they are
        `return_` minus and plus the sum of `error` and the error of the mean over the start.
    is_bound
        Whether `return_error` is a bound, not an estimate.
    seconds
        Time that it took to solve.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> optimal = zooming.solve(gym.make("zooming/Oil-v0", survey="quadratic", sharpness=1.0))
    >>> round(optimal.return_, 4), round(optimal.value(0, [0.0]), 4)
    (4.8, 4.3)
    >>> optimal.action(0, [0.5]).round(3)  # 1/(2 H lam) = 0.1 short of the oil at 0.75
    array([0.65])
    """

    grid: Grid = field(repr=False)
    resolution: int | None
    return_: float
    error: float
    return_error: float
    return_low: float
    return_high: float
    is_bound: bool
    seconds: float = field(compare=False)

    def __repr__(self) -> str:
        about = "" if self.is_bound else "about "
        within = f"{self.return_:.4f} within {about}{self.return_error:.1e}"
        how = "exact" if self.resolution is None else f"resolution {self.resolution}"
        return f"Optimal(return {within}, {how}, {self.seconds:.1f} s)"

    @property
    def horizon(self) -> int:
        """Number of steps in an episode."""
        return self.grid.env.horizon

    def value(self, step: int, state: ArrayLike) -> float:
        """Return V*_h(x) for one state, an integer if states are Discrete."""
        return self.grid.value(self._step(step), self._state(state))

    def values(self, step: int, states: ArrayLike) -> Floats:
        """Return V*_h of states [n, n_state], or [n] if they are Discrete, as an array [n]."""
        env, step = self.grid.env, self._step(step)
        if not env.has_whole_states:
            states = np.atleast_2d(np.asarray(states, np.float64))
        points = _check_points(states, env.state_box, env.has_whole_states, "state")
        return np.array([self.grid.value(step, point) for point in points])

    def q_value(self, step: int, state: ArrayLike, action: ArrayLike) -> float:
        """Return Q*_h(x, a) for one state and one action, integers if they are Discrete."""
        return float(self.q_values(step, np.array([state]), np.array([action]))[0])

    def q_values(self, step: int, states: ArrayLike, actions: ArrayLike) -> Floats:
        """Return Q*_h of n pairs [n, n_state], [n, n_action] (Discrete: [n]) as an array [n]."""
        env = self.grid.env
        x = _check_points(states, env.state_box, env.has_whole_states, "state")
        a = _check_points(actions, env.action_box, env.has_whole_actions, "action")
        if len(x) != len(a) or not len(x):
            raise ConfigurationError(
                f"{len(x)} states and {len(a)} actions: give as many of each, at least one"
            )
        return self.grid.backup(self._step(step), x, a, GIVEN_ACTIONS)[0]

    def action(self, step: int, state: ArrayLike) -> Any:
        """Return an optimal action in one state, an integer if actions are Discrete."""
        grid, states = self.grid, self._state(state)[None]
        best = grid.backup(self._step(step), states, grid.actions, grid.search)[1][0]
        return np.int64(best[0]) if grid.env.has_whole_actions else best

    def near_optimal_cells(self, factor: float | None = None) -> Ints:
        """Return how many cells the near-optimal pairs of each step meet, level by level.

        Z_r = {(x, a): V*(x) - Q*(x, a) <= `factor` r} is the set of pairs that an agent with balls
        of radius r cannot tell from the best. Its covering number is counted on the dyadic cells of
        side r = 2^-l, at the centers of the cells of the level after the last. [SBY19 sec. 4.1]
        By default, `factor` is the horizon. The result is [horizon, n_levels], for l = 0, 1, ...

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> optimal = zooming.solve(gym.make("zooming/Oil-v0", sharpness=10.0))
        >>> optimal.near_optimal_cells()[0, :4].tolist()
        [1, 4, 14, 21]
        """
        env = self.grid.env
        factor = check_float(self.horizon if factor is None else factor, "factor", 0.0, math.inf)
        n_state = env.state_box.shape[0]
        n_axes = n_state + env.action_box.shape[0]
        finest = max(2, POINTS_LOG2 // n_axes)
        side = (np.arange(1 << finest) + 0.5) / (1 << finest)
        points = np.stack(np.meshgrid(*[side] * n_axes, indexing="ij"), axis=-1)
        low, high = (
            np.concatenate([getattr(env.state_box, end), getattr(env.action_box, end)])
            for end in ("low", "high")
        )
        pairs = (low + points.reshape(-1, n_axes) * (high - low)).astype(np.float64)
        states, actions = env.round_discrete(pairs[:, :n_state], pairs[:, n_state:])
        n_actions = 1 << (finest * (n_axes - n_state))
        counts = np.zeros((self.horizon, finest), np.int64)
        for step in range(self.horizon):
            best = np.repeat(self.values(step, states[::n_actions]), n_actions)
            gap = (best - self.q_values(step, states, actions)).reshape([1 << finest] * n_axes)
            for level in range(finest):
                width = 1 << (finest - level)
                cells = gap.reshape([n for _ in range(n_axes) for n in (1 << level, width)])
                least = cells.min(axis=tuple(range(1, 2 * n_axes, 2)))
                near = (least <= factor * 0.5**level).reshape(1 << (level * n_state), -1)
                # Every state has a best action, also where all points miss it.
                counts[step, level] = np.maximum(near.sum(axis=1), 1).sum()
        return counts

    def zooming_dimension(self, factor: float | None = None) -> float:
        """Return the zooming dimension: the slope of log2 N(Z_r) over log2 1/r. [SBY19 sec. 4.1]

        It is fitted to the finer half of the levels of `near_optimal_cells`, all steps together.
        The covering dimension, in contrast, is that of the whole space.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> sharp, flat = (
        ...     zooming.solve(gym.make("zooming/Oil-v0", sharpness=s)).zooming_dimension()
        ...     for s in (50.0, 1.0)
        ... )
        >>> sharp < flat < 2
        True
        """
        counts = self.near_optimal_cells(factor).sum(axis=0)
        levels = np.arange(len(counts) // 2, len(counts))
        return float(np.polyfit(levels, np.log2(counts[levels]), 1)[0])

    def _step(self, step: int) -> int:
        if not 0 <= step < self.horizon:
            raise ConfigurationError(
                f"step {step} is outside the episode: steps run from 0 to {self.horizon - 1}"
            )
        return int(step)

    def _state(self, state: ArrayLike) -> Floats:
        env = self.grid.env
        return _check_point(state, env.state_box, env.has_whole_states, "state")


def _check_points(values: ArrayLike, box: Any, is_whole: bool, what: str) -> Floats:
    """Validate n states or n actions and return them as an array [n, n_axes]."""
    points = np.asarray(values, np.float64)
    points = points[:, None] if is_whole and points.ndim == 1 else points
    fits = points.ndim == 2 and box.shape == points.shape[1:]
    if not (fits and _is_inside(points, box, is_whole).all()):
        # Raises for the first invalid point.
        return np.array([_check_point(point, box, is_whole, what) for point in points])
    return np.ascontiguousarray(points)


def _check_point(values: ArrayLike, box: Any, is_whole: bool, what: str) -> Floats:
    """Validate one state or action and return it as an array [n_axes]."""
    point = np.array(values, np.float64).reshape(-1)
    if point.shape != box.shape or not _is_inside(point, box, is_whole).all():
        whole = f"a whole number from {box.low[0]:g} to {box.high[0]:g}"
        wanted = whole if is_whole else f"a point of {box}"
        raise ConfigurationError(f"{what} {values!r} is not {wanted}")
    return point


def _is_inside(points: Floats, box: Any, is_whole: bool) -> NDArray[np.bool_]:
    """Return for each coordinate whether it lies in the box, and is an integer if it must be."""
    inside: NDArray[np.bool_] = (box.low - 1e-9 <= points) & (points <= box.high + 1e-9)
    return inside & (points == np.rint(points)) if is_whole else inside
