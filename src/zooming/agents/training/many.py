"""Train many seeds of one agent in parallel."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from zooming import kernels
from zooming.agents.base.agent import Agent
from zooming.agents.training.history import History
from zooming.envs.compiled import find_compiled
from zooming.errors import ConfigurationError
from zooming.validation import check_int, known_options, n_cores


@known_options
def learn_many(
    make_agent: Callable[..., Agent],
    env: Any,
    seeds: int | Iterable[int],
    episodes: int,
    *,
    n_workers: int | None = None,
    **options: Any,
) -> list[History]:
    """Train one agent per seed in parallel and return their histories.

    The result equals `[make_agent(env, seed=seed, **options).learn(episodes) for seed in seeds]`.
    Runs are parallel on compiled environments, each on a copy of `env`, and sequential on all
    others.

    Parameters
    ----------
    make_agent : callable
        An agent class, or a function `make_agent(env, seed=...)` that returns an agent.
    env : gymnasium.Env
        The environment to learn on.
    seeds : int or iterable of int
        Number of runs, for the seeds 0, 1, ...; or the seeds themselves, one run each.
    episodes : int
        Episodes of each run.
    n_workers : int, optional
        Number of threads. By default the number of cores.
    **options
        Options of the agents, for example `bonus=0.5`.

    Returns
    -------
    list of History
        One history per seed, with the agent as `history.agent`.

    Raises
    ------
    ConfigurationError, TransitionError
        If `make_agent` does not make agents from an environment and a seed, or a run fails. The
        other runs then stop, too.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Ambulance-v0")
    >>> histories = zooming.learn_many(zooming.AdaptiveQ, env, seeds=4, episodes=100)
    >>> [len(history) for history in histories]
    [100, 100, 100, 100]
    """
    if not isinstance(seeds, Iterable):
        seeds = range(check_int(seeds, "seeds", 1))
    stop = threading.Event()

    def run(seed: int, own_env: Any) -> History:
        agent = build_agent(make_agent, own_env, seed, **options)
        agent.run.stop_flag = stop
        history = agent.learn(episodes)
        agent.run.stop_flag = None
        return history

    workers = n_cores() if n_workers is None else check_int(n_workers, "n_workers", 1)
    if find_compiled(env) is None or kernels.IS_JIT_DISABLED:
        return [run(seed, env) for seed in seeds]
    # Threads, not processes: the kernel releases the global interpreter lock.
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = runs = [pool.submit(run, seed, copy.deepcopy(env)) for seed in seeds]
        while waiting:  # short waits: a signal received by another thread does not wake this one
            wait(waiting, timeout=0.2, return_when=FIRST_EXCEPTION)
            for one in runs:
                if one.done():
                    one.result()
            waiting = [one for one in runs if not one.done()]
        return [one.result() for one in runs]
    finally:
        stop.set()  # after an exception the other runs end with their next chunk
        pool.shutdown(wait=False, cancel_futures=True)


def build_agent(make_agent: Callable[..., Agent], env: Any, seed: int, **options: Any) -> Agent:
    """Call `make_agent` with an environment and a seed, and return the agent.

    Raise ConfigurationError if it cannot be called with these.
    """
    places, names = (
        ((env,), {"seed": seed})
        if callable(make_agent) and accepts(make_agent, "seed")
        else ((env, seed), {})
    )
    try:
        inspect.signature(make_agent).bind(*places, **names)
    except (TypeError, ValueError) as error:  # an agent, missing arguments, or written in C
        name = getattr(make_agent, "__name__", repr(make_agent))
        raise ConfigurationError(
            f"{name} does not make agents from an environment and a seed ({error}); give an "
            "agent's class. If it needs other arguments, add them: "
            "functools.partial(zooming.MetricQ, metric=...)"
        ) from error
    return make_agent(*places, **names, **options)


def accepts(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function accepts a keyword argument called `name`."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # written in C: it has no signature
        return False
    return name in parameters or any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    )
