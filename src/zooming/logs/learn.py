"""Let an agent learn from a log: check its rows, then learn from them.

Each fault is counted, with the first rows that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.training.replay import Transitions
from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels.boxes.layout import BOUND_TOLERANCE, LOW
from zooming.logs.reading import Rows, Source, open_log
from zooming.spaces.flatten import INTERVAL
from zooming.validation import Floats, Ints, check_choice, count_noun, known_options

BAD = ("refuse", "skip")
MOST_NAMED = 5  # rows of a fault that are named
Mask = NDArray[np.bool_]


@dataclass
class Fault:
    """One kind of fault in a log: the number of rows with it, the first rows, and an example."""

    what: str
    n_rows: int = 0
    rows: list[int] = field(default_factory=list)
    example: str = ""

    def __str__(self) -> str:
        more = ", ..." if self.n_rows > len(self.rows) else ""
        named = f"{'rows' if self.n_rows > 1 else 'row'} {', '.join(map(str, self.rows))}{more}"
        first = "; the first: " if self.n_rows > 1 else ": "
        example = f"{first}{self.example}" if self.example else ""
        return f"{count_noun(self.n_rows, 'row')} {self.what} ({named}{example})"


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


@known_options
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
    may be missing. The log of a desk is learned in the order in which the desk learned it.

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
    columns = {
        "episode": episode, "step": step, "state": state, "action": action, "reward": reward,
        "next_state": next_state, "terminated": terminated,
    }  # fmt: skip
    source = open_log(log, agent.axes, columns)
    checker = Checker(agent)
    kept = [checker.feed(rows) for rows in source.episodes(agent.horizon)]
    checker.refuse(source, bad, "learned")
    if checker.orders:
        order = np.argsort(np.concatenate(checker.orders), kind="stable")
        joined: Any = (np.concatenate(column)[order] for column in zip(*kept, strict=True))
        kept = [Transitions(*joined)]
    before = agent.n_episodes
    for found in kept:
        with agent.run.lock:
            agent.learn_transitions(found)
    if type(agent).n_episodes is Agent.n_episodes:  # an agent that does not count
        agent.set_n_episodes(before + checker.n_episodes)
    return Learned(checker.n_rows, checker.n_kept, checker.n_episodes, checker.faults)


class RowChecks:
    """Count the faults of rows: their order, and what a subclass checks."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.faults: dict[str, Fault] = {}
        self._known: set[Any] = set()  # episodes that have ended

    def find_runs(self, rows: Rows) -> tuple[Mask, Mask, Mask, Floats]:
        """Return three masks, and the step of each row.

        The masks are of the rows that start an episode, that resume an ended one, and that have no
        episode. Without a column of steps, the rows of an episode are counted.
        """
        names, steps, n = rows["episode"], rows["step"], len(rows)
        is_new, is_back, is_unnamed = np.ones(n, bool), np.zeros(n, bool), np.zeros(n, bool)
        if names is None:
            is_new[1:] = (steps[1:] == 0) | (steps[1:] <= steps[:-1])
        else:
            is_unnamed = _is_missing(names)
            is_new[1:] = names[1:] != names[:-1]
            starts = np.flatnonzero(is_new)
            ends = np.append(starts[1:], n)
            for start, end, name in zip(starts, ends, names[starts].tolist(), strict=True):
                if name in self._known:
                    is_back[start:end] = True
                self._known.add(name)
        if steps is None:
            place = np.arange(n, dtype=np.float64)
            steps = place - np.maximum.accumulate(np.where(is_new, place, 0.0))
        return is_new, is_back & ~is_unnamed, is_unnamed, steps

    def check_order(
        self, steps: Floats, is_new: Mask, is_back: Mask, is_known: Mask, first: int
    ) -> Mask:
        """Return a mask of the rows whose step is larger than the step of the row before.

        In 0, 9, 2 it is the 9 that is out of order, not the 2.
        """
        change = np.diff(steps, prepend=-1.0)
        change[is_new] = steps[is_new] + 1
        is_peak = np.zeros(len(steps), bool)
        is_peak[:-1] = (change[1:] < 0) & (change[:-1] + change[1:] == 2) & ~is_new[1:]
        change[1:][is_peak[:-1]] = 2
        change[is_peak] = -1
        is_order = is_back | ((change < 0) & is_known)
        is_twice = (change == 0) & is_known & ~is_back
        self.flag("order", "out of order", is_order, first)
        self.flag("duplicate", "repeating a step", is_twice, first)
        self.flag(
            "gap", "after a gap", (change > 1) & is_known & ~is_back, first,
            lambda k: f"step {steps[k]:.0f} "
            + ("begins the episode" if is_new[k] else f"comes after step {steps[k - 1]:.0f}"),
        )  # fmt: skip
        return np.asarray(~(is_order | is_twice))

    def flag(self, kind: str, what: str, mask: Mask, first: int, example: Any = None) -> None:
        """Count the rows in `mask` as a fault. `example(k)` describes row k."""
        found = np.flatnonzero(mask)
        if not len(found):
            return
        fault = self.faults.setdefault(kind, Fault(what))
        if not fault.rows and example is not None:
            fault.example = example(int(found[0]))
        fault.n_rows += len(found)
        free = MOST_NAMED - len(fault.rows)
        fault.rows += (first + found[:free]).tolist()

    def listed(self) -> str:
        """Return all faults in words."""
        return "; ".join(str(fault) for fault in self.faults.values())

    def refuse_faults(self, name: str, what: str, hints: Iterable[str]) -> None:
        """Raise TransitionError for the faults of the log `name`, with the usual corrections."""
        said = " ".join(hints)
        correct = f"{said} Otherwise correct" if said else "Correct"
        row = min(fault.rows[0] for fault in self.faults.values())
        lines = f" below the header: row {row} is line {row + 2} of the file"
        lines = lines if name.lower().endswith(".csv") else ""
        raise TransitionError(
            f"{name} has faults, and nothing was {what}: {self.listed()}. Rows count from 0"
            f'{lines}. {correct} these rows, or skip them with bad="skip"'
        )


class Checker(RowChecks):
    """Convert rows to transitions that an agent can learn from, and count the faults."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent, self.axes, self.horizon = agent, agent.axes, agent.horizon
        self.n_kept = self.n_episodes = 0
        self._n_first = self._n_beyond = 0  # rows with step 0, and with step `horizon`
        self._least, self._most = np.inf, -np.inf  # finite rewards
        self.is_kept: Mask = np.zeros(0, bool)  # of the rows that were fed last
        self.runs: Ints = np.zeros(0, np.int64)  # number of the episode of each row
        self.orders: list[Floats] = []  # of the rows that were kept, if the log tells it

    def feed(self, rows: Rows) -> Transitions:
        """Return the transitions of some whole episodes, without the rows that have faults."""
        n, first = len(rows), rows.first
        states, actions, rewards = rows["state"], rows["action"], rows["reward"]
        next_states, terminated = rows["next_state"], rows["terminated"]
        is_new, is_back, is_unnamed, steps = self.find_runs(rows)
        is_terminated = np.zeros(n, bool)
        is_missing = np.isnan(rewards) | np.isnan(steps) | is_unnamed
        is_missing |= np.isnan(states).any(axis=1) | np.isnan(actions).any(axis=1)
        if terminated is not None:
            is_missing |= np.isnan(terminated)
            is_terminated = terminated == 1
        has_no_value = is_terminated | (steps == self.horizon - 1)  # of a next state
        if next_states is not None:
            is_missing |= np.isnan(next_states).any(axis=1) & ~has_no_value
        self.flag("missing", "with a missing value or text for a number", is_missing, first)
        is_end = self._ends(terminated, is_terminated, is_new, first)
        is_step = (steps == np.rint(steps)) & (steps >= 0) & (steps < self.horizon)
        self.flag(
            "step", f"with a step that is not a whole number from 0 to {self.horizon - 1}",
            ~is_step & ~is_missing, first, lambda k: f"step {steps[k]:g}",
        )  # fmt: skip
        self._n_first += int((steps == 0).sum())
        self._n_beyond += int((steps == self.horizon).sum())
        is_ordered = self.check_order(steps, is_new, is_back, is_step & ~is_missing, first)
        is_state = self._is_inside(states, 0, "state", is_missing, first)
        is_action = self._is_inside(actions, self.axes.n_state, "action", is_missing, first)
        is_reward = self._rewards(rewards, is_missing, first)
        usable = ~is_missing & is_step & is_ordered & is_state & is_end
        after = states.copy()
        if next_states is None:
            needs = usable & ~has_no_value & ~_follow(after, usable, np.cumsum(is_new), steps)
            self.flag("next", "without a next state", needs, first)
            usable &= ~needs
        else:
            given = ~(has_no_value & np.isnan(next_states).any(axis=1))
            after[given] = next_states[given]
            usable &= self._is_inside(after, 0, "next state", is_missing, first)
        keep = usable & is_action & is_reward
        self.n_rows += n
        self.n_kept += int(keep.sum())
        self.is_kept, self.runs = keep, np.cumsum(is_new)
        self.n_episodes += len(np.unique(self.runs[keep]))
        if rows["order"] is not None:
            self.orders.append(rows["order"][keep])
        return Transitions(
            steps[keep].astype(np.int64), states[keep], actions[keep],
            rewards[keep], after[keep], is_terminated[keep],
        )  # fmt: skip

    def refuse(self, source: Source, bad: str, what: str) -> None:
        """Raise an error if the log has no rows, or faults that must not be skipped.

        A log whose steps count from 1 is always refused: without its last steps, the others would
        be learned one step late. `what` is the verb of the message, such as "learned" in "nothing
        was learned".
        """
        name = source.name
        if not self.n_rows:
            raise ConfigurationError(f"{name} has no rows")
        if self._n_beyond and not self._n_first:
            raise TransitionError(
                f"{name} counts its steps from 1, and nothing was {what}: no row has step 0, and "
                f"step {self.horizon} occurs in {count_noun(self._n_beyond, 'row')}. Steps count "
                f"from 0 to {self.horizon - 1}: subtract 1 from the column. If the log names its "
                "episodes and their rows are in order, it needs no steps: drop the column, or "
                "leave out step="
            )
        if self.faults and bad == "refuse":
            self.refuse_faults(name, what, self._hints(source))

    def _hints(self, source: Source) -> Iterator[str]:
        """Yield sentences on the usual ways to correct the faults."""
        if "missing" in self.faults and source.columns.texts:
            yield from source.columns.text_hints()
            yield "Map categories to the whole numbers 0, 1, ..., n - 1."
        if "order" in self.faults:
            yield "Sort the rows by episode, and by step within an episode."
        if "gap" in self.faults and not self._n_first:
            yield "Steps count from 0, but no row has step 0."
        low, high = self.agent.reward_range
        is_outside = self._least < low or self._most > high
        if "reward" in self.faults and is_outside and self.agent.rewards != "clip":
            fix = self.agent.problem.reward_fix
            yield f"The rewards of the log are {self._least:g} to {self._most:g}: {fix}."

    # --- one check each ---------------------------------------------------------------------------

    def _ends(self, given: Floats | None, is_terminated: Mask, is_new: Mask, first: int) -> Mask:
        """Return a mask of the rows that may end their episode, and do not come after its end."""
        if given is None:
            return np.ones(len(is_new), bool)
        is_odd = ~((given == 0) | (given == 1) | np.isnan(given))
        self.flag(
            "terminated", "with a value of terminated that is not 0 or 1, true or false", is_odd,
            first, lambda k: f"{given[k]:g}",
        )  # fmt: skip
        n_before: Ints = np.cumsum(is_terminated) - is_terminated
        is_after: Mask = n_before > n_before[np.flatnonzero(is_new)][np.cumsum(is_new) - 1]
        self.flag("after", "after the end of their episode", is_after, first)
        return np.asarray(~(is_odd | is_after))

    def _is_inside(
        self, points: Floats, first_axis: int, what: str, is_missing: Mask, first: int
    ) -> Mask:
        """Return a mask of the rows whose point is inside its space, up to rounding errors."""
        axes = self.axes
        flat = points if axes.are_plain else axes.to_unit_cube(points.copy(), first_axis)
        own = slice(first_axis, first_axis + points.shape[1])
        low, high = axes.table[own, LOW], axes.ends[own]
        slack = BOUND_TOLERANCE * (high - low)
        is_in = (flat >= low - slack) & (flat <= high + slack)
        whole = np.array([kind != INTERVAL for kind in axes.kinds[own]])
        is_in[:, whole] &= points[:, whole] == np.rint(points[:, whole])
        is_bad = ~is_in.all(axis=1) & ~is_missing

        def example(k: int) -> str:
            i = int(np.argmin(is_in[k]))
            axis, value = axes[first_axis + i], points[k, i]
            if whole[i] and value != np.rint(value):
                is_what = "which is not a whole number"
            else:
                is_what = "but it runs"
            return f"{axis.name} = {value:g}, {is_what} from {axis.low:g} to {axis.high:g}"

        self.flag(what, f"with the {what} outside its space", is_bad, first, example)
        return np.asarray(~is_bad)

    def _rewards(self, rewards: Floats, is_missing: Mask, first: int) -> Mask:
        """Return a mask of the accepted rewards. An agent that clips accepts any finite reward."""
        low, high = self.agent.reward_range
        is_good = np.isfinite(rewards)
        self._least = min(self._least, rewards[is_good].min(initial=np.inf))
        self._most = max(self._most, rewards[is_good].max(initial=-np.inf))
        if self.agent.rewards != "clip":
            is_good &= (rewards >= low) & (rewards <= high)
        self.flag(
            "reward", f"with the reward outside the reward range [{low:g}, {high:g}]",
            ~is_good & ~is_missing, first, lambda k: f"reward {rewards[k]:g}",
        )  # fmt: skip
        return is_good


def _is_missing(names: NDArray[Any]) -> Mask:
    """Return a mask of the missing names."""
    if names.dtype.kind == "O":
        return np.array([name is None or name != name for name in names.tolist()], bool)
    if names.dtype.kind in "fmM":
        return np.asarray(names != names)
    return np.zeros(len(names), bool)


def _follow(after: Floats, usable: Mask, run: Ints, steps: Floats) -> Mask:
    """Write the state of the next row into `after`. Return a mask of the rows that have one."""
    at = np.flatnonzero(usable)
    here, there = at[:-1], at[1:]
    follows = (run[here] == run[there]) & (steps[here] + 1 == steps[there])
    found = np.zeros(len(usable), bool)
    found[here[follows]] = True
    after[here[follows]] = after[there[follows]].copy()
    return found
