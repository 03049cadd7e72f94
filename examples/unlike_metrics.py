"""Combine two unrelated metrics: edit distance of what a customer typed, and price difference."""

from functools import partial
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming import metrics, plots

# The most that anybody pays.
LIMITS = {"umbrella": 24.0, "sunglasses": 40.0, "raincoat": 60.0, "sandals": 32.0}
OUT = Path("out/unlike_metrics.png")


def typed(word: str, rng: np.random.Generator, n: int = 12) -> list[str]:
    """Return the word and n misspellings with one or two wrong letters."""
    found = {word: None}
    while len(found) <= n:
        letters = list(word)
        for i in rng.choice(len(letters), rng.integers(1, 3), replace=False):
            letters[i] = rng.choice([*"aeiorst", letters[i] * 2, ""])
        found["".join(letters)] = None
    return list(found)


def edits(one: str, other: str) -> int:
    """Return the edit distance: the least number of letters to insert, delete or change."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row = row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != wanted)))
    return row[-1]


def shop(state, action, step, params, customer, next_state):
    next_state[0] = customer[0]
    price, limit = action[0], params[int(state[0])]
    return max(0.0, price * (1.0 - price / limit)) / 15.0  # revenue / its maximum


def main(episodes: int = 3_000) -> None:
    words = [word for product in LIMITS for word in typed(product, np.random.default_rng(0))]
    limits = np.repeat(list(LIMITS.values()), len(words) // len(LIMITS))
    law, spaces = (
        (np.arange(len(words)), np.full(len(words), 1 / len(words))),
        map(gym.spaces.Discrete, (len(words), 41)),
    )
    env = zooming.compiled_env(shop, *spaces, horizon=4, start=0, params=limits, outcomes=law)
    letters = metrics.Points(words, edits)
    money = metrics.Points(range(41), lambda one, other: abs(one - other))
    optimal, histories = zooming.solve(env), {}
    for name, worth in {
        "1 letter = 4 in money": 4.0,
        "1 letter = 400": 400.0,
        "1 letter = 0.04": 0.04,
    }.items():
        make = partial(
            zooming.MetricQ, metric=metrics.Product(letters, money, "sum", scale=(worth, 1.0))
        )
        histories[name] = zooming.learn_many(make, env, seeds=range(5), episodes=episodes)
        regret = np.mean([history.regret(optimal).per_episode.sum() for history in histories[name]])
        print(
            f"{name}: regret {regret:.0f} after {episodes} episodes of {optimal.return_:.3f} at "
            "best"
        )
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    plots.learning_curves(histories, left, optimum=optimal.return_)
    agent, everyone = histories["1 letter = 4 in money"][0].agent, np.arange(len(words))
    asked, _ = agent.predict(everyone, state=np.ones(len(words), int))
    with plots.drawing(right):
        right.plot(asked, "o", limits / 2, ":k", markersize=4)
        right.set(xticks=[letters.index(product) for product in LIMITS], xticklabels=LIMITS)
        right.set_ylabel("price asked (dots), best price (dotted)")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=100)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
