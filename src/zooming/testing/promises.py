"""The promises that every agent keeps, one function each.

The docstring of a function is the promise, as reports and errors show it. The code checks it. Every
check makes new agents. Agents are compared by their histories, their predictions and the content
that they would save. The promises on actions and inputs are here, those on runs in `run_promises`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from zooming.agents.training.drivers import Compiled
from zooming.agents.training.many import accepts
from zooming.envs.compiled import find_compiled
from zooming.errors import ConfigurationError
from zooming.spaces.masks import has_mask
from zooming.testing.tools import EPISODES, Broken, Skipped, Trial, as_bytes, knowledge, require


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


def _has_the_surface(trial: Trial) -> None:
    """an agent has learn, act, update, predict, horizon, n_balls and nbytes."""
    agent = trial.agent()
    for name in ("learn", "act", "update", "predict"):
        require(callable(getattr(agent, name, None)), f"it has no method {name}")
    for name in ("horizon", "n_balls", "nbytes"):
        value = getattr(agent, name, None)
        require(
            isinstance(value, (int, np.integer)) and bool(value >= 0),
            f"{name} is {value!r}, not a whole number",
        )


def _plays_inside(trial: Trial) -> None:
    """act and predict return actions of the action space, also before any learning."""
    agent = trial.agent()
    for _ in range(2):
        for step in range(agent.horizon):
            for observation in trial.observations():
                trial.require_action(agent.act(step, observation), "act({}, {})", step, observation)
                for deterministic in (True, False):
                    action, _ = agent.predict(
                        observation, np.array([step]), deterministic=deterministic
                    )
                    trial.require_action(
                        action,
                        "predict({}, deterministic={}) at step {}",
                        observation,
                        deterministic,
                        step,
                    )
        agent.learn(EPISODES)


def _predicts_without_a_trace(trial: Trial) -> None:
    """predict changes nothing, and a second call gives the same action."""
    asked, left_alone = trial.agent(), trial.agent()
    for _ in range(2):
        require(
            trial.predictions(asked) == trial.predictions(asked),
            "two predictions for the same states differ",
        )
        for deterministic in (True, False):
            asked.predict(trial.batch(), deterministic=deterministic)
        trial.require_same(asked, left_alone, asked.learn(EPISODES), left_alone.learn(EPISODES))


def _predicts_in_batches(trial: Trial) -> None:
    """predict accepts a batch, with one step per environment as state, and obeys episode_start."""
    agent = trial.agent()
    agent.learn(EPISODES)
    batch, observations = trial.batch(), trial.observations()
    n = len(observations)
    steps = np.arange(n) % agent.horizon
    actions, after = agent.predict(batch, state=steps)
    require(
        np.array_equal(after, steps + 1),
        f"the steps {steps.tolist()} came back as {list(after)}, not one higher",
    )
    pairs = zip(observations, steps, strict=True)
    alone = [
        as_bytes(agent.predict(observation, state=np.array([step]))[0])
        for observation, step in pairs
    ]
    require(
        trial.singles(actions, n) == alone,
        "a batch and its observations one by one have different actions",
    )
    starts = np.arange(n) % 2 == 0
    restarted, after = agent.predict(batch, state=steps, episode_start=starts)
    expected, _ = agent.predict(batch, state=np.where(starts, 0, steps))
    require(
        np.array_equal(after, np.where(starts, 1, steps + 1)),
        f"episode_start={starts.tolist()} gave the steps {list(after)}",
    )
    require(
        as_bytes(restarted) == as_bytes(expected),
        "where an episode starts, the action is not the one of step 0",
    )
    first, _ = agent.predict(batch)
    require(
        as_bytes(first) == as_bytes(agent.predict(batch, state=np.zeros(n, int))[0]),
        "state=None is not step 0",
    )


def _refuses(trial: Trial) -> None:
    """an invalid state, action, reward or step raises ValueError and changes nothing."""
    refusing, left_alone = trial.agent(), trial.agent()
    for agent in (refusing, left_alone):
        agent.learn(EPISODES)
    good, action = trial.observations()[0], trial.env.action_space.sample()
    low, high = getattr(refusing, "reward_range", (0.0, 1.0))
    calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []
    for step in (-1, refusing.horizon):
        calls.append((f"act at step {step}", refusing.act, (step, good)))
        calls.append((f"update at step {step}", refusing.update, (step, good, action, low, good)))
    is_any_reward_taken = getattr(refusing, "rewards", "refuse") == "clip" or high + 1.0 == high
    beyond = () if is_any_reward_taken else (high + 1.0, low - 1.0)
    for reward in (np.nan, np.inf, *beyond):
        calls.append((f"a reward of {reward}", refusing.update, (0, good, action, reward, good)))
    for bad in trial.outside(refusing, trial.env.observation_space):
        calls.append((f"act in the state {bad}", refusing.act, (0, bad)))
        calls.append((f"predict in the state {bad}", refusing.predict, (bad,)))
        calls.append((f"update from the state {bad}", refusing.update, (0, bad, action, low, good)))
        calls.append((f"update to the state {bad}", refusing.update, (0, good, action, low, bad)))
    for bad in trial.outside(refusing, trial.env.action_space):
        calls.append((f"update with the action {bad}", refusing.update, (0, good, bad, low, good)))
    for what, call, arguments in calls:
        try:
            call(*arguments)
        except ValueError:
            pass
        except Exception as error:
            raise Broken(
                f"{what} raised {type(error).__name__} ({error}), which is no ValueError"
            ) from error
        else:
            raise Broken(f"{what} was not refused")
        require(
            knowledge(refusing) == knowledge(left_alone),
            f"{what} was refused, but the agent changed",
        )
    trial.require_same(refusing, left_alone, refusing.learn(EPISODES), left_alone.learn(EPISODES))


def _ends_where_the_environment_does(trial: Trial) -> None:
    """after a terminal transition there is no future value."""
    ended, went_on = trial.agent(), trial.agent()
    state, action = trial.observations()[0], trial.env.action_space.sample()
    try:
        is_worth = ended.horizon > 1 and ended.value(1, state) > 0
    except (ConfigurationError, AttributeError) as error:
        raise Skipped("it keeps no estimates") from error
    if not is_worth:
        raise Skipped("its values begin at 0, or an episode has one step")
    low, _ = getattr(ended, "reward_range", (0.0, 1.0))
    for _ in range(EPISODES):  # an agent may keep its values for some visits
        ended.update(0, state, action, low, state, True)
        went_on.update(0, state, action, low, state, False)
    values = ended.q_value(0, state, action), went_on.q_value(0, state, action)
    require(
        values[0] < values[1],
        f"Q is {values[0]:g} after terminated=True, and {values[1]:g} if the episode goes on",
    )


def _plays_what_is_feasible(trial: Trial) -> None:
    """only actions that info allows are played, by act and by predict."""
    agent, env = trial.agent(), trial.make_env()
    for episode in range(EPISODES):
        observation, info = env.reset(seed=episode)
        for step in range(agent.horizon):
            if not has_mask(info):
                raise Skipped("the environment names no feasible actions")
            for deterministic in (True, False):
                action, _ = agent.predict(
                    observation, np.array([step]), deterministic=deterministic, info=info
                )
                trial.require_feasible(
                    action,
                    info,
                    f"predict({observation}, deterministic={deterministic}) at step {step}",
                )
            action = agent.act(step, observation, info=info)
            trial.require_feasible(action, info, f"act({step}, {observation})")
            before, (observation, reward, terminated, truncated, info) = (
                observation,
                env.step(action),
            )
            agent.update(step, before, action, reward, observation, terminated, next_info=info)
            if terminated or truncated:
                break


def _leaves_inputs_alone(trial: Trial) -> None:
    """an agent does not change the arrays that it is given."""
    agent = trial.agent()
    for observation in trial.observations():
        before, action = as_bytes(observation), agent.act(0, observation)
        played = as_bytes(action)
        agent.predict(observation)
        agent.update(
            0,
            observation,
            action,
            float(np.mean(getattr(agent, "reward_range", (0.0, 1.0)))),
            observation,
        )
        require(
            as_bytes(observation) == before and as_bytes(action) == played,
            f"the state {observation} or its action changed",
        )


PROMISES = (
    _has_the_surface, _plays_inside, tells_what_happened, repeats, _predicts_without_a_trace,
    _predicts_in_batches,
    learns_in_parts, stops, saves, drivers_agree, _refuses, _ends_where_the_environment_does,
    _plays_what_is_feasible,
    _leaves_inputs_alone, stays_within_its_balls, leaves_global_generators_alone,
)  # fmt: skip
