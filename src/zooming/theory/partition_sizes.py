"""Visits of balls and sizes of partitions."""

from __future__ import annotations

import math

from zooming.theory.arguments import check_whole
from zooming.theory.coverings import QUOTIENT_TOLERANCE, scale_of


def visits_per_depth(depth: int) -> tuple[int, int]:
    """Return the visits n(B) of a ball of depth l at its creation and at its split.

    They are (4^(l-1), 4^l). [SBY19 Lemma 5.4] The root has (0, 1). In between, a ball is played 3/4
    4^l times, and the root once.

    Parameters
    ----------
    depth : int
        Depth l of the ball; the root has 0.

    Returns
    -------
    tuple of int
        Visits when created, and visits when split.

    Raises
    ------
    ConfigurationError
        If an argument is out of range.

    Examples
    --------
    >>> visits_per_depth(0), visits_per_depth(3)
    ((0, 1), (16, 64))
    """
    check_whole(low=0, depth=depth)
    return (4**depth // 4, 4**depth)


def partition_size_bound(
    episodes: int,
    dimension: float,
    c: float = 1.0,
    d_max: float = 1.0,
    *,
    n_children: int | None = None,
) -> int:
    """Return the largest number of active balls that K episodes can make in one step's partition.

    This is O(K^(d/(d+2))). [SBY19 Thm 6.1, condition 3] Splitting a ball of depth l takes 3/4 4^l
    plays of its own, and there are at most C 2^(ld) such balls. So the worst case splits the
    coarsest balls first. Cubes (c = 1) attain it, and it is at most (4/3 (2^(d+2) - 1)
    K)^(d/(d+2)).

    Parameters
    ----------
    episodes : int
        Number of episodes K.
    dimension : float
        Covering dimension d: N_r <= c r^-d.
    c : float
        Constant c of N_r <= c r^-d.
    d_max : float
        Diameter of the space.
    n_children : int, optional
        The most children of one ball. Default: ceil(C 2^d).

    Returns
    -------
    int
        The number of balls.

    Raises
    ------
    ConfigurationError
        If an argument is out of range, or c < d_max^d.

    Examples
    --------
    >>> partition_size_bound(13, 2), partition_size_bound(24, 2), partition_size_bound(25, 2)
    (16, 16, 19)
    >>> partition_size_bound(2000, 2)
    175
    """
    # The paper overlooks that the covering dimension alone does not bound the children of one ball.
    # Cubes have 2^d. For other balls, the default assumes that every ball, rescaled, has the same
    # c and d as the space.
    check_whole(episodes=episodes)
    scale = scale_of(dimension, c, d_max)
    children = (
        math.ceil(scale * 2**dimension * (1 - QUOTIENT_TOLERANCE))
        if n_children is None
        else n_children
    )
    check_whole(n_children=children)
    n_splits, n_left, depth, n_here = 0, episodes, 0, 1
    while n_here:
        first, last = visits_per_depth(depth)
        n_balls = (
            math.floor(scale * 2 ** (depth * dimension) * (1 + QUOTIENT_TOLERANCE)) if depth else 1
        )
        n_here = min(n_balls, n_left // (last - first))
        n_splits, n_left, depth = n_splits + n_here, n_left - n_here * (last - first), depth + 1
    n_active = 1 + (children - 1) * n_splits
    # Dimension 0 is a set of at most c points.
    return n_active if dimension > 0 else min(n_active, math.floor(c))
