"""An agent that keeps its transitions and plans on a kernel model of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.agent import UNDOUBTED, Agent
from zooming.agents.base.episodes import Play
from zooming.agents.base.problem import Checked
from zooming.agents.base.status import Bandwidths, clipping_text, plain, plus_minus
from zooming.agents.training.history import RunArrays
from zooming.agents.training.replay import Transitions, record_samples, update_each
from zooming.kernels import FIRST_VALUE, to_unit
from zooming.kernels.loop import episodes as pausing
from zooming.kernels.loop.crossing import Crossing
from zooming.kernels.plans import play as kernels
from zooming.kernels.plans.layout import (
    CATEGORIES,
    CLEAR,
    CORE,
    ENDED,
    FLAT,
    MEAN_REWARD,
    NONE,
    OLD,
    OPTIMISM,
    PLAYED,
    RECALLED,
    SMOOTH,
    pack_cells,
)
from zooming.partitions.cells import PLAYS, SQUARES, THIRDS, CellTable, expect
from zooming.partitions.view import Partition
from zooming.spaces.masks import Feasible
from zooming.validation import ANY_REWARD, Floats, check_int, count_own_frames

_EVERYTHING = np.empty((0, FIRST_VALUE))  # `allowed` of the kernels if all actions are feasible


def allowed_rows(allowed: Feasible | None) -> Floats:
    """Return the rows of allowed actions that the kernels read; None allows everything."""
    return _EVERYTHING if allowed is None else allowed.allowed


PHASE = {"plan": "n_plans", "replays": "replays"}  # entries of `drawn`: fields of `core`
MANY = 20  # categories of an axis that are probably quantities
SMALL = 0.02  # share of the reward range that the rewards seen should span
ABSURD = 1e6  # a few rewards so many times as large as all others are probably errors


class Planner(Agent):
    """Keep all transitions, and plan on a kernel model of rewards and next states.

    It uses every sample many times, and pools the samples of similar steps. There is nothing to
    tune: bandwidths, noise and the relevant axes are estimated by leave-one-out error.
    `docs/planner.md` has the definition. Nothing is proved about it; `AdaptiveQ` has a theorem.

    A new plan is made at the start of an episode if the number of episodes has grown by 10 %.
    `act` plays this plan with a bonus. `predict`, `value`, `q_value` and `partition` use a plan
    that was played, with a penalty instead, and that should not earn less than the one before. A
    tenth of the episodes play that policy. If the planner has not played, as in learning from a
    log, they use a plan from all samples.

    If info restricts actions, only feasible ones are played. The plan does not know which actions
    were feasible in which state, so the value of a next state is the maximum over all actions.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    max_samples : int, default 1,000,000
        Number of samples to keep, at least 1,000. If there are more when a plan is made, similar
        ones are joined into one, with their number and the mean and spread of their rewards. If
        there are 10 % more, a plan is made. A sample takes 28 bytes, plus 2 for each coordinate of
        state, action and next state.
    reward_range : (float, float), optional
        Lowest and highest reward of one step. By default any finite reward is accepted, and the
        scale is learned. The highest reward, given here or stated by the environment, caps the
        values, which helps a little.
    **options
        Options of `Agent`: horizon, rewards, bounds, ordered, squash, weights, names, seed. An axis
        of weight 0 is ignored; other weights have no effect.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Ambulance-v0", arrivals="uniform")
    >>> agent = zooming.Planner(env, seed=0)
    >>> history = agent.learn(episodes=200)
    >>> agent.status()["steps"]
    'alike'
    """

    def __init__(
        self,
        env: Any,
        *,
        max_samples: int = 1_000_000,
        reward_range: tuple[float, float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, reward_range=reward_range, **options)
        if reward_range is None:
            self.reward_range = self.problem.reward_range = ANY_REWARD
        self.max_samples = check_int(max_samples, "max_samples", 1000)
        core = np.zeros(1, CORE)
        core["random"] = seeds.derive_seed(self.seed, "agent")
        core["horizon"], core["due"], core["boldness"], core["own"] = self.horizon, 1, 1.0, NONE
        core["n_state"], core["n_action"] = self.axes.n_state, self.axes.n_action
        core["reward_low"], core["reward_high"] = self.reward_range
        core["least"], core["most"] = np.inf, -np.inf
        self.table = CellTable(self.axes, core, self.max_samples)
        if self.table.n_others > THIRDS:
            warnings.warn(
                f"{self.env_name}: {self.table.n_others} axes are many for a planner. Its plans "
                f"have about {self.table.most_cells:,} cells: three bins on each axis of actions, "
                "one on some of the states. A step takes about "
                f"{self.table.most_cells / 4000:.1f} ms. Give weights={{name: 0}} for axes that do "
                'not matter, or use TreeQ or AdaptiveQ with split="longest"',
                stacklevel=count_own_frames(),
            )

    # --- learning ---------------------------------------------------------------------------------

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        step = self.problem.check_step(step)
        state = self._unit_state(step, observation)
        allowed, table = self._feasible(step, info), self.table
        unit, rows = np.empty(self.axes.n_action), allowed_rows(allowed)
        with self.run.lock:
            if step == 0:
                if table.is_due:
                    table.refit()
                kernels.begin_episode(table.core)
            boldness = float(table.core["boldness"][0])
            cell = kernels.choose_at(table.handle, table.core, step, state, boldness, rows, unit)
            self._count_play(step, cell)
        return self.axes.shaped_action(self._action(unit, allowed))

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
        """Keep one transition for the next plans. The arguments are those of `Agent.update`.

        At the last step of the horizon, `terminated` is ignored, and the next state is kept: the
        horizon's end cannot be told from a terminal state there, and steps pooled with the last
        one would learn that the next state is terminal. The value of the last step is the same.
        """
        transition = step, observation, action, reward, next_observation
        self._learn(step, self.checked_transition(*transition), terminated)

    def update_checked(
        self, transition: tuple[Any, ...], point: Checked, masks: Mapping[str, Any]
    ) -> None:
        if getattr(self.update, "__func__", None) is Planner.update:
            self._learn(transition[0], point, transition[5])
        else:  # a caller's own update
            self.update(*transition, **masks)

    def _learn(self, step: int, point: Checked, terminated: bool) -> None:
        """Make a plan if an episode begins and one is due, and keep a transition."""
        with self.run.lock:
            if step == 0 and self.table.is_due:  # others act
                self.table.refit()
            self._record(step, point, terminated)

    def _record(self, step: int, point: Checked, terminated: bool) -> None:
        """Keep a transition that was checked."""
        table, (state, played, reward, after) = self.table, point
        table.reserve(1)
        kernels.record_at(
            table.handle, int(step), self._unit(state, 0), self._unit(played, self.axes.n_state),
            reward, self._unit(after, 0), bool(terminated),
        )  # fmt: skip

    # --- many episodes at once --------------------------------------------------------------------

    def prepare_play(self) -> None:
        if self.table.is_due:
            self.table.refit()

    def draw_play(self, play: Play) -> dict[str, Any]:
        core = self.table.core.copy()
        core["random"] = play.seed
        kernels.draw_boldness(core)
        play.kept = self.table.cells, self.table.handle  # the arrays, and their addresses
        return {
            "boldness": float(core["boldness"][0]),
            "explores": int(core["explores"][0]),
            "plan": int(core["n_plans"][0]),
            "replays": int(core["replays"][0]),
        }

    def act_play(
        self, play: Play, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        step = self.problem.check_step(step)
        flat, allowed = self.checked_state(step, observation), self._feasible(step, info)
        state = self._unit(flat, 0)
        core, unit = self.table.core.copy(), np.empty(self.axes.n_action)
        core["random"] = play.random_at(step)
        core["explores"] = play.drawn["explores"]
        if play.kept is None:  # after a restart
            cells = self.table.cells_of(play.drawn["explores"])
            play.kept = cells, pack_cells(cells)
        cells, handle = play.kept
        boldness, rows, plan = play.drawn["boldness"], allowed_rows(allowed), cells.plan
        waiting = [one for other in self.run.waiting(play) for one in other.values()]
        played = plan.played.copy()
        try:
            for _, of, other, share in waiting:  # as if they were counted
                if of is plan:
                    plan.played[other] += share
            cell = int(kernels.choose_at(handle, core, step, state, boldness, rows, unit))
        finally:
            plan.played[:] = played
        n_actions = plan.q.shape[1] // plan.values.shape[1]
        first = cell - cell % n_actions
        play.explored = bool(plan.q[step, cell] < plan.q[step, first : first + n_actions].max())
        action = self._action(unit, allowed)
        share = 1.0 / (PLAYED + float(plan.visits[step, cell]))
        play.waiting[step] = np.concatenate([flat, action]), plan, cell, share
        return self.axes.shaped_action(action)

    def update_play(
        self, play: Play, transition: tuple[Any, ...], masks: Mapping[str, Any]
    ) -> None:
        # `prepare_play` makes the next plan. If updates did, most episodes would end under another
        # plan than theirs, and their returns would not count.
        point, table = self.checked_transition(*transition[:5]), self.table
        step, observation, action = transition[:3]
        own = table.core["own"].copy()
        table.core["own"] = NONE  # the return is counted by `end_play`
        try:
            self._record(step, point, transition[5])
        finally:
            table.core["own"] = own
        # Of the plan that is played from now on, which does not know this sample.
        self._count_play(*self._cell(step, observation, action, table.handle))

    def _count_play(self, step: int, cell: int) -> None:
        """Count a play of a cell since the plan was made: its bonus falls."""
        plan = self.table.cells.plan
        plan.played[cell] += 1.0 / (PLAYED + plan.visits[step, cell])

    def end_play(self, play: Play, total: float) -> None:
        core = self.table.core
        is_current = all(play.drawn.get(name, 0) == core[of][0] for name, of in PHASE.items())
        if play.drawn["explores"] == RECALLED:
            core["own"] = OLD
        elif is_current and core["n_planned"][0]:  # not of no samples
            core["own"], core["total"] = 0, total
            kernels.count_return(core)
            core["own"] = NONE

    def explore_many(
        self, steps: NDArray[np.int64], states: Floats, allowed: Sequence[Feasible | None]
    ) -> Floats:
        core, handle = self.table.core.copy(), self.table.handle
        if not any(allowed):
            return self._choose_many(handle, core, steps, states, True)
        actions, unit = np.empty((len(steps), self.axes.n_action)), np.empty(self.axes.n_action)
        for k, (step, one) in enumerate(zip(steps.tolist(), allowed, strict=True)):
            state = self._unit(self.problem.check_point(step, states[k], 0), 0)
            kernels.draw_boldness(core)
            boldness, rows = float(core["boldness"][0]), allowed_rows(one)
            kernels.choose_at(handle, core, step, state, boldness, rows, unit)
            actions[k] = self._action(unit, one)
        return actions

    def _choose_many(
        self, handle: Any, core: Any, steps: NDArray[np.int64], states: Floats, is_learning: bool
    ) -> Floats:
        """Return the flat actions of the plan with this handle, if all actions are allowed."""
        actions = np.empty((len(steps), self.axes.n_action))
        k, i = kernels.choose_many(handle, core, steps, states, is_learning, actions)
        if k >= 0:
            raise self.problem.bad_point(int(steps[k]), int(i), states[k])
        return actions

    def learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        if getattr(self.update, "__func__", None) is Planner.update:
            record_samples(self, recorded, done)
        else:  # a caller's own update
            update_each(self, recorded, done)

    def play(self, env: Any, crossing: Crossing, log: RunArrays, end: int) -> int:
        table = self.table
        table.prepare(end - int(log.done[0]))
        return kernels.play()(
            table.handle, crossing.handle, env.params, min(self.horizon, env.horizon),
            *self.reward_range, np.empty(self.axes.n_action), log.returns, log.n_balls, log.done,
            end, log.trouble, np.zeros(pausing.STATE + self.axes.n_state), self.run.clipping,
        )  # fmt: skip

    @property
    def n_episodes(self) -> int:
        return int(self.table.core["n_episodes"][0])

    def set_n_episodes(self, n: int) -> None:
        if n != self.n_episodes:
            raise ValueError(
                f"the file states {n} episodes, but its samples are from {self.n_episodes}"
            )

    # --- points -----------------------------------------------------------------------------------

    def _unit(self, flat: Floats, first_axis: int) -> Floats:
        """Return a checked flat point as a point of the unit cube."""
        unit = np.empty(len(flat))
        to_unit(self.axes.table, first_axis, flat, unit)
        return unit

    def _unit_state(self, step: int, observation: Any) -> Floats:
        return self._unit(self.checked_state(step, observation), 0)

    def _action(self, unit: Floats, allowed: Feasible | None) -> Floats:
        """Return the allowed flat action nearest to a point of the unit cube."""
        action = np.empty(len(unit))
        kernels.write_action(self.axes.table, self.axes.n_state, unit, action)
        return self._nearest(action, allowed)

    def _cell(
        self, step: int, observation: Any, action: Any, handle: Any = None
    ) -> tuple[int, int]:
        """Return the checked step, and the number of the cell of (observation, action).

        The cell is one of the recommended plan, or of the plan with this handle.
        """
        problem, n_state = self.problem, self.axes.n_state
        step = problem.check_step(step)
        state = self._unit_state(step, observation)
        played = problem.check_point(step, problem.flat_action(step, action), n_state)
        handle = self.table.policy().handle if handle is None else handle
        return step, int(kernels.find_cell(handle, state, self._unit(played, n_state)))

    # --- the learned policy -----------------------------------------------------------------------

    def greedy_actions(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        """Return the best allowed flat action of the policy for each (step, state).

        If not `deterministic`, draw the action uniformly from the cell of the best action.
        """
        if deterministic and not any(allowed):
            handle = self.table.policy().handle
            return self._choose_many(handle, self.table.core, steps, states, False)
        actions, unit = np.empty((len(steps), self.axes.n_action)), np.empty(self.axes.n_action)
        generator = np.random.default_rng()
        for k, (step, one) in enumerate(zip(steps.tolist(), allowed, strict=True)):
            state = self._unit(self.problem.check_point(step, states[k], 0), 0)
            cell = self._write_best(step, state, one, unit)
            if not deterministic:
                unit = self._draw(cell, generator)
            actions[k] = self._action(unit, one)
        return actions

    def _write_best(self, step: int, state: Floats, allowed: Feasible | None, unit: Floats) -> int:
        """Write the policy's action, a point of the unit cube, into `unit`; return its cell."""
        table, rows = self.table, allowed_rows(allowed)
        handle = table.policy().handle
        return int(kernels.choose_at(handle, table.core, step, state, 0.0, rows, unit))

    def _draw(self, cell: int, generator: np.random.Generator) -> Floats:
        """Return an action, in the unit cube, drawn uniformly from a cell."""
        grid, n_state = self.table.policy().grid, self.axes.n_state
        unit = np.empty(self.axes.n_action)
        for j in range(len(self.axes) - 1, n_state - 1, -1):
            cell, i = divmod(cell, int(grid.bins[j]))
            low, high = grid.edges[j, i : i + 2] / grid.units[j]
            unit[j - n_state] = low + generator.random() * (high - low)
        return unit

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        step = self.problem.check_step(step)
        state = self._unit_state(step, observation)
        unit = np.empty(self.axes.n_action)
        cell = self._write_best(step, state, self._feasible(step, info), unit)
        return float(self.table.policy().plan.q[step, cell])

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        """Return Q, the estimate without bonus, of the cell that contains (observation, action)."""
        step, cell = self._cell(step, observation, action)
        return float(self.table.policy().plan.q[step, cell])

    def visits(self, step: int, observation: Any, action: Any) -> int:
        """Return the number of samples of this step in the cell of (observation, action)."""
        step, cell = self._cell(step, observation, action)
        return int(self.table.counts()[step, cell])

    def partition(self, step: int) -> Partition:
        """Return the cells of the grid as arrays, with Q of the policy and samples of the step."""
        return self.table.view(self.problem.check_step(step))

    @property
    def interpolates(self) -> bool:  # type: ignore[override]
        """Whether the action varies within a cell: some state and action axes are intervals."""
        is_smooth = (self.table.kinds == SMOOTH) & (self.table.units > 1)
        n_state = self.axes.n_state
        return bool(is_smooth[:n_state].any() and is_smooth[n_state:].any())

    counted = "cells"

    @property
    def n_balls(self) -> int:
        """Number of cells of what plays, summed over all steps."""
        return self.table.n_cells

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def _status(self) -> dict[str, Any]:
        """Return what the planner believes, as of its last plan; docs/auto.md explains the entries.

        "recommended should earn" is the mean return of the recommended plan, shrunk to that of the
        recent ones, exploring included; if it was never played, what the model promises.
        """
        core, widths, expected = self.table.core[0], self.table.widths, self.should_earn()
        forms = self.table.apart  # of each step; bandwidths are those of the most frequent form
        n_apart = {"rewards": int((forms[0] > 0).sum()), "values": int((forms[1] > 0).sum())}
        apart = [int(np.bincount(row).argmax()) for row in forms]
        steps = [
            f"{name} modeled apart at {n} of {self.horizon}" for name, n in n_apart.items() if n
        ]
        due = int(core["due"])
        is_flat = (widths >= FLAT) | (self.table.grid.bins == 1)
        bandwidths = np.where(is_flat, np.inf, 2.0**widths)
        return {
            "samples": int(self.table.samples.numbers[: self.table.n_samples, 0].sum()),
            "plans": int(core["n_plans"]),
            "next plan": max(due, self.n_episodes),
            "cells": self.n_balls,
            "bins": dict(zip(self.axes.names, self.table.grid.bins.tolist(), strict=True)),
            "steps": ", ".join(steps) or "alike",
            "reward noise": float(np.sqrt(core["reward_noise"])),
            "value noise": float(np.sqrt(core["value_noise"])),
            "axes": {
                name: Bandwidths(*(float(bandwidths[k, apart[k], j]) for k in range(2)))
                for j, name in enumerate(self.axes.names)
            },
            "recommended should earn": None if expected is None else plus_minus(*expected),
        }

    def should_earn(self) -> tuple[float, float] | None:
        if self.table.kept is not None:
            return expect(self.table.earned[0], self.table.earned)
        value, error = self.promise()
        return (value, error) if np.isfinite(value) else None

    def promise(self) -> tuple[float, float]:
        """Return (value of the start states in the recommended plan, its standard error)."""
        found = self.table.policy()
        value, penalty = self.table.start_value(found.grid, found.plan)
        return value, penalty / OPTIMISM

    def doubts(self) -> list[str]:
        """Return one sentence per sign that an option of the agent may not fit the problem."""
        table, core = self.table, self.table.core[0]
        if self.n_episodes < UNDOUBTED:
            return []
        found, n = [], table.n_samples
        least, most = float(core["least"]), float(core["most"])
        low, high = self.reward_range
        span = high - low
        if (low, high) != ANY_REWARD and most - least < SMALL * span:
            found.append(
                f"rewards seen lie in [{plain(least)}, {plain(most)}], a small part of the range "
                f"[{plain(low)}, {plain(high)}]"
            )
        if least == most:
            found.append(f"every reward was {plain(least)}: no action was better than another")
        found += self._doubt_promise() + self._doubt_large_rewards()
        longest = int(table.samples.steps[:n].max()) + 1
        if longest < self.horizon:
            found.append(
                f"no episode was longer than {longest} of {self.horizon} steps; if none can be, "
                f"give horizon={longest}"
            )
        found += self._doubt_short_horizon()
        for j, name in enumerate(self.axes.names):
            if table.kinds[j] == CATEGORIES and table.units[j] >= MANY:
                found.append(
                    f"{name} has {table.units[j]} categories, and each of them must be tried; if "
                    f"neighboring values are similar, ordered=['{name}'] learns faster"
                )
        places = table.samples.places[:n]
        for j in range(self.axes.n_state):
            after = places[:, len(self.axes) + j]
            seen = np.concatenate([places[:, j], after[after != ENDED]])
            if table.units[j] > 1 and (seen == seen[0]).all():
                found.append(
                    f"{self.axes.names[j]} never changed: weights={{'{self.axes.names[j]}': 0}} "
                    "would ignore it"
                )
        return found

    def _doubt_promise(self) -> list[str]:
        """Return a sentence if the model contradicts what recommended plans earned.

        They must differ by two deviations of a return: early episodes and those that explore earn
        less.
        """
        if self.table.kept is None or self.table.earned[0, PLAYS] < 2:  # one return has no spread
            return []
        plan = self.table.earned[0]
        (mean, own), (promise, error) = expect(plan, self.table.earned), self.promise()
        away, spread = abs(promise - mean), np.sqrt(plan[SQUARES] / plan[PLAYS])
        if away <= CLEAR * max(spread, np.hypot(own, error)) or np.isclose(promise, mean):
            return []
        return [
            f"the model promises {plain(promise)} from the recommended policy, but episodes of "
            f"such plans earned {plus_minus(mean, own)}: trust what was earned"
        ]

    def _doubt_large_rewards(self) -> list[str]:
        """Return a sentence if at most a hundredth of the rewards are ABSURD times all others."""
        n = self.table.n_samples
        rewards = self.table.samples.numbers[:n, MEAN_REWARD]
        order = np.argsort(-np.abs(rewards), kind="stable")
        sizes = np.abs(rewards[order[: n // 100 + 1]])
        is_absurd = (sizes[1:] > 0.0) & (sizes[:-1] > ABSURD * sizes[1:])
        if not is_absurd.any():
            return []
        step, reward = int(self.table.samples.steps[order[0]]), float(rewards[order[0]])
        rest = float(sizes[1 + int(is_absurd.argmax())])
        return [
            f"a reward of {plain(reward)} at step {step} is {sizes[0] / rest:.0e} times as large "
            f"as nearly all others, which are at most {plain(rest)}: the differences between those "
            "are lost beside it; if it is an error, mend the environment and learn again"
        ]

    def __repr__(self) -> str:
        return (
            f"Planner({self.env_name}, horizon={self.horizon}, {self.table.n_samples:,} samples "
            f"and {self.n_balls:,} cells in {self.nbytes:,} bytes after {self.n_episodes} "
            f"episodes{clipping_text(self)})"
        )

    # --- files ------------------------------------------------------------------------------------

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, self.table.state()

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        core, fresh = arrays["core"], self.table.core
        if core.dtype != fresh.dtype or core.shape != (1,):
            raise ValueError(
                "the core record is that of another version of Planner; learn again, or load the "
                "file with the version that saved it"
            )
        for name in (
            "horizon", "n_state", "n_action", "reward_low", "reward_high", "most_samples",
        ):  # fmt: skip
            if core[name][0] != fresh[name][0]:
                raise ValueError(f"{name} is {core[name][0]}, but {fresh[name][0]} in the options")
        self.table.restore(arrays)
