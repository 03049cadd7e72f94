"""The promises on runs of `learn`: they repeat, stop, go on and are saved. See `promises`."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from zooming.agents.many import accepts
from zooming.agents.training import Compiled
from zooming.envs.compiled import find_compiled
from zooming.errors import ConfigurationError
from zooming.testing.tools import EPISODES, Skipped, Trial, require


def tells_what_happened(trial: Trial) -> None:
    """learn(n) returns a history with the returns and the numbers of balls of n episodes."""
    agent = trial.agent()
    history = agent.learn(3)
    require(
        len(history.returns) == len(history.n_balls) == 3,
        "learn(3) did not give 3 returns and 3 numbers of balls",
    )
    require(
        bool(np.isfinite(history.returns).all()), f"learn(3) gave the returns {history.returns}"
    )


def repeats(trial: Trial) -> None:
    """two agents with the same seed do the same."""
    one, other = trial.agent(), trial.agent()
    trial.require_same(one, other, one.learn(EPISODES), other.learn(EPISODES))


def learns_in_parts(trial: Trial) -> None:
    """learn(a) then learn(b) equals learn(a + b)."""
    parts, whole = trial.agent(), trial.agent()
    trial.require_same(
        parts, whole, parts.learn(7) + parts.learn(EPISODES - 7), whole.learn(EPISODES)
    )


def stops(trial: Trial) -> None:
    """a callback sees every episode, and a run that it stops after k equals learn(k)."""
    stopped, short, seen = trial.agent(), trial.agent(), []

    def stop_at_7(agent: Any, history: Any) -> bool:
        seen.append(len(history.returns))
        return len(history.returns) < 7

    history = stopped.learn(EPISODES, callback=stop_at_7)
    require(seen == list(range(1, 8)), f"it was called after the episodes {seen}")
    trial.require_same(stopped, short, history, short.learn(7))
    trial.require_same(stopped, short, stopped.learn(7), short.learn(7))


def saves(trial: Trial) -> None:
    """an agent that is saved and loaded continues as if it had never stopped."""
    saved, never_stopped = trial.agent(), trial.agent()
    if not hasattr(saved, "save"):
        raise Skipped("it cannot be saved")
    saved.learn(EPISODES)
    never_stopped.learn(EPISODES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.zoom"
        try:
            saved.save(path)
        except (ConfigurationError, NotImplementedError) as error:
            raise Skipped(f"it cannot be saved ({error})") from error
        loaded = type(saved).load(path, env=trial.make_env())
    trial.require_same(loaded, never_stopped, loaded.learn(EPISODES), never_stopped.learn(EPISODES))


def drivers_agree(trial: Trial) -> None:
    """the fused driver and the Python one give the same run to the last bit."""
    fused, python = trial.agent(), trial.agent()
    is_compiled = isinstance(fused, Compiled)
    if not (is_compiled and fused.axes.are_plain) or find_compiled(fused.env) is None:
        raise Skipped(
            "the fused driver is for compiled environments and compiled agents without bounds="
        )
    history = fused.learn(EPISODES, driver="fused")
    trial.require_same(fused, python, history, python.learn(EPISODES, driver="python"))


def stays_within_its_balls(trial: Trial) -> None:
    """an agent with max_balls never has more balls than that."""
    agent = trial.agent()
    if getattr(agent, "max_balls", None) is None:
        if not (hasattr(agent, "max_balls") and accepts(trial.make_agent, "max_balls")):
            raise Skipped("it has no option max_balls")
        agent = trial.agent(max_balls=4 * agent.n_balls)
    history = agent.learn(10 * EPISODES)
    most = max(int(history.n_balls.max()), agent.n_balls)
    require(most <= agent.max_balls, f"it had {most} balls with max_balls={agent.max_balls}")


def leaves_global_generators_alone(trial: Trial) -> None:
    """an agent never uses the global random generators."""
    before = _global_generators()
    agent = trial.agent()
    agent.learn(EPISODES)
    for deterministic in (True, False):
        agent.predict(trial.batch(), deterministic=deterministic)
    require(
        _global_generators() == before,
        "numpy.random or random has moved; draw from a generator of the agent's own",
    )


def _global_generators() -> Any:
    """Return the states of the global generators of numpy.random and random."""
    name, keys, *rest = np.random.get_state()
    return name, np.asarray(keys).tobytes(), *rest, random.getstate()
