"""Q-learning over a table of balls: base class of AdaptiveQ, NetQ and MetricQ. [SBY19 Alg. 1]

A subclass makes the table. The table selects, updates and splits, see `partitions.table`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy import dtype, empty, float64, ndarray
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.episodes import Play
from zooming.agents.base.status import clipping_text, count_clipped
from zooming.agents.files.options import bonus_from_json, bonus_to_json
from zooming.agents.training.history import RunArrays
from zooming.agents.training.replay import Transitions, replay, update_each
from zooming.bonuses import (
    Bernstein,
    Bonus,
    Doubling,
    Exact,
    Theory,
    as_bonus,
    number_of_phase,
)
from zooming.errors import ConfigurationError
from zooming.kernels import (
    BAD_STATE,
    DUE,
    FINE,
    GOES_ON,
    TERMINATED,
    TRUNCATED,
    WRONG_SIZE,
)
from zooming.kernels.loop import episodes as pausing
from zooming.kernels.loop.crossing import Crossing
from zooming.methods import UpperMethod
from zooming.partitions.table import Answer
from zooming.partitions.view import Partition
from zooming.spaces.axes import Axes
from zooming.spaces.masks import Allowed, Feasible, has_mask
from zooming.validation import Floats, Ints, as_float, check_choice, check_flag, check_int

_FLOAT = dtype(float64)
DEFAULT_BONUS = 0.1  # c, for rewards that span 1
MOST_BALLS = 2**30 - 1  # a table of twice as many rows still has 31-bit row numbers
CAPS = ("remaining", "horizon")
TIES = {"random": kernels.RANDOM, "first": kernels.FIRST}
ACTIONS = {"center": kernels.CENTER, "uniform": kernels.UNIFORM}


def is_vector(point: Any) -> bool:
    """Return whether a kernel takes a point without conversion in Python code."""
    return type(point) is ndarray and point.dtype is _FLOAT


class QLearner(Agent):
    """Base class of agents that learn Q for the balls of a table.

    To write such an agent, pass the record that `make_core` returns to a new table, and call
    `_begin` with that table at the end of `__init__`. Keep each argument as an attribute of the
    same name. Both drivers, `save`, `load` and all other methods then work.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bonus, cap, ties, action
        As for `AdaptiveQ`.
    **options
        Options of `Agent`.
    """

    split: str  # of agents whose boxes are split, see `adaptive_q`
    max_balls: int | None  # of agents that have this option
    max_bytes: int | None
    steps_per_partition: int
    shares_steps = False  # whether all steps share one partition
    has_lemmas = True  # whether the lemmas of the paper apply, so that it can be audited
    heeds_others = False  # whether an action depends on those of other episodes under way

    def __init__(
        self,
        env: Any,
        *,
        bonus: float | Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        low, high = self.reward_range
        self.bonus = as_bonus(DEFAULT_BONUS * (high - low) if bonus is None else bonus)
        self.cap = check_choice("cap", cap, CAPS)
        self.ties = check_choice("ties", ties, TIES)
        self.action = check_choice("action", action, ACTIONS)
        self.table: Any  # a `partitions.table.Table`, set by `_begin`
        self._first_table: Any = None  # copy for restarts of the doubling trick
        self._paused = np.zeros(pausing.STATE + self.axes.n_state)  # see `pausing`
        self._lowest_reward, self._highest_reward = self.reward_range

    def make_core(
        self, max_balls: int = MOST_BALLS, layout: np.dtype[Any] = kernels.CORE
    ) -> NDArray[Any]:
        """Return the core of a table: the options of this agent in the layout of the kernels."""
        low, high = self.reward_range
        core = np.zeros(1, layout)
        core["max_balls"] = max_balls
        core["random"] = seeds.derive_seed(self.seed, "agent")
        core["horizon"], core["shared"] = self.horizon, self.horizon * self.shares_steps
        core["n_stats"], core["due_power"], core["due_factor"] = kernels.N_STATS, 2.0, 1.0
        core["n_state"], core["n_action"] = self.axes.n_state, self.axes.n_action
        core["ties"], core["action_rule"] = TIES[self.ties], ACTIONS[self.action]
        core["full_cap"], core["memory"] = self.cap == "horizon", kernels.MAX_VISITS
        core["reward_low"], core["reward_high"], core["reward_span"] = low, high, high - low
        write_bonus(core, self.bonus, self._has_only_atoms())
        return core

    @property
    def n_roots(self) -> int:
        """Number of partitions: one per step, or a single one for all steps."""
        return 1 if self.shares_steps else self.horizon

    def _has_only_atoms(self) -> bool:
        """Return whether every ball contains a single point from the start."""
        return self.axes.n_wide == 0

    @property
    def learned(self) -> Any:
        """The table of the learned policy. For most agents it is the table that is trained."""
        return self.table

    def _begin(self, table: Any) -> None:
        """Set the initial table."""
        self.table = table
        self._first_table = table.copy() if isinstance(self.bonus, Doubling) else None

    # --- learning ---------------------------------------------------------------------------------

    def act(
        self, step: Any = None, observation: Any = None, *, info: Mapping[str, Any] | None = None
    ) -> Any:
        with self.run.lock:
            return self._act(step, observation, info, False)

    # Arguments that are missing are refused as None: a wrapper would cost 0.1 us a call.
    def update(
        self,
        step: Any = None,
        observation: Any = None,
        action: Any = None,
        reward: Any = None,
        next_observation: Any = None,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        with self.run.lock:
            problem, axes = self.problem, self.axes
            if type(step) is not int or not 0 <= step < self.horizon:
                step = problem.check_step(step)
            if step == 0 and self._first_table is not None:
                problem.check_transition(step, observation, action, reward, next_observation)
                self._restart_if_due()
            is_clipped = False
            if not (
                isinstance(reward, float) and self._lowest_reward <= reward <= self._highest_reward
            ):
                given, reward = reward, problem.check_reward(step, reward)
                is_clipped = bool(given != reward)
            state, played, after = observation, action, next_observation
            if not (
                axes.has_plain_states and is_vector(observation) and is_vector(next_observation)
            ):
                state = problem.flat_state(step, observation)
                after = problem.flat_state(step, next_observation, "next ")
            if not (axes.has_plain_actions and is_vector(action)):
                played = problem.flat_action(step, action)
            next_value = math.nan
            if (
                next_info is not None
                and has_mask(next_info)
                and not terminated
                and step + 1 < self.horizon
            ):
                flat = problem.flat_state(step, next_observation, "next ")
                problem.check_point(step, flat, 0, "next ")
                next_value = self._value_at(self.table, step + 1, next_observation, next_info)
            try:
                code = self.table.update(
                    step, state, played, reward, after, bool(terminated), next_value
                )
            except (TypeError, ValueError):  # not float64 vectors: convert them below
                code = WRONG_SIZE
            if code != FINE and code != DUE:
                terminated = check_flag(terminated, "terminated")
                state, played = (
                    problem.flat_state(step, observation),
                    problem.flat_action(step, action),
                )
                after = problem.flat_state(step, next_observation, "next ")
                code = self.table.update(
                    step, state, played, reward, after, bool(terminated), next_value
                )
                if code == BAD_STATE:
                    raise problem.bad_point(step, self.table.payload, state, played, after)
            if is_clipped:
                count_clipped(self)
            if code == DUE:
                self.table.split(self.table.payload)

    def start(self, observation: Any) -> Any:
        """Return the first action of an episode. Calls of `step_on` must follow."""
        with self.run.lock:
            return self._act(0, observation, None, True)

    def step_on(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool,
        truncated: bool,
    ) -> Any:
        """Learn from a step and return the next action, or None if the episode is over.

        One kernel call does the work of `update` and of the next `act`. `action` must be the last
        one that `start` or `step_on` returned.
        """
        axes, table = self.axes, self.table
        is_over = terminated or truncated or step + 1 >= self.horizon
        with self.run.lock:
            if isinstance(reward, float) and self._lowest_reward <= reward <= self._highest_reward:
                after = (
                    next_observation
                    if axes.has_plain_states and is_vector(next_observation)
                    else self.problem.flat_state(step, next_observation, "next ")
                )
                end = TERMINATED if terminated else TRUNCATED if truncated else GOES_ON
                played = empty(axes.n_action)
                try:
                    code = table.next_step(table.handle, step, reward, after, end, played)
                except (TypeError, ValueError):  # not a float64 vector: `update` converts it
                    code = WRONG_SIZE
                if code == DUE:
                    table.split(table.payload)
                if code in (DUE, FINE):
                    if is_over:
                        return None
                    return played if axes.has_plain_actions else axes.shaped_action(played)
            self.update(step, observation, action, reward, next_observation, terminated)
            return None if is_over else self._act(step + 1, next_observation, None, True)

    def twin(self) -> Self:
        """Return a copy with its own table and generator state. The environment is shared."""
        twin = copy.copy(self)
        twin.table, twin.run.env_generator = self.table.copy(), self.run.env_generator
        twin._paused = self._paused.copy()
        return twin

    def _act(self, step: int, observation: Any, info: Mapping[str, Any] | None, keeps: bool) -> Any:
        """Return the action to play. If `keeps`, `step_on` may follow instead of `update`."""
        if type(step) is not int or not 0 <= step < self.horizon:
            step = self.problem.check_step(step)
        if step == 0 and self._first_table is not None:
            self.checked_state(step, observation)  # raise before the restart forgets anything
            self._restart_if_due()
        axes, table = self.axes, self.table
        if info is not None and has_mask(info):
            state, allowed = self.problem.flat_state(step, observation), self._feasible(step, info)
            rule = int(table.core["action_rule"][0])
            action, _ = self._select(table, step, state, TIES[self.ties], rule, allowed)
            return axes.shaped_action(action)
        action = empty(axes.n_action)
        is_plain = axes.has_plain_states and is_vector(observation)
        flat = observation if is_plain else self.problem.flat_state(step, observation)
        try:
            code = table.act(step, flat, action, keeps)
        except (TypeError, ValueError):  # not a float64 vector: convert it below
            code = WRONG_SIZE
        if code != FINE:
            state = self.problem.flat_state(step, observation)
            code = table.act(step, state, action, keeps)
            if code != FINE:
                raise self.problem.bad_point(step, table.payload, state)
        return action if axes.has_plain_actions else axes.shaped_action(action)

    def _restart_if_due(self) -> None:
        """Reset the table if the next episode begins a phase of the doubling trick."""
        old = self.table.core
        coming = int(old["episode"][0]) + 1
        if self._first_table is None or number_of_phase(coming) == old["phase"][0]:
            return
        fresh = self._first_table.copy()
        fresh.core["random"], fresh.core["episode"] = old["random"], old["episode"]
        write_bonus(fresh.core, self.bonus, self._has_only_atoms())
        self.table = fresh  # last, so that an interrupt leaves the old or the new table

    def prepare_play(self) -> None:
        self._restart_if_due()

    def act_play(
        self, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        if not self.interleaves:
            return super().act_play(play, step, observation, info)
        step, table = self.problem.check_step(step), self.table
        state, allowed = self.problem.flat_state(step, observation), self._feasible(step, info)
        core, action = table.core.copy(), empty(self.axes.n_action)
        core["random"] = play.random_at(step)
        waiting = self.run.waiting(play) if self.heeds_others else []
        others = [one[step][0] for one in waiting if step in one]
        code, i = table.select(
            step, state, action, ties=TIES[self.ties], rule=int(core["action_rule"][0]),
            allowed=allowed, core=core, **({"others": np.array(others)} if others else {}),
        )  # fmt: skip
        if code != FINE:
            raise self.problem.bad_point(step, i, state)
        play.waiting[step] = np.concatenate([state, action]), None, -1, 0.0
        best = self.greedy_actions(np.array([step]), state.reshape(1, -1), True, [allowed])[0]
        play.explored = not np.array_equal(best, action)
        return self.axes.shaped_action(action)

    def explore_many(self, steps: Ints, states: Floats, allowed: Allowed) -> Floats:
        table, core = self.table, self.table.core.copy()
        rule, actions = int(core["action_rule"][0]), empty((len(steps), self.axes.n_action))
        k, i = table.select_many(
            steps, states, actions, rule=rule, allowed=allowed, core=core, ties=TIES[self.ties]
        )
        if k >= 0:
            raise self.problem.bad_point(int(steps[k]), i, states[k])
        return actions

    def _prepare_episodes(self, n: int) -> int:
        """Do the split or restart that is due. Return `n`, or less if a restart comes earlier."""
        if self._paused[pausing.N_STEPS]:
            row = int(self._paused[pausing.DUE_ROW])
            if self.table.is_due(row):  # false if an interrupt came right after the split
                self.table.split(row)
        elif self._first_table is not None:
            self._restart_if_due()
        if self._first_table is None:
            return n
        n_left: int = 2 ** (int(self.table.core["phase"][0]) + 1) - 1 - self.n_episodes
        return min(n, n_left)

    def play(self, env: Any, crossing: Crossing, log: RunArrays, end: int) -> int:
        n_done = int(log.done[0])
        n = self._prepare_episodes(end - n_done)
        table, n_steps = self.table, min(self.horizon, env.horizon)
        if log.is_full:  # the kernel found too few rows for one more episode
            table.make_room()
        alive = dict(vars(table))  # noqa: F841  # the kernel has addresses, and runs unlocked
        code: int = table.play(
            table.handle, crossing.handle, env.params, n_steps, *self.reward_range,
            np.empty(self.axes.n_action), log.returns, log.n_balls, log.done, n_done + n,
            log.trouble, self._paused, self.run.clipping,
        )  # fmt: skip
        return code

    def learn_transitions(self, recorded: Transitions, done: Ints | None = None) -> None:
        is_own = getattr(self.update, "__func__", None) is QLearner.update
        if is_own and self._first_table is None:
            replay(self, recorded, done)
        else:  # a caller's own update, or restarts of the doubling trick
            update_each(self, recorded, done)

    # --- the number of episodes -------------------------------------------------------------------

    @property
    def n_episodes(self) -> int:
        # The update rule counts in the table, so both agree after any interrupt.
        return int(self.table.core["episode"][0]) - bool(self._paused[pausing.N_STEPS])

    def set_n_episodes(self, n: int) -> None:
        if not 0 <= n <= self.n_episodes:  # older files hold the episodes that learn() finished
            raise ValueError(f"{n} episodes, but the table has seen {self.n_episodes}")

    def drop_paused(self) -> None:
        """Drop an episode that was paused to cover a ball. Another driver cannot continue it."""
        self._paused[pausing.N_STEPS] = 0.0

    # --- the learned policy -----------------------------------------------------------------------

    def greedy_actions(
        self, steps: Ints, states: Floats, deterministic: bool, allowed: Allowed
    ) -> Floats:
        """Return one allowed flat action per (step, state): the center of the best ball.

        If `deterministic` is false, the action is drawn uniformly from that ball.
        """
        table = self.learned
        core = table.core
        rule = int(core["action_rule"][0]) if self.action != "uniform" else kernels.CENTER
        if not deterministic:
            # Draw from a copy with fresh randomness, so that predict does not change learning.
            core, rule = core.copy(), kernels.UNIFORM
            core["random"] = np.random.SeedSequence().generate_state(1, np.uint64)
        actions = np.empty((len(steps), self.axes.n_action))
        k, i = table.select_many(steps, states, actions, rule=rule, allowed=allowed, core=core)
        if k >= 0:
            raise self.problem.bad_point(int(steps[k]), i, states[k])
        return actions

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        return self._value_at(self.learned, step, observation, info)

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        row = self._row_at(step, observation, action)
        return float(self.learned.q_values(int(step), row))

    def visits(self, step: int, observation: Any, action: Any) -> int:
        return int(self.learned.rows["n_visits"][self._row_at(step, observation, action)])

    def _select(
        self, table: Any, step: int, state: Floats, ties: int, rule: int, allowed: Feasible | None
    ) -> tuple[Floats, int]:
        """Select a ball and an allowed action. Return (flat action, row of the ball)."""
        action = np.empty(self.axes.n_action)
        code, row = table.select(step, state, action, ties=ties, rule=rule, allowed=allowed)
        if code != kernels.FINE:
            raise self.problem.bad_point(step, row, state)
        return action, row

    def _value_at(
        self, table: Any, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> float:
        """Return V(observation) according to one table of the self."""
        step = self.problem.check_step(step)
        state, allowed = self.problem.flat_state(step, observation), self._feasible(step, info)
        _, row = self._select(table, step, state, kernels.EITHER, kernels.CENTER, allowed)
        return float(table.value(step, row))

    def _row_at(self, step: int, observation: Any, action: Any) -> int:
        """Return the row of the ball that contains (observation, action)."""
        problem = self.problem
        step = problem.check_step(step)
        state, played = problem.flat_state(step, observation), problem.flat_action(step, action)
        answer: Answer = self.learned.locate(step, state, played)
        if answer[0] != kernels.FINE:
            raise problem.bad_point(step, answer[1], state, played)
        return answer[1]

    def partition(self, step: int) -> Partition:
        found: Partition = self.learned.view(self.problem.check_step(step))
        return found

    @property
    def n_balls(self) -> int:
        return int(self.table.n_balls)

    @property
    def is_full(self) -> bool:
        """Whether `max_balls` leaves no room for another split of a box."""
        return bool(getattr(self.table, "is_full", False))

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)

    def _status(self) -> dict[str, Any]:
        return {"bonus": str(self.bonus), **self._fullness()}

    def _fullness(self) -> dict[str, str]:
        """Return what `status` says about a table that has reached `max_balls`."""
        removes = getattr(self.table, "has_budget", False)
        then = "a split removes the ball that matters least" if removes else "no ball is split"
        return {"full": f"max_balls is reached: {then}"} if self.is_full else {}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, bonus={self.bonus}, "
            f"{self.n_balls} balls in {self.nbytes:,} bytes after {self.n_episodes} "
            f"episodes{clipping_text(self)})"
        )

    learn_pac = UpperMethod()

    def why_no_bound(self) -> str | None:
        """Return why this class has no regret bound with known constants, or None if it has one."""
        return f"no bound with constants is known for {type(self).__name__}"

    def against_bound(self) -> str | None:
        """Return the option that the regret bound does not cover, as text, or None."""
        return None

    # --- files ------------------------------------------------------------------------------------

    def option_values(self) -> dict[str, Any]:
        # Not all agents have the last five.
        names = (
            "cap", "ties", "action", "split", "max_balls", "max_bytes", "steps_per_partition",
            "memory",
        )  # fmt: skip
        own = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {"bonus": self.bonus, **own, **super().option_values()}

    def _to_json(self, options: dict[str, Any]) -> dict[str, Any]:
        own = {"bonus": bonus_to_json(self.bonus)} if "bonus" in options else {}
        return {**options, **own}

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        together = options.get("steps_per_partition") or 1
        n_roots = 1 if cls.shares_steps else -(-options["horizon"] // together)
        check_n_rows(env, options, arrays, n_roots)  # before the table is allocated
        options = {**options, "bonus": bonus_from_json(options["bonus"])}
        return super().from_options(env, options, arrays)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, self.table.state()

    def _check_core(self, core: NDArray[Any]) -> None:
        """Raise ValueError if a stored core does not match the options of this new agent."""
        fresh = self.table.core.copy()
        if core.dtype != fresh.dtype or core.shape != (1,):
            raise ValueError("the ball table has another layout")
        episode, phase = int(core["episode"][0]), int(core["phase"][0])
        check_int(episode, "episode", 0, 2**52)  # more can follow
        if self._first_table is not None:
            # Between a restart and the first update the phase is that of the coming episode.
            if phase not in {number_of_phase(max(episode, 1)), number_of_phase(episode + 1)}:
                raise ValueError(
                    f"episode {episode} is not in the phase {phase} of the doubling trick"
                )
            fresh["episode"] = 2**phase - 1
            write_bonus(fresh, self.bonus, self._has_only_atoms())
        fresh["episode"] = episode
        kernels.set_iota(fresh)
        for name in core.dtype.names or ():
            # Learning changes these four; all others follow from the options.
            learned = ("n_rows", "n_balls", "random", "mean_reward")
            if name not in learned and core[name][0] != fresh[name][0]:
                raise ValueError(
                    f"{name} is {core[name][0]} in the table but {fresh[name][0]} in the options"
                )

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        arrays = {**arrays, "core": completed(arrays["core"], self.table.core)}
        self._check_core(arrays["core"])
        self.table.restore(arrays)


def completed(core: NDArray[Any], fresh: NDArray[Any]) -> NDArray[Any]:
    """Add `memory` to the core of an older file, which lacks it. Return others unchanged.

    Raise ValueError if partitions were shared: their Q counted other steps then.
    """
    if set(fresh.dtype.names or ()) - set(core.dtype.names or ()) != {"memory"}:
        return core
    found = fresh.copy()
    for name in core.dtype.names or ():
        found[name] = core[name]
    is_sharing = found["shared"] > 1 and found["rule"] >= kernels.WITHIN
    if is_sharing and found["bonus_rule"] != kernels.INDEX:
        raise ValueError(
            "the file is older, and what Q means has changed where steps share a partition: learn "
            "again"
        )
    return found


def write_bonus(core: NDArray[Any], given: Bonus, has_only_atoms: bool) -> None:
    """Write the bonus of the next episode into a core.

    `has_only_atoms` says that every ball contains a single point from the start.
    """
    bonus, horizon = given, int(core["horizon"][0])
    span, coming = float(core["reward_span"][0]), int(core["episode"][0]) + 1
    if isinstance(bonus, Doubling):
        bonus, core["phase"] = bonus.phase(coming), number_of_phase(coming)
    if isinstance(bonus, (Theory, Exact, Bernstein)) and has_only_atoms:
        bonus = replace(bonus, lipschitz=0.0)  # each ball is one point, so its diameter is 0
    try:
        core["bonus"] = as_float(bonus.scale(horizon, span))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{type(given).__name__}.scale must return a number ({error})"
        ) from error
    if not np.isfinite(core["bonus"][0]):
        raise ConfigurationError(
            f"the bonus {given} has the scale {core['bonus'][0]}; it must be finite"
        )
    if isinstance(bonus, (Theory, Exact, Bernstein)):
        core["per_root_iota"], core["plain"] = bonus.terms(horizon, span)
        core["iota"] = bonus.iota(horizon)
        core["first_iota"] = core["iota"] if bonus.episodes is None else 0.0
    if isinstance(bonus, Exact):
        core["bonus_rule"], core["lipschitz"] = kernels.EXACT, bonus.lipschitz
        core["reward_spread"] = bonus.reward_spread(span)
    elif isinstance(bonus, Bernstein):
        core["bonus_rule"], core["c1"], core["c2"] = kernels.BERNSTEIN, bonus.c1, bonus.c2


def check_n_rows(
    env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]], n_roots: int
) -> None:
    """Raise ValueError if a stored table has fewer rows than the table of a new agent."""
    names = ("bounds", "ordered", "squash", "weights")
    given = {name: options[name] for name in names if name in options}
    axes = Axes(env.observation_space, env.action_space, **given)
    if n_roots * math.prod(axes.n_values) > len(arrays["balls"]):
        raise ValueError(
            f"{len(arrays['balls'])} rows are too few for {options['horizon']} steps of this space"
        )
