"""The promises that every agent keeps, one function each.

The docstring of a function is the promise, as reports and errors show it. The code checks it. Every
check makes new agents. Agents are compared by their histories, their predictions and the content
that they would save. The promises on actions and inputs are here, those on runs in `run_promises`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zooming.errors import ConfigurationError
from zooming.spaces.masks import has_mask
from zooming.testing.run_promises import (
    drivers_agree,
    learns_in_parts,
    leaves_global_generators_alone,
    repeats,
    saves,
    stays_within_its_balls,
    stops,
    tells_what_happened,
)
from zooming.testing.tools import EPISODES, Broken, Skipped, Trial, as_bytes, knowledge, require


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
