"""Several agents that all learn from every episode; their returns decide which of them plays."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.agents.agent import Agent
from zooming.agents.blocks import (
    IS_OPEN,
    LEFT,
    MANY,
    N_EPISODES,
    PLAYER,
    Played,
    check_counts,
    close_episode,
    play_blocks,
    settle,
)
from zooming.agents.choices import Choice
from zooming.agents.clipping import clipping_text
from zooming.agents.companions import check_agents, common_range
from zooming.agents.delegates import Delegate
from zooming.agents.episode_order import EpisodeOrder
from zooming.agents.nesting import build_arms, nested_options, nested_state, restore_arms
from zooming.agents.portfolio_words import (
    card_facts,
    portfolio_facts,
    portfolio_warnings,
    unique_names,
)
from zooming.agents.replay import Transitions
from zooming.agents.status import Status
from zooming.agents.stored_options import accepted_options
from zooming.agents.trend import Trend
from zooming.errors import ConfigurationError
from zooming.spaces.masks import has_mask


class PendingUpdate(NamedTuple):
    """An update that not all agents of a portfolio have learned yet."""

    transition: tuple[Any, ...]  # the arguments of `update`
    masks: dict[str, Any]
    n_before: list[int]  # episodes of each agent before it
    n_done: NDArray[np.int64]  # [1], number of agents that have learned it


class Portfolio(Delegate):
    """Several agents that all learn from every episode, with a choice of who plays.

    One agent plays a block of episodes, 5 % of the number so far. All others learn from them. The
    returns decide which agent plays the next block, see `agents.choices`. `predict` plays the
    policy of the recommended agent.

    An agent that needs many more episodes than others to become good is chosen late. An agent that
    cannot learn from the actions of others gains nothing here. Nothing is proved about it.

    It plays one episode at a time: an `act` or `update` that cannot belong to the current one is
    refused with a ConfigurationError. `act` at step 0 begins the next episode.

    Parameters
    ----------
    agents : sequence of Agent
        At least one agent, all made for the same environment object and horizon, and with the same
        `rewards`. The first one plays if no other agent is clearly better.
    seed : int, optional
        Seed of the environment. Each agent has a seed of its own. By default a random one.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0")
    >>> agent = zooming.Portfolio(
    ...     [zooming.Planner(env, seed=0), zooming.AdaptiveQ(env, seed=1)], seed=0
    ... )
    >>> history = agent.learn(episodes=200)
    >>> [one.n_episodes for one in agent.agents]
    [200, 200]
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        *,
        seed: int | None = None,
    ) -> None:
        self._parts = check_agents(agents)
        first = self._parts[0]
        options = {**first.problem.options, "reward_range": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the agents have warned of the same
            super().__init__(first.env, **options, seed=seed)
        self.reward_range = self.problem.reward_range = common_range(self._parts)
        self.choice, self.trend = Choice(len(self._parts)), Trend()
        self.counts = np.zeros(4, np.int64)  # PLAYER, LEFT, IS_OPEN, N_EPISODES
        self._total = np.zeros(1)  # return so far of the current episode
        self._played: Played | None = None  # what some agents have yet to learn
        self._update: PendingUpdate | None = None  # what some agents have yet to learn, too
        self._order = EpisodeOrder()
        self._share_lock()
        is_nested = any(isinstance(agent, Portfolio) for agent in self._parts)
        if not is_nested and all(hasattr(agent, "play") for agent in self._parts):
            self.play = partial(play_blocks, self)  # for the compiled driver

    def _share_lock(self) -> None:
        """Let the agents have the lock of the portfolio: whoever reads one of them waits."""
        for agent in self._parts:
            agent.lock = self.lock
            if isinstance(agent, Portfolio):
                agent._share_lock()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._share_lock()

    # --- learning ---------------------------------------------------------------------------------

    @property
    def agents(self) -> list[Agent]:
        """The agents. All of them have learned all episodes so far."""
        with self.lock:
            settle(self)
            return self._parts

    @property
    def player(self) -> Agent:
        """The agent that plays the current block, or that played the last one."""
        return self._parts[int(self.counts[PLAYER])]

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        step = self.problem.check_step(step)
        state = self._parts[0].checked_state(step, observation)
        with self.lock:
            self._order.check_act(self.env_name, step, state)
            if step == 0:
                self._order.forget()
                settle(self)
                close_episode(self)
                self._choose()
                self.counts[IS_OPEN] = 1
            masks = {"info": info} if info and has_mask(info) else {}
            action = self.player.act(step, observation, **masks)
            self._order.acted(step, state)
            return action

    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        step, order = self.problem.check_step(step), self._order
        checked = [  # for all agents before any of them learns
            agent.problem.check_transition(step, observation, action, reward, next_observation)
            for agent in self._parts
        ]
        state, after = checked[0][0], checked[0][3]
        is_over = bool(terminated) or step + 1 == self.horizon
        with self.lock:
            if self.counts[IS_OPEN]:
                order.check_update(self.env_name, step, state)
            settle(self)
            if step == 0 and not order.waits:  # others play this episode
                close_episode(self)
            masks = {"next_info": next_info} if next_info and has_mask(next_info) else {}
            transition = (step, observation, action, reward, next_observation, terminated)
            n_before = [agent.n_episodes for agent in self._parts]
            self._update = PendingUpdate(transition, masks, n_before, np.zeros(1, np.int64))
            self.finish_update()
            if is_over:
                close_episode(self)
            order.updated(step, after, is_over)

    def finish_update(self) -> None:
        """Let the agents learn from an update that an interrupt has stopped between two of them."""
        pending = self._update
        if pending is None:
            return
        step, reward = pending.transition[0], pending.transition[3]
        counts, total = self.counts.copy(), self._total.copy()
        counts[N_EPISODES] += step == 0
        try:
            for k, agent in enumerate(self._parts):
                has_begun = step == 0 and agent.n_episodes > pending.n_before[k]
                if k >= pending.n_done[0] and not has_begun:
                    agent.update(*pending.transition, **pending.masks)
                pending.n_done[0] = max(k + 1, pending.n_done[0])
        except Exception:  # of an agent of the user's: it is not tried again
            vars(self).update(counts=counts, _update=None)
            raise
        if counts[IS_OPEN]:
            total[0] += float(reward)
        # One call, so that an interrupt changes all of them or none.
        vars(self).update(counts=counts, _total=total, _update=None)

    def _learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        starts = np.flatnonzero(np.asarray(recorded.steps) == 0)
        first, n_rows = 0 if done is None else int(done[0]), len(recorded.steps)
        while first < n_rows:
            later = starts[starts > first]
            ends = np.append(later[later <= first + MANY][-1:], later[:1])
            last = int(ends[0]) if n_rows - first > MANY and len(ends) else n_rows
            settle(self)
            self._played = Played.given(self._parts, recorded.part(first, last))
            first = last
            if done is not None:
                done[0] = last
            settle(self)

    def _choose(self) -> None:
        """Choose who plays the next block, if the current one is over."""
        if self.counts[LEFT] == 0:
            self.counts[[PLAYER, LEFT]] = self._before_choice() or self.choice.next(self.n_episodes)

    def _catch_up(self, agent: Agent) -> None:
        """Let an agent learn all episodes played so far; others may learn them later."""
        if self._played is not None:
            self._played.catch_up(agent)

    def _before_choice(self) -> tuple[int, int] | None:
        """Prepare the agents for the next block. Return (player, number of episodes) or None.

        None leaves the choice to `Choice.next`. A subclass may add agents here.
        """
        return None

    def _why(self, player: int, names: list[str]) -> str:
        """Return why an agent plays, in words."""
        return self.choice.reason(player, names)

    @property
    def n_episodes(self) -> int:
        now = dict(vars(self))  # of one moment, if another thread learns
        played, update = now["_played"], now["_update"]
        n = int(now["counts"][N_EPISODES]) + (0 if played is None else played.n_uncounted)
        return n + (update is not None and update.transition[0] == 0)

    def _take_n_episodes(self, n: int) -> None:
        if n != self.n_episodes:
            raise ValueError(f"{n} episodes were saved, but the portfolio has {self.n_episodes}")

    def drop_paused(self) -> None:
        settle(self)
        self._order.forget()
        close_episode(self)  # an episode that was cut short ends before another driver plays
        for agent in self._parts:
            agent.drop_paused()

    @property
    def n_clipped(self) -> int:
        """Number of clipped rewards, the maximum over the agents."""
        return max(agent.n_clipped for agent in self._parts)

    # --- the learned policy -----------------------------------------------------------------------

    @property
    def recommended(self) -> Agent:
        """The agent whose policy `predict` plays."""
        with self.lock:
            settle(self)  # after an interrupt, agents may have episodes to learn
            return self._parts[self._best()]

    def _should_earn(self) -> tuple[float, float] | None:
        best = self._best()
        own = self._parts[best]._should_earn()
        return self.choice.expected(best) if own is None else own

    def _best(self) -> int:
        """Return the number of the agent that is recommended."""
        return self.choice.recommend()

    @property
    def n_balls(self) -> int:
        """Number of balls or cells of the agent that played last, summed over all steps."""
        return self.player.n_balls

    @property
    def counted(self) -> str:
        words = sorted({agent.counted for agent in self._parts})
        return f"{' or '.join(words)} of its player"

    @property
    def nbytes(self) -> int:
        """Memory of all agents in bytes."""
        own = self.choice.numbers, self.trend.windows, self.counts, self._total
        return sum(int(array.nbytes) for array in own) + sum(agent.nbytes for agent in self._parts)

    def status(self) -> Status:
        """Return who plays and why, and how the returns develop; `print` shows it readably.

        Returns
        -------
        Status
            A dictionary. "episodes": number so far. "horizon": steps of an episode, and whether the
            environment would have gone on after them. "plays": who plays, or played last. "why":
            the reason. "recommended": whose policy `predict` plays. "recommended should earn": the
            mean return of episodes that this policy, or plans like it, have played while exploring,
            with its standard error. "agents": the number of
            episodes that each has played, and its mean return with the standard error. "return":
            the mean return of about the last half of the episodes, with its standard error.
            "next 1,000 episodes": by how much their mean return may exceed "return", or that no
            trend is visible. The rise so far is extrapolated. It is limited by the reward range,
            and by the optimistic value of a planner. "rule": `agent.guide.status()` of a warm
            start. As long as the rule plays, "return" and "next 1,000 episodes" are None.
            "warnings": what seems wrong.
        """
        settle(self)
        return Status(portfolio_facts(self))

    def _names(self) -> list[str]:
        """Return a unique name for each agent."""
        return unique_names(self._parts)

    def _warnings(self) -> list[str]:
        return portfolio_warnings(self)

    def _facts(self) -> dict[str, Any]:
        return card_facts(self)

    def __repr__(self) -> str:
        names = ", ".join(type(agent).__name__ for agent in self._parts)
        return (
            f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, [{names}] in "
            f"{self.nbytes:,} bytes after {self.n_episodes} episodes{clipping_text(self)})"
        )

    # --- files ------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        options = {"agents": nested_options(self._parts), "seed": self.seed}
        if "agents" not in accepted_options(type(self), options):
            raise ConfigurationError(
                f"{type(self).__name__} cannot be saved: its constructor takes no `agents`, so the "
                "saved agents could not be given back to it"
            )
        return options

    def _fixed_options(self) -> dict[str, Any]:
        return {}  # its agents have all others

    @classmethod
    def _from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        return cls(**{**options, "agents": build_arms(env, options["agents"], arrays)})

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        settle(self)
        values, arrays = nested_state(self._parts)
        own = {
            "counts": self.counts, "total": self._total, "windows": self.trend.windows,
            "numbers": self.choice.numbers,
        }  # fmt: skip
        return {"agents": values}, {**arrays, **own}

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        counts, total = arrays["counts"], arrays["total"]
        check_counts(counts, total, len(self._parts))
        self.choice.restore(arrays["numbers"])
        self.trend.restore(arrays["windows"])
        restore_arms(self._parts, values["agents"], arrays)
        self.counts, self._total = counts.copy(), total.copy()
