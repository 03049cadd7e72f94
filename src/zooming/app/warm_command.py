"""The command `zooming warm`: compile the kernels of agents ahead, in parallel.

They are compiled for a baseline that most processors have, into a folder of the package. So they
serve another machine, too: an image of a container, or the wheel that `make wheel` builds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from zooming.errors import ConfigurationError
from zooming.validation import check_int, n_cores, suggest

PROBLEMS = "problems"  # the dynamics of zooming's own environments
SOLVERS = "solve"
# The longest first. Agents that are not named share the kernels of adaptive-q.
TASKS = (
    "auto", "adaptive-q", "metric-q", "adaptive-mb", "single-partition-q", "tree-q", "planner",
    PROBLEMS, SOLVERS, "net-q", "net-mb", "nearest-neighbor-q", "randomized-q", "random",
    "no-movement", "median",
)  # fmt: skip
ENVS = ("zooming/Oil-v0", "zooming/Ambulance-v0")


def warm(agents: str = "", jobs: int | None = None, native: bool = False) -> None:
    """Compile the kernels of agents ahead, so that their first learn() starts at once.

    Args:
        agents: names separated by commas, such as auto,adaptive-q. By default all of zooming's own,
            and the problems of zooming list.
        jobs: number of processes. By default one per core.
        native: compile for this processor only. By default kernels are compiled for a baseline,
            which serves other machines, too. Native kernels are used first.
    """
    tasks = [name.strip() for name in agents.split(",")] if agents else list(TASKS)
    for name in tasks:
        if name not in TASKS:
            raise ConfigurationError(
                f"no agent to compile is named {name!r}{suggest(name, TASKS)} (there are "
                f"{', '.join(TASKS)})"
            )
    n_jobs = n_cores() if jobs is None else check_int(jobs, "jobs", 1)
    target, where = _choose_target(native)
    done = _compile_all(tasks, min(n_jobs, len(tasks)), target)
    print(f"{where}: compiled the kernels of {', '.join(done)}")


def _choose_target(native: bool) -> tuple[dict[str, str], str]:
    """Return the variables of processes that compile, and a description of the target."""
    import llvmlite.binding

    from zooming.kernels.loop import numba_parts

    if not native and numba_parts.HOST_LEVELS:
        level = numba_parts.HOST_LEVELS[0]
        folder = numba_parts.shipped_folder(level)
        if _prepare(folder):
            return {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}, level
        print(f"{folder} cannot be written: compiling for this processor, into Numba's cache")
    # A process that is told the name of a processor uses no kernels of the baseline.
    name = str(llvmlite.binding.get_host_cpu_name())
    return {"NUMBA_CPU_NAME": name}, f"this processor ({name})"


def _prepare(folder: Path) -> bool:
    """Remove kernels of other sources from a folder. Return whether it can be written."""
    from zooming.agents.files.container import writable_path
    from zooming.kernels.loop.jit import FOLDER_HASH

    stamp = folder / "sources"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not stamp.exists() or stamp.read_text() != FOLDER_HASH:
            for file in folder.glob("*.nb[ic]"):
                file.unlink()
        writable_path(stamp).write_text(FOLDER_HASH)
    except OSError:
        return False
    return True


def _compile_all(tasks: Sequence[str], n_jobs: int, target: dict[str, str]) -> list[str]:
    """Run the tasks in new processes with these variables. Return the tasks, in order of ending."""
    from zooming.lab.study.engines import stop_workers, variables
    from zooming.progress import progress

    done: list[str] = []
    with variables(**target, ZOOMING_QUIET="1"), progress(disable=not sys.stderr.isatty()) as bar:
        shown = bar.add_task("compiling", total=len(tasks))
        pool = ProcessPoolExecutor(n_jobs, get_context("spawn"))
        try:
            futures = {pool.submit(compile_for, task): task for task in tasks}
            for future in as_completed(futures):
                future.result()
                done.append(futures[future])
                bar.update(shown, advance=1, description=f"compiled {done[-1]}")
                if bar.disable:
                    print(f"{len(done)}/{len(tasks)} {done[-1]}", file=sys.stderr, flush=True)
        except BaseException:
            stop_workers(pool)
            raise
        pool.shutdown()
    return done


def compile_for(task: str) -> None:
    """Use all that one task of TASKS names, which compiles it."""
    import gymnasium as gym

    import zooming

    if task == PROBLEMS:
        for env_id in [name for name in gym.registry if name.startswith("zooming/")]:
            zooming.Random(gym.make(env_id), seed=0).learn(2)
        return
    for env in map(gym.make, ENVS):
        if task == SOLVERS:
            agent = zooming.AdaptiveQ(env, seed=0)
            agent.value(0, env.observation_space.sample())
            zooming.evaluate(agent, env, exact=True)
            zooming.solve(env, 8)
        else:
            for agent in _variants(task, env):
                _use(agent, env)


def _variants(name: str, env: Any) -> Iterator[Any]:
    """Yield an agent of that name, and those with options that need other kernels."""
    import zooming
    from zooming.lab.study.problems import AGENTS

    yield AGENTS[name](env, seed=0)
    if name == "adaptive-q":
        for bonus in (zooming.bonuses.Exact(), zooming.bonuses.Bernstein()):
            yield zooming.AdaptiveQ(env, bonus=bonus, seed=0)
    if name == "metric-q":
        yield zooming.MetricQ(env, zooming.metrics.L1(5), lazy=True, seed=0)


def _use(agent: Any, env: Any) -> None:
    """Learn with both drivers and by hand, and play with a mask."""
    for driver in ("fused", "python"):
        agent.learn(20, driver=driver)
    low, high = env.action_space.low, env.action_space.high
    state, action = env.observation_space.sample(), env.action_space.sample()
    agent.predict(state, state=0)
    agent.predict(state, state=0, info={"action_low": low, "action_high": (low + high) / 2})
    agent.act(0, state)
    agent.update(0, state, action, 0.5, state)
