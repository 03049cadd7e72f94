"""Return against memory: `AdaptiveQ` and `TreeQ` with a budget, nets with four times as many balls.

    python benchmarks/budget.py --episodes 20000
    python benchmarks/budget.py --parts limits more --episodes 5000 --seeds 10
    python benchmarks/budget.py --parts figure --episodes 20000

It prints the tables of docs/budget.md, and draws its figure. A return is the mean over seeds of the
mean of the last tenth of the episodes, in percent of that of the unlimited `AdaptiveQ`. `TreeQ` has
one partition for all steps.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from zooming.envs.state_grid import Grid
from zooming.kernels.solve.backups import GIVEN_ACTIONS

BALLS = (40, 60, 100, 200)
TARGETS = {40: 90.0, 60: 95.0, 100: 98.0}  # percent
SPACINGS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 30)  # cells along an axis
PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"oil {sharpness} at {center}": ("Oil", {"sharpness": float(sharpness), "center": center})
        for sharpness in (1, 10, 50)
        for center in (0.75, 0.7071)
    },
    **{
        f"ambulance {arrivals}": ("Ambulance", {"arrivals": arrivals, "travel_weight": 0.25})
        for arrivals in ("beta", "uniform", "shifting")
    },
    "newsvendor": ("Newsvendor", {}),
    "pricing": ("Pricing", {}),
    "admission": ("Admission", {}),
    "river swim": ("RiverSwim", {}),
}
FIGURE = ("oil 10 at 0.7071", "ambulance beta", "newsvendor", "river swim")
WELLS = ("oil 50, ten wells", [0.12, 0.22, 0.28, 0.35, 0.42, 0.57, 0.63, 0.68, 0.83, 0.9])


class Wells(gym.Env):  # type: ignore[type-arg]
    """Oil at one of some wells; a new one is open at each step, and the state says which.

    With `masked`, actions are 64 places, and those farther than 0.3 are masked. With `moves_after`,
    the well moves to 0.31 after so many episodes.
    """

    def __init__(
        self, wells: Sequence[float] = (0.75,), masked: bool = False, moves_after: float = math.inf
    ) -> None:
        self.wells, self.masked, self.moves_after = list(wells), masked, moves_after
        place = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
        both = gym.spaces.Tuple([gym.spaces.Discrete(len(wells)), place])
        self.observation_space = both if len(wells) > 1 else place
        self.action_space = gym.spaces.Discrete(64) if masked else place
        self.n_episodes = 0

    def seen(self) -> tuple[Any, dict[str, Any]]:
        self.open = int(self.np_random.integers(len(self.wells)))
        near = np.abs((np.arange(64) + 0.5) / 64 - self.place) <= 0.3
        place = np.array([self.place])
        state = (self.open, place) if len(self.wells) > 1 else place
        return state, {"action_mask": near.astype(np.int8)} if self.masked else {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.n_episodes += 1
        if self.n_episodes > self.moves_after:
            self.wells = [0.31]
        self.place = 0.5
        return self.seen()

    def step(self, action: Any) -> Any:
        to = (action + 0.5) / 64 if self.masked else float(action[0])
        reward = math.exp(-10 * abs(to - self.wells[self.open])) - abs(to - self.place)
        self.place = float(to)
        state, info = self.seen()
        return state, max(reward, 0.0), False, False, info


MORE: dict[str, tuple[Any, dict[str, Any]]] = {
    "two dimensions: 2 + 2 axes": ("Oil", {"sharpness": 10.0, "center": 0.7071, "dims": 2}),
    "a category: one of three wells": (Wells, {"wells": (0.31, 0.6, 0.75)}),
    "masks: 64 places, those nearby": (Wells, {"masked": True}),
    "noise of 0.2 in rewards": ("Oil", {"sharpness": 10.0, "center": 0.7071, "noise": 0.2}),
    "drift: the well moves halfway": (Wells, {"moves_after": 2500}),
    "bonus of 0.5": ("Oil", {"sharpness": 10.0, "center": 0.7071}),
}


def new(problem: str) -> Any:
    """Return the environment of a problem."""
    kind, options = {**PROBLEMS, **MORE}[problem]
    return gym.make(f"zooming/{kind}-v0", **options) if isinstance(kind, str) else kind(**options)


def returns(make: Any, problem: str, episodes: int, seeds: int) -> tuple[np.ndarray, int]:
    """Return the mean of the last tenth of the episodes for each seed, and the bytes used."""
    found, nbytes = [], 0
    for seed in range(seeds):
        agent = make(new(problem), seed)
        found.append(agent.learn(episodes).returns[-max(1, episodes // 10) :].mean())
        nbytes = max(nbytes, agent.nbytes)
    return np.array(found), nbytes


def budget(most: int | None, **options: Any) -> Any:
    """Return a function that makes `AdaptiveQ` with so many balls."""
    return lambda env, seed: zooming.AdaptiveQ(env, max_balls=most, seed=seed, **options)


def tree(most: int) -> Any:
    """Return a function that makes `TreeQ` with so many balls."""
    return lambda env, seed: zooming.TreeQ(env, max_balls=most, seed=seed)


def net(cells: int, points: str = "centers") -> Any:
    """Return a function that makes `NetQ` with so many cells along an axis."""
    return lambda env, seed: zooming.NetQ(env, spacing=1 / cells, points=points, seed=seed)


def cells_of(n_balls: int, problem: str) -> int:
    """Return the cells along an axis of the finest net with at most `n_balls` balls.

    >>> cells_of(400, "oil 1 at 0.75")  # 5 steps and 2 axes
    8
    """
    agent = zooming.AdaptiveQ(new(problem), seed=0)
    return max(1, int((n_balls / agent.horizon) ** (1 / len(agent.axes)) + 1e-9))


def limits(problem: str, balls: Sequence[int], n: int = 100, sweeps: int = 6) -> list[float]:
    """Return the most that was found, by search, for a policy with so many balls in all.

    A policy of a step is a cut of the states into intervals: with one ball each to play the middle
    of the actions, or with two for any action a, since [0, b] and [b, 1] have any center. A sweep
    takes the steps from the last to the first. The intervals of a step are optimal, by dynamic
    programming, for the states that the earlier steps reach and the values that the later steps
    leave, so no sweep loses. Balls are then divided anew among the steps by what they add. States
    and actions are those of a grid. The first policy is optimal without a limit.

    >>> [round(value, 2) for value in limits("oil 10 at 0.75", [5, 6, 10])]
    [0.41, 1.08, 4.75]
    """
    env = new(problem).unwrapped
    grid = Grid(env, n)
    middle = 0.5 * float(env.action_box.low[0] + env.action_box.high[0])
    well = PROBLEMS[problem][1].get("center", middle)
    actions = np.unique([*grid.actions[:, 0], middle, well])[:, None]
    half, n_x = int(np.flatnonzero(actions[:, 0] == middle)[0]), len(grid.states)
    pairs = np.repeat(grid.states, len(actions), 0), np.tile(actions, (n_x, 1))
    first = np.zeros(n_x)
    for state, weight in zip(*env.start_states(n), strict=True):
        first += weight * shares(grid, state)
    reached: dict[tuple[int, int, int], np.ndarray] = {}

    def play(h: int, i: int, j: int) -> np.ndarray:
        """Return the probabilities of the next states, on the grid."""
        if (h, i, j) not in reached:
            outcomes, weights = grid.outcomes[h]
            weights, found, after = weights.copy(), np.zeros(n_x), np.empty(1)
            if env.weigh is not None:
                env.weigh(grid.states[i], actions[j], h, env.params, outcomes, weights)
            for outcome, weight in zip(outcomes, weights, strict=True):
                if weight > 0:
                    env.given(grid.states[i], actions[j], h, env.params, outcome, after)
                    found += weight * shares(grid, after)
            reached[h, i, j] = found
        return reached[h, i, j]

    def sweep(policy: np.ndarray | None, spare: Sequence[int] | None) -> tuple[Any, ...]:
        """Return (policy, its return, what n balls of each step earn)."""
        visits = [first]
        for h in range(env.horizon - 1 if policy is not None else 0):
            seen = np.flatnonzero(visits[h] > 1e-12)
            visits.append(sum(visits[h][i] * play(h, i, policy[h, i]) for i in seen))
        new, earned = np.zeros((env.horizon, n_x), int), []
        for h in reversed(range(env.horizon)):
            q = grid.backup(h, *pairs, GIVEN_ACTIONS)[0].reshape(n_x, -1)
            if policy is None:
                new[h] = q.argmax(axis=1)
            else:
                earned.append(cut_states(visits[h][:, None] * q, half))
                new[h] = earned[-1][1](spare[h]) if spare is not None else policy[h]
            grid.values[h] = q[np.arange(n_x), new[h]]
        return new, float(first @ grid.values[0]), [gains for gains, _ in earned[::-1]]

    free, _, _ = sweep(None, None)
    found = []
    for most in balls:
        policy, best = free, -np.inf
        _, _, gains = sweep(free, None)
        for _ in range(sweeps):
            policy, value, gains = sweep(policy, divide(gains, most))
            best = max(best, value)
        found.append(best)
    return found


def shares(grid: Grid, state: np.ndarray) -> np.ndarray:
    """Return the weights with which V of a state is interpolated."""
    at = (float(state[0]) - grid.table[0, 0]) * grid.table[1, 0]
    low = min(int(at), len(grid.states) - 2)
    found = np.zeros(len(grid.states))
    found[low], found[low + 1] = low + 1 - at, at - low
    return found


def cut_states(worth: np.ndarray, half: int, most: int = 48) -> tuple[np.ndarray, Any]:
    """Return what n = 0, 1, ... balls of a step earn at most, and the function n -> actions.

    `worth` is the probability of a state, times Q of an action in it.
    """
    n_x = len(worth)
    sums = np.concatenate([np.zeros((1, worth.shape[1])), worth.cumsum(axis=0)])
    inside = np.array([(sums - row).max(axis=1) for row in sums])  # [i, j]: states i to j - 1
    middle = sums[:, half] - sums[:, half, None]
    lower = np.tri(n_x + 1, dtype=bool)  # intervals that are empty or turned around
    inside[lower], middle[lower] = -np.inf, -np.inf
    earned = np.full((most + 1, n_x + 1), -np.inf)
    earned[0, 0] = 0.0
    last = np.zeros((most + 1, n_x + 1, 2), int)
    for m in range(1, most + 1):
        for n_new, gain in ((1, middle), (2, inside)):
            if m >= n_new:
                total = earned[m - n_new][:, None] + gain
                at = total.argmax(axis=0)
                value = total[at, np.arange(n_x + 1)]
                better = value > earned[m]
                earned[m, better] = value[better]
                last[m, better, 0], last[m, better, 1] = at[better], n_new
    ends = earned[:, n_x]

    def actions(m: int) -> np.ndarray:
        m, j, found = int(ends[: m + 1].argmax()), n_x, np.zeros(n_x, int)
        while j > 0:
            i, n_new = last[m, j]
            found[i:j] = half if n_new == 1 else (sums[j] - sums[i]).argmax()
            m, j = m - n_new, i
        return found

    return np.maximum.accumulate(ends), actions


def divide(gains: Sequence[np.ndarray], n_balls: int) -> list[int]:
    """Return how many balls each step gets so that the sum of the gains is largest."""
    total, chosen = np.full(n_balls + 1, -np.inf), []
    total[0] = 0.0
    for gain in gains:
        tried = np.full((len(gain), n_balls + 1), -np.inf)
        for m in range(1, min(len(gain), n_balls + 1)):
            tried[m, m:] = total[: n_balls + 1 - m] + gain[m]
        chosen.append(tried.argmax(axis=0))
        total = tried.max(axis=0)
    left, found = int(total.argmax()), []
    for at in reversed(chosen):
        found.append(int(at[left]))
        left -= found[-1]
    return found[::-1]


def table(episodes: int, seeds: int, balls: Sequence[int], problems: Sequence[str]) -> list[str]:
    """Return the lines of the table of one number of episodes, and what misses the targets."""
    lines = [
        "| " + " | ".join(["problem", "unlimited", *(f"M = {m}" for m in balls)]) + " |",
        "|---" * (len(balls) + 2) + "|",
    ]
    missed: list[str] = []
    n_met = 0  # cells in which one of the two agents meets the target
    for problem in problems:
        free, _ = returns(budget(None), problem, episodes, seeds)
        cells = []
        before = None
        for most in balls:
            ours, _ = returns(budget(most), problem, episodes, seeds)
            theirs, _ = returns(net(cells_of(4 * most, problem)), problem, episodes, seeds)
            joint, _ = returns(tree(most), problem, episodes, seeds)
            share, shared, other = (
                100 * found.mean() / free.mean() for found in (ours, joint, theirs)
            )
            cells.append(f"{share:.1f}, {shared:.0f} ({other:.0f})")
            n_met += most in TARGETS and max(share, shared) >= TARGETS[most]
            if share < TARGETS.get(most, 0.0):
                missed.append(f"{problem}, M = {most}: {share:.1f} < {TARGETS[most]:g}")
            if is_worse(ours, theirs) and other > share + 1:
                missed.append(f"{problem}, M = {most}: worse than the net with {4 * most}")
            if (
                before is not None
                and is_worse(ours, before)
                and before.mean() > 1.003 * ours.mean()
            ):
                missed.append(f"{problem}, M = {most}: worse than with fewer balls")
            before = ours
        lines.append(f"| {problem} | {free.mean():.4g} | " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    n_cells = len(problems) * sum(most in TARGETS for most in balls)
    return [
        *lines, "", f"AdaptiveQ or TreeQ meets {n_met} of {n_cells} targets.",
        f"Missed by AdaptiveQ ({n_cells} cells have a target): " + ("; ".join(missed) or "none"),
    ]  # fmt: skip


def is_worse(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether the mean is lower by more than two standard errors."""
    error = math.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / len(ours))
    return bool(theirs.mean() - ours.mean() > 2 * error)


def share(problem: str, episodes: int, seeds: int, balls: Sequence[int], **options: Any) -> str:
    """Return a row: what is earned without a limit, and the percentages with so many balls."""
    free, *ours = (
        returns(budget(most, **options), problem, episodes, seeds)[0].mean()
        for most in (None, *balls)
    )
    cells = " | ".join(f"{100 * found / free:.1f}" for found in ours)
    return f"| {free:.4g} | {cells} |"


def more(episodes: int, seeds: int, balls: Sequence[int]) -> list[str]:
    """Return the table of other spaces, noise, drift and a larger bonus, and of ten wells."""
    name, wells = WELLS
    lines = ["| | unlimited | " + " | ".join(f"M = {m}" for m in balls) + " |"]
    lines.append("|---" * (len(balls) + 2) + "|")
    for problem, (kind, _) in MORE.items():
        options: dict[str, Any] = {} if isinstance(kind, str) else {"horizon": 5}
        options |= {"bonus": 0.5} if problem.startswith("bonus") else {}
        options |= {"ordered": ["action"]} if problem.startswith("mask") else {}
        lines.append(f"| {problem} " + share(problem, episodes, seeds, balls, **options))
        print(lines[-1], file=sys.stderr, flush=True)
    found = []
    for well in wells:
        PROBLEMS[name] = ("Oil", {"sharpness": 50.0, "center": well})
        found.append([
            returns(budget(most), name, episodes, seeds)[0].mean() for most in (None, *balls)
        ])  # fmt: skip
    shares = 100 * np.mean([np.minimum(1, np.array(row[1:]) / row[0]) for row in found], axis=0)
    cells = " | ".join(f"{value:.1f}" for value in shares)
    return [*lines, f"| {name} | {np.mean(found, axis=0)[0]:.4g} | {cells} |"]


def bounds(balls: Sequence[int], problems: Sequence[str]) -> list[str]:
    """Return the table of what was found for policies with so many balls."""
    lines = ["| problem | optimum | " + " | ".join(f"M = {m}" for m in balls) + " |"]
    lines.append("|---" * (len(balls) + 2) + "|")
    for problem in problems:
        cells = " | ".join(f"{value:.4g}" for value in limits(problem, balls))
        lines.append(f"| {problem} | {zooming.solve(new(problem)).return_:.4g} | {cells} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def draw(path: Path, episodes: int, seeds: int) -> None:
    """Draw the loss of the last tenth of the episodes against bytes."""
    import matplotlib.pyplot as plt

    from zooming import plots

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.6), layout="constrained")
    for ax, problem in zip(axes.flat, FIGURE, strict=True):
        best = zooming.solve(new(problem)).return_
        horizon = new(problem).unwrapped.horizon
        own = [most for most in (10, 15, 20, 30, *BALLS, 400) if most > horizon]
        with plots.drawing(ax):
            places = []
            for label, makers in {
                "AdaptiveQ(max_balls=M)": [budget(most) for most in own],
                "NetQ, centers": [net(n) for n in SPACINGS],
                "NetQ as published": [net(n, "multiples") for n in SPACINGS],
            }.items():
                found = [returns(make, problem, episodes, seeds) for make in makers]
                order = sorted((nbytes, best - mean.mean()) for mean, nbytes in found)
                ax.plot(*zip(*order, strict=True), marker="o", markersize=3, label=label)
                places = places or [nbytes for nbytes, _ in order]
            free, nbytes = returns(budget(None), problem, episodes, seeds)
            ax.plot(nbytes, best - free.mean(), "k*", label="AdaptiveQ, unlimited")
            floor = min(line.get_ydata().min() for line in ax.lines)
            lost = [max(best - value, 1e-9) for value in limits(problem, own)]
            ax.plot(places, lost, "k:", label="best policy found with M balls")
            ax.set(xscale="log", yscale="log", xlabel="bytes of the table", title=problem)
            ax.set_ylim(bottom=floor / 4)
    axes[0, 0].set_ylabel("lost a late episode")
    axes[1, 0].set_ylabel("lost a late episode")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and draw the figure if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, nargs="*", default=[2000, 20_000])
    parser.add_argument("--balls", type=int, nargs="*", default=list(BALLS))
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument(
        "--parts", nargs="*", default=["table"], choices=["table", "limits", "more", "figure"]
    )
    parser.add_argument("--out", type=Path, default=Path("docs/figures/budget.png"))
    given = parser.parse_args(arguments)
    if "limits" in given.parts:
        print("\n".join(["", *bounds(given.balls, given.problems)]))
    for episodes in given.episodes:
        if "table" in given.parts:
            print(f"\n{episodes:,} episodes, {given.seeds} seeds:\n")
            print("\n".join(table(episodes, given.seeds, given.balls, given.problems)))
        if "more" in given.parts:
            print("\n".join(["", *more(episodes, given.seeds, given.balls)]))
    if "figure" in given.parts:
        draw(given.out, max(given.episodes), given.seeds)


if __name__ == "__main__":
    main()
