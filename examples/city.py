"""An ambulance on a network of stations, with travel times as the metric of `MetricQ`."""

from functools import partial
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming import metrics, plots

LINES, STOPS = 6, 5
OUT = Path("out/city.png")


def network() -> metrics.Graph:
    """Return six lines from station 0, 2 minutes a stop, and a ring road at their third stops."""
    lines = [(max(0, end - LINES), end, 2.0) for end in range(1, 1 + LINES * STOPS)]
    return metrics.Graph(
        lines + [(1 + 2 * LINES + i, 1 + 2 * LINES + (i + 1) % LINES, 3.0) for i in range(LINES)]
    )


def ambulance(state, action, step, params, call, next_state):
    next_state[0] = call[0]  # the ambulance ends where the call came from
    waiting_at = 1 + int(params[0]) * int(action[0])  # first index of its travel times
    return (
        1.0 - 0.25 * params[waiting_at + int(state[0])] - 0.75 * params[waiting_at + int(call[0])]
    )


def main(episodes: int = 5_000) -> None:
    graph = network()
    n, calls = len(graph), np.ones(len(graph))
    calls[[19, 20, 25, 26]] = 20.0  # most calls come from the ends of two lines
    law = np.arange(n, dtype=float), calls / calls.sum()
    stations, times = gym.spaces.Discrete(n), graph.distances.ravel() / graph.distances.max()
    env = zooming.compiled_env(
        ambulance, stations, stations, 5, start=0, params=[n, *times], outcomes=law
    )
    optimal, histories = zooming.solve(env), {}
    for name, agent in {
        "travel time": partial(zooming.MetricQ, metric=graph),
        "no metric": zooming.AdaptiveQ,
    }.items():
        make = partial(agent, bonus=0.25)  # without a metric this is UCB-H on all pairs of stations
        histories[name] = zooming.learn_many(make, env, seeds=range(5), episodes=episodes)
        policy = np.mean(
            [zooming.evaluate(history.agent, env, exact=True).mean for history in histories[name]]
        )
        print(f"{name}: the policies are worth {policy:.3f} of {optimal.return_:.3f} at best")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plots.learning_curves(histories, left, optimum=optimal.return_)
    out, angle = [np.r_[0, grid.ravel()] for grid in np.mgrid[1 : STOPS + 1, :LINES]]
    place = np.column_stack([out * np.cos(np.pi / 3 * angle), out * np.sin(np.pi / 3 * angle)])
    after, _ = histories["travel time"][0].agent.predict(here := np.arange(n), state=np.full(n, 2))
    loss = optimal.values(2, here) - optimal.q_values(2, here, after)
    with plots.drawing(right, boxed=True):
        for i, j in np.argwhere((graph.distances == 2.0) | (graph.distances == 3.0)):
            right.plot(*place[[i, j]].T, color="0.8", zorder=0)
        figure.colorbar(
            right.scatter(*place.T, s=90, c=loss, cmap="viridis_r", vmin=0),
            label="loss against the best action",
        )
        right.scatter(
            *place[np.unique(after)].T,
            s=300,
            marker="*",
            facecolor="none",
            edgecolor="black",
            linewidth=1.2,
        )
        right.set(title="stars: where it waits next", aspect="equal", xticks=[], yticks=[])
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=100)
    print(f"Figure: {OUT}")


if __name__ == "__main__":
    main()
