"""Learn from the log of a desk: what is learned is a function of its events, in their order."""

from __future__ import annotations

import copy
import json
import time
from typing import Any, NamedTuple

import numpy as np

from zooming.agents.base import episodes
from zooming.agents.base.agent import Agent
from zooming.agents.base.episodes import Play
from zooming.agents.files.checkpoints import from_bytes, to_bytes
from zooming.desk.storage import Storage
from zooming.errors import CheckpointError

MANY = 500  # events that are read at once
_EVENTS = (
    "SELECT e.seq, e.kind, e.episode, e.data, d.step, d.observation, d.action, d.decider, p.seed, "
    "p.drawn FROM events e LEFT JOIN decisions d ON d.id = e.decision "
    "LEFT JOIN episodes p ON p.number = e.episode WHERE e.seq > ? AND e.seq <= ? "
    "ORDER BY e.seq LIMIT ?"
)
_SNAPSHOT = (  # one statement, because the one that learns may delete it
    "SELECT s.seq, s.content, s.open, p.content FROM snapshots s LEFT JOIN pieces p "
    "ON p.seq = s.seq WHERE s.seq = (SELECT MAX(seq) FROM snapshots WHERE seq <= ?) ORDER BY p.k"
)
LEARNED = ("tell", "default")  # kinds of events
AGAIN = ("late", "extra")  # of a step that an earlier event counts; it may end the episode
OUTCOMES = (*LEARNED, *AGAIN, "frozen", "missing", "close")
LATEST = 2**62  # no event has this number


class OpenEpisode(NamedTuple):
    """What is known of an episode that has not ended."""

    total: float = 0.0  # the rewards so far
    n_steps: int = 0  # steps whose reward came, or will not come
    last: int | None = None  # the last step, if known
    counts: bool = True  # whether its return will count
    plan: str = ""  # name of the plan that it is played by, see `episodes.plan_name`


class Learner:
    """An agent after the events of a desk's log up to number `seq`.

    `opened` is {number: values of an `OpenEpisode`}, the episodes that were open then.
    """

    def __init__(self, storage: Storage, agent: Agent, seq: int, opened: dict[str, Any]) -> None:
        self.storage, self.agent, self.seq = storage, agent, seq
        self.open = {int(number): OpenEpisode(*one) for number, one in opened.items()}
        self.failures: list[str] = []  # what the agent refused, in words

    @classmethod
    def at(cls, storage: Storage, seq: int, mine: type[Agent] | None, rule: Any = None) -> Learner:
        """Return the learner of the last snapshot that is not later than event `seq`."""
        rows = storage.read(_SNAPSHOT, [seq])
        if not rows:
            raise CheckpointError(f"{storage.name} has no snapshot of its agent")
        found, content, opened, _ = rows[0]
        whole = bytes(content) + b"".join(bytes(row[3]) for row in rows if row[3] is not None)
        agent = from_bytes(whole, storage.name, mine=mine)
        if rule is not None and agent.guide is not None:
            agent.guide.set_rule(rule)
        return cls(storage, agent, int(found), json.loads(opened))

    @property
    def plans(self) -> set[str]:
        """Names of the plans by which the open episodes are played."""
        return {one.plan for one in self.open.values()}

    def follow(self, most: int = LATEST, until: int = LATEST) -> int:
        """Learn up to `most` further events, none later than `until`. Return their number."""
        n_done = 0
        while n_done < most:
            rows = self.storage.read(_EVENTS, [self.seq, until, min(MANY, most - n_done)])
            for row in rows:
                self._learn(*row[1:])
                self.seq = int(row[0])
                time.sleep(0)  # threads that ask are not kept waiting for the interpreter
            n_done += len(rows)
            if len(rows) < MANY:
                break
        return n_done

    def _learn(
        self, kind: str, number: int, data: str, step: int, observation: str, action: str,
        decider: str, seed: str, drawn: str,
    ) -> None:  # fmt: skip
        agent = self.agent
        if kind == "begin":
            how = json.loads(drawn)
            episodes.begin(agent, Play(int(seed), how))
            self.open[number] = OpenEpisode(plan=episodes.plan_name(how))
        if number not in self.open or kind not in OUTCOMES:
            return
        play, now = Play(int(seed), json.loads(drawn)), self.open[number]
        if kind == "close":
            self._end(number, play, now._replace(counts=False))
            return
        told = json.loads(data)
        is_last = bool(told.get("terminated")) or step + 1 == agent.horizon
        is_first = kind not in AGAIN
        now = now._replace(n_steps=now.n_steps + is_first, last=step if is_last else now.last)
        if kind in LEARNED:
            states, actions = agent.axes.states, agent.axes.actions
            is_own = decider == "agent" or (decider == "rule" and bool(play.drawn.get("rule")))
            now = now._replace(total=now.total + told["reward"], counts=now.counts and is_own)
            played = told["action"] if told.get("action") is not None else json.loads(action)
            try:
                episodes.learn_in(
                    agent, play if is_own else Play(play.seed, {"rule": True}), step,
                    states.shaped(np.array(json.loads(observation))),
                    actions.shaped(np.array(played)), told["reward"],
                    states.shaped(np.array(told["next"])), bool(told["terminated"]),
                    told.get("next_info"),
                )  # fmt: skip
            except Exception as error:  # the log goes on: the same again if it is replayed
                self.failures.append(f"event {self.seq + 1}: {error}")
                now = now._replace(counts=False)
        elif is_first:
            now = now._replace(counts=False)
        self.open[number] = now
        if now.last is not None and now.n_steps > now.last:
            self._end(number, play, now)

    def _end(self, number: int, play: Play, now: OpenEpisode) -> None:
        episodes.end(self.agent, play, now.total if now.counts else None)
        del self.open[number]

    # --- copies -----------------------------------------------------------------------------------

    def content(self) -> tuple[bytes, str]:
        """Return the agent as a file's content, and the open episodes as JSON."""
        opened = {str(number): list(one) for number, one in sorted(self.open.items())}
        return to_bytes(self.agent), json.dumps(opened)

    def copy_agent(self) -> Agent:
        """Return a copy of the agent, to act with. It shares the environment."""
        env = self.agent.env
        return copy.deepcopy(self.agent, {id(env): env})
