import cmaes
import numpy as np
import pytest

from zooming.agents.auto.search import Search


def returns_of_newsvendor(place, generator):
    """A curve that falls off a cliff on one side, with noise as large as the gain."""
    levels, means = np.arange(11) / 10, [-408, -192, -18, 75, 98, 88, 67, 45, 23, 1, -21]
    return float(np.interp(place[0], levels, means) + 90.0 * generator.normal())


def search_by(returns, n, seed, episodes):
    search, generator = Search(n, seed), np.random.default_rng(seed)
    for _ in range(episodes):
        place = search.draw()
        search.tell(place, returns(place, generator))
    return search


def test_a_cliff_and_noise_do_not_move_the_search_from_the_peak():
    found = [search_by(returns_of_newsvendor, 1, seed, 500).mean[0] for seed in range(10)]
    assert np.abs(np.array(found) - 0.42).max() < 0.15
    assert abs(np.mean(found) - 0.42) < 0.08  # a quadratic of all returns peaks at 0.6


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_first_generation_moves_as_in_the_library_cmaes(n):
    library = cmaes.CMA(np.full(n, 0.5), 0.3, bounds=np.array([[0.0, 1.0]] * n), seed=1)
    search = Search(n, seed=3)
    places = [search.draw() for _ in range(library.population_size)]
    returns = [float(k % 3 + place.sum()) for k, place in enumerate(places)]
    for place, total in zip(places, returns, strict=True):
        assert search.n_generations == 0
        search.tell(place, total)
    library.tell([(place, -total) for place, total in zip(places, returns, strict=True)])
    assert search.n_generations == 1
    assert search.mean == pytest.approx(library.mean, rel=1e-9)
    assert search.sigma == pytest.approx(min(0.3, library._sigma), rel=1e-6)


def test_a_tilted_valley_is_followed_to_its_end():
    def fall(place, generator):
        along, across = place[0] + place[1] - 1.2, place[0] - place[1] - 0.4
        return -(along**2) - 400.0 * across**2

    search = search_by(fall, 2, 0, 800)
    assert search.mean == pytest.approx([0.8, 0.4], abs=0.01)
    assert search.covariance[0, 1] > 0.5 * search.covariance[0, 0]


def test_generations_grow_and_places_stay_in_the_cube():
    search, sizes = Search(1, seed=0), []
    for _ in range(300):
        place = search.draw()
        assert 0.0 <= place[0] <= 1.0
        n_before = len(search.tried)
        search.tell(place, float(place[0]))  # the best place is at the end of the range
        if not len(search.tried):
            sizes.append(n_before + 1)
    assert sizes[0] == 4
    assert sizes == sorted(sizes)
    assert sizes[-1] >= 20
    assert search.mean[0] > 0.95


def test_a_drawn_place_of_an_open_episode_changes_nothing():
    search = Search(2, seed=0)
    one = search.draw(np.random.default_rng(5))
    assert one.tolist() == search.draw(np.random.default_rng(5)).tolist()
    assert search.n_drawn == 0
