"""Two ways to play the same episodes: the fused kernel for compiled environments, and a Python loop for any other.

Agent and environment have generators of their own, so both give the same history to the last bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels, seeds
from zooming.agents.base import Agent, Compiled
from zooming.agents.many import takes
from zooming.agents.pauses import Callback, Pauses
from zooming.agents.setting import bad_step, reset
from zooming.checks import whole
from zooming.envs.compiled import CompiledEnv, compiled_inside, fusible_inside
from zooming.errors import SpaceError
from zooming.feasible import says
from zooming.history import History
from zooming.progress import progress

DRIVERS = ("auto", "fused", "python")
_CHUNK_SECONDS = 0.1  # how long a kernel may run before Ctrl-C and the progress bar get their turn

_FIRST_CHUNK = 10_000  # steps of the first call: a call costs as much as a thousand steps, so it is not for a few

Advance = Callable[[int], None]


def learn(
    agent: Agent,
    episodes: int,
    *,
    progress_bar: bool,
    driver: str,
    checkpoints: Iterable[int],
    callback: Callback | Iterable[Callback] | None,
) -> History:
    """The history of `episodes` whole episodes, or fewer if a callback stops the run; see `Agent.learn`."""
    if driver not in DRIVERS:
        raise SpaceError(f"driver={driver!r}: choose one of {DRIVERS}")
    episodes = whole(episodes, "episodes", 0)
    if agent.env is None:
        raise SpaceError(
            f"this agent was loaded without its environment ({agent.env_name}); give it: zooming.load(path, env=env)"
        )
    if agent.is_learning:
        raise SpaceError("learn() was called from a callback of the same agent's learn(); call it after the run")
    env = fusible_inside(agent.env)
    can_fuse = env is not None and isinstance(agent, Compiled) and agent.axes.are_plain
    if driver == "fused" and not can_fuse:
        raise SpaceError(
            f'driver="fused" needs a compiled environment without wrappers and a compiled agent without bounds=; '
            f'{type(agent).__name__} on {agent.env_name} runs with driver="python"'
        )
    pauses = Pauses(agent, episodes, checkpoints, callback)
    if not episodes:  # the environment is not even seeded
        return pauses.final_history(0)
    done = 0
    with _progress(agent, episodes, progress_bar) as advance, _own_generator(agent):
        while done < episodes and not pauses.is_stopped:
            end = pauses.next_after(done)
            entries = pauses.returns[done:end], pauses.n_balls[done:end], pauses.n_steps[done:end]
            if driver != "python" and can_fuse:
                _learn_fused(agent, env, *entries, advance)
            else:
                _learn_python(agent, *entries, advance)
            done = end
            with _undisturbed(agent):
                pauses.take(done)
    return pauses.final_history(done)


def _learn_fused(
    agent: Any, env: Any, returns: NDArray[Any], n_balls: NDArray[Any], n_steps: NDArray[Any], advance: Advance
) -> None:
    if agent.env_generator is None:
        env.reseed(_env_seed(agent))
    n_steps[:] = min(agent.horizon, env.horizon)  # compiled dynamics never end an episode early
    trouble, paused = np.zeros(4), np.zeros(3 + agent.axes.n_state)
    done, chunk = 0, max(1, _FIRST_CHUNK // agent.horizon)
    while done < len(returns):
        end = min(done + chunk, len(returns))
        began = time.perf_counter()
        finished = agent.play(env, returns[done:end], n_balls[done:end], trouble, paused)
        seconds = time.perf_counter() - began
        done += finished
        agent.n_episodes += finished
        code, step, coordinate, value = int(trouble[0]), int(trouble[1]), int(trouble[2]), trouble[3]
        if code == kernels.BAD_REWARD:
            raise agent._bad_reward(step, value)
        if code == kernels.BAD_STATE:
            raise agent._bad_coordinate(max(step - 1, 0), coordinate, value, "next " if step else "")
        if code == kernels.DUE:
            agent._split(step)
        if code == kernels.FINE:
            agent.tell_of_clipping()
            chunk = max(1, min(2 * chunk, int(finished * _CHUNK_SECONDS / max(seconds, 1e-9)) + 1))
        advance(finished)


def _learn_python(agent: Any, returns: NDArray[Any], n_balls: NDArray[Any], n_steps: NDArray[Any], advance: Advance) -> None:
    # Past wrappers that change nothing: they would take as long as the agent.
    env, act, update = compiled_inside(agent.env) or agent.env, agent.act, agent.update
    for episode in range(len(returns)):
        observation, info = reset(env, _env_seed(agent) if agent.env_generator is None and episode == 0 else None)
        total = 0.0
        if episode == 0 and info and says(info):
            _check_takes_info(agent)
        for step in range(agent.horizon):
            action = act(step, observation, info=info) if info and says(info) else act(step, observation)
            answer = env.step(action)
            if len(answer) != 5:
                raise bad_step(env, answer)
            next_observation, reward, terminated, truncated, info = answer
            if info and says(info):
                update(step, observation, action, reward, next_observation, terminated, next_info=info)
            else:
                update(step, observation, action, reward, next_observation, terminated)
            total += float(reward)
            observation = next_observation
            if terminated or truncated:
                break
        returns[episode], n_balls[episode], n_steps[episode] = total, agent.n_balls, step + 1
        agent.n_episodes += 1
        advance(1)


def _check_takes_info(agent: Any) -> None:
    for method, name in ((agent.act, "info"), (agent.update, "next_info")):
        if not takes(method, name):
            raise SpaceError(
                f"{agent.env_name} says which actions are feasible, but {type(agent).__name__}.{method.__name__} takes no "
                f"{name}; add `*, {name}=None` to its arguments, see Agent.nearest_feasible"
            )


@contextmanager
def _own_generator(agent: Agent) -> Iterator[None]:
    """Lets the environment go on with the random numbers of this agent, whatever else it was used for in between."""
    inner = agent.env.unwrapped
    if agent.env_generator is not None:
        inner.np_random = generator_at(agent.env_generator)
    agent.is_learning = True
    try:
        yield
    finally:
        agent.is_learning = False
        if isinstance(inner, CompiledEnv):
            inner.abandon()
        agent.env_generator = inner.np_random.bit_generator.state


@contextmanager
def _undisturbed(agent: Agent) -> Iterator[None]:
    """Lets a pause use the environment, and save the agent: the next episode is the one that would have come anyway."""
    inner = agent.env.unwrapped
    generator = inner.np_random
    state = generator.bit_generator.state
    agent.env_generator = state
    try:
        yield
    finally:
        generator.bit_generator.state = state
        inner.np_random = generator


def generator_at(state: dict[str, Any]) -> np.random.Generator:
    """A generator that stands where `state` says; Gymnasium's are all PCG64."""
    if state["bit_generator"] != "PCG64":
        raise SpaceError(
            f"the environment uses a {state['bit_generator']} generator; only Gymnasium's own, PCG64, can be continued"
        )
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator


def _env_seed(agent: Agent) -> int:
    return seeds.word(agent.seed, "environment", np.uint32)


@contextmanager
def _progress(agent: Agent, episodes: int, shown: bool) -> Iterator[Advance]:
    if not shown:
        yield lambda n: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError("progress_bar=True needs rich: pip install 'zooming[study]'") from error
    columns = (
        TextColumn("{task.description}"), BarColumn(16), MofNCompleteColumn(), TextColumn("episodes"), TimeRemainingColumn(),
        TextColumn("{task.fields[balls]:,} balls"),
    )  # fmt: skip
    with progress(*columns) as bar:
        task = bar.add_task(type(agent).__name__, total=episodes, balls=agent.n_balls)

        def advance(n: int) -> None:
            bar.update(task, advance=n, balls=agent.n_balls)

        yield advance
