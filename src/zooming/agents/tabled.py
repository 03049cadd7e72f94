"""The base class of agents whose balls are boxes. A subclass only makes the initial table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import bonuses, kernels
from zooming.agents.ball_agent import TIES, BallAgent
from zooming.agents.history import Log
from zooming.kernels import BALL, CORE
from zooming.kernels.crossing import Crossing
from zooming.partitions.boxes import BallTable
from zooming.partitions.view import Partition, some_steps
from zooming.spaces.axes import Axes
from zooming.spaces.masks import Feasible, has_mask

Floats = NDArray[np.float64]
_ROOM = 1024  # spare rows, so that the kernel rarely returns for a larger table
MOST_PICTURES = 5  # of partitions, in a notebook


class TabledAgent(BallAgent):
    """An agent whose balls are boxes; the kernels select, act and update."""

    table: BallTable

    def __init__(self, env: Any, **options: Any) -> None:
        super().__init__(env, **options)
        self._act, self._update = kernels.act(), kernels.update()
        self._lowest_reward, self._highest_reward = self.reward_range

    def _has_only_atoms(self) -> bool:
        return self.axes.n_wide == 0

    # --- learning ---------------------------------------------------------------------------------

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        if type(step) is not int or not 0 <= step < self.horizon:
            step = self._check_step(step)
        if step == 0 and self._first_table is not None:
            self.checked_state(step, observation)  # raise before the restart forgets anything
            self._restart_if_due()
        axes, table = self.axes, self.table
        if info and has_mask(info):
            allowed = self._feasible(step, info)
            return axes.shaped_action(
                self._choose(step, self._flat_state(step, observation), allowed, TIES[self.ties])[0]
            )
        action = np.empty(axes.n_action)
        flat = observation if axes.has_plain_states else self._flat_state(step, observation)
        try:
            answer = self._act(table.raw_rows, table.raw_core, axes.table, step, flat, action)
        except (TypeError, ValueError):  # not a float64 vector: convert it below
            answer = kernels.WRONG_SIZE
        if answer != -1:
            state = self._flat_state(step, observation)
            answer = self._act(table.raw_rows, table.raw_core, axes.table, step, state, action)
            if answer >= 0:
                raise self._bad_coordinate(step, answer, axes.from_unit_cube(state, 0)[answer])
        return action if axes.has_plain_actions else axes.shaped_action(action)

    def _choose(
        self,
        step: int,
        state: Floats,
        allowed: Feasible | None,
        ties: int,
        rule: int | None = None,
        core: Any = None,
    ) -> tuple[Floats, int]:
        """Return an allowed action and the row of its ball."""
        assert allowed is not None
        axes, table, action = self.axes, self.table, np.empty(self.axes.n_action)
        core = table.core if core is None else core
        rule = int(core["action_rule"][0]) if rule is None else rule
        row = int(
            kernels.choose(
                table.rows, core, axes.table, step, state, ties, rule, allowed.allowed, action
            )
        )
        if row < 0:  # not for lack of a feasible ball: every axis has a feasible value
            raise self._bad_coordinate(step, -1 - row, axes.from_unit_cube(state, 0)[-1 - row])
        return axes.to_unit_cube(
            allowed.between(axes.from_unit_cube(action, axes.n_state)), axes.n_state
        ), row

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
        if type(step) is not int or not 0 <= step < self.horizon:
            step = self._check_step(step)
        if step == 0 and self._first_table is not None:
            self._checked_transition(step, observation, action, reward, next_observation)
            self._restart_if_due()
        axes, table, is_clipped = self.axes, self.table, False
        if not (
            isinstance(reward, float) and self._lowest_reward <= reward <= self._highest_reward
        ):
            given, reward = reward, self._check_reward(step, reward)
            is_clipped = bool(given != reward)
        state, played, after = observation, action, next_observation
        if not axes.has_plain_states:
            state, after = (
                self._flat_state(step, observation),
                self._flat_state(step, next_observation, "next "),
            )
        if not axes.has_plain_actions:
            played = self._flat_action(step, action)
        next_value = math.nan
        if next_info and has_mask(next_info) and not terminated and step + 1 < self.horizon:
            self._checked(step, self._flat_state(step, next_observation, "next "), 0, "next ")
            next_value = self.value(step + 1, next_observation, info=next_info)
        try:
            answer = self._update(
                table.raw_rows, table.raw_core, table.stats, axes.table,
                step, state, played, reward, after, terminated, next_value,
            )  # fmt: skip
        except (TypeError, ValueError):
            answer = kernels.WRONG_SIZE
        if answer == kernels.WRONG_SIZE or answer > kernels.FINE:
            state, played = self._flat_state(step, observation), self._flat_action(step, action)
            after = self._flat_state(step, next_observation, "next ")
            table.reserve(int(kernels.rows_needed(table.core, 1)))
            answer = self._update(
                table.raw_rows, table.raw_core, table.stats, axes.table,
                step, state, played, reward, after, bool(terminated), next_value,
            )  # fmt: skip
            if answer > kernels.FINE:
                axis = answer - kernels.BAD_STATE
                here, there = np.concatenate([state, played]), np.concatenate([after, played])
                value = np.concatenate(
                    [axes.from_unit_cube(here, 0), axes.from_unit_cube(there, 0)]
                )[axis]
                is_next = axis >= len(axes)
                raise self._bad_coordinate(
                    step, axis - len(axes) if is_next else axis, value, "next " if is_next else ""
                )
        if is_clipped:
            self._count_clipped()
        if answer <= kernels.DUE:
            self._split(kernels.DUE - answer)

    def play(self, env: Any, crossing: Crossing, log: Log, end: int) -> int:
        n_done = int(log.done[0])
        n = self._go_on(end - n_done)
        table = self.table
        if log.is_full:  # the kernel found too few rows for one more episode
            n_splits = max(self.horizon, _ROOM // max(1, int(kernels.rows_per_split(table.core))))
            table.reserve(int(kernels.rows_needed(table.core, n_splits)))
        return kernels.play()(
            table.rows, table.core, table.stats, self.axes.table, crossing.handle, env.params,
            env.horizon,
            log.returns, log.n_balls, log.done, n_done + n, log.trouble, self._paused,
            self.clipping,
        )  # fmt: skip

    def _is_due(self, row: int) -> bool:
        ball = self.table.rows[row]
        return bool(ball["child"] == kernels.ACTIVE and ball["n_visits"] >= ball["threshold"])

    # --- the learned policy -----------------------------------------------------------------------

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        table, core = self.table, self.table.core
        rule = int(core["action_rule"][0]) if self.action != "uniform" else kernels.CENTER
        if not deterministic:
            # Draw from a copy with fresh randomness, so that predict does not change learning.
            core, rule = core.copy(), kernels.UNIFORM
            core["random"] = np.random.SeedSequence().generate_state(1, np.uint64)
        actions = np.empty((len(steps), self.axes.n_action))
        masked = [k for k, one in enumerate(allowed) if one is not None]
        for k in masked:
            actions[k], _ = self._choose(
                int(steps[k]), states[k], allowed[k], kernels.EITHER, rule, core
            )
        if masked:
            rest = np.setdiff1d(np.arange(len(steps)), masked)
            if len(rest):
                actions[rest] = self._greedy(
                    steps[rest], states[rest], deterministic, [None] * len(rest)
                )
            return actions
        k, bad = kernels.greedy(table.rows, core, self.axes.table, steps, states, rule, actions)
        if k >= 0:
            raise self._bad_coordinate(
                int(steps[k]), bad, self.axes.from_unit_cube(states[k], 0)[bad]
            )
        return actions

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        return float(self.table.rows[self._row(step, observation, action)]["value"])

    def visits(self, step: int, observation: Any, action: Any) -> int:
        return int(self.table.rows[self._row(step, observation, action)]["n_visits"])

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        step = self._check_step(step)
        state = self._flat_state(step, observation)
        table, stack = self.table, kernels.new_stack(self.table.core)
        if info and has_mask(info):
            _, row = self._choose(
                step, state, self._feasible(step, info), kernels.EITHER, kernels.CENTER
            )
        else:
            row, _ = kernels.best_ball(table.rows, table.core, self.axes.table, step, state, stack)
        if row < 0:
            raise self._bad_coordinate(step, -1 - row, self.axes.from_unit_cube(state, 0)[-1 - row])
        return min(float(kernels.ceiling(table.core, step)), float(table.rows[row]["value"]))

    def _row(self, step: int, observation: Any, action: Any) -> int:
        step = self._check_step(step)
        state, played = self._flat_state(step, observation), self._flat_action(step, action)
        unit = np.empty(len(self.axes))
        row = int(
            kernels.locate(
                self.table.rows, self.table.core, self.axes.table, step, state, played, unit
            )
        )
        if row < 0:
            raise self._bad_coordinate(
                step,
                -1 - row,
                self.axes.from_unit_cube(np.concatenate([state, played]), 0)[-1 - row],
            )
        return row

    def partition(self, step: int) -> Partition:
        found = self.table.partition(
            self._check_step(step), self.axes.names, self.axes.table, self.axes.ends
        )
        low, high = self.axes.from_unit_cube(found.low, 0), self.axes.from_unit_cube(found.high, 0)
        for i in range(len(self.axes)):
            axis = self.axes[i]
            if axis.squash:  # outer balls are unbounded; the inverse map ends at 1e6 scales
                low[found.low[:, i] == 0.0, i], high[found.high[:, i] == 1.0, i] = (
                    axis.low,
                    axis.high,
                )
        return replace(
            found,
            low=low,
            high=high,
            kinds=tuple(self.axes.kinds),
            weights=tuple(self.axes.weights),
        )

    def _facts(self) -> dict[str, Any]:
        axes = ", ".join(
            f"{n} in [{a:g}, {b:g}]"
            for n, a, b in zip(self.axes.names, self.axes.low, self.axes.high, strict=True)
        )
        shown = f"{MOST_PICTURES} of {self.horizon} steps; partition(step) has any"
        return {
            "axes": axes,
            "bonus": self.bonus,
            "balls": f"{self.n_balls:,} in {self.nbytes:,} bytes",
            "seed": self.seed,
            **({"shown": shown} if self.horizon > MOST_PICTURES else {}),
        }

    def _pictures(self) -> list[str]:
        return [
            self.partition(step).thumbnail() for step in some_steps(self.horizon, MOST_PICTURES)
        ]

    # --- files ------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        return {
            "bonus": bonuses.to_json(self.bonus),
            "cap": self.cap,
            "ties": self.ties,
            "action": self.action,
            "horizon": self.horizon,
            "reward_range": list(self.reward_range),
            "rewards": self.rewards,
            **self.axes.options,
            "seed": self.seed,
        }

    @classmethod
    def _from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        given = {key: options[key] for key in ("bounds", "ordered", "squash", "weights")}
        axes = Axes(env.observation_space, env.action_space, **given)
        if options["horizon"] * math.prod(axes.n_values) > len(
            arrays["balls"]
        ):  # before it allocates
            raise ValueError(
                f"{len(arrays['balls'])} rows are too few for {options['horizon']} steps of this "
                "space"
            )
        return cls(env, **{**options, "bonus": bonuses.from_json(options["bonus"])})

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        table = self.table
        n = table.rows_in_use
        return {}, {"core": table.core, "balls": table.rows[:n], "stats": table.stats[:n]}

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        core, balls = arrays["core"], arrays["balls"]
        is_table = (
            core.dtype == CORE and core.shape == (1,) and balls.dtype == BALL and balls.ndim == 1
        )
        if not is_table or arrays["stats"].dtype != np.float64 or arrays["stats"].ndim != 2:
            raise ValueError("the ball table has another layout")
        self._core_at(core)
        # Copy into rows with the kernels' alignment and dtype, which the file may not have.
        restored = BallTable.of_roots(np.zeros(1, CORE), np.zeros(len(balls)))
        restored.rows[:] = 0
        table = BallTable(core.astype(CORE), restored.rows[: len(balls)], arrays["stats"])
        for name in BALL.names or ():
            table.rows[name] = balls[name]
        fault = table.fault(self.axes.table)
        if fault:
            raise ValueError(fault)
        self.table = table

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.env_name}, horizon={self.horizon}, bonus={self.bonus}, "
            f"{self.n_balls} balls in {self.nbytes:,} bytes after {self.n_episodes} "
            f"episodes{self._clipped_in_words()})"
        )
