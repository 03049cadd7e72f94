"""Let an agent learn from a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zooming.agents.base.agent import Agent
from zooming.logs.checks import Checker, Fault
from zooming.logs.columns import Rows
from zooming.logs.reading import Source, join, open_log
from zooming.validation import check_choice, count_noun

BAD = ("refuse", "skip")


@dataclass(frozen=True)
class Learned:
    """The result of `agent.learn_from`: how many rows were learned, and faults.

    Attributes
    ----------
    n_rows : int
        Rows of the log.
    n_learned : int
        Rows that the agent learned from.
    n_episodes : int
        Episodes with such a row.
    faults : dict
        {kind: Fault}: what was wrong with the other rows, and gaps.
    """

    n_rows: int
    n_learned: int
    n_episodes: int
    faults: dict[str, Fault] = field(default_factory=dict)

    def __str__(self) -> str:
        found = (
            f"learned from {self.n_learned:,} of {count_noun(self.n_rows, 'row')} in "
            f"{count_noun(self.n_episodes, 'episode')}"
        )
        return "; ".join([found, *(str(fault) for fault in self.faults.values())])


def learn_from(
    agent: Agent,
    log: Any,
    *,
    episode: str | None = None,
    step: str | None = None,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    reward: str | None = None,
    next_state: str | Sequence[str] | None = None,
    terminated: str | None = None,
    bad: str = "refuse",
) -> Learned:
    """Let an agent learn from the transitions of a log, in their order.

    The result equals calling `agent.update` for each row in order, to the last bit. A file is read
    once, in pieces. All rows are checked before the first is learned, so their numbers must fit in
    memory: 17 + 8 (2 dim S + dim A) bytes per row, and about 0.6 GB while a piece is read.

    The log has one row per step, and the rows of an episode follow each other. Columns may be
    missing. Without a column for the step, the rows of an episode are counted. Without one for the
    episode, step 0 begins a new episode. Without columns for the next state, it is the state of the
    next row of the episode. The next state of the last step and of a terminated row is not used and
    may be missing.

    Parameters
    ----------
    agent : Agent
        The agent.
    log : data frame, dict or path
        A frame of polars or pandas, a dict of columns, or a .csv or .parquet file.
    episode, step, reward, terminated : str, optional
        Names of columns. By default these words.
    state, action, next_state : str or sequence of str, optional
        Columns of the axes, in the order of `agent.axes.names`. By default the names of the axes,
        or "state_0", ..., "action_0", ...; and these with "next_" before them.
    bad : {"refuse", "skip"}, default "refuse"
        What to do if rows have faults: learn nothing and raise an error that names them, or learn
        from the others.

    Returns
    -------
    Learned
        How many rows were learned, and the faults of those that were skipped.

    Raises
    ------
    ConfigurationError
        If the log cannot be read, or a column is missing. The agent has not changed.
    TransitionError
        If rows have faults and `bad` is "refuse". The agent has not changed.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0")
    >>> log = zooming.record(env, lambda step, state: state, episodes=200, epsilon=0.5, seed=0)
    >>> agent = zooming.AdaptiveQ(env, seed=0)
    >>> print(agent.learn_from(log))
    learned from 1,000 of 1,000 rows in 200 episodes
    """
    check_choice("bad", bad, BAD)
    options = {
        "episode": episode, "step": step, "state": state, "action": action, "reward": reward,
        "next_state": next_state, "terminated": terminated,
    }  # fmt: skip
    source = open_log(log, agent.axes, options)
    checker = Checker(agent)
    kept = [checker.feed(rows) for rows in whole_episodes(source, agent.horizon)]
    checker.refuse(source, bad, "learned")
    before = agent.n_episodes
    for found in kept:
        with agent.run.lock:
            agent._learn_transitions(found)
    if type(agent).n_episodes is Agent.n_episodes:  # an agent that does not count
        agent._take_n_episodes(before + checker.n_episodes)
    return Learned(checker.n_rows, checker.n_kept, checker.n_episodes, checker.faults)


def whole_episodes(source: Source, horizon: int) -> Iterator[Rows]:
    """Yield the rows in pieces that end at the end of an episode."""
    rest: Rows | None = None
    pieces = source.pieces()
    piece = next(pieces, None)
    while piece is not None:
        after = next(pieces, None)
        rows = piece if rest is None else join([rest, piece])
        n = len(rows.rewards)
        cut = n if after is None else _last_start(rows)
        if cut == 0 and n > 2 * horizon:
            cut = n  # an episode this long has faults: it need not be whole
        if cut:
            yield _part(rows, 0, cut)
        piece, rest = after, _part(rows, cut, n) if cut < n else None


def _last_start(rows: Rows) -> int:
    """Return the row at which the last episode begins."""
    if rows.episodes is not None:
        differs = rows.episodes[1:] != rows.episodes[:-1]
    else:
        assert rows.steps is not None
        differs = (rows.steps[1:] == 0) | (rows.steps[1:] <= rows.steps[:-1])
    starts = np.flatnonzero(differs)
    return int(starts[-1]) + 1 if len(starts) else 0


def _part(rows: Rows, first: int, last: int) -> Rows:
    parts = [None if column is None else column[first:last] for column in rows[1:]]
    return Rows(rows.first_row + first, *parts)  # type: ignore[arg-type]
