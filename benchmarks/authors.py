"""Compare with the authors' own programs: returns, and time per step.

Run `python benchmarks/authors.py CHECKOUT`. CHECKOUT is a folder with commit 8f8f1df of
https://github.com/seanrsinclair/AdaptiveQLearning; nothing of it is kept here. Their agents play in
a loop of ours, without their prints and records; ours are the published forms, trained fused.

One row per problem and agent: the mean return of all episodes and of their last tenth, over seeds
with 95 % intervals, and nanoseconds of processor time per step, environment included, with the
range of the ratios. Theirs and ours take turns.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import zooming
from zooming.analysis.intervals import t_quantile

H, BONUS, START = 5, 0.1, 0.5
PROBLEMS: dict[str, dict[str, Any]] = {
    "oil-laplace-1": {"id": "zooming/Oil-v0", "survey": "laplace", "sharpness": 1.0},
    "ambulance-beta-0.25": {
        "id": "zooming/Ambulance-v0", "arrivals": "beta", "travel_weight": 0.25,
    },
}  # fmt: skip
MODULES = {  # the file and the class of each of their agents
    "adaptive-q": ("adaptive_Agent", "AdaptiveDiscretization", zooming.AdaptiveQ),
    "net-q": ("eNet_Agent", "eNet", zooming.NetQ),
    "net-mb": ("eNet_model_Agent", "eNetModelBased", zooming.NetMB),
    "adaptive-mb": ("adaptive_model_Agent", "AdaptiveModelBasedDiscretization", zooming.AdaptiveMB),
}
COLUMNS = (
    "problem", "agent", "theirs, all", "ours", "theirs, last tenth", "ours", "theirs, ns a step",
    "ours", "ratio",
)  # fmt: skip
Play = Callable[[float, float], tuple[float, float]]  # (state, action) -> (reward, next state)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row per problem and agent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--agents", nargs="+", choices=MODULES, default=["adaptive-q", "net-q"])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for problem in options.problems:
        for name in options.agents:
            runs = compare(options.checkout, problem, name, options.episodes, options.seeds)
            print(f"| {problem} | {name} | {row(*runs)} |", flush=True)


def compare(
    checkout: Path, problem: str, name: str, episodes: int, n_seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return for theirs and ours [seed, (mean return, of the last tenth, ns a step)]."""
    kind = authors_class(checkout, name)
    ours_kind, given = MODULES[name][2], dict(PROBLEMS[problem])
    env = gym.make(given.pop("id"), **given)
    options = {} if "adaptive" in name else {"episodes": episodes}
    ours_kind.as_published(env, BONUS, seed=0, **options).learn(1)  # loads what is compiled
    theirs, ours = [], []
    for seed in range(n_seeds):
        np.random.seed(seed)  # theirs draws from the global generator
        began = time.process_time()
        returns = play(make_theirs(kind, name, episodes), play_of(problem), episodes)
        theirs.append(summary(returns, time.process_time() - began))
        agent = ours_kind.as_published(env, BONUS, seed=seed, **options)
        began = time.process_time()
        returns = agent.learn(episodes).returns
        ours.append(summary(returns, time.process_time() - began))
    return np.array(theirs), np.array(ours)


def authors_class(checkout: Path, name: str) -> Any:
    """Return the class of one of their agents."""
    module, kind, _ = MODULES[name]
    if not (checkout / f"{module}.py").is_file():
        sys.exit(
            f"{checkout} has no {module}.py: give a checkout of seanrsinclair/AdaptiveQLearning"
        )
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return getattr(importlib.import_module(module), kind)


def make_theirs(kind: Any, name: str, episodes: int) -> Any:
    """Return one of their agents, with the settings of their experiments."""
    net = np.arange(0.0, 1.0, (episodes * H) ** -0.25)
    if name == "adaptive-q":
        return kind(H, episodes, BONUS)
    if name == "adaptive-mb":  # no prior; split at 4^depth visits; children inherit; full plans
        return kind(H, episodes, BONUS, 0, 2, False, True)
    return kind(net, net, H, BONUS, *((0, True) if name == "net-mb" else ()))


def play_of(problem: str) -> Play:
    """Return the dynamics of a problem in plain Python."""
    if problem.startswith("oil"):
        return lambda x, a: (max(float(np.exp(-abs(a - 0.75))) - abs(x - a), 0.0), a)

    def ambulance(x: float, a: float) -> tuple[float, float]:
        call = np.random.beta(5, 2)
        return 1 - (0.25 * abs(x - a) + 0.75 * abs(a - call)), call

    return ambulance


def play(agent: Any, dynamics: Play, episodes: int) -> np.ndarray:
    """Train one of their agents. Return the return of each episode."""
    returns = np.zeros(episodes)
    for k in range(episodes):
        agent.update_policy(k)
        state = START
        for step in range(H):
            action = agent.pick_action(state, step)
            reward, after = dynamics(state, action)
            agent.update_obs(state, action, reward, after, step)
            state = after
            returns[k] += reward
    return returns


def summary(returns: np.ndarray, seconds: float) -> tuple[float, float, float]:
    """Return the mean return, that of the last tenth, and nanoseconds per step."""
    n = len(returns)
    return returns.mean(), returns[-max(1, n // 10) :].mean(), seconds / n / H * 1e9


def row(theirs: np.ndarray, ours: np.ndarray) -> str:
    """Return the cells of one row."""
    n = len(theirs)
    factor = t_quantile(0.975, n - 1) / n**0.5 if n > 1 else np.nan
    cells = []
    for column in (0, 1):
        for runs in (theirs, ours):
            spread = factor * runs[:, column].std(ddof=1) if n > 1 else np.nan
            cells.append(f"{runs[:, column].mean():.3f} ± {spread:.3f}")
    ratios = theirs[:, 2] / ours[:, 2]
    cells += [f"{np.median(runs[:, 2]):,.0f}" for runs in (theirs, ours)]
    cells.append(f"{np.median(ratios):.0f} ({ratios.min():.0f} to {ratios.max():.0f})")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
