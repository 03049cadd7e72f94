"""Distances: the ready ones against plain computations, and what is no metric refused by name."""

import fractions
import functools
import itertools
import math

import gymnasium as gym
import numpy as np
import pytest

from helpers import box
from zooming import metrics
from zooming.errors import ConfigurationError, ZoomingError
from zooming.metrics.sides import check_metric
from zooming.metrics.space import Space
from zooming.spaces.axes import Axes


@functools.cache
def levenshtein(one, other):
    if not one or not other:
        return len(one) + len(other)
    change = levenshtein(one[1:], other[1:]) + (one[0] != other[0])
    return min(change, levenshtein(one[1:], other) + 1, levenshtein(one, other[1:]) + 1)


def shortest(edges, n):
    """All shortest paths by relaxing every edge until nothing changes."""
    found = [[0.0 if i == j else math.inf for j in range(n)] for i in range(n)]
    for _ in range(n):
        for i, (one, other, length) in itertools.product(range(n), edges):
            found[i][other] = min(found[i][other], found[i][one] + length)
            found[i][one] = min(found[i][one], found[i][other] + length)
    return found


def random_edges(n, seed):
    rng = np.random.default_rng(seed)
    chain = [(i, i + 1, float(rng.integers(1, 9))) for i in range(n - 1)]
    return chain + [
        (int(i), int(j), float(rng.integers(1, 9))) for i, j in rng.integers(0, n, (n, 2)) if i != j
    ]


@pytest.mark.plain
@pytest.mark.parametrize("seed", range(5))
def test_a_graph_has_the_lengths_of_its_shortest_paths(seed):
    edges = random_edges(12, seed)
    assert metrics.Graph(edges).distances.tolist() == shortest(edges, 12)


@pytest.mark.parametrize(
    ("kind", "order"), [(metrics.L1, 1), (metrics.L2, 2), (metrics.LInf, np.inf)]
)
def test_a_norm_of_a_box_is_that_norm_after_scaling(kind, order):
    axes = Axes(box((-2.0, 3.0), (0.0, 100.0)), box((0.0, 1.0)))
    side = kind(points_per_axis=5, scale=(1.0, 3.0)).side(axes, 0, 2)
    points = np.array(list(itertools.product(np.linspace(0, 1, 5), 3 * np.linspace(0, 1, 5))))
    expected = np.array(
        [[np.linalg.norm(one - other, order) for other in points] for one in points]
    )
    np.testing.assert_allclose(side.distances, expected, rtol=1e-14)
    assert side.grid.tolist() == [[-2.0, 3.0, 5.0, 0.0], [0.0, 100.0, 5.0, 0.0]]


@pytest.mark.parametrize("scale", [1e-290, 1.0, 1e200, 1e307])
@pytest.mark.parametrize("kind", [metrics.L1, metrics.L2])
def test_a_norm_is_a_metric_at_any_scale(kind, scale):
    norm = kind(points_per_axis=5, scale=(scale, 0.7 * scale))
    power = norm.power
    side = norm.side(Axes(box((0.0, 1.0), (0.0, 1.0)), box((0.0, 1.0))), 0, 2)
    points = [(x, 0.7 * y) for x, y in itertools.product(np.linspace(0, 1, 5), repeat=2)]
    for (i, one), (j, other) in itertools.product(enumerate(points), repeat=2):
        apart = [fractions.Fraction(abs(s - t)) for s, t in zip(one, other, strict=True)]
        largest = max(apart) or fractions.Fraction(1)  # what is left lies between 1 and 2
        rest = sum(float(share / largest) ** power for share in apart) ** (1 / power)
        assert side.distances[i, j] == pytest.approx(scale * float(largest) * rest, rel=1e-12)
    check_metric(side.distances, "the norm", range(25))


@pytest.mark.parametrize(("combine", "order"), [("max", np.inf), ("sum", 1), (1.0, 1), (2.0, 2)])
def test_a_product_is_the_norm_of_the_two_distances(combine, order):
    graph = metrics.Graph([(0, 1), (1, 2)])
    words = metrics.Points(["a", "bb", "abc", "xyz"], levenshtein)
    space = Space(
        metrics.Product(graph, words, combine, scale=(2.0, 0.5)),
        Axes(gym.spaces.Discrete(3), gym.spaces.Discrete(4)),
    )
    for x, a in itertools.product(range(3), range(4)):
        apart = 2 * graph.distances[x], 0.5 * words.distances[a]
        expected = [[np.linalg.norm([one, other], order) for other in apart[1]] for one in apart[0]]
        np.testing.assert_allclose(space.distances_from(x, a), expected, rtol=1e-12)
    assert space.diameter == pytest.approx(np.linalg.norm([4.0, 1.5], order))


def test_points_take_any_function_and_discrete_is_all_ones():
    found = metrics.Points([(0, 0), (3, 4), (6, 8)], math.dist)
    assert found.distances.tolist() == [[0, 5, 10], [5, 0, 5], [10, 5, 0]]
    assert found.index((3, 4)) == found.index(np.array([3, 4])) == 1
    arrays = metrics.Points([np.zeros(2), np.ones(2)], math.dist)
    assert arrays.index(np.ones(2)) == arrays.index((1, 1)) == 1
    axes = Axes(gym.spaces.Discrete(3, start=5), gym.spaces.Discrete(2))
    side = metrics.Discrete().side(axes, 0, 1)
    assert side.distances.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert side.grid.tolist() == [[5, 7, 3, 1]]


def bent(i, j, value, both=True):
    """The distances of six points in a row, with one entry spoiled."""
    found = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    found[i, j] = value
    if both:
        found[j, i] = value
    return found


@pytest.mark.parametrize(("distances", "explanation"), [
    (bent(1, 4, 2.5, both=False), r"not symmetric: d\(1, 4\) = 2.5, d\(4, 1\) = 3"),
    (bent(1, 4, 3.5),
     r"triangle inequality: d\(1, 4\) = 3.5, but d\(1, 2\) \+ d\(2, 4\) = 1 \+ 2 = 3"),
    (bent(0, 5, np.nan), r"distances must be finite: d\(0, 5\) = nan"),
    (bent(2, 3, -1.0), r"must not be negative: d\(2, 3\) = -1"),
    (bent(2, 2, 0.5), r"from itself must be 0: d\(2, 2\) = 0.5"),
    (np.zeros((2, 3)), r"shape \(2, 3\); give a square matrix"),
    ([["near", "far"]], "must hold numbers"),
])  # fmt: skip
def test_what_is_no_metric_is_named(distances, explanation):
    with pytest.raises(ConfigurationError, match=explanation):
        metrics.Matrix(distances)


def test_a_shortcut_in_a_large_matrix_is_found_through_sampled_points():
    places = np.arange(300.0)
    distances = np.abs(np.subtract.outer(places, places)) ** 2
    with pytest.raises(ConfigurationError, match="triangle inequality"):
        metrics.Matrix(distances)


@pytest.mark.parametrize(("make", "explanation"), [
    (lambda: metrics.Points(["b", "a"], lambda one, other: float(one < other)),
     r"Points is not symmetric: d\('b', 'a'\) = 0, d\('a', 'b'\) = 1"),
    (lambda: metrics.Graph([(0, 1), (2, 3)]), "no path of finite length from 0 to 2"),
    (lambda: metrics.Graph([(0, 1, 1e308), (1, 2, 1e308)]), "from 0 to 2; .*floating point"),
    (lambda: metrics.Graph([(0, 1, -2.0)]), r"\(0, 1, -2.0\) is not an edge with a finite length"),
    (lambda: metrics.Graph([]), "there are no edges"),
    (lambda: metrics.Graph([3]), r"\(node, node, length\)"),
    (lambda: metrics.Graph(["ab"]), r"'ab' is not an edge .* give edges as \(node, node\)"),
    (lambda: metrics.Graph([([1], [2])]), "not an edge .*; .* nodes as numbers"),
    (lambda: metrics.Graph("ab"), "'ab' is not a list of edges"),
    (lambda: metrics.Graph({0: {1: 2.0}}), "is not a list of edges"),
    (lambda: metrics.Points([0, 1], 3), "not a function of two points"),
    (lambda: metrics.Points([0, 1], lambda one, other: "far"),
     r"distance\(0, 0\) failed with TypeError.*'far'.*; give a function of two points"),
    (lambda: metrics.Points([0, 1], lambda one, other: 10**400 * (one != other)),
     r"distance\(0, 1\) failed with OverflowError"),
    (lambda: metrics.Points([0, 1], lambda one, other: 1 / one), "failed with ZeroDivisionError"),
    (lambda: metrics.Points(3, math.dist), "3 is not a list of points"),
    (lambda: metrics.Matrix([["0", "1"], ["1", "0"]]), "must hold numbers"),
    (lambda: metrics.Matrix([[0, 1], [1]]), "equally many in each"),
    (lambda: metrics.Matrix(np.zeros((2, 2)), 3), "3 is not a list of points"),
    (lambda: metrics.Points(["a", "b"], levenshtein).index(np.array(["a", "b"])),
     "not one of the 2 points of this Points; .*'a', 'b'"),
    (lambda: metrics.Points([(0, 0), (3, 4)], math.dist).index(np.zeros(3)),
     r"`points` lists them: \(0, 0\), \(3, 4\)"),
    (lambda: metrics.L2(scale=b"ab"), "give a number, or one per axis"),
    (lambda: metrics.L2(scale=None), "give a number, or one per axis"),
    (lambda: metrics.Matrix(np.zeros((2, 2)), ["a"]), "1 points for a 2 by 2 matrix"),
    (lambda: metrics.L2(points_per_axis=1), "points_per_axis=1"),
    (lambda: metrics.L2(scale=-1.0), "scale=-1"),
    (lambda: metrics.Product(metrics.L2(), "L2"), "'L2' is not a metric of the actions"),
    (lambda: metrics.Product(metrics.L2(), metrics.L2(), "min"), 'choose "max", "sum"'),
    (lambda: metrics.Product(metrics.L2(), metrics.L2(), 3.5), 'choose "max", "sum"'),
    (lambda: metrics.Product(metrics.L2(), metrics.L2(), scale=2.0), "give two numbers"),
    (lambda: metrics.Pairs(2, 2, lambda p, q: float(p > q)), "Pairs is not symmetric"),
    (lambda: metrics.Pairs(2, 2, np.zeros((3, 3))), "4 points for a 3 by 3 matrix"),
    (lambda: metrics.Pairs(2, 2, None), "give a square matrix"),
    (lambda: metrics.Pairs(0, 2, np.eye(2)), "Pairs: states"),
    (lambda: metrics.Pairs(10**12, 2, np.eye(2)), "points are too many; at most 8,000"),
    (lambda: metrics.Pairs(2, None, np.eye(2)), "None is not actions; give a list of them"),
    (lambda: metrics.Pairs(90, 90, np.eye(2)), "90 states and 90 actions make too many pairs"),
])  # fmt: skip
def test_wrong_descriptions_are_refused_at_once(make, explanation):
    with pytest.raises(ZoomingError, match=explanation):
        make()


@pytest.mark.parametrize(("metric", "space", "explanation"), [
    (metrics.Points(["a", "b"], levenshtein), gym.spaces.Discrete(3),
     r"Points has 2 points, but state has 3 values"),
    (metrics.Points(["a", "b"], levenshtein), box((0.0, 1.0)),
     r"one axis of whole numbers, a space Discrete\(n\)"),
    (metrics.Points(["a", "b"], levenshtein), box((0.0, 1.0), (0.0, 1.0)),
     r"got 2 axes: state\[0\], state\[1\]. Number the combinations as one " r"Discrete\(n\)"),
    (metrics.Discrete(), gym.spaces.MultiDiscrete([2, 2]), "one axis of whole numbers"),
    (metrics.L2(), gym.spaces.Discrete(3), "L2 is for boxes, and state has categories"),
    (metrics.L2(), box(*[(0.0, 1.0)] * 4), "give points_per_axis"),
    (metrics.L2(points_per_axis=200), box(*[(0.0, 1.0)] * 2), "more than 8,000 points"),
    (metrics.L1(scale=1e308), box(*[(0.0, 1.0)] * 2),
     "beyond floating point; give a smaller scale"),
    (metrics.Discrete(), gym.spaces.Discrete(30_000), "30,000 values, too many; at most 8,000"),
    (metrics.L2(scale=(1.0, 2.0)), box((0.0, 1.0)), "scale has 2 numbers for the 1 axes"),
])  # fmt: skip
def test_a_metric_for_another_space_is_refused(metric, space, explanation):
    axes = Axes(space, gym.spaces.Discrete(2))
    with pytest.raises(ConfigurationError, match=explanation):
        metric.side(axes, 0, axes.n_state)
