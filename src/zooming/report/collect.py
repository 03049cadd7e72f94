"""What the page shows, as plain data: read from the folders of finished studies, and one run of each agent played again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from zooming import seeds
from zooming.agents.tabled import TabledAgent
from zooming.errors import SpaceError
from zooming.intervals import Interval, mean_interval
from zooming.plots import COLORS
from zooming.plots.runs import Runs, read_study
from zooming.study.problems import AgentChoice, Problem
from zooming.study.store import MANIFEST, Store
from zooming.study.study import FEW_SEEDS, Row, Study

N_FRAMES = 40  # moments of the replay
N_POINTS = 61  # of Q* along each axis
MOST_REPLAYED_BALLS = 4000  # of one agent, all steps together: more would make the page heavy
MOST_SEEDS_SHOWN = 100  # as single points


def collect(folder: Path) -> dict[str, Any]:
    """Everything on the page of a study's folder, or of a reproduction's."""
    problems: list[dict[str, Any]] = []
    manifests: list[dict[str, Any]] = []
    for where, names, extra in _studies(folder):
        study = Study.stored(where)
        rows, configuration = study.summary(where), study.configuration
        for problem in configuration.problems:
            runs = read_study(where, problem.name)
            ours = [row for row in rows if row.problem == problem.name]
            agents = [_agent(row, names, i, runs[row.agent]) for i, row in enumerate(ours)]
            replays = _replays(problem, configuration.agents, configuration, names)
            problems.append({
                "name": problem.name, "heading": extra.get("heading", problem.name), "optimum": ours[0].optimum,
                "made_by": f"{problem.env_id}({', '.join(f'{key}={value!r}' for key, value in problem.options.items())})",
                "verdicts": extra.get("verdicts", []), "agents": agents, "replays": replays,
                "q_star": _q_star(problem, configuration.optimum) if replays else None,
            })  # fmt: skip
        manifests.append(json.loads((where / MANIFEST).read_text()))
    first = Store.existing(next(_studies(folder))[0]).configuration
    return {
        "title": f"{_count(len(problems), 'problem')}, {_count(first.episodes, 'episode')}, {_count(first.n_seeds, 'seed')}",
        "episodes": first.episodes,
        "n_seeds": first.n_seeds,
        "few_seeds": first.n_seeds < FEW_SEEDS,
        "problems": problems,
        "manifests": manifests,
    }


def _studies(folder: Path) -> Iterator[tuple[Path, dict[str, str], dict[str, Any]]]:
    """Each study's folder, the names of its agents if they have other ones, and what a reproduction found."""
    if (folder / MANIFEST).exists():
        yield folder, {}, {}
        return
    findings, evaluations = folder / "findings.json", sorted(folder.glob(f"evaluation/*/{MANIFEST}"))
    if not findings.exists():
        if not evaluations:
            raise SpaceError(f"{folder} holds neither a study (zooming run, tune) nor a reproduction (zooming reproduce)")
        yield from ((manifest.parent, {}, {}) for manifest in evaluations)
        return
    try:
        figures = [(found["problem"], found["agents"], found) for found in json.loads(findings.read_text())["figures"].values()]
    except (ValueError, KeyError, TypeError) as error:
        raise SpaceError(f"{findings} is damaged ({error}); delete it, and zooming reproduce makes it again") from error
    for problem, names, found in figures:
        yield folder / "evaluation" / problem, names, found


def _agent(row: Row, names: dict[str, str], i: int, runs: Runs) -> dict[str, Any]:
    regret = None if runs.optimum is None else runs.regret
    return {
        "label": row.agent,
        "name": names.get(row.agent, row.agent),
        "color": COLORS[i % len(COLORS)],
        "final_return": _bounds(row.final_return, row.mean_return),
        "regret": _bounds(row.regret, row.mean_regret),
        "advantage": _bounds(row.advantage, None),
        "n_balls": row.n_balls,
        "nbytes": row.nbytes,
        "milliseconds": _number(1e3 * row.seconds),
        "curve": {
            "episode": runs.episode.tolist(),
            "returns": _learning_curve(runs),
            "regret": None if regret is None else _band(regret),
        },
        "seeds": None if regret is None else [
            [int(runs.n_balls[k, -1]), round(float(regret[k, -1]), 2)] for k in range(min(len(regret), MOST_SEEDS_SHOWN))
        ],
    }  # fmt: skip


def _learning_curve(runs: Runs) -> dict[str, list[Any]]:
    """Mean returns between checkpoints, joined until each stretch is a fortieth of the episodes."""
    episode, total = np.concatenate([[0], runs.episode]), np.pad(runs.total_return, ((0, 0), (1, 0)))
    edges = [0]
    for k in range(1, len(episode)):
        if episode[k] - episode[edges[-1]] >= runs.episode[-1] / 40 or k == len(episode) - 1:
            edges.append(k)
    means = np.diff(total[:, edges], axis=1) / np.diff(episode[edges])
    middle = (episode[edges][:-1] + episode[edges][1:] + 1) / 2
    return {"episode": middle.tolist(), **_band(means)}


def _band(samples: np.ndarray[Any, Any]) -> dict[str, list[Any]]:
    """Mean and 95 % interval over the seeds, column by column."""
    if len(samples) < 2:
        mean = np.round(samples.mean(axis=0), 4).tolist()
        return {"mean": mean, "low": mean, "high": mean}
    bands = [mean_interval(column) for column in samples.T]
    return {part: [round(getattr(band, part), 4) for band in bands] for part in ("mean", "low", "high")}


def _bounds(interval: Interval | None, mean: float | None) -> list[float] | None:
    if interval is not None:
        return [interval.mean, interval.low, interval.high]
    return None if mean is None else [mean, mean, mean]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n > 1 else ''}"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON knows no NaN


def _replays(problem: Problem, agents: tuple[AgentChoice, ...], configuration: Any, names: dict[str, str]) -> list[Any]:
    """How the partitions of each agent's first run grew, for one state and one action axis."""
    frames = np.unique(np.round(np.geomspace(1, configuration.episodes, N_FRAMES)).astype(int)).tolist()
    found = []
    for choice in agents:
        try:
            agent = choice.make(problem.make(), seeds.word(configuration.entropy, f"{configuration.stream} 0"))
        except (SpaceError, TypeError, gym.error.Error):
            continue  # a setting that was an object, or an environment that is not registered here: no replay
        if not isinstance(agent, TabledAgent) or (agent.axes.n_state, agent.axes.n_action) != (1, 1):
            continue
        balls: list[dict[tuple[float, ...], list[Any]]] = [{} for _ in range(agent.horizon)]
        shown: list[int] = []
        for frame, episode in enumerate(frames):
            agent.learn(episode - agent.n_episodes)
            if agent.n_balls > MOST_REPLAYED_BALLS:
                break
            shown.append(episode)
            for step, known in enumerate(balls):
                partition = agent.partition(step)
                for low, high in zip(partition.low.tolist(), partition.high.tolist(), strict=True):
                    ball = known.setdefault((*low, *high), [*(round(side, 7) for side in (*low, *high)), frame, frame])
                    ball[5] = frame
        if shown:
            steps = [list(known.values()) for known in balls]
            name, is_cut = names.get(choice.label, choice.label), len(shown) < len(frames)
            found.append({"name": name, "frames": shown, "steps": steps, "is_cut": is_cut})
    return found


def _q_star(problem: Problem, optimum: str) -> dict[str, Any] | None:
    optimal = problem.optimal(optimum)
    if optimal is None:
        return None
    env = optimal.grid.env
    sides = (env.state_box, 0.5 * env.has_whole_states), (env.action_box, 0.5 * env.has_whole_actions)
    x, a = (np.linspace(box.low[0] - reach, box.high[0] + reach, N_POINTS) for box, reach in sides)  # what the balls cover
    grid = np.stack(np.meshgrid(x, a), axis=-1).reshape(-1, 2)
    states, actions = env.playable(grid[:, :1], grid[:, 1:])
    steps = [optimal.q_values(step, states, actions).reshape(N_POINTS, N_POINTS) for step in range(optimal.horizon)]
    return {"state": x.tolist(), "action": a.tolist(), "steps": [np.round(q, 4).tolist() for q in steps]}
