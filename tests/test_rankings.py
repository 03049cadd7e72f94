"""Interquartile means and ranks equal what loops over runs give."""

import numpy as np
import pytest

from zooming.lab.leaderboard.compare import (
    interquartile_mean,
    interquartile_means,
    mean_ranks,
)

N = 60  # bootstrap samples


@pytest.fixture
def scores():
    """Three agents on three problems with 5, 4 and 7 runs; the last agent has fewer runs."""
    rng = np.random.default_rng(1)
    made = {
        name: [rng.normal(shift, 1.0, n) for n in (5, 4, 7)]
        for name, shift in (("a", 0.0), ("b", 0.4))
    }
    return {**made, "few": [runs[:3] + 0.2 for runs in made["a"]]}


def middle_half(values):
    ordered = sorted(values)
    cut = len(ordered) // 4
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def drawn(runs, problem):
    """The runs of a problem in each bootstrap sample: drawn by seed, problem and number of runs."""
    numbers = np.random.default_rng([0, problem, len(runs)]).integers(
        len(runs), size=(N, len(runs))
    )
    return [[float(runs[i]) for i in row] for row in numbers]


@pytest.mark.parametrize("n", [1, 3, 4, 11, 16])
def test_the_interquartile_mean_drops_a_quarter_at_either_end(n):
    values = np.random.default_rng(n).normal(size=n)
    assert interquartile_mean(values) == pytest.approx(middle_half(values.tolist()))


def test_the_interval_of_an_interquartile_mean_is_that_of_a_stratified_bootstrap(scores):
    found = interquartile_means(scores, n_resamples=N)
    for agent, problems in scores.items():
        samples = [drawn(runs, i) for i, runs in enumerate(problems)]
        again = [middle_half([one for sample in samples for one in sample[b]]) for b in range(N)]
        low, high = np.quantile(again, [0.025, 0.975])
        assert found[agent].mean == pytest.approx(middle_half(np.concatenate(problems).tolist()))
        assert (found[agent].low, found[agent].high) == pytest.approx((low, high))


def test_ranks_draw_problems_and_runs_again_and_equals_share(scores):
    scores["twin"] = scores["a"]
    found = mean_ranks(scores, n_resamples=N)
    agents = list(scores)

    def ranks(means):
        return {
            agent: np.mean([i for i, one in enumerate(sorted(means.values(), reverse=True), 1)
                            if one == means[agent]])
            for agent in agents
        }  # fmt: skip

    as_given = [ranks({a: scores[a][i].mean() for a in agents}) for i in range(3)]
    chosen = np.random.default_rng([0, 3]).integers(3, size=(N, 3))
    samples = {a: [drawn(runs, i) for i, runs in enumerate(scores[a])] for a in agents}
    again = {a: [] for a in agents}
    for b in range(N):
        here = [ranks({a: np.mean(samples[a][i][b]) for a in agents}) for i in range(3)]
        for a in agents:
            again[a].append(np.mean([here[i][a] for i in chosen[b]]))
    for a in agents:
        assert found[a].mean == pytest.approx(np.mean([one[a] for one in as_given]))
        assert (found[a].low, found[a].high) == pytest.approx(
            tuple(np.quantile(again[a], [0.025, 0.975]))
        )
    assert found["a"] == found["twin"]
