"""The command `zooming leaderboard`: run the missing studies, write the tables and the page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from zooming.agents.files import container as files
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.leaderboard import plan
from zooming.lab.leaderboard.measures import Result, read_result, read_scales
from zooming.lab.leaderboard.page import PAGE, render
from zooming.lab.leaderboard.plan import Board, Cell
from zooming.lab.leaderboard.tables import Finished, write_tables
from zooming.lab.study import engines
from zooming.lab.study.problems import agents_named
from zooming.lab.study.run_command import say_how_to_continue
from zooming.lab.study.stopping import Stopped
from zooming.lab.study.study import Study, run_all
from zooming.lab.study_tables import wide_console

MOST_STUDIES = 100  # with the same workers: each study holds a lock, that is an open file


def leaderboard(
    out: str,
    quick: bool = False,
    problems: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME ...")] = None,
    agents: str | None = None,
    episodes: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="K ...")] = None,
    seeds: int | None = None,
    deep_seeds: int = plan.N_DEEP_SEEDS,
    deep_episodes: int | None = None,
    long_seeds: int = plan.N_LONG_SEEDS,
    tuning_seeds: int = plan.N_TUNING_SEEDS,
    entropy: int = 0,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
) -> None:
    """Compare agents on many problems, and write one page and one table.

    Repeat the command to resume it, or with more problems, agents or episodes to extend it.

    Args:
        out: folder of the leaderboard: its studies, leaderboard.html, .md, .csv and .parquet.
        quick: five problems, eight agents, 200 and 500 episodes, 5 seeds: about two minutes on two
            cores. Other options have priority.
        problems: names of the board (newsvendor, river-swim, oil, ...), presets (zooming list) or
            Gymnasium ids of problems that zooming can solve. By default the twelve operations
            problems and four of the paper.
        agents: names separated by commas, with settings after colons. The first one is compared
            with all others. By default auto, its relatives and the rivals.
        episodes: numbers of episodes, each with runs of its own. By default 200 500 2000 20000.
        seeds: number of runs of each agent on each problem. By default 20.
        deep_seeds: number of runs of agents that take minutes a run (sb3:...).
        deep_episodes: largest number of episodes at which agents that take minutes a run play.
        long_seeds: number of runs of the other rivals if a run has 10,000 episodes or more. They
            are slow, because they run in Python.
        tuning_seeds: number of runs for each value when the bonus of adaptive-q and net-q is
            tuned. They use other seeds. 0 leaves tuned agents out.
        entropy: number from which the seeds are derived. Another number gives other seeds.
        engine: local (processes on this machine) or ray.
        workers: number of processes. By default one per core.
        address: address of a running Ray cluster.
    """
    began = time.perf_counter()
    engines.check_engine(engine, workers, address)
    names = problems or (plan.QUICK_PROBLEMS if quick else (*plan.OPERATIONS, *plan.PAPER))
    usual = plan.QUICK_AGENTS if quick else plan.AGENTS
    board = Board(
        Path(out),
        plan.find_problems(names),
        plan.default_agents(usual) if agents is None else tuple(agents_named(agents)),
        tuple(sorted({*(episodes or (plan.QUICK_EPISODES if quick else plan.EPISODES))})),
        (plan.QUICK_SEEDS if quick else plan.N_SEEDS) if seeds is None else seeds,
        deep_seeds,
        tuning_seeds,
        entropy,
        long_seeds,
        deep_episodes,
    )
    check_folder(board)
    board.refuse_unplayable()
    absent = board.absent()
    for agent, reason in absent.items():
        print(f"{agent} is left out: {reason}")
    if len(absent) == len(board.agents):
        raise ConfigurationError("no agent of the leaderboard can play its problems")
    runner = _Runner(engine=engine, workers=workers, address=address, progress_bar=True)
    try:
        finished = run(board, absent, runner)
    except Stopped as stopped:
        say_how_to_continue(stopped)
    show(finished)
    print(f"{time.perf_counter() - began:.1f} s; open {board.folder / PAGE} in a browser")


def check_folder(board: Board) -> None:
    """Raise ConfigurationError if the folder of a board holds anything but a leaderboard."""
    if board.folder.exists() and not board.folder.is_dir():
        raise ConfigurationError(f"{board.folder} is a file; choose another --out")
    if (
        board.folder.exists()
        and any(board.folder.iterdir())
        and not any((board.folder / "studies").glob("*"))
    ):
        raise ConfigurationError(
            f"{board.folder} is not empty and holds no leaderboard; choose another --out"
        )


def run(board: Board, absent: dict[str, str], runner: _Runner) -> Finished:
    """Run the missing studies. Tables and page are written after each number of episodes.

    `absent` says why an agent is left out.
    """
    reference = next(agent.label for agent in board.agents if agent.label not in absent)
    tunings = board.tunings()
    searches = [(one.search.study, one.folder) for one in tunings]
    runner.run([*board.references().values(), *searches], "random actions, tuning")
    scales, results, done = read_scales(board), list[Result](), list[int]()
    for episodes in board.episodes:
        ours = [one for one in tunings if one.episodes == episodes]
        cells = [one for one in board.cells(ours) if one.episodes == episodes]
        failed = runner.run_cells(cells, f"{episodes:,} episodes")
        for cell, reason in failed:
            board.refused[cell.problem.name, cell.name] = reason
        lost = [cell for cell, _ in failed]
        results += [read_result(cell, scales[cell.problem.name]) for cell in cells
                    if cell not in lost]  # fmt: skip
        if not results:
            raise ConfigurationError("no agent of the leaderboard could play its problems")
        done.append(episodes)
        finished = Finished(reference, scales, tuple(done), results, board.refused, absent)
        write(board, finished)
    return finished


def write(board: Board, finished: Finished) -> None:
    """Write the tables and the page of a leaderboard."""
    write_tables(board.folder, finished)
    files.write_atomically(board.folder / PAGE, render(finished).encode())


class _Runner:
    """Run studies with the same options, at most `MOST_STUDIES` at once."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    def run(self, studies: Sequence[tuple[Study, str | Path]], what: str) -> None:
        """Run studies. First print `what`, a description of them."""
        if studies:
            print(what, flush=True)
        for first in range(0, len(studies), MOST_STUDIES):
            run_all(studies[first : first + MOST_STUDIES], **self._options)

    def run_cells(self, cells: Sequence[Cell], what: str) -> list[tuple[Cell, str]]:
        """Run the cells. Return (cell, error) for each cell whose agent failed."""
        left, failed = list(cells), list[tuple[Cell, str]]()
        while True:
            try:
                self.run([(cell.study, cell.folder) for cell in left], what)
                return failed
            except ZoomingError as error:
                # A run prefixes its errors with its agent and problem.
                blamed = [
                    cell
                    for cell in left
                    if str(error).startswith(f"{cell.choice.label} on {cell.problem.name}: ")
                ]
                if not blamed:
                    raise
                print(f"left out: {error}")
                failed += [(cell, str(error)) for cell in blamed]
                left = [cell for cell in left if cell not in blamed]


def show(finished: Finished) -> None:
    """Print the standings at the largest number of episodes, and where the reference loses."""
    from rich.table import Table

    console, episodes = wide_console(), finished.episodes[-1]
    for group in finished.groups:
        table = Table(title=f"{group}, {episodes:,} episodes", title_justify="left")
        for column in ("agent", "problems", "loss, %", "rank", "final policy, %", "CPU s"):
            table.add_column(column, justify="left" if column == "agent" else "right")
        for one in finished.standings(group, episodes):
            rank = "-" if one.rank_loss is None else f"{one.rank_loss.mean:.1f}"
            seconds = "-" if one.cpu_seconds is None else f"{one.cpu_seconds:.3g}"
            table.add_row(
                one.agent,
                str(one.n_problems),
                f"{one.loss.mean:.1f}",
                rank,
                f"{one.percent.mean:.1f}",
                seconds,
            )
        console.print(table)
    lost = finished.losses(episodes)
    names = ", ".join(f"{one.problem} (to {one.agent})" for one in lost) or "nowhere"
    console.print(
        f"{finished.reference} has more regret than another agent on {len(lost)} of "
        f"{len(finished.scales)} problems: {names}.",
        highlight=False,
    )
