"""Distances: the ready ones against plain computations, and what is no metric refused by name."""

import functools
import itertools
import math

import gymnasium as gym
import numpy as np
import pytest

from helpers import box
from zooming import metrics
from zooming.errors import SpaceError, ZoomingError
from zooming.metrics.covering import Space
from zooming.spaces import Axes


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
    return chain + [(int(i), int(j), float(rng.integers(1, 9))) for i, j in rng.integers(0, n, (n, 2)) if i != j]


@pytest.mark.plain
@pytest.mark.parametrize("seed", range(5))
def test_a_graph_has_the_lengths_of_its_shortest_paths(seed):
    edges = random_edges(12, seed)
    assert metrics.Graph(edges).distances.tolist() == shortest(edges, 12)
    adjacency = {node: {} for node in range(12)}
    for one, other, length in edges:
        length = min(length, adjacency[one].get(other, math.inf))
        adjacency[one][other] = adjacency[other][one] = length
    assert metrics.Graph(adjacency).distances.tolist() == shortest(edges, 12)


@pytest.mark.plain
def test_strings_have_the_edit_distance():
    words = ["", "a", "kitten", "sitting", "mitten", "smitten", "knitting", "ab", "ba", "été"]
    found = metrics.Strings(words)
    assert found.distances.tolist() == [[levenshtein(one, other) for other in words] for one in words]
    assert found.index("mitten") == 4
    with pytest.raises(SpaceError, match="'mutton' is not one of the 10 points"):
        found.index("mutton")


@pytest.mark.parametrize(("kind", "order"), [(metrics.L1, 1), (metrics.L2, 2), (metrics.LInf, np.inf)])
def test_a_norm_of_a_box_is_that_norm_after_scaling(kind, order):
    axes = Axes(box((-2.0, 3.0), (0.0, 100.0)), box((0.0, 1.0)))
    side = kind(points_per_axis=5, scale=(1.0, 3.0)).side(axes, 0, 2)
    points = np.array(list(itertools.product(np.linspace(0, 1, 5), 3 * np.linspace(0, 1, 5))))
    expected = np.array([[np.linalg.norm(one - other, order) for other in points] for one in points])
    np.testing.assert_allclose(side.distances, expected, rtol=1e-14)
    assert side.grid.tolist() == [[-2.0, 3.0, 5.0, 0.0], [0.0, 100.0, 5.0, 0.0]]


@pytest.mark.parametrize(("combine", "order"), [("max", np.inf), ("sum", 1), (1.0, 1), (2.0, 2), (3.5, 3.5)])
def test_a_product_is_the_norm_of_the_two_distances(combine, order):
    graph, words = metrics.Graph([(0, 1), (1, 2)]), metrics.Strings(["a", "bb", "abc", "xyz"])
    space = Space(
        metrics.Product(graph, words, combine, scale=(2.0, 0.5)), Axes(gym.spaces.Discrete(3), gym.spaces.Discrete(4))
    )
    for x, a in itertools.product(range(3), range(4)):
        expected = [
            [np.linalg.norm([2 * graph.distances[x, y], 0.5 * words.distances[a, b]], order) for b in range(4)]
            for y in range(3)
        ]
        np.testing.assert_allclose(space.distances_from(x, a), expected, rtol=1e-12)
    assert space.diameter == pytest.approx(np.linalg.norm([4.0, 1.5], order))


def test_points_take_any_function_and_discrete_is_all_ones():
    found = metrics.Points([(0, 0), (3, 4), (6, 8)], math.dist)
    assert found.distances.tolist() == [[0, 5, 10], [5, 0, 5], [10, 5, 0]]
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


@pytest.mark.parametrize(
    ("distances", "explanation"),
    [
        (bent(1, 4, 2.5, both=False), r"not symmetric: d\(1, 4\) = 2.5, but d\(4, 1\) = 3"),
        (bent(1, 4, 3.5), r"triangle inequality: d\(1, 4\) = 3.5, but d\(1, 2\) \+ d\(2, 4\) = 1 \+ 2 = 3"),
        (bent(0, 5, np.nan), r"d\(0, 5\) = nan; distances must be finite"),
        (bent(0, 5, np.inf), r"d\(0, 5\) = inf; distances must be finite"),
        (bent(2, 3, -1.0), r"d\(2, 3\) = -1; distances must not be negative"),
        (bent(2, 2, 0.5), r"d\(2, 2\) = 0.5; the distance of a point from itself must be 0"),
        (np.zeros((2, 3)), r"shape \(2, 3\); give a square matrix"),
        ([["near", "far"]], "not numbers"),
        (np.zeros((0, 0)), r"shape \(0, 0\)"),
    ],
)
def test_what_is_no_metric_is_named(distances, explanation):
    with pytest.raises(SpaceError, match=explanation):
        metrics.Matrix(distances)


def test_a_function_that_is_no_metric_is_named_with_its_points():
    with pytest.raises(SpaceError, match=r"Points breaks the triangle inequality: d\(0, 2\) = 4, but d\(0, 1\) \+ d\(1, 2\)"):
        metrics.Points(range(4), lambda one, other: (one - other) ** 2)
    with pytest.raises(SpaceError, match=r"Points is not symmetric: d\('b', 'a'\) = 0, but d\('a', 'b'\) = 1"):
        metrics.Points(["b", "a"], lambda one, other: float(one < other))


def test_a_shortcut_in_a_large_matrix_is_found_through_sampled_points():
    places = np.arange(300.0)
    distances = np.abs(np.subtract.outer(places, places)) ** 2
    with pytest.raises(SpaceError, match="triangle inequality"):
        metrics.Matrix(distances)


@pytest.mark.parametrize(
    ("make", "explanation"),
    [
        (lambda: metrics.Graph([(0, 1), (2, 3)]), r"no path from 0 to 2, so that their distance is not finite"),
        (lambda: metrics.Graph([(0, 1, -2.0)]), "from 0 to 1 has the length -2.0"),
        (lambda: metrics.Graph([(0, 1, np.nan)]), "has the length nan"),
        (lambda: metrics.Graph({"a": {"b": 1}, "b": {"a": 2}}), "not symmetric: the edge from 'a' to 'b' has the length 1"),
        (lambda: metrics.Graph([]), "there are no edges"),
        (lambda: metrics.Graph([3]), r"\(node, node, length\)"),
        (lambda: metrics.Strings([]), "at least one"),
        (lambda: metrics.Strings([3]), "a list of strings"),
        (lambda: metrics.Points([0, 1], 3), "not a function of two points"),
        (lambda: metrics.Points([0, 1], lambda one, other: "far"), "not numbers"),
        (lambda: metrics.Matrix(np.zeros((2, 2)), ["a"]), "1 points for a 2 by 2 matrix"),
        (lambda: metrics.L2(points_per_axis=1), "points_per_axis=1"),
        (lambda: metrics.L2(scale=-1.0), "scale=-1"),
        (lambda: metrics.Product(metrics.L2(), "L2"), "'L2' is not a metric of the actions"),
        (lambda: metrics.Product(metrics.L2(), metrics.L2(), "min"), 'choose "max", "sum"'),
        (lambda: metrics.Product(metrics.L2(), metrics.L2(), 0.5), "combine=0.5"),
        (lambda: metrics.Product(metrics.L2(), metrics.L2(), scale=2.0), "give two numbers"),
        (lambda: metrics.Greedy(0), "candidates=0"),
    ],
)
def test_wrong_descriptions_are_refused_at_once(make, explanation):
    with pytest.raises(ZoomingError, match=explanation):
        make()


@pytest.mark.parametrize(
    ("metric", "space", "explanation"),
    [
        (metrics.Strings(["a", "b"]), gym.spaces.Discrete(3), r"Strings has 2 points, but state has 3 values"),
        (metrics.Strings(["a", "b"]), box((0.0, 1.0)), r"one whole number: a space Discrete\(n\)"),
        (metrics.Strings(["a", "b"]), box((0.0, 1.0), (0.0, 1.0)), r"here are state\[0\], state\[1\]"),
        (metrics.Discrete(), gym.spaces.MultiDiscrete([2, 2]), "one whole number"),
        (metrics.L2(), gym.spaces.Discrete(3), "L2 is for boxes, and state has whole values"),
        (metrics.L2(), box(*[(0.0, 1.0)] * 4), "give points_per_axis"),
        (metrics.L2(points_per_axis=200), box(*[(0.0, 1.0)] * 2), "more than 20,000 points"),
        (metrics.L2(scale=(1.0, 2.0)), box((0.0, 1.0)), "scale has 2 numbers for the 1 axes"),
    ],
)
def test_a_metric_for_another_space_is_refused(metric, space, explanation):
    with pytest.raises(SpaceError, match=explanation):
        metric.side(Axes(space, gym.spaces.Discrete(2)), 0, Axes(space, gym.spaces.Discrete(2)).n_state)
