"""Driver of learn() on a vector environment: one open episode per environment.

At each step the updates are made in the order of the environments, and then the actions are chosen.
So a run is one sequence of `begin` and `update`, the same for synchronous and asynchronous ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from zooming.agents.base.agent import Agent
from zooming.agents.base.episodes import Episode
from zooming.agents.base.seeds import derive_seed
from zooming.agents.training.history import RunArrays
from zooming.errors import ConfigurationError
from zooming.spaces.flatten import build_tree
from zooming.spaces.masks import split_info

NEXT_STEP, SAME_STEP = "NextStep", "SameStep"  # when a finished environment is reset by itself


def check_vector(agent: Agent, env: Any) -> None:
    """Raise ConfigurationError if an agent cannot learn on this vector environment."""
    if not isinstance(env, gym.vector.VectorEnv):
        raise ConfigurationError(
            f"env={type(env).__name__}: learn(env=...) takes a vector environment, "
            "gymnasium.make_vec(...); to learn on one environment, make the agent with it"
        )
    if not agent.interleaves and env.num_envs > 1:
        raise ConfigurationError(
            f"{type(agent).__name__} plays one episode at a time, and the vector environment has "
            f"{env.num_envs}; give num_envs=1"
        )
    for name, own, space in (
        ("observation", agent.axes.states, env.single_observation_space),
        ("action", agent.axes.actions, env.single_action_space),
    ):
        kind = "state" if name == "observation" else "action"
        if build_tree(space, kind, f"{name}_space").describe() != own.describe():
            raise ConfigurationError(
                f"the {name} space of the vector environment is {space}, and another one in the "
                f"agent's environment ({agent.env_name}); make both alike"
            )


class VectorRun:
    """Play episodes on a vector environment, see `Agent.learn`.

    Exactly `episodes` episodes are begun, and all of them are finished. Environments without an
    episode idle. Those whose episode the agent's horizon cuts are reset.
    """

    def __init__(self, agent: Agent, env: Any, episodes: int, log: RunArrays) -> None:
        self.agent, self.env, self.log, self.n_left = agent, env, log, episodes
        self.open: list[Episode | None] = [None] * env.num_envs
        mode = env.metadata.get("autoreset_mode", NEXT_STEP)
        self.mode = str(getattr(mode, "value", mode))
        self._finished = self._play()

    def play(self, end: int, advance: Callable[[int], None]) -> None:
        """Play until the log has `end` episodes."""
        while self.log.done[0] < end:
            next(self._finished)
            advance(1)

    def close(self) -> None:
        """Abandon the episodes that are open."""
        for episode in self.open:
            if episode is not None:
                episode.abandon()

    def _play(self) -> Iterator[None]:
        """Play; yield when an episode has finished."""
        agent, env, n = self.agent, self.env, self.env.num_envs
        # Seeded by the episodes begun, so that an agent from a file goes on as the saved one.
        seed = derive_seed(agent.seed, f"vector {agent.run.n_begun}", np.uint32)
        observations, info = env.reset(seed=seed)
        infos, actions = split_info(info, n, True), [None] * n
        is_fresh, is_waiting = np.ones(n, bool), np.zeros(n, bool)  # waiting for its reset
        while True:
            seen = list(iterate(env.observation_space, observations))
            for i in np.flatnonzero(is_fresh).tolist():
                if self.n_left:
                    self.open[i] = agent.begin()
                    self.n_left -= 1
                    agent.run.see_start(agent.axes.flat_states(seen[i])[0][0])
            for i, episode in enumerate(self.open):
                if episode is not None:
                    actions[i] = episode.act(seen[i], info=infos[i])
            usual = next(action for action in actions if action is not None)
            given = [usual if action is None else action for action in actions]
            space = env.single_action_space
            batch: Any = create_empty_array(space, n)
            observations, rewards, terminated, truncated, info = env.step(
                concatenate(space, given, batch)
            )
            after, infos = (
                list(iterate(env.observation_space, observations)),
                split_info(info, n, True),
            )
            is_done = np.asarray(terminated) | np.asarray(truncated)
            is_fresh, was_waiting = is_waiting.copy(), is_waiting
            is_waiting = is_done & (self.mode == NEXT_STEP)
            is_fresh |= is_done & (self.mode == SAME_STEP)
            resets = is_done & (self.mode not in (NEXT_STEP, SAME_STEP))
            for i, episode in enumerate(self.open):
                if episode is None or was_waiting[i]:
                    continue
                is_last = is_done[i] and self.mode == SAME_STEP
                episode.update(
                    float(rewards[i]), info["final_obs"][i] if is_last else after[i],
                    bool(terminated[i]), bool(truncated[i]),
                    next_info=None if is_done[i] else infos[i],
                )  # fmt: skip
                if episode.is_over:
                    self.open[i] = None
                    resets[i] |= not is_done[i]
                    agent.run.was_cut = agent.run.was_cut or not is_done[i]
                    self._record(episode)
                    yield
            if resets.any() and (self.n_left or any(self.open)):
                observations, info = env.reset(options={"reset_mask": resets.copy()})
                for i in np.flatnonzero(resets).tolist():
                    infos[i] = split_info(info, n, True)[i]
                is_fresh |= resets

    def _record(self, episode: Episode) -> None:
        log, k = self.log, int(self.log.done[0])
        log.returns[k], log.n_balls[k], log.n_steps[k] = (
            episode.total, self.agent.n_balls, episode.step,
        )  # fmt: skip
        if "rule" in episode.play.drawn:
            log.rule_episodes += [k + 1] * episode.play.drawn["rule"]
            if log.let_go is None and not self.agent.is_guided:
                log.let_go = k + 1
        log.done[0] = k + 1
