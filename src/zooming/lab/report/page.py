"""The command `zooming report`: write one HTML file with all data, styles and scripts inline.

The data are the results of finished studies, and a replay of one run per agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from zooming.agents.base import seeds
from zooming.agents.files import container as files
from zooming.analysis.intervals import Interval, mean_interval
from zooming.analysis.optimal import Optimal
from zooming.analysis.regret import optimum_error
from zooming.analysis.solve import check_solvable
from zooming.envs.compiled import CompiledEnv
from zooming.errors import ConfigurationError, ZoomingError
from zooming.export.pages import fill_page, plotly_script
from zooming.lab.study import modules
from zooming.lab.study.configuration import Configuration
from zooming.lab.study.problems import Problem
from zooming.lab.study.store import MANIFEST, Store, read_json, read_manifest
from zooming.lab.study.study import FEW_SEEDS, Row, Study, read_study
from zooming.partitions.boxes import BoxTable
from zooming.plots import COLORS
from zooming.plots.curve_data import Runs
from zooming.validation import check_float, count_noun

PACKAGE = "zooming.lab.report"
FINDINGS = "findings.json"
REMEDY = "delete it, and zooming reproduce makes it again"
N_FRAMES = 40  # of a replay
N_POINTS = 61  # grid points of Q* along each axis
N_BINS = 40  # of a learning curve
MOST_REPLAYED_BALLS = 4000  # of one agent in one frame, over all steps; limits the file size
MOST_SEEDS_SHOWN = 100  # as markers
Imports = Annotated[
    tuple[str, ...], tyro.conf.arg(name="import", metavar="MODULE"), tyro.conf.UseAppendAction
]


def report(
    folder: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    target: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")] = None,
    out: str | None = None,
    imports: Imports = (),
) -> None:
    """Write an HTML page of a study or reproduction: tables, curves and the growth of partitions.

    The page works without a network.

    Args:
        folder: folder of a finished zooming run or zooming reproduce.
        target: file to write. By default report.html in the folder.
        out: the same as an option.
        imports: module that registers environments of the study. No other module that the folder
            names is imported.
    """
    path = Path(target or out or Path(folder) / "report.html")
    if not Path(folder).is_dir():
        raise ConfigurationError(
            f"there is no folder {folder}; zooming run ... --out {folder} makes one"
        )
    if path.is_dir():
        raise ConfigurationError(
            f"cannot write {path}: it is a folder; give the page a name: {path}/report.html"
        )
    try:
        files.writable_path(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    for module in imports:
        modules.import_named(module)
    data = collect(Path(folder))
    for problem in data["problems"]:
        if problem["why_not_made"]:
            print(f"no run is replayed of {problem['name']}: {problem['why_not_made']}")
    page = render_page(data)
    files.write_atomically(path, page.encode())
    print(f"{path}: {len(page) / 1e6:.1f} MB; open it in a browser")


def render_page(data: dict[str, Any]) -> str:
    """Return the HTML of the data from `collect`. Strings are inserted as data, never as markup."""
    return fill_page(PACKAGE, data, PLOTLY=plotly_script())


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
                replays, unshown = collect_replays(
                    problem, configuration, names, with_estimates=not is_solved
                )
            else:
                replays, unshown = [], []
                made_by += f". It cannot be made again here, so no run is replayed: {why_not}"
            problems.append({
                "name": problem.name, "heading": extra.get("heading", problem.name),
                "optimum": ours[0].optimum,
                "why_unsolved": None if is_solved else why_not or _why_unsolved(problem),
                "made_by": made_by, "why_not_made": why_not,
                "verdicts": extra.get("verdicts", []), "agents": agents, "replays": replays,
                "unshown": unshown,
                "scales": extra.get("scales"),
                "q_star": None if optimal is None or not replays else q_star(optimal),
            })  # fmt: skip
        manifests.append(_replace_non_finite(read_manifest(where / MANIFEST)))
    first = Store.of_folder(studies[0][0]).configuration
    together = read_findings(folder / FINDINGS)[1] if (folder / FINDINGS).exists() else []
    size = (len(problems), "problem"), (first.episodes, "episode"), (first.n_seeds, "seed")
    return {
        "title": "Adaptive discretization: the paper's figures, reproduced"
        if (folder / FINDINGS).exists()
        else f"Agents compared on {count_noun(len(problems), 'problem')}",
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
    for found in read_findings(path)[0]:
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
    objective = mean_return if regret is None else regret  # by which agents are compared
    return {
        "label": row.agent,
        "name": names.get(row.agent, row.agent),
        "color": COLORS[i % len(COLORS)],
        "is_winner": is_winner,
        "final_return": _as_list(row.final_return, row.mean_return),
        "regret": None if regret is None else _last_interval(regret),
        "mean_return": _last_interval(mean_return),
        "advantage": _as_list(row.advantage, None),
        "n_balls": row.n_balls,
        "nbytes": row.nbytes,
        "n_clipped": row.n_clipped,
        "milliseconds": _as_number(1e3 * row.seconds),
        "curve": {
            "episode": runs.episode.tolist(),
            "returns": _learning_curve(runs),
            "objective": _band(objective),
        },
        "seeds": [
            [int(runs.n_balls[k, -1]), round(float(objective[k, -1]), 4)]
            for k in range(min(runs.n_seeds, MOST_SEEDS_SHOWN))
        ],
    }  # fmt: skip


def _learning_curve(runs: Runs) -> dict[str, list[Any]]:
    """Return mean returns over at most N_BINS bins. All bins but the last have equal length."""
    episode, total = (
        np.concatenate([[0], runs.episode]),
        np.pad(runs.total_return, ((0, 0), (1, 0))),
    )
    edges = [0]
    for k in range(1, len(episode)):
        if episode[k] - episode[edges[-1]] >= runs.episode[-1] / N_BINS or k == len(episode) - 1:
            edges.append(k)
    means = np.diff(total[:, edges], axis=1) / np.diff(episode[edges])
    middle = (episode[edges][:-1] + episode[edges][1:] + 1) / 2
    return {"episode": middle.tolist(), **_band(means)}


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


def collect_replays(
    problem: Problem, configuration: Configuration, names: dict[str, str], with_estimates: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Replay the first run of each agent. Return (replays, agents not shown and why).

    A replay shows the growth of the partitions of one state axis and one action axis. A ball is a
    list: its corners, its first and last frame and, if `with_estimates`, its Q in each frame.
    """
    even = np.geomspace(1, configuration.episodes, N_FRAMES)
    frames = np.unique(np.round(even).astype(int)).tolist()
    seed = seeds.derive_seed(configuration.entropy, f"{configuration.stream} 0")
    found, unshown = [], []
    for choice in configuration.agents:
        name = names.get(choice.label, choice.label)
        try:
            agent = choice.make(problem.make(), seed)
        except (ZoomingError, TypeError):
            unshown.append(f"{name}: cannot be made again here")  # e.g. a setting was an object
            continue
        if not isinstance(getattr(agent, "table", None), BoxTable):
            why = "balls of a metric, not boxes" if agent.n_balls else "no partition"
            unshown.append(f"{name}: {why}")
            continue
        if (agent.axes.n_state, agent.axes.n_action) != (1, 1):
            unshown.append(f"{name}: more than two axes")
            continue
        steps: list[list[list[Any]]] = [[] for _ in range(agent.horizon)]
        alive: list[dict[tuple[float, ...], list[Any]]] = [{} for _ in range(agent.horizon)]
        shown: list[int] = []
        for frame, episode in enumerate(frames):
            agent.learn(episode - agent.n_episodes)
            if agent.n_balls > MOST_REPLAYED_BALLS:
                break
            shown.append(episode)
            for step in range(agent.horizon):
                balls, before, alive[step] = agent.partition(step), alive[step], {}
                sides = [np.clip(side, *balls.window()) for side in (balls.low, balls.high)]
                corners = np.round(np.hstack(sides), 7).tolist()
                for corner, q_value in zip(corners, balls.q_value.tolist(), strict=True):
                    ball = before.get(tuple(corner))
                    if ball is None:
                        ball = [*corner, frame, frame, []]
                        steps[step].append(ball)
                    alive[step][tuple(corner)] = ball
                    ball[5] = frame
                    ball[6].append(round(q_value, 4))
        if not shown:
            unshown.append(f"{name}: too many balls to show")
            continue
        last = 7 if with_estimates else 6
        found.append({
            "name": name, "frames": shown, "is_cut": len(shown) < len(frames),
            "steps": [[ball[:last] for ball in balls] for balls in steps],
            "axes": list(agent.axes.names),
        })  # fmt: skip
    return found, unshown


def q_star(optimal: Optimal) -> dict[str, Any]:
    """Return Q* of each step on a grid of the state axis and the action axis."""
    env = optimal.grid.env
    # The range that the balls cover: an integer stands for half a unit on each side.
    x, a = (
        np.linspace(box.low[0] - 0.5 * is_whole, box.high[0] + 0.5 * is_whole, N_POINTS)
        for box, is_whole in (
            (env.state_box, env.has_whole_states),
            (env.action_box, env.has_whole_actions),
        )
    )
    points = np.stack(np.meshgrid(x, a), axis=-1).reshape(-1, 2)
    played = env.round_discrete(points[:, :1], points[:, 1:])
    steps = [optimal.q_values(step, *played) for step in range(optimal.horizon)]
    return {
        "state": x.tolist(),
        "action": a.tolist(),
        "steps": [np.round(q.reshape(N_POINTS, N_POINTS), 4).tolist() for q in steps],
    }


def read_findings(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the entries of all figures of a reproduction, and the verdicts on several figures.

    Raise ConfigurationError if the file is damaged.
    """
    content = _replace_non_finite(read_json(path, REMEDY))
    try:
        found, overall = list(content["figures"].values()), content.get("overall", [])
        for one in found:
            texts = [one["problem"], one.get("heading", ""), *one["agents"].values()]
            if (
                not all(isinstance(text, str) for text in texts)
                or Path(one["problem"]).name != one["problem"]
            ):
                raise ValueError("the name of a problem or an agent is not valid")
            one["scales"] = scales(one)
        for verdict in [*overall, *(v for one in found for v in one.get("verdicts", []))]:
            is_verdict = verdict["holds"] in (True, False, None)
            if not isinstance(verdict["sentence"], str) or not is_verdict:
                raise ValueError("an entry of the verdicts is not a verdict")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{path} is damaged ({error!r}); {REMEDY}") from error
    if not found:
        raise ConfigurationError(f"{path} holds no figure; zooming reproduce continues it")
    return found, overall


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


def _replace_non_finite(content: Any) -> Any:
    """Return JSON content with NaN and infinities as strings. Strict JSON has neither."""
    if isinstance(content, dict):
        return {key: _replace_non_finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_replace_non_finite(value) for value in content]
    return str(content) if isinstance(content, float) and not math.isfinite(content) else content
