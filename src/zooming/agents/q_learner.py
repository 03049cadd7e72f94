"""Q-learning over a table of balls: base class of AdaptiveQ, NetQ and MetricQ. [SBY19 Alg. 1]

A subclass makes the table. The table selects, updates and splits, see `partitions.table`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming import bonuses, kernels
from zooming.agents import cards
from zooming.agents.agent import Agent
from zooming.agents.clipping import clipping_text
from zooming.agents.core import (
    ACTIONS,
    CAPS,
    MOST_BALLS,
    TIES,
    check_core,
    check_n_rows,
    new_core,
)
from zooming.agents.doubling import prepare_episodes
from zooming.agents.history import Log
from zooming.agents.replay import Transitions, replay, update_each
from zooming.agents.split_options import check_savable_rule
from zooming.agents.stored_bonus import bonus_from_json, bonus_to_json
from zooming.agents.table_policy import greedy_actions, row_at, value_at
from zooming.agents.table_steps import choose_action, learn_step
from zooming.kernels import pausing
from zooming.kernels.crossing import Crossing
from zooming.partitions.splits import Rule, TreeRule
from zooming.partitions.view import Partition
from zooming.spaces.masks import Feasible
from zooming.upper import UpperMethod
from zooming.validation import Floats, check_choice

if TYPE_CHECKING:
    pass

DEFAULT_BONUS = 0.1  # c, for rewards that span 1


class QLearner(Agent):
    """Base class of agents that learn Q for the balls of a table.

    To write such an agent, pass the record that `make_core` returns to a new table, and call
    `begin` with that table at the end of `__init__`. Keep each argument as an attribute of the same
    name. Both drivers, `save`, `load` and all other methods then work.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bonus : float or Bonus, optional
        Exploration bonus: a number c means c / sqrt(t), or an object of `zooming.bonuses`.
        By default c is 0.1 times the span of `reward_range`.
    cap : {"remaining", "horizon"}, default "remaining"
        Cap values by the steps that remain or, as in the paper, by the horizon.
    ties : {"random", "first"}, default "random"
        Choose a random ball among those of equal Q, as in the paper, or the first one.
    action : {"center", "uniform"}, default "center"
        Play the center of the chosen ball or, as in the paper, a uniform draw from it.
    **options
        Options of `Agent`.
    """

    split: str | Rule | TreeRule  # of agents whose balls are split, see `agents.split_options`
    max_balls: int | None  # of agents that have this option
    _actions = ACTIONS
    _shares_steps = False  # whether all steps share one partition

    def __init__(
        self,
        env: Any,
        *,
        bonus: float | bonuses.Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        low, high = self.reward_range
        self.bonus = bonuses.as_bonus(DEFAULT_BONUS * (high - low) if bonus is None else bonus)
        self.cap = check_choice("cap", cap, CAPS)
        self.ties = check_choice("ties", ties, TIES)
        self.action = check_choice("action", action, self._actions)
        self.table: Any  # a `partitions.table.Table`, set by `begin`
        self._first_table: Any = None  # copy for restarts of the doubling trick
        self._paused = np.zeros(pausing.STATE + self.axes.n_state)  # see `pausing`
        self._lowest_reward, self._highest_reward = self.reward_range

    def make_core(
        self, max_balls: int = MOST_BALLS, layout: np.dtype[Any] = kernels.CORE
    ) -> NDArray[Any]:
        """Return the core of a table: the options of this agent in the layout of the kernels."""
        return new_core(self, max_balls, layout)

    @property
    def _n_roots(self) -> int:
        """Number of partitions: one per step, or a single one for all steps."""
        return 1 if self._shares_steps else self.horizon

    def _has_only_atoms(self) -> bool:
        """Return whether every ball contains a single point from the start."""
        return self.axes.n_wide == 0

    @property
    def learned(self) -> Any:
        """The table of the learned policy. For most agents it is the table that is trained."""
        return self.table

    def begin(self, table: Any) -> None:
        """Set the initial table."""
        self.table = table
        self._first_table = table.copy() if isinstance(self.bonus, bonuses.Doubling) else None

    # --- learning ---------------------------------------------------------------------------------

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        with self.lock:
            return self._act(step, observation, info, False)

    _act = choose_action

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
        with self.lock:
            learn_step(
                self, step, observation, action, reward, next_observation, terminated, next_info
            )

    def play(self, env: Any, crossing: Crossing, log: Log, end: int) -> int:
        n_done = int(log.done[0])
        n = prepare_episodes(self, end - n_done)
        table, n_steps = self.table, min(self.horizon, env.horizon)
        if log.is_full:  # the kernel found too few rows for one more episode
            table.make_room()
        alive = dict(vars(table))  # noqa: F841  # the kernel has addresses, and runs unlocked
        code: int = table.play(
            table.handle, crossing.handle, env.params, n_steps, *self.reward_range,
            np.empty(self.axes.n_action), log.returns, log.n_balls, log.done, n_done + n,
            log.trouble, self._paused, self.clipping,
        )  # fmt: skip
        return code

    def _learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
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

    def _take_n_episodes(self, n: int) -> None:
        if not 0 <= n <= self.n_episodes:  # older files hold the episodes that learn() finished
            raise ValueError(f"{n} episodes, but the table has seen {self.n_episodes}")

    def drop_paused(self) -> None:
        """Drop an episode that was paused for a split. Another driver cannot continue it."""
        self._paused[pausing.N_STEPS] = 0.0

    # --- the learned policy -----------------------------------------------------------------------

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        return greedy_actions(self, steps, states, deterministic, allowed)

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        return value_at(self, self.learned, step, observation, info)

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        row = row_at(self, step, observation, action)
        return float(self.learned.q_values(int(step), row))

    def visits(self, step: int, observation: Any, action: Any) -> int:
        return int(self.learned.rows["n_visits"][row_at(self, step, observation, action)])

    def partition(self, step: int) -> Partition:
        found: Partition = self.learned.view(self.problem.check_step(step))
        return found

    @property
    def n_balls(self) -> int:
        return int(self.table.n_balls)

    @property
    def is_full(self) -> bool:
        """Whether `max_balls` prevented a split that was due by a user's rule."""
        return bool(getattr(self.table, "is_full", False))

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)

    def _facts(self) -> dict[str, Any]:
        return {
            "axes": cards.axes_text(self.axes),
            "bonus": self.bonus,
            "balls": f"{self.n_balls:,} in {self.nbytes:,} bytes",
            "seed": self.seed,
            **cards.shown_fact(self.horizon),
        }

    def _pictures(self) -> list[str]:
        return cards.thumbnails(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, bonus={self.bonus}, "
            f"{self.n_balls} balls in {self.nbytes:,} bytes after {self.n_episodes} "
            f"episodes{clipping_text(self)})"
        )

    learn_pac = UpperMethod()

    def _without_bound(self) -> str | None:
        """Return why this class has no regret bound with known constants, or None if it has one."""
        return f"no bound with constants is known for {type(self).__name__}"

    def _against_bound(self) -> str | None:
        """Return the option that the regret bound does not cover, as text, or None."""
        return None

    # --- files ------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        check_savable_rule(getattr(self, "split", None))
        return super()._options()

    def _known_options(self) -> dict[str, Any]:
        names = ("cap", "ties", "action", "split", "max_balls")  # not all agents have the last two
        own = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {"bonus": bonus_to_json(self.bonus), **own, **super()._known_options()}

    @classmethod
    def _from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        n_roots = 1 if cls._shares_steps else options["horizon"]
        check_n_rows(env, options, arrays, n_roots)  # before the table is allocated
        options = {**options, "bonus": bonus_from_json(options["bonus"])}
        return super()._from_options(env, options, arrays)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, self.table.state()

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        check_core(self, arrays["core"])
        self.table.restore(arrays)
