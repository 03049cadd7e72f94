"""Several agents that all learn from every episode; their returns decide which of them plays."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.auto.returns import STUCK, Choice, Trend
from zooming.agents.base.agent import Agent, Delegate
from zooming.agents.base.episodes import EpisodeOrder, Play
from zooming.agents.base.problem import Checked
from zooming.agents.base.status import Status, clipping_text, plus_minus, warn_of_clipping
from zooming.agents.files import checkpoints, registry
from zooming.agents.files.options import accepted_options
from zooming.agents.training.history import RunArrays
from zooming.agents.training.replay import Recorder, Transitions
from zooming.errors import CheckpointError, ConfigurationError
from zooming.kernels.loop.crossing import Crossing
from zooming.spaces.masks import Feasible, has_mask
from zooming.validation import Floats, check_int, count_noun, short_repr


def check_agents(agents: Any) -> list[Agent]:
    """Return the agents as a list. Raise ConfigurationError if they cannot learn together."""
    if isinstance(agents, (str, bytes)) or not isinstance(agents, Iterable):
        raise ConfigurationError(
            f"Portfolio({agents!r}): give a list of agents, for example "
            "Portfolio([zooming.Planner(env, seed=0), zooming.AdaptiveQ(env, seed=1)])"
        )
    found = list(agents)
    if not found:
        raise ConfigurationError("Portfolio([]): give at least one agent")
    for k, agent in enumerate(found):
        if not isinstance(agent, Agent):
            raise ConfigurationError(
                f"agent {k} of the portfolio is {agent!r}; give agents of zooming, or of your own "
                "class derived from zooming.Agent"
            )
        if agent.is_guided:
            raise ConfigurationError(
                f"a rule guides agent {k} of the portfolio; warm-start the portfolio instead, or "
                "set agent.guide = None"
            )
        if agent.env is None:
            raise ConfigurationError(
                f"agent {k} of the portfolio was loaded without its environment "
                f"({agent.env_name}); give it: zooming.load(path, env=env)"
            )
        if any(agent is other for other in found[:k]):
            raise ConfigurationError(f"agent {k} of the portfolio is given twice; make two")
        first, same = found[0], "give all agents of a portfolio the same"
        if agent.env is not first.env:
            raise ConfigurationError(
                f"agents 0 and {k} of the portfolio have different environment objects "
                f"({first.env_name}, {agent.env_name}); make all agents with one env"
            )
        for name in ("horizon", "rewards"):
            own, other = getattr(agent, name), getattr(first, name)
            if own != other:
                raise ConfigurationError(
                    f"agents 0 and {k} have {name}={other!r} and {own!r}; {same} {name}="
                )
        if _geometry(agent) != _geometry(first):
            raise ConfigurationError(
                f"agents 0 and {k} have different axes; {same} bounds, ordered and squash"
            )
    common_range(found)
    return found


def _geometry(agent: Agent) -> Any:
    options = agent.axes.options
    return agent.axes.describe(), options["bounds"], options["ordered"], options["squash"]


def common_range(agents: Sequence[Agent]) -> tuple[float, float]:
    """Return the range of rewards that all agents accept."""
    ranges = [agent.reward_range for agent in agents]
    if agents[0].rewards == "clip":  # nothing is refused
        return min(low for low, _ in ranges), max(high for _, high in ranges)
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    if low >= high:
        raise ConfigurationError(
            f"no reward lies in the reward ranges of all agents of the portfolio: {ranges}; give "
            "all the same, reward_range=(low, high)"
        )
    return low, high


Arrays = dict[str, NDArray[Any]]


def nested_options(agents: Sequence[Agent]) -> list[dict[str, Any]]:
    """Return class name and options of each agent.

    Raise ConfigurationError if one of them cannot be saved.
    """
    for agent in agents:
        checkpoints.check_class(agent)
    return [{"agent": type(agent).__name__, "options": agent.saved_options()} for agent in agents]


def build_arms(env: Any, described: list[dict[str, Any]], arrays: Arrays) -> list[Agent]:
    """Return new agents on one environment, from the output of `nested_options`."""
    agents = []
    for k, one in enumerate(described):
        kind = registry.find_class(one["agent"])
        if kind is None:
            raise CheckpointError(
                f"the file has an agent of the class {short_repr(one['agent'])} in a portfolio; "
                f"only zooming's own can be loaded there: {', '.join(registry.HOMES)}"
            )
        agents.append(kind.from_options(env, one["options"], arrays_of(k, arrays)))
    return agents


def nested_state(agents: Sequence[Agent]) -> tuple[list[dict[str, Any]], Arrays]:
    """Return what the agents have learned: JSON values, and arrays named `number/name`."""
    values, arrays = [], {}
    for k, agent in enumerate(agents):
        own, found = agent.saved_state()
        values.append({"values": own, "n_episodes": agent.n_episodes, "n_clipped": agent.n_clipped})
        arrays.update({f"{k}/{name}": array for name, array in found.items()})
    return values, arrays


def restore_arms(agents: Sequence[Agent], values: list[dict[str, Any]], arrays: Arrays) -> None:
    """Restore the agents from `nested_state`. Raise ValueError or KeyError if it is invalid."""
    for k, (agent, one) in enumerate(zip(agents, values, strict=True)):
        agent.restore_state(one["values"], arrays_of(k, arrays))
        agent.set_n_episodes(check_int(one["n_episodes"], "n_episodes", 0))
        agent.run.restore_clipped(one["n_clipped"])


def arrays_of(k: int, arrays: Arrays) -> Arrays:
    """Return the arrays of agent number k, without the prefix `k/` of their names."""
    prefix = f"{k}/"
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def unique_names(agents: Sequence[Agent]) -> list[str]:
    """Return the class of each agent, with a number if several have the same."""
    kinds = [type(agent).__name__ for agent in agents]
    return [
        kind if kinds.count(kind) == 1 else f"{kind} {kinds[: k + 1].count(kind)}"
        for k, kind in enumerate(kinds)
    ]


# Indices of `Portfolio.counts`: who plays, episodes left in the block, whether an episode of the
# block is in progress, number of episodes so far, and why the player plays.
PLAYER, LEFT, IS_OPEN, N_EPISODES, REASON = range(5)
LACKS, LEADS, RECALLS = range(3)  # too few episodes; it leads; it plays an old plan again
MANY = 20_000  # recorded transitions that all agents learn before more are played: they need memory
FINITE = (-float(np.finfo(np.float64).max), float(np.finfo(np.float64).max))  # any reward
Keeper = TypeVar("Keeper")


class Learner:
    """An agent, and how many of the recorded transitions it has learned."""

    def __init__(self, agent: Agent, n_learned: int) -> None:
        self.agent = agent
        self.skip(n_learned)

    def skip(self, n_rows: int) -> None:
        """State that the agent has learned the first `n_rows` transitions."""
        # One assignment, so that an interrupt changes both or none.
        self.position = n_rows, np.zeros(1, np.int64)

    def catch_up(self, recorder: Recorder | Given) -> None:
        """Let the agent learn all transitions that it has not learned yet."""
        first, n_done = self.position
        n_rows = recorder.n_rows
        if first < n_rows:
            self.agent.learn_transitions(recorder.transitions(first), n_done)
            self.skip(n_rows)


class Given:
    """Transitions that others played, with the methods of a `Recorder`."""

    def __init__(self, recorded: Transitions) -> None:
        self.recorded, self.n_rows = recorded, len(recorded.steps)

    def transitions(self, first: int = 0) -> Transitions:
        """Return the transitions from row `first` on."""
        return self.recorded.part(first, self.n_rows)

    def rewards(self, first: int) -> NDArray[np.float64]:
        """Return the rewards from row `first` on."""
        return np.asarray(self.recorded.rewards[first:])


class Played:
    """Transitions of the blocks that were just played, and what remains to be done with them.

    An agent that does not play learns them when it is needed, many at once: the result is the same.
    `first` is the index in `log` of the first episode whose return was not credited yet.
    """

    def __init__(self, recorder: Recorder | Given, log: RunArrays, first: int) -> None:
        self.recorder, self.log, self.first = recorder, log, first
        self.learners: list[Learner] = []
        self.player: Agent | None = None  # its transitions need not be learned again
        self.n_given = 0  # episodes that others played, if they are not counted yet

    @classmethod
    def given(cls, agents: list[Agent], recorded: Transitions) -> Played:
        """Return transitions that others played: all agents have them to learn."""
        found = cls(Given(recorded), RunArrays(0), 0)
        found.n_given = int((np.asarray(recorded.steps) == 0).sum())
        found.learners = [Learner(agent, 0) for agent in agents]
        return found

    @property
    def n_uncounted(self) -> int:
        """Number of episodes that the portfolio does not count yet."""
        return int(self.log.done[0]) - self.first + self.n_given

    def begin_block(self, agents: list[Agent], player: Agent) -> None:
        """Let `player` catch up before it plays. New agents learn what is played from now on."""
        known = {id(learner.agent): learner for learner in self.learners}
        n_rows = self.recorder.n_rows
        self.learners = [known.get(id(agent)) or Learner(agent, n_rows) for agent in agents]
        self.catch_up(player)
        self.player = player

    def end_block(self) -> None:
        """State that the player has learned what it played."""
        for learner in self.learners:
            if learner.agent is self.player:
                learner.skip(self.recorder.n_rows)
        self.player = None

    def rewards_unknown_to(self, agent: Agent) -> NDArray[np.float64]:
        """Return the rewards of the transitions that an agent has not learned yet."""
        first = [learner.position[0] for learner in self.learners if learner.agent is agent]
        return self.recorder.rewards(first[0] if first else self.recorder.n_rows)

    def catch_up(self, agent: Agent) -> None:
        """Let an agent learn all transitions played so far."""
        for learner in self.learners:
            if learner.agent is agent:
                learner.catch_up(self.recorder)


def _copy_arrays(keeper: Keeper) -> Keeper:
    """Return a copy of an object of statistics, with copies of its arrays."""
    found = object.__new__(type(keeper))
    for name, one in vars(keeper).items():
        vars(found)[name] = one.copy() if isinstance(one, np.ndarray) else one
    return found


def check_counts(counts: NDArray[Any], total: NDArray[Any], n_agents: int) -> None:
    """Raise ValueError if the stored counts, or the return of the open episode, are invalid."""
    if counts.dtype != np.int64 or counts.shape != (5,) or (counts[LEFT:] < 0).any():
        raise ValueError("the counts of the portfolio are invalid")
    if not 0 <= counts[PLAYER] < n_agents or counts[IS_OPEN] > 1:
        raise ValueError(f"the player is agent {counts[PLAYER]}, but there are {n_agents} agents")
    if total.dtype != np.float64 or total.shape != (1,) or not np.isfinite(total).all():
        raise ValueError("the return of the episode is not a finite number")


class PendingUpdate(NamedTuple):
    """An update that not all agents of a portfolio have learned yet."""

    transition: tuple[Any, ...]  # the arguments of `update`
    point: Checked  # and what the first agent's `checked_transition` makes of them
    masks: dict[str, Any]
    n_before: list[int]  # episodes of each agent before it, if it begins one
    n_done: NDArray[np.int64]  # [1], number of agents that have learned it
    play: Play | None = None  # of an episode of `Agent.begin`


class Portfolio(Delegate):
    """Several agents that all learn from every episode, with a choice of who plays.

    One agent plays a block of episodes, 5 % of the number so far. All others learn from them. The
    returns decide which agent plays the next block, see `agents.auto.returns`. `predict` plays the
    policy of the recommended agent.

    An agent that needs many more episodes than others to become good is chosen late. An agent that
    cannot learn from the actions of others gains nothing here. Nothing is proved about it.

    `act` and `update` play one episode at a time: a call that cannot belong to it is refused with a
    ConfigurationError, and `act` at step 0 begins the next one. `begin` plays several at once.

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
        self.counts = np.zeros(5, np.int64)  # see PLAYER
        self._total = np.zeros(1)  # return so far of the current episode
        self._played: Played | None = None  # what some agents have yet to learn
        self._update: PendingUpdate | None = None  # what some agents have yet to learn, too
        self._order = EpisodeOrder()
        self.share_lock()
        is_nested = any(isinstance(agent, Portfolio) for agent in self._parts)
        fused = all(hasattr(agent, "play") for agent in self._parts) and not self.sees_outcomes
        if fused and not is_nested:
            self.play = self._play_blocks  # for the compiled driver

    def share_lock(self) -> None:
        """Let the agents have the lock of the portfolio, and know all of its open episodes."""
        for agent in self._parts:
            agent.run.lock, agent.run.plays = self.run.lock, self.run.plays
            if isinstance(agent, Portfolio):
                agent.share_lock()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.share_lock()

    # --- learning ---------------------------------------------------------------------------------

    @property
    def agents(self) -> list[Agent]:
        """The agents. All of them have learned all episodes so far."""
        with self.run.lock:
            self._settle()
            return self._parts

    @property
    def player(self) -> Agent:
        """The agent that plays the current block, or that played the last one."""
        return self._parts[int(self.counts[PLAYER])]

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        step = self.problem.check_step(step)
        state = self._parts[0].checked_state(step, observation)
        with self.run.lock:
            self._order.check_act(self.env_name, step, state)
            if step == 0:
                self._order.forget()
                self._settle()
                self._close_episode()
                self._choose()
                self.counts[IS_OPEN] = 1
            masks = {"info": info} if info is not None and has_mask(info) else {}
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
        transition = (step, observation, action, reward, next_observation, terminated)
        point = self._check_all(transition)
        is_over = bool(terminated) or step + 1 == self.horizon
        with self.run.lock:
            if self.counts[IS_OPEN]:
                order.check_update(self.env_name, step, point[0])
            self._settle()
            if step == 0 and not order.waits:  # others play this episode
                self._close_episode()
            is_used = next_info and (self.sees_outcomes or has_mask(next_info))
            masks = {"next_info": next_info} if is_used else {}
            self._update_all(transition, point, masks)
            if is_over:
                self._close_episode()
            order.updated(step, point[3], is_over)

    def _check_all(self, transition: tuple[Any, ...]) -> Checked:
        """Return the transition as the first agent learns it. Raise TransitionError if refused."""
        first, *others = (agent.problem for agent in self._parts)
        point = first.check_transition(*transition[:5])
        for problem in others:  # of the same axes, and perhaps another range of rewards
            problem.check_reward(transition[0], transition[3])
        return point

    def _update_all(
        self,
        transition: tuple[Any, ...],
        point: Checked,
        masks: Mapping[str, Any],
        play: Play | None = None,
    ) -> None:
        """Let all agents learn a checked transition."""
        n_before = [agent.n_episodes for agent in self._parts] if transition[0] == 0 else []
        n_done = np.zeros(1, np.int64)
        self._update = PendingUpdate(transition, point, dict(masks), n_before, n_done, play)
        self._finish_update()

    # --- many episodes at once --------------------------------------------------------------------

    @property
    def sees_outcomes(self) -> bool:  # type: ignore[override]
        return any(agent.sees_outcomes for agent in self._parts)

    @property
    def interleaves(self) -> bool:  # type: ignore[override]
        return all(agent.interleaves for agent in self._parts)

    def prepare_play(self) -> None:
        self._settle()
        self._order.forget()
        self._close_episode()  # of `act` and `update`
        self._choose()
        self._catch_up(self.player)
        self.player.prepare_play()

    def draw_play(self, play: Play) -> dict[str, Any]:
        player, own = self.player, Play(play.seed, waiting=play.waiting)
        own.drawn = player.draw_play(own)
        play.kept = player, own
        found = {"player": int(self.counts[PLAYER]), "reason": int(self.counts[REASON])}
        return {**found, "seed": str(player.seed), "own": own.drawn}

    def _player_of(self, play: Play) -> tuple[int, Play | None]:
        """Return the number of the agent that plays an episode, and how it does.

        The second is None if that agent is not here any more.
        """
        k = play.drawn["player"]
        if k >= len(self._parts) or str(self._parts[k].seed) != play.drawn["seed"]:
            return k, None
        if play.kept is None:
            own = Play(play.seed, play.drawn["own"], waiting=play.waiting)
            play.kept = self._parts[k], own
        return k, play.kept[1]

    def count_play(self, play: Play) -> None:
        k, own = self._player_of(play)
        if own is not None:
            self.counts[LEFT] -= k == self.counts[PLAYER]
            self.choice.begin(k)
            self._parts[k].count_play(own)

    def act_play(
        self, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        if play.kept is None and self._player_of(play)[1] is None:  # played by one that was dropped
            other = Play(play.seed)
            self.draw_play(other)
            play.kept = other.kept
        player, own = play.kept
        action = player.act_play(own, step, observation, info)
        play.explored = own.explored
        return action

    def update_play(
        self, play: Play, transition: tuple[Any, ...], masks: Mapping[str, Any]
    ) -> None:
        self.problem.check_step(transition[0])
        point = self._check_all(transition)
        self._settle()
        self._update_all(transition, point, masks, play)

    def end_play(self, play: Play, total: float) -> None:
        k, own = self._player_of(play)
        if own is None:  # its returns were forgotten with it
            return
        self._settle()
        self._credit([total], k, play.drawn.get("reason", LACKS))
        self._parts[k].end_play(own, total)

    def abandon_play(self, play: Play) -> None:
        k, own = self._player_of(play)
        if own is not None:
            self.choice.abandon(k)
            self._parts[k].abandon_play(own)

    def explore_many(
        self, steps: NDArray[np.int64], states: Floats, allowed: Sequence[Feasible | None]
    ) -> Floats:
        return self.player.explore_many(steps, states, allowed)

    def _finish_update(self) -> None:
        """Let the agents learn from an update that an interrupt has stopped between two of them."""
        pending = self._update
        if pending is None:
            return
        step, changes = pending.transition[0], dict[str, Any](_update=None)
        if step == 0:
            counts = changes["counts"] = self.counts.copy()
            counts[N_EPISODES] += 1
        player, own = (-1, None) if pending.play is None else self._player_of(pending.play)
        try:
            for k, agent in enumerate(self._parts):
                has_begun = step == 0 and agent.n_episodes > pending.n_before[k]
                if k < pending.n_done[0] or has_begun:
                    continue
                if k == player and own is not None:
                    agent.update_play(own, pending.transition, pending.masks)
                elif k == 0 and self.rewards == "refuse":  # clipped rewards must be counted
                    agent.update_checked(pending.transition, pending.point, pending.masks)
                else:
                    agent.update(*pending.transition, **pending.masks)
                pending.n_done[0] = max(k + 1, pending.n_done[0])
        except Exception:  # of an agent of the user's: it is not tried again
            vars(self).update(changes)
            raise
        if self.counts[IS_OPEN] and pending.play is None:
            changes["_total"] = self._total + float(pending.transition[3])
        # One call, so that an interrupt changes all of them or none.
        vars(self).update(changes)

    def learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        starts = np.flatnonzero(np.asarray(recorded.steps) == 0)
        first, n_rows = 0 if done is None else int(done[0]), len(recorded.steps)
        while first < n_rows:
            later = starts[starts > first]
            ends = np.append(later[later <= first + MANY][-1:], later[:1])
            last = int(ends[0]) if n_rows - first > MANY and len(ends) else n_rows
            self._settle()
            self._played = Played.given(self._parts, recorded.part(first, last))
            first = last
            if done is not None:
                done[0] = last
            self._settle()

    def _choose(self) -> None:
        """Choose who plays the next block, if the current one is over."""
        if self.counts[LEFT] == 0:
            self._before_choice()
            self.counts[[PLAYER, LEFT, REASON]] = self._next_block()

    def _next_block(self) -> tuple[int, int, int]:
        """Return who plays next, how many episodes, and why."""
        leader = self._leader()
        player, left = self.choice.next(leader, self._free())
        return player, left, LEADS if player == leader else LACKS

    def _catch_up(self, agent: Agent) -> None:
        """Let an agent learn all episodes played so far; others may learn them later."""
        if self._played is not None:
            self._played.catch_up(agent)

    def _before_choice(self) -> None:
        """Prepare the agents for the next block. A subclass may add agents here."""

    def _free(self) -> int | None:
        """Return the number of an agent that plays only if it leads, if any."""
        return None

    def _leader(self) -> int:
        """Return the number of the agent that plays unless others lack plays."""
        return self.choice.leader()

    def _why(self, player: int, names: list[str]) -> str:
        """Return why an agent plays, in words."""
        return self.choice.reason(player, self._leader(), names)

    def _play_blocks(self, env: Any, crossing: Crossing, log: RunArrays, end: int) -> int:
        """Play episodes until log.done[0] equals `end`; return the code of the last kernel.

        A portfolio uses it as its method `play` if all of its agents have one.
        """
        self._settle()
        self.counts[IS_OPEN], self._total[0] = 0, 0.0
        self._order.forget()
        first, n_steps = int(log.done[0]), min(self.horizon, env.horizon)
        recorder = Recorder(env, crossing, (end - first) * n_steps, FINITE)
        self._played = Played(recorder, log, first)
        while first < end:
            self._choose()
            played = self._played
            player: Any = self.player
            played.begin_block(self._parts, player)
            if self.rewards == "refuse":
                recorder.set_range(self.reward_range)  # new agents may have narrowed it
            last = min(end, first + int(self.counts[LEFT]))
            code = player.play(recorder, recorder.recording, log, last)
            if code in (kernels.BAD_REWARD, kernels.BAD_STATE):
                self._drop_refused(recorder, code, log)
                return int(code)
            played.end_block()
            first = int(log.done[0])
            self._credit_played(played)
            log.is_full = code == kernels.FULL
            if recorder.n_rows > MANY:
                self._settle()
                recorder.clear()
                self._played = Played(recorder, log, first)
        self._settle()
        return kernels.FINE

    def _drop_refused(self, recorder: Recorder, code: int, log: RunArrays) -> None:
        """Drop the transition that was refused, and let the agents learn from those before it."""
        step = int(log.trouble[0]) - (code == kernels.BAD_STATE)  # -1: a start was refused
        if code == kernels.BAD_REWARD:
            log.trouble[2] = recorder.last_reward  # the player got NaN if another agent refused it
        if step >= 0:
            recorder.drop_last()
        self._settle()
        self.counts[N_EPISODES] += step > 0

    def _settle(self) -> None:
        """Let all agents learn the episodes just played, and credit their returns to the player.

        Do nothing if no episodes wait. After an interrupt, the next call continues where it
        stopped. `act` at step 0, `update`, `play` and saving call it first.
        """
        self._finish_update()
        played = self._played
        if played is None:
            return
        played.end_block()
        for learner in played.learners:
            learner.catch_up(played.recorder)
        self._credit_played(played)
        self._played = None
        warn_of_clipping(self.player)

    def _credit_played(self, played: Played) -> None:
        """Credit the returns that were not credited yet to the agent that played them."""
        last = int(played.log.done[0])
        n_played, counts = last - played.first, self.counts.copy()
        counts[LEFT] -= n_played
        counts[N_EPISODES] += n_played + played.n_given
        later = copy.copy(played)
        later.first, later.n_given = last, 0
        returns = played.log.returns[played.first : last].tolist()
        self._credit(returns, *counts[[PLAYER, REASON]].tolist(), counts=counts, _played=later)

    def _close_episode(self) -> None:
        """Credit the return of an episode that was played step by step to its player, once."""
        if self.counts[IS_OPEN]:
            counts = self.counts.copy()
            counts[LEFT] -= 1
            counts[IS_OPEN] = 0
            self._credit(self._total.tolist(), *counts[[PLAYER, REASON]].tolist(), counts=counts)
        self._total[0] = 0.0

    def _credit(self, returns: list[float], player: int, reason: int, **changes: Any) -> None:
        """Add returns to the statistics of a player, and set the attributes named in `changes`.

        Those of an old plan say nothing about the player as it is now.

        Statistics are changed in copies, which one call puts in place. So an interrupt leaves
        either all old values or all new ones, and no return is lost or counted twice.
        """
        trend = changes["trend"] = _copy_arrays(self.trend)
        trend.add(returns)
        if reason != RECALLS:
            choice = changes["choice"] = _copy_arrays(self.choice)
            choice.credit(player, returns)
        vars(self).update(changes)

    @property
    def n_episodes(self) -> int:
        now = dict(vars(self))  # of one moment, if another thread learns
        played, update = now["_played"], now["_update"]
        n = int(now["counts"][N_EPISODES]) + (0 if played is None else played.n_uncounted)
        return n + (update is not None and update.transition[0] == 0)

    def set_n_episodes(self, n: int) -> None:
        if n != self.n_episodes:
            raise ValueError(f"{n} episodes were saved, but the portfolio has {self.n_episodes}")

    def drop_paused(self) -> None:
        self._settle()
        self._order.forget()
        self._close_episode()  # an episode that was cut short ends before another driver plays
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
        with self.run.lock:
            self._settle()  # after an interrupt, agents may have episodes to learn
            return self._parts[self._best()]

    def should_earn(self) -> tuple[float, float] | None:
        best = self._best()
        own = self._parts[best].should_earn()
        return self.choice.late(best) if own is None else own

    def _best(self) -> int:
        """Return the number of the agent that is recommended."""
        return self._leader()

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
        own = self.choice.windows, self.trend.windows, self.counts, self._total
        return sum(int(array.nbytes) for array in own) + sum(agent.nbytes for agent in self._parts)

    def status(self) -> Status:
        """Return who plays and why, and how the returns develop; `print` shows it readably.

        Returns
        -------
        Status
            A dictionary. "episodes": number so far. "horizon": steps of an episode, and whether the
            environment would have gone on after them. "bytes": memory of all agents. "plays": who
            plays, or played last. "why": the reason. "recommended": whose policy `predict` plays.
            "recommended should earn": the mean return of episodes that this policy, or plans like
            it, have played while exploring, with its standard error. "agents": the number of
            episodes that each has played, and its mean return with the standard error. "return":
            the mean return of about the last half of the episodes, with its standard error.
            "rule": `agent.guide.status()` of a warm start. As long as the rule plays, "return" is
            None. "warnings": what seems wrong.
        """
        self._settle()
        return Status(self._status())

    def _status(self) -> dict[str, Any]:
        """Return the entries of `Portfolio.status`."""
        names, choice = self._names(), self.choice
        player, trend = int(self.counts[PLAYER]), self.trend
        latest = None if self.is_guided else trend.late()  # it knows only own episodes
        guide = self.guide
        expected = None if self.is_guided else self.should_earn()
        found = {
            "episodes": self.n_episodes,
            "horizon": self._horizon_words(),
            "bytes": self.nbytes,
            "plays": names[player],
            "why": self._why(player, names),
            "recommended": names[self._best()],
            "recommended should earn": None if expected is None else plus_minus(*expected),
            "agents": {name: choice.words(k) for k, name in enumerate(names)},
            "return": None if latest is None else plus_minus(*latest),
            **({} if guide is None else {"rule": guide.status()}),
            "warnings": self.doubts(),
        }
        if self.is_guided:
            rule = found["rule"]
            found |= {"plays": rule["plays"], "why": rule["why"]}
            found["recommended"] = rule["predict plays"]
        return found

    def _horizon_words(self) -> str:
        """Return the number of steps, and whether the environment would have gone on after them."""
        went_on = "; the environment went on when they were over: what comes later does not count"
        return count_noun(self.horizon, "step") + (went_on if self.run.was_cut else "")

    def _names(self) -> list[str]:
        """Return a unique name for each agent."""
        return unique_names(self._parts)

    def doubts(self) -> list[str]:
        """Return sentences on what seems wrong, those of the agents included."""
        found = [] if self.trend.has_improved() else [STUCK]
        found += self._doubt_short_horizon()  # a portfolio counts for its parts
        for agent in self._parts:
            found += agent.doubts()
        return found

    def __repr__(self) -> str:
        names = ", ".join(type(agent).__name__ for agent in self._parts)
        return (
            f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, [{names}] in "
            f"{self.nbytes:,} bytes after {self.n_episodes} episodes{clipping_text(self)})"
        )

    # --- files ------------------------------------------------------------------------------------

    def get_params(self) -> dict[str, Any]:
        """Return the arguments of `Portfolio`: new agents like those it was made with, and seed."""
        fresh = [type(agent)(agent.env, **agent.get_params()) for agent in self._parts]
        return {"agents": fresh, "seed": self.seed}

    def saved_options(self) -> dict[str, Any]:
        options = {"agents": nested_options(self._parts), "seed": self.seed}
        if "agents" not in accepted_options(type(self), options):
            raise ConfigurationError(
                f"{type(self).__name__} cannot be saved: its constructor takes no `agents`, so the "
                "saved agents could not be given back to it"
            )
        return options

    def fixed_options(self) -> dict[str, Any]:
        return {}  # its agents have all others

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        return cls(**{**options, "agents": build_arms(env, options["agents"], arrays)})

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._settle()
        values, arrays = nested_state(self._parts)
        own = {
            "counts": self.counts, "total": self._total, "windows": self.trend.windows,
            "choice": self.choice.windows, "begun": self.choice.begun,
        }  # fmt: skip
        return {"agents": values}, {**arrays, **own}

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        counts, total = arrays["counts"], arrays["total"]
        check_counts(counts, total, len(self._parts))
        if "numbers" in arrays:
            raise CheckpointError(
                "the file is of an earlier version of Portfolio, which weighed returns otherwise; "
                "learn again, or load it with the version that saved it"
            )
        self.choice.restore(arrays["choice"], arrays.get("begun", self.choice.begun))
        self.trend.restore(arrays["windows"])
        restore_arms(self._parts, values["agents"], arrays)
        self.counts, self._total = counts.copy(), total.copy()
