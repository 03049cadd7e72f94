"""Search the numbers of a rule by CMA-ES, from returns with noise.

The formulas are those of N. Hansen, "The CMA Evolution Strategy: A Tutorial" (2016), with positive
weights. In the order of the code, with a generation of s places x_k in the unit cube, best first:

    draw     x ~ N(mean, sigma^2 C), again if outside the unit cube
    weights  w_k ~ log((s + 1) / 2) - log k of the better half; mu = 1 / sum w_k^2
    move     y_k = (x_k - mean) / sigma,  move = sum w_k y_k,  mean += sigma move
    paths    of sigma and of C: discounted sums of the moves
    C        a mixture of C, of the path, and of the y_k
    sigma    grows while its path is longer than that of a random walk, and falls otherwise

In place of repeated episodes, which a known number of episodes would need, the generations grow
with the root of the returns told.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zooming.agents.auto.constants import LARGER
from zooming.validation import Floats

_WIDEST = 0.3  # first and largest sigma, the usual one for ranges of length 1
_ATTEMPTS = 100  # to draw a place in the unit cube


class Search:
    """Find the place of the unit cube with the highest mean return.

    Parameters
    ----------
    n : int
        Number of coordinates.
    seed : int
        Seed of the places.

    Attributes
    ----------
    mean : array [n]
        The best place so far.

    Examples
    --------
    >>> search = Search(1, seed=0)
    >>> for _ in range(60):
    ...     place = search.draw()
    ...     search.tell(place, -abs(place[0] - 0.7))
    >>> search.mean.round(2)
    array([0.7])
    """

    def __init__(self, n: int, seed: int) -> None:
        self.seed, self.sigma = seed, _WIDEST
        self.n_drawn = self.n_told = self.n_generations = 0
        self.mean, self.covariance, self.paths = np.full(n, 0.5), np.eye(n), np.zeros((2, n))
        self.tried: Floats = np.empty((0, n + 1))  # places and returns of this generation

    def draw(self, generator: np.random.Generator | None = None) -> Floats:
        """Return a place to try. With a `generator`, nothing changes."""
        if generator is None:
            generator = np.random.default_rng([self.seed, self.n_drawn])
            self.n_drawn += 1
        values, vectors = _spectrum(self.covariance)
        for _ in range(_ATTEMPTS):
            drawn = generator.normal(size=len(self.mean))
            place: Floats = self.mean + self.sigma * vectors @ (np.sqrt(values) * drawn)
            if (place >= 0.0).all() and (place <= 1.0).all():
                break
        return place.clip(0.0, 1.0)

    def tell(self, place: Floats, total: float) -> None:
        """Learn the return of an episode with the numbers at a place."""
        tried, n_told = np.vstack([self.tried, np.append(place, total)]), self.n_told + 1
        own = 4 + int(3 * math.log(len(place)))
        changes: dict[str, Any] = {"tried": tried, "n_told": n_told}
        if len(tried) >= own * max(1, round(math.sqrt(n_told / LARGER))):
            changes |= self._next_generation(tried)
        vars(self).update(changes)  # one call, so that an interrupt finds all of it or nothing

    def _next_generation(self, tried: Floats) -> dict[str, Any]:
        """Return the attributes after a generation."""
        (size, n), age = tried[:, :-1].shape, self.n_generations + 1
        best = tried[np.argsort(-tried[:, -1], kind="stable")[: size // 2], :-1]
        weights = math.log((size + 1) / 2) - np.log(np.arange(1, len(best) + 1))
        weights /= weights.sum()
        mu = 1.0 / float(weights @ weights)
        fast, slow = (mu + 2) / (n + mu + 5), (4 + mu / n) / (n + 4 + 2 * mu / n)
        damping = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (n + 1)) - 1) + fast
        of_path = 2 / ((n + 1.3) ** 2 + mu)
        of_places = min(1 - of_path, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu))
        usual = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # mean length of N(0, 1)
        away = (best - self.mean) / self.sigma
        move = weights @ away
        values, vectors = _spectrum(self.covariance)
        straight = vectors @ ((vectors.T @ move) / np.sqrt(values))
        first = (1 - fast) * self.paths[0] + math.sqrt(fast * (2 - fast) * mu) * straight
        length = float(np.linalg.norm(first)) / usual
        is_usual = length < (1.4 + 2 / (n + 1)) * math.sqrt(1 - (1 - fast) ** (2 * age))
        second = (1 - slow) * self.paths[1]
        second += is_usual * math.sqrt(slow * (2 - slow) * mu) * move
        kept = 1 - of_path - of_places + (not is_usual) * of_path * slow * (2 - slow)
        covariance = kept * self.covariance + of_path * np.outer(second, second)
        covariance += of_places * (away.T * weights) @ away
        growth = math.exp(min(1.0, fast / damping * (length - 1)))
        return {
            "mean": (self.mean + self.sigma * move).clip(0.0, 1.0),
            "covariance": (covariance + covariance.T) / 2,
            "paths": np.stack([first, second]),
            "sigma": min(_WIDEST, max(1e-9, self.sigma * growth)),
            "tried": tried[:0],
            "n_generations": age,
        }

    @property
    def nbytes(self) -> int:
        arrays = self.mean, self.covariance, self.paths, self.tried
        return sum(array.nbytes for array in arrays)


def _spectrum(covariance: Floats) -> tuple[Floats, Floats]:
    """Return (eigenvalues, eigenvectors). Eigenvalues that rounding made negative are raised."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values, 1e-12), vectors
