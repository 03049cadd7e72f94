"""Collect the data of the page: results of finished studies, and a replay of one run per agent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.analysis.intervals import Interval, mean_interval
from zooming.analysis.optimal import Optimal
from zooming.analysis.regret import optimum_error
from zooming.analysis.solve import check_solvable
from zooming.envs.compiled import CompiledEnv
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.study.configuration import Configuration
from zooming.lab.study.problems import AgentChoice, Problem
from zooming.lab.study.store import MANIFEST, Store, read_json, read_manifest
from zooming.lab.study.study import FEW_SEEDS, Row, Study, read_study
from zooming.partitions.boxes import BoxTable
from zooming.partitions.view import Cut, Partition
from zooming.plots import COLORS
from zooming.plots.curve_data import Runs
from zooming.validation import Floats, check_float, count_noun

FINDINGS = "findings.json"
REPRODUCTION = "Adaptive discretization: the paper's figures, reproduced"
REMEDY = "delete it, and zooming reproduce makes it again"


def title(folder: Path, n_problems: int) -> str:
    """Return the title of the page."""
    if (folder / FINDINGS).exists():
        return REPRODUCTION
    return f"Agents compared on {count_noun(n_problems, 'problem')}"


def figures(path: Path) -> list[dict[str, Any]]:
    """Return the findings of a reproduction, one entry per figure.

    Raise ConfigurationError if the file is damaged.
    """
    content = replace_non_finite(read_json(path, REMEDY))
    try:
        found = list(content["figures"].values())
        for one in found:
            texts = [one["problem"], one.get("heading", ""), *one["agents"].values()]
            if (
                not all(isinstance(text, str) for text in texts)
                or Path(one["problem"]).name != one["problem"]
            ):
                raise ValueError("the name of a problem or an agent is not valid")
            _check(one.get("verdicts", []))
            one["scales"] = scales(one)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damage_error(path, error) from error
    if not found:
        raise ConfigurationError(f"{path} holds no figure; zooming reproduce continues it")
    return found


def overall(path: Path) -> list[dict[str, Any]]:
    """Return the verdicts on claims about several figures, or an empty list without a file."""
    if not path.exists():
        return []
    content = replace_non_finite(read_json(path, REMEDY))
    try:
        found: list[dict[str, Any]] = content.get("overall", [])
        _check(found)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damage_error(path, error) from error
    return found


def _check(verdicts: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError if an entry is not a verdict."""
    for verdict in verdicts:
        if not isinstance(verdict["sentence"], str) or verdict["holds"] not in (True, False, None):
            raise ValueError("an entry of the verdicts is not a verdict")


def _damage_error(path: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{path} is damaged ({error!r}); {REMEDY}")


def count_confirmed(verdicts: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that counts the confirmed claims, or "" if there are no claims."""
    if not verdicts:
        return ""
    holds = [verdict["holds"] for verdict in verdicts]
    rest = [(holds.count(False), "refuted"), (holds.count(None), "undecided")]
    others = ", ".join(f"{n} {word}" for n, word in rest if n)
    return f"{holds.count(True)} of {len(holds)} claims confirmed" + (
        f"; {others}" if others else ""
    )


def scales(found: dict[str, Any]) -> dict[str, Any] | None:
    """Return the mean return at each scale of the bonus, by agent, or None if none were tried."""
    scores = found.get("scores")
    if not scores:
        return None
    numbers = {
        name: [
            [
                check_float(number, "score", -math.inf, math.inf)
                for number in (scale, mean, low, high)
            ]
            for scale, mean, low, high in rows
        ]
        for name, rows in scores.items()
    }
    tried = sorted({scale for rows in numbers.values() for scale, *_ in rows})
    by_agent = {name: {scale: bounds for scale, *bounds in rows} for name, rows in numbers.items()}
    return {
        "agents": list(scores),
        "rows": [[scale, *(at.get(scale) for at in by_agent.values())] for scale in tried],
        "best": [found["best_scale"][name] for name in scores],
    }


def replace_non_finite(content: Any) -> Any:
    """Return JSON content with NaN and infinities as strings. Strict JSON has neither."""
    if isinstance(content, dict):
        return {key: replace_non_finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [replace_non_finite(value) for value in content]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content


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


MOST_SEEDS_SHOWN = 100  # as markers


def collect(folder: Path) -> dict[str, Any]:
    """Return all data of the page for the folder of a study or a reproduction."""
    problems: list[dict[str, Any]] = []
    manifests: list[dict[str, Any]] = []
    studies = list(_studies(folder))
    for where, names, extra in studies:
        study = Study.stored(where)
        rows, configuration = study.summary(where), study.configuration
        for problem in configuration.problems:
            runs = read_study(where, problem.name)
            ours = [row for row in rows if row.problem == problem.name]
            is_solved, why_not = ours[0].optimum is not None, _why_not_made(problem)
            optimal = (
                problem.optimal(configuration.optimum) if is_solved and why_not is None else None
            )
            if optimal is not None:
                runs = {
                    label: replace(one, error=optimum_error(optimal)) for label, one in runs.items()
                }
            agents = [
                _agent(row, names, i, runs[row.agent], row.agent == _winner(runs))
                for i, row in enumerate(ours)
            ]
            options = ", ".join(f"{key}={value!r}" for key, value in problem.options.items())
            made_by = f"{problem.env_id}({options})"
            if why_not is None:
                replays, unshown, cuts = collect_replays(
                    problem, configuration, names, with_estimates=not is_solved
                )
            else:
                replays, unshown, cuts = [], [], []
                made_by += f". It cannot be made again here, so no run is replayed: {why_not}"
            problems.append({
                "name": problem.name, "heading": extra.get("heading", problem.name),
                "optimum": ours[0].optimum,
                "why_unsolved": None if is_solved else why_not or _why_unsolved(problem),
                "made_by": made_by, "why_not_made": why_not,
                "verdicts": extra.get("verdicts", []), "agents": agents, "replays": replays,
                "unshown": unshown,
                "scales": extra.get("scales"),
                "q_star": None if optimal is None or not replays else q_star(optimal, cuts),
            })  # fmt: skip
        manifests.append(replace_non_finite(read_manifest(where / MANIFEST)))
    first = Store.of_folder(studies[0][0]).configuration
    together = overall(folder / FINDINGS)
    size = (len(problems), "problem"), (first.episodes, "episode"), (first.n_seeds, "seed")
    return {
        "title": title(folder, len(problems)),
        "size": ", ".join(count_noun(n, what) for n, what in size),
        "score": count_confirmed(
            [*(verdict for problem in problems for verdict in problem["verdicts"]), *together]
        ),
        "overall": together,
        "episodes": first.episodes,
        "n_seeds": first.n_seeds,
        "few_seeds": first.n_seeds < FEW_SEEDS,
        "problems": problems,
        "manifests": manifests,
    }


def _studies(folder: Path) -> Iterator[tuple[Path, dict[str, str], dict[str, Any]]]:
    """Yield (folder, {label: agent name to show}, further findings) of each study."""
    if (folder / MANIFEST).exists():
        yield folder, {}, {}
        return
    path, evaluations = folder / FINDINGS, sorted(folder.glob(f"evaluation/*/{MANIFEST}"))
    if not path.exists():
        instead = f"; give a study in it: {evaluations[0].parent}" if evaluations else ""
        raise ConfigurationError(
            f"{folder} holds neither a study (zooming run) nor a reproduction (zooming "
            f"reproduce){instead}"
        )
    for found in figures(path):
        yield folder / "evaluation" / found["problem"], found["agents"], found


def _winner(runs: dict[str, Runs]) -> str | None:
    """Return the agent that beats every other, paired by seed, at the 95 % level, or None."""
    totals = {label: ours.total_return[:, -1] for label, ours in runs.items()}
    best = max(totals, key=lambda label: totals[label].mean())
    others = [total for label, total in totals.items() if label != best]
    is_clear = (
        len(totals[best]) > 1
        and others
        and all(mean_interval(totals[best] - total).low > 0 for total in others)
    )
    return best if is_clear else None


def _agent(row: Row, names: dict[str, str], i: int, runs: Runs, is_winner: bool) -> dict[str, Any]:
    mean_return = runs.total_return / runs.episode
    regret = None if runs.optimum is None else runs.regret
    expected = runs.expected_regret if regret is not None and runs.policy_values.size else None
    objective = (
        mean_return if regret is None else regret
    )  # the quantity by which agents are compared
    return {
        "label": row.agent,
        "name": names.get(row.agent, row.agent),
        "color": COLORS[i % len(COLORS)],
        "is_winner": is_winner,
        "final_return": _as_list(row.final_return, row.mean_return),
        "regret": None if regret is None else _last_interval(regret),
        "expected_regret": None if expected is None else _last_interval(expected),
        "mean_return": _last_interval(mean_return),
        "advantage": _as_list(row.advantage, None),
        "n_balls": row.n_balls,
        "nbytes": row.nbytes,
        "n_clipped": row.n_clipped,
        "milliseconds": _as_number(1e3 * row.seconds),
        "n_valued": 0 if expected is None else len(expected),
        "curve": {
            "episode": runs.episode.tolist(),
            "returns": learning_curve(runs),
            "objective": _band(objective),
            "expected": None
            if expected is None
            else {"episode": runs.checkpoints.tolist(), **_band(expected)},
        },
        "seeds": [
            [int(runs.n_balls[k, -1]), round(float(objective[k, -1]), 4)]
            for k in range(min(runs.n_seeds, MOST_SEEDS_SHOWN))
        ],
    }  # fmt: skip


def learning_curve(
    runs: Runs, scaled: Callable[[Floats], Floats] = lambda returns: returns, n_bins: int = 40
) -> dict[str, list[Any]]:
    """Return mean returns over at most `n_bins` bins. All bins but the last have equal length.

    `scaled` converts the returns to another unit.
    """
    episode, total = (
        np.concatenate([[0], runs.episode]),
        np.pad(runs.total_return, ((0, 0), (1, 0))),
    )
    edges = [0]
    for k in range(1, len(episode)):
        if episode[k] - episode[edges[-1]] >= runs.episode[-1] / n_bins or k == len(episode) - 1:
            edges.append(k)
    means = np.diff(total[:, edges], axis=1) / np.diff(episode[edges])
    middle = (episode[edges][:-1] + episode[edges][1:] + 1) / 2
    return {"episode": middle.tolist(), **_band(scaled(means))}


def _band(samples: np.ndarray[Any, Any]) -> dict[str, list[Any]]:
    """Return the mean and 95 % interval over the seeds of each column."""
    if len(samples) < 2:
        mean = np.round(samples.mean(axis=0), 4).tolist()
        return {"mean": mean, "low": mean, "high": mean}
    bands = [mean_interval(column) for column in samples.T]
    return {
        part: [round(getattr(band, part), 4) for band in bands] for part in ("mean", "low", "high")
    }


def _last_interval(samples: np.ndarray[Any, Any]) -> list[float]:
    """Return the mean and 95 % interval of the last column."""
    band = _band(samples[:, -1:])
    return [band[part][0] for part in ("mean", "low", "high")]


def _as_list(interval: Interval | None, mean: float | None) -> list[float] | None:
    if interval is not None:
        return [interval.mean, interval.low, interval.high]
    return None if mean is None else [mean, mean, mean]


def _as_number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


def _why_not_made(problem: Problem) -> str | None:
    """Return why the environment of a problem cannot be made, or None if it can."""
    try:
        problem.make()
    except ZoomingError as error:
        return str(error)
    except Exception as error:  # a user's environment may raise anything
        return f"{type(error).__name__}: {error}"
    return None


def _why_unsolved(problem: Problem) -> str:
    """Return why a problem has no known optimum."""
    env = problem.make()
    if not isinstance(env.unwrapped, CompiledEnv):
        return (
            f"{problem.env_id} is not a compiled environment; zooming.compiled_env makes one, "
            "whose law is known"
        )
    try:
        check_solvable(env)
    except ConfigurationError as error:
        return str(error)
    return "zooming.solve could not certify one"
