"""Replay the first run of each agent, to show how its partition grew over Q*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zooming.agents import seeds
from zooming.agents.agent import Agent
from zooming.analysis.optimal import Optimal
from zooming.errors import ZoomingError
from zooming.partitions.boxes import BoxTable
from zooming.partitions.cuts import Cut
from zooming.partitions.view import Partition
from zooming.study.configuration import Configuration
from zooming.study.problems import AgentChoice, Problem

N_FRAMES = 40  # of a replay
N_POINTS = 61  # grid points of Q* along each axis
MOST_REPLAYED_BALLS = 4000  # of one agent in one frame, over all steps; limits the file size


def collect_replays(
    problem: Problem, configuration: Configuration, names: dict[str, str], with_estimates: bool
) -> tuple[list[dict[str, Any]], list[str], list[Cut]]:
    """Replay the first run of each agent. Return (replays, agents not shown and why, cuts).

    A replay shows the growth of the partitions along one state axis and one action axis. A ball is
    a list: its corners, its first and last frame and, if `with_estimates`, its Q in each frame.
    Each step is cut where the first agent shown plays most at the end of its run.
    """
    frames = np.unique(
        np.round(np.geomspace(1, configuration.episodes, N_FRAMES)).astype(int)
    ).tolist()
    found, unshown = [], []
    cuts: list[Cut] = []
    for choice in configuration.agents:
        name = names.get(choice.label, choice.label)
        try:
            agent = _first_run(choice, problem, configuration)
        except (ZoomingError, TypeError):
            unshown.append(f"{name}: cannot be made again here")  # e.g. a setting was an object
            continue
        if not isinstance(getattr(agent, "table", None), BoxTable):
            unshown.append(
                f"{name}: {'balls of a metric, not boxes' if agent.n_balls else 'no partition'}"
            )
            continue
        if not cuts:
            cuts = _cuts(
                agent if len(agent.axes) == 2 else _first_run(choice, problem, configuration),
                configuration.episodes,
            )
        steps: list[list[list[Any]]] = [[] for _ in range(agent.horizon)]
        alive: list[dict[tuple[float, ...], list[Any]]] = [{} for _ in range(agent.horizon)]
        shown: list[int] = []
        for frame, episode in enumerate(frames):
            agent.learn(episode - agent.n_episodes)
            slices = [
                _slice(agent.partition(step), _of_step(cuts, step)) for step in range(agent.horizon)
            ]
            if sum(len(q_values) for _, q_values in slices) > MOST_REPLAYED_BALLS:
                break
            shown.append(episode)
            for step, (corners, q_values) in enumerate(slices):
                before, alive[step] = alive[step], {}
                for sides, q_value in zip(corners, q_values, strict=True):
                    ball = before.get(tuple(sides))
                    if ball is None:
                        ball = [*sides, frame, frame, []]
                        steps[step].append(ball)
                    alive[step][tuple(sides)] = ball
                    ball[5] = frame
                    ball[6].append(round(q_value, 4))
        if shown:
            found.append({
                "name": name, "frames": shown, "is_cut": len(shown) < len(frames),
                "steps": steps
                if with_estimates
                else [[ball[:6] for ball in balls] for balls in steps],
                "axes": [agent.axes.names[axis] for axis in cuts[0].drawn],
                "cuts": [str(_of_step(cuts, step)) for step in range(agent.horizon)],
            })  # fmt: skip
        else:
            unshown.append(f"{name}: too many balls to show")
    return found, unshown, cuts


def _first_run(choice: AgentChoice, problem: Problem, configuration: Configuration) -> Agent:
    """Return the agent of the first run, untrained."""
    return choice.make(
        problem.make(), seeds.derive_seed(configuration.entropy, f"{configuration.stream} 0")
    )


def _cuts(agent: Agent, episodes: int) -> list[Cut]:
    """Return the plane in which each step's partition is drawn.

    With more than two axes, the plane depends on what was learned. So the agent is trained first.
    """
    if len(agent.axes) > 2:
        agent.learn(episodes)
    return [agent.partition(step).cut() for step in range(agent.horizon)]


def _of_step(cuts: Sequence[Cut], step: int) -> Cut:
    """Return the cut of a step, or the last cut if there are fewer cuts than steps."""
    return cuts[min(step, len(cuts) - 1)]


def _slice(balls: Partition, cut: Cut) -> tuple[list[list[float]], list[float]]:
    """Return the corners (left, bottom, right, top) and the Q of the balls in a cut.

    Corners are clipped to the window of the cut.
    """
    view, pair = balls.view(), list(cut.drawn)
    _, _, shown = balls.slice(
        pair, np.clip(cut.point, view.low, view.high)
    )  # another agent may have narrower bounds
    low, high = (
        np.clip(corner[shown], *balls.window())[:, pair] for corner in (balls.low, balls.high)
    )
    return np.round(np.hstack([low, high]), 7).tolist(), balls.q_value[shown].tolist()


def q_star(optimal: Optimal, cuts: Sequence[Cut] = ()) -> dict[str, Any]:
    """Return Q* of each step on a grid along the axes of its cut.

    Without cuts, use the first state axis and the first action axis. All other axes are fixed at
    the middle.
    """
    env = optimal.grid.env
    n_state = env.state_box.shape[0]
    boxes = env.state_box, env.action_box
    low, high = (
        np.concatenate([box.low for box in boxes]),
        np.concatenate([box.high for box in boxes]),
    )
    reach = np.repeat(
        [0.5 * env.has_whole_states, 0.5 * env.has_whole_actions], [n_state, len(low) - n_state]
    )
    pair = list(cuts[0].drawn) if cuts else [0, n_state]
    x, a = (
        np.linspace(low[i] - reach[i], high[i] + reach[i], N_POINTS) for i in pair
    )  # the range that the balls cover
    steps = []
    for step in range(optimal.horizon):
        points = np.tile(_of_step(cuts, step).point if cuts else (low + high) / 2, (N_POINTS**2, 1))
        points[:, pair] = np.stack(np.meshgrid(x, a), axis=-1).reshape(-1, 2)
        played = env.round_discrete(points[:, :n_state], points[:, n_state:])
        steps.append(optimal.q_values(step, *played).reshape(N_POINTS, N_POINTS))
    return {
        "state": x.tolist(),
        "action": a.tolist(),
        "steps": [np.round(q, 4).tolist() for q in steps],
    }
