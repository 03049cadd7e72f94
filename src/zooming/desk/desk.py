"""Ask for decisions and tell rewards, in any order and on any day; see `Desk`."""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from zooming.agents.base import episodes, policies
from zooming.agents.base.agent import Agent
from zooming.agents.base.episodes import Play
from zooming.agents.base.status import Status
from zooming.agents.files.container import unpack_container
from zooming.agents.training.replay import Transitions
from zooming.agents.warm_start import Guide
from zooming.desk import page
from zooming.desk.learner import LATEST, LEARNED, Learner
from zooming.desk.storage import CANCELLED, EXPIRED, FORMAT, OPEN, TOLD, Query, open_storage
from zooming.errors import CheckpointError, ConfigurationError, TransitionError, ZoomingError
from zooming.logs.reading import ORDER
from zooming.logs.record import make_log
from zooming.spaces.flatten import INTERVAL
from zooming.validation import (
    as_float,
    check_choice,
    check_float,
    check_int,
    known_options,
    short_repr,
)

LEARNERS = ("behind", "here", "elsewhere")
SEVERAL = ("sum", "first")
LEARNING, PAUSED, FROZEN = "learning", "paused", "frozen"  # modes
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BATCH = 200  # events that are learned before they are published
_EVERY = 5.0  # least seconds between snapshots in the database
_SHARE = 20.0  # a snapshot or a publication takes at most 1 / _SHARE of the time
_PIECE = 65_536  # bytes of a snapshot that are written in one transaction
_ANY = object()  # stands for the names of all episodes
_REPLACED = 60.0  # seconds for which a plan that was replaced is kept for episodes that begin


def seconds(given: Any, name: str) -> float | None:
    """Return a duration in seconds, given as a number, a timedelta, or text such as "2d".

    >>> seconds("2d", "reward_wait"), seconds("90m", "reward_wait"), seconds(3, "reward_wait")
    (172800.0, 5400.0, 3.0)
    """
    if given is None:
        return None
    if isinstance(given, timedelta):
        given = given.total_seconds()
    number = r"\s*([0-9]+\.?[0-9]*)\s*([smhdw])\s*"
    if isinstance(given, str) and (found := re.fullmatch(number, given)):
        given = float(found[1]) * _UNITS[found[2]]
    if (
        isinstance(given, (int, float))
        and type(given) is not bool
        and 0 < as_float(given) < math.inf
    ):
        return float(given)
    raise ConfigurationError(
        f"{name}={short_repr(given)}: give seconds, or text such as '30m', '12h', '2d'"
    )


@dataclass(frozen=True)
class Decision:
    """A decision that is on disk.

    Attributes
    ----------
    id : int
        Its number, for `Desk.tell`.
    episode, step
        Name of the episode, and its step, from 0.
    action : Any
        The action to play.
    explored : bool
        Whether the action is not the best one by the agent's own estimate.
    version : int
        Number of events of the log that the agent had learned.
    by : {"agent", "recommended", "rule", "fallback"}
        Who decided.
    """

    id: int
    episode: str
    step: int
    action: Any
    explored: bool
    version: int
    by: str


class _Row(NamedTuple):
    """A row of the table of decisions."""

    id: int
    step: int
    observation: str
    action: str
    explored: int
    decider: str
    version: int
    state: str
    episode: int
    bounds: str | None
    at: float
    key: str | None


_LAST_TIMES = (
    "SELECT at FROM events WHERE seq = (SELECT MAX(seq) FROM events) UNION ALL "
    "SELECT at FROM decisions WHERE id = (SELECT MAX(id) FROM decisions)"
)
_COLUMNS = ", ".join(_Row.__annotations__)
# The last episode of a name, and its last decision.
_EPISODE = (
    f"SELECT p.seed, p.drawn, p.is_over, {', '.join(f'd.{name}' for name in _Row.__annotations__)} "
    "FROM episodes p JOIN decisions d ON d.id = (SELECT MAX(id) FROM decisions "
    "WHERE episode = p.number) WHERE p.number = (SELECT MAX(number) FROM episodes WHERE name = ?)"
)
# A decision, and the name of its episode.
_DECISION = (
    f"SELECT {', '.join(f'd.{name}' for name in _Row.__annotations__)}, p.name FROM decisions d "
    "JOIN episodes p ON p.number = d.episode WHERE d.id = ?"
)
_NUMBERS = (
    "SELECT (SELECT COALESCE(MAX(id), 0) FROM decisions), "
    "(SELECT COALESCE(MAX(number), -1) FROM episodes), "
    "(SELECT COALESCE(MAX(seq), 0) FROM events), (SELECT value FROM meta WHERE name = 'mode'), "
    "(SELECT value FROM meta WHERE name = 'apprentice')"
)


@dataclass
class _Numbers:
    """The last numbers that are in use inside of a transaction, and the mode."""

    decision: int
    episode: int
    event: int
    mode: str
    apprentice: str | None = None  # "promoted", once `promote` was called


class _Reader(NamedTuple):
    """The agent that decides, the number of the last event that it has learned, and its plan."""

    agent: Agent
    seq: int
    plan: str


class _PlanMissing(Exception):
    """Raised if the plan of an episode is not in the memory of this process."""


class Verified(NamedTuple):
    """The result of `Desk.verify`: events replayed, and size of the agent that came out."""

    n_events: int
    n_bytes: int


@dataclass
class _Job:
    """Work inside of a transaction, which a thread waits for.

    With a `query`, `work` gets its rows. `topic` of the rows is the name of the episode that the
    work is about: the rows are read again if an earlier job of the transaction had the same one.
    """

    work: Callable[..., Any]
    query: Query | None = None
    topic: Callable[[list[Any]], Any] = bool
    result: Any = None
    error: BaseException | None = None
    is_done: bool = False


class Desk:
    """Decide, learn from late rewards, and lose nothing. See docs/desk.md.

    A decision is on disk before `ask` returns it, and a reward before it is learned. The log in the
    database is the truth: replaying it gives the agent, to the last bit. Any number of threads and
    processes may ask and tell. One of them learns; another one takes over when it dies.

    Parameters
    ----------
    agent : Agent or None
        The agent. If the database exists, it must be made like the one there, which goes on with
        the settings that are given now. With None, it is the one there, see `open`.
    place : str or PathLike
        A file for SQLite, or a URL "postgresql://...".
    reward_wait : float, str or timedelta, optional
        How long to wait for a reward: seconds, or "30m", "12h", "2d". Later ones are logged, not
        learned. By default for ever.
    default_reward : float, optional
        The reward of decisions whose own did not come in time. By default they are not learned.
    several : {None, "sum", "first"}
        What to do with a second, different reward of a decision: refuse it, add it (the sum is
        learned when `reward_wait` is over), or learn the first alone.
    close_after : float, str or timedelta, optional
        Age at which an episode that has not ended is closed. By default never.
    durability : {"power", "process"}
        Whether a decision survives a power failure, or only the death of the process.
    learner : {"behind", "here", "elsewhere"}
        Learn in a thread behind (`ask` never waits for a plan), in the thread that tells, or not in
        this process.
    fallback : function or Agent, optional
        A rule `fallback(step, observation)` that decides if the agent fails.
    apprentice : function or Agent, optional
        A rule that decides while the agent learns beside it, see `Agent.warm_start`. `status` says
        when the agent is better, and `promote` lets it decide.
    kind : type, optional
        With agent=None, the class of the agent, if it is not one of zooming's own.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> desk = zooming.Desk(agent, tempfile.mkdtemp() + "/shop.db", learner="here")
    >>> d = desk.ask([0.3], episode="store-17")
    >>> desk.tell(d.id, 0.5, [0.4])
    'tell'
    >>> desk.ask([0.4], episode="store-17").step, desk.verify().n_events
    (1, 2)
    >>> desk.close()
    """

    @known_options
    def __init__(
        self,
        agent: Agent | None,
        place: str | os.PathLike[str],
        *,
        reward_wait: Any = None,
        default_reward: float | None = None,
        several: str | None = None,
        close_after: Any = None,
        durability: str = "power",
        learner: str = "behind",
        fallback: Any = None,
        apprentice: Any = None,
        kind: type[Agent] | None = None,
    ) -> None:
        if agent is not None and not isinstance(agent, Agent):
            raise ConfigurationError(
                f"agent={short_repr(agent)}: give an agent, such as zooming.Auto(env); "
                "zooming.Desk.open(place) takes the one of the database"
            )
        if several is not None:
            check_choice("several", several, SEVERAL)
        settings = {
            "reward_wait": seconds(reward_wait, "reward_wait"), "default_reward": default_reward,
            "several": several, "close_after": seconds(close_after, "close_after"),
        }  # fmt: skip
        if default_reward is not None:
            check_float(default_reward, "default_reward", -math.inf, math.inf)
            if agent is not None:
                agent.problem.check_reward(0, default_reward)
        for name, value in (("default_reward", default_reward), ("several='sum'", several)):
            if value not in (None, "first") and reward_wait is None:
                raise ConfigurationError(
                    f"{name} requires reward_wait, the time after which it is learned"
                )
        if agent is None and (given := [name for name, one in settings.items() if one is not None]):
            raise ConfigurationError(
                f"{given[0]} is a setting of the database; zooming.Desk(agent, place, "
                f"{given[0]}=...) changes it"
            )
        check_choice("learner", learner, LEARNERS)
        self._fallback = None if fallback is None else policies.as_function(fallback, "fallback")
        if agent is not None and not agent.interleaves:
            raise ConfigurationError(
                f"{type(agent).__name__} plays one episode at a time, and at a desk many are open; "
                "use another agent, such as zooming.Auto"
            )
        if apprentice is not None and agent is not None and agent.guide is None:
            agent.guide = Guide(agent, apprentice, 200)
        self.storage = open_storage(place, durability, agent is None)
        try:
            if agent is not None:
                self._create(agent, settings)
            self._start(kind if agent is None else type(agent), learner, apprentice)
        except BaseException:
            self.storage.close()
            raise

    @classmethod
    def open(cls, place: str | os.PathLike[str], **options: Any) -> Self:
        """Open the desk of a database: the same agent, settings, open episodes and answers.

        Parameters
        ----------
        place : str or PathLike
            See `Desk`.
        **options
            durability, learner, fallback, apprentice and kind, see `Desk`.
        """
        return cls(None, place, **options)

    def _create(self, agent: Agent, settings: dict[str, Any]) -> None:
        """Write the first snapshot. If there is one, check that the agent is made like it."""
        content, opened = Learner(self.storage, agent, 0, {}).content()
        header, _ = unpack_container(content, self.storage.name)
        parts = {name: header[name] for name in ("agent", "options", "spaces")}
        described = json.dumps(parts, sort_keys=True)
        name, write = self.storage.name, self.storage.write
        with self.storage.transaction():
            found = self._meta()
            if "agent" in found and found["agent"] != described:
                was, now = json.loads(found["agent"]), json.loads(described)
                raise ConfigurationError(
                    f"{name} has another agent: {_difference(was, now)}. Make the agent as it was, "
                    f"or go on with zooming.Desk.open({name!r})"
                )
            _set(write, "settings", json.dumps(settings))
            if "agent" not in found:
                first = {"format": str(FORMAT), "agent": described, "mode": LEARNING}
                for key, value in first.items():
                    _set(write, key, value)
                now = self.storage.clock()
                write("INSERT INTO snapshots VALUES (0, ?, ?, ?)", [content, opened, now])
                if plan := _plan_of(agent):
                    write("INSERT INTO plans VALUES (?, 0, ?)", [plan, now])

    def _meta(self) -> dict[str, str]:
        """Return the settings of the desk that the database keeps: {name: value}."""
        rows: Any = self.storage.run("SELECT name, value FROM meta")
        return dict(rows)

    def _start(self, kind: type[Agent] | None, learner: str, apprentice: Any) -> None:
        found = self._meta()
        if "agent" not in found:
            raise ConfigurationError(
                f"{self.storage.name} has no desk; zooming.Desk(agent, place) makes one"
            )
        try:
            self.settings: dict[str, Any] = json.loads(found["settings"])
            self.settings.items()
        except (AttributeError, KeyError, RecursionError, ValueError) as error:
            raise CheckpointError(
                f"{self.storage.name}: the settings of the desk are damaged ({error}); "
                "restore the database from a copy"
            ) from error
        self._kind, self._where = kind, learner
        self._apprentice = apprentice
        self._queue: list[_Job] = []
        self._numbers = _Numbers(0, 0, 0, "")
        self._turn, self._writer = threading.Condition(), 0  # of the queue; thread that commits
        self._learn_lock, self._wake, self._stop = threading.RLock(), threading.Event(), False
        self._plans_lock = threading.Lock()  # of replacing `_plans`
        self._read_clock()
        self._ticked = self._stored = self._published = -math.inf
        self._cost = 0.0
        self.fault: str | None = None  # what ended learning, in words
        self._leader: Learner | None = None
        latest = Learner.at(self.storage, LATEST, kind, apprentice)
        if apprentice is not None and latest.agent.guide is None:
            raise ConfigurationError(
                f"{self.storage.name} was made without an apprentice, and its agent decides; leave "
                "out apprentice=, or begin a new desk"
            )
        self._stored_seq, self._plans = latest.seq, dict[str, Agent]()
        self._reader = _Reader(latest.agent, latest.seq, _plan_of(latest.agent))
        for plan in latest.plans - {"", self._reader.plan}:
            self._load_plan(plan)
        self._thread: threading.Thread | None = None
        if learner == "here":
            self._learn()
        else:
            self._thread = threading.Thread(target=self._run, daemon=True, name="zooming desk")
            self._thread.start()

    def _read_clock(self) -> None:
        """Set the time of this process: not before the last one in the database.

        If the clock is ahead of that by more than half of a wait, it may be wrong. So that time is
        a gap, which counts for no wait. It is stored with the first thing that is written.
        """
        now, settings = self.storage.clock(), self.settings
        waits = [one for one in (settings["reward_wait"], settings["close_after"]) if one]
        with self.storage.transaction():
            last = max((row[0] for row in self.storage.run(_LAST_TIMES)), default=now)
            is_gap = bool(waits) and now - last > min(waits) / 2
            self._new_gap: list[float] | None = [last, now] if is_gap else None
            self._gaps = self._all_gaps()
        if self._new_gap:
            warnings.warn(
                f"{self.storage.name}: by the clock, {timedelta(seconds=round(now - last))} "
                "have passed since the last event. The clock may be wrong, so this time counts "
                "neither for reward_wait nor for close_after",
                stacklevel=5,
            )
        self._began = max(now, last) - time.monotonic()

    def _all_gaps(self) -> list[list[float]]:
        """Return the gaps of the database and the new one, inside of a transaction."""
        known, new = json.loads(self._meta().get("gaps", "[]")), self._new_gap
        return [gap for gap in known if gap[0] != new[0]] + [new] if new else known

    def _now(self) -> float:
        """Return the time: a clock that is set while the process runs does not matter."""
        return self._began + time.monotonic()

    def _before(self, wait: float) -> float:
        """Return the time since which `wait` has passed, without the gaps."""
        now = self._now()
        found = now - wait
        for begin, end in reversed(self._gaps):
            if found < end <= now:
                found -= end - begin
        return found

    # --- asking and telling -----------------------------------------------------------------------

    def ask(
        self,
        observation: Any,
        episode: str,
        *,
        step: int | None = None,
        id: str | None = None,
        info: Mapping[str, Any] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> Decision:
        """Return a decision, which is on disk. The same question has the same answer.

        If the last decision of the episode has no reward yet, and was for the same observation, it
        is returned again; give `step` or `id` if such a question is a new one.

        Parameters
        ----------
        observation, episode
            The observation of the environment, and the name of the episode. A new name, or that of
            an episode that is over, begins one.
        step : int, optional
            Step of the episode, from 0. By default the one after the last decision.
        id : str, optional
            A name of your own for the decision: asking again with it returns the same one.
        info : dict, optional
            Restrictions of the action, see `Agent.act`.
        bounds : dict, optional
            {axis: (low, high)}, limits of the action for this decision.

        Raises
        ------
        TransitionError, ConfigurationError
            If the observation is not one of the environment, the question contradicts an earlier
            one, or the episode has no further step.
        OSError
            If the decision cannot be written. Nothing was written then.
        """
        agent = self._reader.agent
        agent.checked_state(0, observation)
        _check_name("episode", episode)
        step = None if step is None else check_int(step, "step", 0, agent.horizon - 1)
        if id is not None:
            _check_name("id", id)
        text = json.dumps(agent.axes.states.flat(observation, "observation").tolist())
        limits = _limits(agent, info, bounds)

        def work(known: list[Any]) -> Decision:
            return self._decide(known, text, episode, step, id, limits)

        while True:
            try:
                made: Decision = self._write(work, (_EPISODE, [episode]), lambda known: episode)
                return made
            except _PlanMissing as missing:  # another process began the episode
                self._load_plan(str(missing))

    def _rows(self, where: str, *values: Any) -> list[_Row]:
        """Return decisions, inside of a transaction."""
        rows = self.storage.run(f"SELECT {_COLUMNS} FROM decisions WHERE {where}", values)
        return [_Row(*row) for row in rows]

    def _decide(
        self, known: list[Any], text: str, name: str, step: int | None, key: str | None,
        limits: str | None,
    ) -> Decision:  # fmt: skip
        """Return a decision. `known` has the last episode of the name, see `_EPISODE`."""
        write, (agent, version, _), at = self.storage.write, self._reader, 0
        if key is not None and (rows := self._rows("key = ?", key)):
            return self._repeat(rows[0], text, name, limits, f"id {key!r}")
        begins = not known or bool(known[0][2])
        if not begins:
            seed, drawn, _, *values = known[0]
            last = _Row(*values)
            at = last.step + (last.state != CANCELLED)
            is_same = last.state == OPEN and last.observation == text and key is None
            if is_same and step in (None, last.step):
                return self._repeat(last, text, name, limits, f"step {last.step} of {name!r}")
            if step is not None and step < at:
                where = "episode = ? AND step = ? ORDER BY id DESC LIMIT 1"
                rows = self._rows(where, last.episode, step)
                return self._repeat(rows[0], text, name, limits, f"step {step} of {name!r}")
            if at >= agent.horizon:
                raise ConfigurationError(
                    f"all {agent.horizon} steps of the episode {name!r} are decided; tell the "
                    "reward of the last one, or give the next episode another name"
                )
        if step is not None and step != at:
            raise ConfigurationError(
                f"step={step}: the next decision of the episode {name!r} is for step {at}"
            )
        now, last_ones = self._now(), self._numbers
        if begins:
            number = last_ones.episode + 1
            play = self._draw(agent, number)
        else:
            number, play = last.episode, Play(int(seed), json.loads(drawn))
        action, by = self._act(play, at, text, limits, last_ones.mode)
        flat = json.dumps(agent.axes.actions.flat(action, "action").tolist())
        explored = by == "agent" and play.explored
        if begins:
            last_ones.episode = number
            values = [number, name, str(play.seed), json.dumps(play.drawn), now]
            write("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, 0)", values)
            self._log("begin", number, None, {})
        last_ones.decision += 1
        id = last_ones.decision
        write(
            "INSERT INTO decisions (id, key, episode, step, observation, action, bounds, explored, "
            "decider, version, at, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [id, key, number, at, text, flat, limits, int(explored), by, version, now, OPEN],
        )
        return Decision(id, name, at, action, explored, version, by)

    def _draw(self, agent: Agent, number: int) -> Play:
        play, is_promoted = episodes.draw(agent, number=number), bool(self._numbers.apprentice)
        if self._apprentice is not None and not agent.is_guided and not is_promoted:
            play.drawn["rule"] = True  # it was shown to be worse, and decides until `promote`
        return play

    def _act(
        self, play: Play, step: int, text: str, limits: str | None, mode: str
    ) -> tuple[Any, str]:
        """Return the action, and who decided."""
        agent, _, plan = self._reader
        if mode not in (PAUSED, FROZEN) and (own := episodes.plan_name(play.drawn)) not in (
            "",
            plan,
        ):
            if own not in self._plans:
                raise _PlanMissing(own)
            agent = self._plans[own]
        observation = agent.axes.states.shaped(np.array(json.loads(text)))
        info = None if limits is None else json.loads(limits)
        if play.drawn.get("rule") and agent.guide.rule is None:
            raise ConfigurationError(
                f"{self.storage.name} does not hold the rule that decides; open it with "
                "apprentice=rule"
            )
        try:
            if mode in (PAUSED, FROZEN) and not play.drawn.get("rule"):
                return agent.predict(observation, np.array([step]), info=info)[0], "recommended"
            action = episodes.act_in(agent, play, step, observation, info)
            return action, "rule" if play.drawn.get("rule") else "agent"
        except ZoomingError:
            raise
        except Exception as error:
            if self._fallback is None:
                raise
            self.fault = f"the agent failed to decide: {error}"
            flat = policies.rule_action(agent, self._fallback, step, observation, info)
            return agent.axes.shaped_action(flat), "fallback"

    def _repeat(self, row: _Row, text: str, name: str, limits: str | None, what: str) -> Decision:
        names = self.storage.run("SELECT name FROM episodes WHERE number = ?", [row.episode])
        if row.observation != text or names[0][0] != name:
            raise ConfigurationError(
                f"{what} was decided for the observation {row.observation} of the episode "
                f"{names[0][0]!r}, and now asked for {text} of {name!r}"
            )
        if row.bounds != limits:
            raise ConfigurationError(
                f"{what} was decided within {row.bounds or 'no limits'}, and now asked for within "
                f"{limits or 'none'}; cancel it first"
            )
        if row.state == CANCELLED:
            raise ConfigurationError(f"{what} was cancelled; ask with another id")
        return self._decision(row, name)

    def _decision(self, row: _Row, name: str) -> Decision:
        action = self._reader.agent.axes.actions.shaped(np.array(json.loads(row.action)))
        return Decision(
            row.id, name, row.step, action, bool(row.explored), row.version, row.decider
        )

    def tell(
        self,
        id: int,
        reward: float,
        next_observation: Any = None,
        terminated: bool = False,
        *,
        action: Any = None,
        next_info: Mapping[str, Any] | None = None,
    ) -> str:
        """Store the outcome of a decision, to be learned.

        Twice is the same as once, unless rewards are summed: `several="sum"` adds both.

        Parameters
        ----------
        id, reward
            The decision's `id`, and its reward.
        next_observation : Any
            The observation after the step. It may be left out if `terminated`.
        terminated : bool, default False
            Whether the environment ended the episode.
        action : Any, optional
            The action that was played, if it is another one than was decided.
        next_info : dict, optional
            Restrictions of the next action, see `Agent.update`.

        Returns
        -------
        str
            "tell" if it will be learned; "part" if it is to be summed; "late", "extra" (a second
            one, with several="first") or "frozen" if it is logged only; "same" if it was told.
        """
        number, given = self._checked_id(id), (reward, next_observation, terminated, action)

        def work(rows: list[Any]) -> str:
            if not rows:
                raise self._unknown(id)
            return self._tell(_Row(*rows[0][:-1]), *given, next_info)

        kind: str = self._write(
            work, (_DECISION, [number]), lambda rows: rows[0][-1] if rows else None
        )
        if kind == "tell":
            self._wake.set()
            if self._where == "here":
                self._learn()
        return kind

    def _row(self, id: Any, read: Callable[..., Any]) -> _Row:
        """Return a decision."""
        found = f"SELECT {_COLUMNS} FROM decisions WHERE id = ?"
        rows = read(found, [self._checked_id(id)])
        if not rows:
            raise self._unknown(id)
        return _Row(*rows[0])

    def _checked_id(self, id: Any) -> int:
        if type(id) is bool or not isinstance(id, (int, np.integer)) or not 0 <= id < LATEST:
            raise self._unknown(id)
        return int(id)

    def _unknown(self, id: Any) -> ConfigurationError:
        return ConfigurationError(
            f"no decision of {self.storage.name} has the id {short_repr(id)}; ids come from ask"
        )

    def _told(
        self, row: _Row, reward: float, next_observation: Any, terminated: bool, action: Any,
        next_info: Mapping[str, Any] | None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the outcome of a decision as it is stored. Raise TransitionError if it is none."""
        agent = self._reader.agent
        states, actions = agent.axes.states, agent.axes.actions
        if not isinstance(terminated, (bool, np.bool_)):
            raise TransitionError(f"terminated={short_repr(terminated)}: give True or False")
        seen = following = json.loads(row.observation)
        if next_observation is not None:
            following = states.flat(next_observation, "next observation").tolist()
        elif not terminated:
            raise TransitionError(
                f"{agent.env_name}, step {row.step}: next_observation is missing; it may be left "
                "out if terminated=True"
            )
        played = json.loads(row.action)
        if action is not None:
            played = actions.flat(action, "action").tolist()
        agent.problem.check_transition(
            row.step, states.shaped(np.array(seen)), actions.shaped(np.array(played)), reward,
            states.shaped(np.array(following)),
        )  # fmt: skip
        told = {
            "reward": float(reward), "next": following, "terminated": bool(terminated),
            "action": None if action is None else played,
            "next_info": None if next_info is None else _as_json(next_info),
        }  # fmt: skip
        try:
            json.dumps(told)
        except (TypeError, ValueError) as error:
            raise TransitionError(
                f"{agent.env_name}, step {row.step}: next_info cannot be stored ({error}); give "
                "numbers, text, and arrays, lists and dicts of them"
            ) from error
        return told

    def _tell(self, row: _Row, *given: Any) -> str:
        run, write = self.storage.run, self.storage.write
        told, several = self._told(row, *given), self.settings["several"]
        state, number = row.state, row.episode
        if state == CANCELLED:
            raise ConfigurationError(f"decision {row.id} was cancelled, so it has no reward")
        before = [] if state == OPEN else run(
            "SELECT kind, data FROM events WHERE decision = ? AND kind IN ('tell', 'frozen', "
            "'late', 'extra') ORDER BY seq", [row.id],
        )  # fmt: skip
        if several != "sum" and any(json.loads(data) == told for _, data in before):
            return "same"
        if state == EXPIRED:
            kind = "late"
        elif several == "sum":
            kind = "part"
        elif state == TOLD and several == "first":
            kind = "extra"
        elif state == TOLD:
            raise ConfigurationError(
                f"decision {row.id} was told the reward {json.loads(before[0][1])['reward']} and "
                f"is now told {told['reward']}, or another outcome; several='first' or 'sum' of "
                "the desk allows a second one"
            )
        else:
            kind = "frozen" if self._numbers.mode == FROZEN else "tell"
        self._log(kind, number, row.id, told)
        if kind in ("tell", "frozen"):
            write("UPDATE decisions SET state = ? WHERE id = ?", [TOLD, row.id])
        if told["terminated"] or row.step + 1 == self._reader.agent.horizon:
            write("UPDATE episodes SET is_over = 1 WHERE number = ?", [number])
        return kind

    def cancel(self, id: int) -> None:
        """State that a decision was never carried out. Its step can be asked for again.

        It must be the last decision of its episode, and without a reward.
        """

        def work() -> None:
            row = self._row(id, self.storage.run)
            if row.state == CANCELLED:
                return
            last = self._rows("episode = ? ORDER BY id DESC LIMIT 1", row.episode)[0]
            if row.state != OPEN or last.id != row.id:
                why = "has a reward" if row.state != OPEN else "is not the last one of its episode"
                raise ConfigurationError(f"decision {id} {why}; it cannot be cancelled")
            self.storage.write("UPDATE decisions SET state = ? WHERE id = ?", [CANCELLED, row.id])
            self._log("cancel", row.episode, row.id, {})

        self._write(work)

    def forget(self, episode: str) -> int:
        """Remove the names of an episode and of its decisions. Return how many episodes had it.

        Names are all that a desk knows of a person. What was learned stays, and replays. SQLite
        may keep old names in the log beside the file until the last desk there is closed, and
        PostgreSQL in its files until VACUUM.
        """
        _check_name("episode", episode)

        def work() -> int:
            run, write = self.storage.run, self.storage.write
            numbers = run("SELECT number FROM episodes WHERE name = ?", [episode])
            for number in numbers:
                write("UPDATE episodes SET name = NULL WHERE number = ?", number)
                write("UPDATE decisions SET key = NULL WHERE episode = ?", number)
            return len(numbers)

        return int(self._write(work))

    # --- safety -----------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Play the recommended policy, and learn nothing, until `resume`."""
        self._set_mode(FROZEN)

    def pause_exploring(self) -> None:
        """Play the recommended policy, and go on learning, until `resume`."""
        self._set_mode(PAUSED)

    def resume(self) -> None:
        """End `freeze` or `pause_exploring`."""
        self._set_mode(LEARNING)

    def promote(self) -> None:
        """Let the agent decide where the apprentice's rule did, as soon as it is better."""
        if self._reader.agent.guide is None:
            raise ConfigurationError(f"{self.storage.name} has no apprentice to promote")
        self._set_mode("promoted", "apprentice")

    def _set_mode(self, mode: str, name: str = "mode") -> None:
        def work() -> None:
            setattr(self._numbers, name, mode)
            _set(self.storage.write, name, mode)
            self._log("mode", None, None, {name: mode})

        if mode in (FROZEN, PAUSED):
            self._warm(self._reader.agent)
        self._write(work)

    @property
    def mode(self) -> str:
        """What the desk does: "learning", "paused" (`pause_exploring`) or "frozen" (`freeze`)."""
        return str(self.storage.read("SELECT value FROM meta WHERE name = 'mode'")[0][0])

    @staticmethod
    def _warm(agent: Agent) -> None:
        """Make the recommended plan, so that no `ask` waits for it."""
        low = np.array(agent.axes.low[: agent.axes.n_state])
        agent.predict(agent.axes.states.shaped(low), np.array([0]))

    # --- writing ----------------------------------------------------------------------------------

    def _log(self, kind: str, episode: int | None, decision: int | None, data: Any) -> None:
        numbers = self._numbers
        numbers.event += 1
        self.storage.write(
            "INSERT INTO events (seq, kind, episode, decision, data, at) VALUES (?, ?, ?, ?, ?, ?)",
            [numbers.event, kind, episode, decision, json.dumps(data), self._now()],
        )

    def _write(self, *job_of: Any) -> Any:
        """Run a job in a transaction, together with those of other threads that wait."""
        job, jobs, own = _Job(*job_of), list[_Job](), threading.get_ident()
        try:
            with self._turn:
                self._queue.append(job)
                while self._writer not in (0, own) and not job.is_done:  # own: left by a signal
                    self._turn.wait()
                if not job.is_done:
                    jobs = self._queue
                    self._queue, self._writer = [], own
            if jobs:
                self._commit(jobs)
        finally:  # those whose jobs are done go on while the next one writes
            if jobs:
                with self._turn:
                    # A signal may come before the commit: others do their jobs themselves then.
                    left = [one for one in jobs if not (one.is_done or one is job)]
                    self._queue = left if self._queue is jobs else left + self._queue
                    self._writer = 0
                    self._turn.notify_all()
        if job.error is not None:
            raise job.error
        return job.result

    def _commit(self, jobs: list[_Job]) -> None:
        """Run jobs in one transaction. A job checks everything before it writes.

        What the jobs read is read at once, and what they write is written at once, so that a
        transaction takes two ways to a server and back.
        """
        try:
            with self.storage.transaction():
                queries = [job.query for job in jobs if job.query is not None]
                numbers, *found = self.storage.run_all([(_NUMBERS, ()), *queries])
                self._numbers, changed = _Numbers(*numbers[0]), set[Any]()
                if self._new_gap:
                    _set(self.storage.write, "gaps", json.dumps(self._all_gaps()))
                for job in jobs:
                    try:
                        job.result = self._done(job, found, changed)
                    except self.storage.errors:
                        raise
                    except Exception as error:
                        job.error = error
            self._new_gap = None
        except BaseException as error:  # of the database, or a signal
            for job in jobs:
                job.error = OSError(
                    f"{self.storage.name}: {error}; nothing was written, so the same call can be "
                    "made again"
                )
                job.error.__cause__ = error
            if not isinstance(error, self.storage.errors):
                raise
        finally:
            for job in jobs:
                job.is_done = True

    def _done(self, job: _Job, found: list[list[Any]], changed: set[Any]) -> Any:
        """Do a job of a transaction. `found` has the rows of the queries of this and later ones."""
        if job.query is None:
            changed.add(_ANY)
            return job.work()
        rows = found.pop(0)
        if changed & {_ANY, job.topic(rows)}:
            rows = self.storage.run(*job.query)
        changed.add(job.topic(rows))
        return job.work(rows)

    # --- learning ---------------------------------------------------------------------------------

    def _run(self) -> None:
        """Learn behind, or follow the one that learns."""
        while not self._stop:
            is_busy = False
            try:
                if self._where == "behind" and self.storage.lead():
                    is_busy = self._learn(_BATCH)
                else:
                    self._leader = None
                    self._refresh()
                self.storage.tidy()
            except Exception as error:
                if self._stop:
                    return
                self.fault, self._leader = f"learning failed: {error}", None
            if not is_busy:
                self._wake.wait(0.1)
                self._wake.clear()

    def _learn(self, most: int = LATEST) -> bool:
        """Learn what is in the log, and publish it. Return whether there is more."""
        with self._learn_lock:
            if self.storage.is_closed:  # by another thread; it is learned when it is opened again
                return False
            if not self.storage.lead():
                self._refresh()
                return False
            if self._leader is None:
                self._leader = Learner.at(self.storage, LATEST, self._kind, self._apprentice)
                self._stored_seq = self._leader.seq
            self._tick()
            n_done = self._follow(self._leader, most)
            if n_done:
                self.fault = None
            now, is_new = time.monotonic(), self._leader.seq > self._reader.seq
            if is_new and (self._where == "here" or now - self._published > self._cost):
                self._publish(self._leader)
                self._published = time.monotonic()
                self._cost = _SHARE * (self._published - now)
            if self._leader.seq > self._stored_seq and now - self._stored > _EVERY:
                self.snapshot()
            return n_done == most

    def _follow(self, leader: Learner, most: int = LATEST) -> int:
        """Let the leader learn. If a signal ends it within an event, begin at the last snapshot."""
        try:
            return leader.follow(most)
        except BaseException:
            self._leader = None
            raise

    def _publish(self, learner: Learner) -> None:
        """Let the agent of a learner decide from now on. Keep the plans of open episodes."""
        plan, agent = _plan_of(learner.agent), learner.agent
        if learner is self._leader:
            if plan not in ("", self._reader.plan):
                self.snapshot()  # an episode may begin with this plan, and the process may die
            if self._where != "here":
                agent = learner.copy_agent()
        if self._where != "here" and self.mode in (PAUSED, FROZEN):
            self._warm(agent)
        used = {*learner.plans, self._reader.plan}
        with self._plans_lock:
            plans = {name: one for name, one in self._plans.items() if name in used}
            if plan and (agent is not learner.agent or learner is not self._leader):
                plans[plan] = agent
            elif plan and plan not in plans:
                plans[plan] = learner.copy_agent()  # the agent itself will make the next plan
            self._plans, self._reader = plans, _Reader(agent, learner.seq, plan)

    def _refresh(self) -> None:
        """Act with the newest snapshot of the one that learns."""
        rows = self.storage.read("SELECT MAX(seq) FROM snapshots")
        if rows[0][0] > self._reader.seq:
            self._publish(Learner.at(self.storage, LATEST, self._kind, self._apprentice))

    def _load_plan(self, plan: str) -> None:
        """Read the agent that has the plan of open episodes; the newest one if it is gone."""
        rows = self.storage.read("SELECT seq FROM plans WHERE name = ?", [plan])
        agent = self._reader.agent
        if rows:
            found = Learner.at(self.storage, rows[0][0], self._kind, self._apprentice)
            agent = found.agent if _plan_of(found.agent) == plan else agent
        with self._plans_lock:
            self._plans = {**self._plans, plan: agent}

    def snapshot(self) -> None:
        """Store the agent as it is now, if this desk learns. Restarts replay the log from there.

        It is written in pieces, between which others write, so that no `ask` waits long.
        """
        with self._learn_lock:
            if self._leader is None or self._leader.seq == self._stored_seq:
                return
            began, seq, write = time.monotonic(), self._leader.seq, self.storage.write
            content, opened = self._leader.content()
            plan, used = _plan_of(self._leader.agent), self._leader.plans
            pieces = range(0, len(content), _PIECE)

            def add(k: int) -> None:
                write(
                    "INSERT INTO pieces VALUES (?, ?, ?) ON CONFLICT (seq, k) DO UPDATE SET "
                    "content = excluded.content",
                    [seq, k, content[pieces[k] : pieces[k] + _PIECE]],
                )

            def finish() -> None:
                now = self._now()
                write(
                    "INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT (seq) DO NOTHING",
                    [seq, b"", opened, now],
                )
                if plan:
                    write(
                        "INSERT INTO plans VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                        "seq = excluded.seq, at = excluded.at", [plan, seq, now],
                    )  # fmt: skip
                for (name,) in self.storage.run(
                    "SELECT name FROM plans WHERE at < ?", [now - _REPLACED]
                ):
                    if name not in used:
                        write("DELETE FROM plans WHERE name = ?", [name])
                write(
                    "DELETE FROM snapshots WHERE seq > (SELECT MIN(seq) FROM snapshots) "
                    "AND seq < ? AND seq NOT IN (SELECT seq FROM plans)", [self._stored_seq],
                )  # fmt: skip

            for k in range(len(pieces)):
                self._write(partial(add, k))
            self._write(finish)
            old = (
                "SELECT seq, k FROM pieces WHERE seq < ? AND seq NOT IN (SELECT seq FROM snapshots)"
            )
            for piece in self.storage.read(old, [seq]):  # of snapshots that are gone
                drop = "DELETE FROM pieces WHERE seq = ? AND k = ?"
                self._write(partial(write, drop, piece))
            self._stored_seq, took = seq, time.monotonic() - began
            self._stored = began + max(0.0, _SHARE * took - _EVERY)

    def _tick(self) -> None:
        """Log which rewards did not come in time, and close old episodes. At most once a second."""
        now, wait, age = self._now(), self.settings["reward_wait"], self.settings["close_after"]
        if now - self._ticked < 1.0:
            return
        self._ticked = now
        if wait is not None:
            rows = self.storage.read(
                "SELECT id FROM decisions WHERE state = 'open' AND at < ? ORDER BY id LIMIT 1000",
                [self._before(wait)],
            )
            if rows:
                self._write(lambda: self._expire([row[0] for row in rows]))
        if age is not None and self._leader is not None and self._leader.open:
            rows = self.storage.read(
                "SELECT number FROM episodes WHERE number >= ? AND at < ? ORDER BY number",
                [min(self._leader.open), self._before(age)],
            )
            old = [row[0] for row in rows if row[0] in self._leader.open]
            if old:
                self._write(lambda: self._close_episodes(old))

    def _expire(self, ids: list[int]) -> None:
        run, default = self.storage.run, self.settings["default_reward"]
        data = "SELECT data FROM events WHERE decision = ? AND kind = 'part' ORDER BY seq"
        for id in ids:
            row = self._rows("id = ?", id)[0]
            if row.state != OPEN:
                continue
            kind, told, learns = "missing", {}, self._numbers.mode != FROZEN
            parts = [json.loads(part[0]) for part in run(data, [id])]
            following = self._rows(
                "episode = ? AND step = ? AND state <> ? ORDER BY id DESC LIMIT 1",
                row.episode, row.step + 1, CANCELLED,
            )  # fmt: skip
            if parts:
                kind = "tell" if learns else "frozen"
                told = {**parts[-1], "reward": sum(one["reward"] for one in parts)}
            elif default is not None and following and learns:
                after = json.loads(following[0].observation)
                kind, told = "default", {"reward": default, "next": after, "terminated": False}
            self.storage.write("UPDATE decisions SET state = ? WHERE id = ?", [EXPIRED, id])
            self._log(kind, row.episode, id, told)

    def _close_episodes(self, numbers: list[int]) -> None:
        expire = "UPDATE decisions SET state = ? WHERE episode = ? AND state = ?"
        for number in numbers:
            self.storage.write("UPDATE episodes SET is_over = 1 WHERE number = ?", [number])
            self.storage.write(expire, [EXPIRED, number, OPEN])
            self._log("close", number, None, {})

    def wait(self, timeout: float = 60.0) -> bool:
        """Wait until everything told so far is learned and published. Return whether it is."""
        last, end = self._last_seq(), time.monotonic() + timeout
        while self._reader.seq < last and time.monotonic() < end:
            if self._where == "here":
                self._learn()
            else:
                self._cost = 0.0
                self._wake.set()
                time.sleep(0.002)
        return self._reader.seq >= last

    def _last_seq(self) -> int:
        return int(self.storage.read("SELECT COALESCE(MAX(seq), 0) FROM events")[0][0])

    # --- reading ----------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The agent that decides. Read it; `tell` is how it learns."""
        return self._reader.agent

    @property
    def failures(self) -> list[str]:
        """What the agent failed to learn since this desk was opened, in words."""
        return [] if self._leader is None else self._leader.failures

    @property
    def version(self) -> int:
        """Number of the last event that the deciding agent has learned."""
        return self._reader.seq

    def status(self) -> Status:
        """Return what happens at the desk; `print` shows it readably.

        Returns
        -------
        Status
            A dictionary. "asks", "by": decisions, and who made them. "tells": rewards to learn.
            "defaults": learned in place of rewards.
            "waiting": decisions without one. "not learned": rewards that are logged only.
            "learned": events that the deciding agent knows. "return": mean of recent episodes, with
            an interval of 95 %. "explored": share of decisions. "plays": who plays. "alarms": what
            seems wrong.
        """
        return page.status(self)

    def episode(self, name: str) -> dict[str, Any]:
        """Return what is known of the last episode of this name: its decisions, in order."""
        _check_name("name", name)
        rows = self.storage.read(
            "SELECT number, at, is_over FROM episodes WHERE name = ? ORDER BY number DESC LIMIT 1",
            [name],
        )
        if not rows:
            raise ConfigurationError(f"{self.storage.name} has no episode {short_repr(name)}")
        number, at, is_over = rows[0]
        ids = self.storage.read("SELECT id FROM decisions WHERE episode = ? ORDER BY id", [number])
        return {
            "name": name, "number": number, "at": at, "is over": bool(is_over),
            "decisions": [self.why(row[0]) for row in ids],
        }  # fmt: skip

    def why(self, id: int) -> dict[str, Any]:
        """Return what was decided, from what, by whom, with which random number, and what came."""
        row = self._row(id, self.storage.read)
        name, seed, drawn = self.storage.read(
            "SELECT name, seed, drawn FROM episodes WHERE number = ?", [row.episode]
        )[0]
        play, made = Play(int(seed), json.loads(drawn)), self._decision(row, name)
        outcomes = self.storage.read(
            "SELECT seq, kind, data, at FROM events WHERE decision = ? ORDER BY seq", [id]
        )
        told = [
            {"event": seq, "kind": kind, "at": at, **json.loads(data)}
            for seq, kind, data, at in outcomes
        ]
        return {
            "id": id, "key": row.key, "episode": name, "step": made.step,
            "observation": json.loads(row.observation), "action": made.action, "by": made.by,
            "explored": made.explored, "version": made.version, "at": row.at,
            "limits": None if row.bounds is None else json.loads(row.bounds),
            "random": int(play.random_at(made.step)), "played as": play.drawn, "state": row.state,
            "told": told,
            "learned": any(
                one["kind"] in LEARNED and one["event"] <= self.version for one in told
            ),
        }  # fmt: skip

    def to_log(self, library: str = "polars") -> Any:
        """Return the learned transitions as a log, for `agent.learn_from` or `evaluate_on`.

        Its column `desk_event` says in which order they were learned, and `learn_from` heeds it.
        """
        rows = self.storage.read(
            "SELECT d.episode, d.step, d.observation, d.action, e.data, e.seq FROM events e "
            "JOIN decisions d ON d.id = e.decision WHERE e.kind IN ('tell', 'default') "
            "ORDER BY d.episode, d.step"
        )
        told = [json.loads(row[4]) for row in rows]
        axes = self._reader.agent.axes

        def numbers(found: list[Any], n: int) -> Any:
            return np.array(found, np.float64).reshape(len(rows), n)

        played = [
            one.get("action") or json.loads(row[3]) for one, row in zip(told, rows, strict=True)
        ]
        transitions = Transitions(
            np.array([row[1] for row in rows], np.int64),
            numbers([json.loads(row[2]) for row in rows], axes.n_state),
            numbers(played, axes.n_action),
            np.array([one["reward"] for one in told], np.float64),
            numbers([one["next"] for one in told], axes.n_state),
            np.array([one["terminated"] for one in told], bool),
        )
        names, order = [row[0] for row in rows], [row[5] for row in rows]
        return make_log(transitions, names, axes.names, axes.n_state, library, **{ORDER: order})

    def verify(self) -> Verified:
        """Replay the log from the first snapshot, and compare the result with the last one.

        Raises
        ------
        CheckpointError
            If both differ, in the agent or in its open episodes.
        """
        self.snapshot()
        last = Learner.at(self.storage, LATEST, self._kind, self._apprentice)
        (first,) = self.storage.read("SELECT MIN(seq) FROM snapshots")[0]
        replayed = Learner.at(self.storage, first, self._kind, self._apprentice)
        n_events = replayed.follow(until=last.seq)
        was, now = last.content(), replayed.content()
        if was != now:
            what = "the agent" if was[0] != now[0] else "the open episodes"
            raise CheckpointError(
                f"{self.storage.name}: replaying {n_events:,} events gives another state of {what} "
                f"than the snapshot of event {last.seq:,}"
            )
        return Verified(n_events, len(now[0]))

    def __repr__(self) -> str:
        kind, mode = type(self._reader.agent).__name__, "closed"
        if not self.storage.is_closed:
            mode = self.mode
        return f"Desk({self.storage.name}, {kind}, version {self.version}, {mode})"

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Store a snapshot, end learning, and close the database. Twice is the same as once."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._learn_lock:  # another thread may tell, or close, too
            if self.storage.is_closed:
                return
            try:
                if self._leader is not None:
                    self._follow(self._leader)
                    self.snapshot()
            finally:
                self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _check_name(name: str, given: Any) -> None:
    """Raise ConfigurationError if a name is not one that both databases can store."""
    try:
        is_name = bool(given.encode()) and "\0" not in given
    except (AttributeError, UnicodeEncodeError):  # no text, or half of a surrogate pair
        is_name = False
    if not is_name:
        raise ConfigurationError(f"{name}={short_repr(given)}: give a name, such as 'store-17'")


def _plan_of(agent: Agent) -> str:
    """Return the name of the plan by which an episode of the agent would be played now."""
    return episodes.plan_name(agent.draw_play(Play(0)))


def _set(write: Callable[..., Any], name: str, value: str) -> None:
    write(
        "INSERT INTO meta (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value", [name, value],
    )  # fmt: skip


def _difference(was: Any, now: Any) -> str:
    """Return the first difference of two descriptions of agents, in words."""
    if was["agent"] != now["agent"]:
        return f"{was['agent']}, not {now['agent']}"
    for name in sorted({*was["options"], *now["options"]}):
        one, other = (of["options"].get(name) for of in (was, now))
        if one != other:
            return f"{name}={short_repr(one)}, not {short_repr(other)}"
    return "its spaces differ"


def _as_json(value: Any) -> Any:
    """Return arrays, and dicts and tuples of them, as JSON values."""
    if isinstance(value, Mapping):
        return {key: _as_json(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_as_json(one) for one in value]
    return np.asarray(value).tolist()


def _limits(
    agent: Agent, info: Mapping[str, Any] | None, bounds: Mapping[str, tuple[float, float]] | None
) -> str | None:
    """Return the restrictions of an action as JSON: the masks of `info`, or `bounds` by axis."""
    for name, given in (("info", info), ("bounds", bounds)):
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(f"{name}={short_repr(given)}: give a dict")
    found = {
        key: _as_json(info[key])
        for key in ("action_mask", "action_low", "action_high")
        if info and info.get(key) is not None
    }
    if bounds is not None:
        if found:
            raise ConfigurationError("give bounds, or restrictions in info, not both")
        axes, n = agent.axes, agent.axes.n_state
        low, high = axes.low[n:].copy(), axes.high[n:].copy()
        for name, ends in bounds.items():
            try:
                least, most = (float(end) for end in ends)
            except (TypeError, ValueError):
                least = most = math.nan
            if not least <= most:
                raise ConfigurationError(
                    f"bounds of {short_repr(name)} are {short_repr(ends)}; give (low, high)"
                )
            if name not in axes.names[n:]:
                raise ConfigurationError(
                    f"bounds has {short_repr(name)}; the axes of the action are {axes.names[n:]}"
                )
            i = axes.names[n:].index(name)
            low[i], high[i] = max(low[i], least), min(high[i], most)
            if axes.kinds[n + i] != INTERVAL:
                low[i], high[i] = math.ceil(low[i]), math.floor(high[i])
            if low[i] > high[i]:
                raise ConfigurationError(f"bounds of {name}: no action lies in ({least}, {most})")
        found = {
            key: _as_json(axes.actions.shaped(ends))
            for key, ends in (("action_low", low), ("action_high", high))
        }
    return json.dumps(found) if found else None
