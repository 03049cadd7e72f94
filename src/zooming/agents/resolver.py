"""An agent that knows the dynamics, sees the noise, and plans on the law of what it has seen.

Let d be the number of noise values, H the horizon, and let the noise depend on neither state nor
action. The plan for the empirical law of the noise then has the regret H^1.5 sqrt(d K) after K
episodes, whatever the size of states and actions (Wan et al. 2024, for exogenous noise): every
action shows the same noise, so nothing needs to be explored.

The law is `Records.laws` of all episodes since the last change of the law. It is smoothed unless
the states are integers, where noise may be the name of a thing, such as a node of a graph.

A change is looked for every CHECK_EVERY episodes. The score of an episode is the sum, over its
steps, of the rank of its noise among all episodes at that step. The scores of the last w episodes
are compared with those before: under one law, the standardized difference is about normal. A second
score, the distance of the rank from the middle, shows a change of the spread. If one is beyond
ALARM, older episodes are dropped.

Where noise is censored (only sales are seen, not the demand beyond the stock), a greedy plan never
learns what it does not see. So what was hidden at the largest value is put two gaps above it, see
`envs.records.kaplan_meier`: the plan tries more, and sees.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Self

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.agent import Agent
from zooming.agents.base.problem import stated_range
from zooming.agents.base.seeds import copy_generator
from zooming.agents.base.status import clipping_text
from zooming.agents.training.history import History, RunArrays
from zooming.agents.training.replay import Transitions
from zooming.envs.compiled import CompiledEnv, Outcomes, find_compiled
from zooming.envs.records import Records, rank
from zooming.envs.state_grid import Grid, GridPolicy, usual_cells
from zooming.errors import ConfigurationError, TransitionError
from zooming.kernels.loop.crossing import Crossing
from zooming.kernels.solve import policies
from zooming.kernels.solve.backups import GIVEN_ACTIONS
from zooming.spaces.masks import Feasible
from zooming.validation import (
    ANY_REWARD,
    Floats,
    check_int,
    count_noun,
    count_own_frames,
    short_repr,
)

GROWTH = 1.1  # a new plan is due when the episodes have grown by this factor
COARSER = 1.25  # ratio of the usual number of cells to that of the plan from which on it changes
CHECK_EVERY, WINDOWS, MOST_BEFORE, ALARM = 5, (10, 20, 40), 200, 4.8
Told = Callable[[Any, Any, float, Any, Mapping[str, Any]], Any]
TOLD = ("model", "outcome", "censored")
UNTOLD = object()  # the model of an agent from a file, until it is told


class Resolver(Agent):
    """Plan on the law of the noise that was seen, with known dynamics.

    It is told the dynamics and sees the noise of each step. It never reads the law that an
    environment declares. It does not explore, because all actions show the same noise; where noise
    is censored, it tries one unit more than it has seen. A new plan is made at the start of an
    episode if the episodes have grown by 10 %, or if the law of the noise has changed; and within
    the first episode after steps 1, 2, 4, 8 and so on.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to play on.
    model : CompiledEnv, optional
        The dynamics: an environment of `zooming.compiled_env` with `outcomes=`, whose law is not
        read. By default `env` itself, if it is compiled and tells its outcomes.
    outcome : callable, optional
        `outcome(observation, action, reward, next_observation, info)` returns the noise of a step.
        By default `info["outcome"]`.
    censored : callable, optional
        With the same arguments, returns whether the noise was at least that outcome. By default
        `info["censored"]`, or False.
    resolution : int, optional
        Cells per state axis of the plans. The default solves in about 10 ms for one state axis.
    reward_range : (float, float), optional
        Lowest and highest reward of one step. By default any finite reward is accepted.
    horizon, rewards, names, seed
        See `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Newsvendor-v0")
    >>> agent = zooming.Resolver(env, seed=0)
    >>> history = agent.learn(episodes=20)
    >>> best, mine = zooming.solve(env).return_, zooming.evaluate(agent, env, exact=True).mean
    >>> bool(mine > 0.98 * best)
    True
    """

    title = "Resolver"  # of what is exported; "Plan" if `zooming.plan` made it
    sees_outcomes = True
    interleaves = False  # the noise belongs to the current episode

    def __init__(
        self,
        env: Any,
        *,
        model: Any = None,
        outcome: Told | None = None,
        censored: Told | None = None,
        resolution: int | None = None,
        reward_range: tuple[float, float] | None = None,
        horizon: int | None = None,
        rewards: str = "refuse",
        names: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, reward_range=reward_range, horizon=horizon, rewards=rewards, names=names, seed=seed
        )
        if reward_range is None and stated_range(env) is None and rewards == "refuse":
            self.reward_range = self.problem.reward_range = ANY_REWARD
        self.outcome = _check_told(outcome, "outcome")
        self.censored = _check_told(censored, "censored")
        self._untold: set[str] = set()  # functions that an agent from a file has to be told again
        self.resolution = None if resolution is None else check_int(resolution, "resolution", 4)
        self.model: CompiledEnv | None = self._find_model(env, model)
        self.plan = self._new_plan()
        n_noise = 1 if self.model is None else self.model.n_noise
        self._seen = np.full((8, self.horizon, n_noise), np.nan)
        self._hidden = np.zeros((8, self.horizon), bool)
        self._options: dict[str, Any] = {}  # of the records that were learned: law=, by=, names=
        self._first = 0  # the first episode of the current law
        self._due = 1  # number of episodes from which on a new plan is made
        self._laws: list[Outcomes] | None = None  # of the plan
        self._checked = 0  # number of episodes at the last look for a change
        self._n_untold = 0  # steps without an outcome
        self._n_plans = 0
        self._has_warned_of_untold = False

    # --- the model --------------------------------------------------------------------------------

    def _find_model(self, env: Any, model: Any) -> CompiledEnv | None:
        if model is UNTOLD or (model is None and not hasattr(env, "reset")):
            return None  # loaded without an environment, or without functions
        found = find_compiled(env if model is None else model)
        if found is None:
            what = "model=" if model is not None else f"{self.env_name}"
            raise ConfigurationError(
                f"{what} is not a compiled environment, so its dynamics are unknown. Give them: "
                "Resolver(env, model=zooming.compiled_env(dynamics, ..., outcomes=...), "
                "outcome=function), where the function returns the noise of a step"
            )
        if found.given is None or (model is None and not found.tells_outcomes):
            raise ConfigurationError(
                f"{found.name} does not tell its outcomes, because its dynamics draw them with "
                "rng. Write dynamics(state, action, step, params, outcome, next_state), and give "
                "zooming.compiled_env(dynamics, ..., outcomes=...)"
            )
        axes, boxes = self.axes, (found.state_box, found.action_box)
        low, high = (
            np.concatenate([getattr(box, end) for box in boxes]) for end in ("low", "high")
        )
        if not axes.are_plain and model is None:
            raise ConfigurationError("Resolver takes no bounds= or squash=")
        whole = [found.has_whole_states] * len(boxes[0].low)
        whole += [found.has_whole_actions] * len(boxes[1].low)
        is_same = axes.n_state == len(boxes[0].low) and len(axes) == len(low)
        is_same = is_same and np.allclose(axes.low, low) and np.allclose(axes.high, high)
        if not is_same or [kind != "interval" for kind in axes.kinds] != whole:
            raise ConfigurationError(
                f"the model has states {found.observation_space} and actions {found.action_space}, "
                f"but {self.env_name} has {axes.states.space} and {axes.actions.space}; give a "
                "model of the same spaces"
            )
        return found

    def tell(
        self, *, model: Any = None, outcome: Told | None = None, censored: Told | None = None
    ) -> None:
        """Give a loaded agent its functions again, which no file stores.

        It then continues exactly where the saved agent stopped.

        Parameters
        ----------
        model, outcome, censored
            As for the constructor. What is left out stays as it is.

        Examples
        --------
        >>> agent = zooming.load("shop.zoom", env=Shop())  # doctest: +SKIP
        >>> agent.tell(model=model, outcome=demand)  # doctest: +SKIP
        """
        told = {"model": model, "outcome": outcome, "censored": censored}
        told = {name: function for name, function in told.items() if function is not None}
        outcome, censored = _check_told(outcome, "outcome"), _check_told(censored, "censored")
        found = self.model if model is None else self._find_model(self.env, model)
        if found is not None and found.n_noise != self._seen.shape[2]:
            raise ConfigurationError(
                f"the model takes noise of {found.n_noise} numbers, but the agent has seen noise "
                f"of {self._seen.shape[2]}; give the model that it was saved with"
            )
        with self.run.lock:
            self.model, self._untold = found, self._untold - set(told)
            self.outcome, self.censored = outcome or self.outcome, censored or self.censored
            if "model" in told:
                arrays, is_solved = self.plan.state(), self.plan.is_solved
                self.plan = self._new_plan(self.plan.resolution)
                self.plan.restore(arrays, is_solved)

    @wraps(Agent.learn)
    def learn(self, *args: Any, **options: Any) -> History:  # type: ignore[override]
        if self._untold and (self.env is not None or options.get("env") is not None):
            told = ", ".join(f"{name}={name}" for name in TOLD if name in self._untold)
            raise ConfigurationError(
                "this agent was loaded, and a file stores no functions; before learn(), give them "
                f"again: agent.tell({told})"
            )
        return super().learn(*args, **options)

    def _new_plan(self, cells: int | None = None) -> GridPolicy:
        """Return an unsolved plan, by default with the usual number of cells."""
        cells = self.resolution if cells is None else cells
        if self.model is not None:
            return GridPolicy.of(self.model, self.horizon, cells)
        axes, whole = self.axes, [kind != "interval" for kind in self.axes.kinds]
        states, actions = (
            gym.spaces.Box(axes.low[part], axes.high[part], dtype=np.float64)
            for part in (slice(0, axes.n_state), slice(axes.n_state, None))
        )
        shape = self.horizon, cells or 4
        return GridPolicy(states, actions, (whole[0], whole[-1]), *shape)

    # --- learning ---------------------------------------------------------------------------------

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        state = self.checked_state(step, observation)
        with self.run.lock:
            if step == 0:
                self._begin_episode()
            self._plan_within(step)
            return self._play_plan(step, state, info)

    def prepare_play(self) -> None:
        self._begin_episode()

    def act_play(
        self, play: Any, step: int, observation: Any, info: Mapping[str, Any] | None
    ) -> Any:
        state = self.checked_state(step, observation)
        self._plan_within(step)
        return self._play_plan(step, state, info)

    def _play_plan(self, step: int, state: Floats, info: Mapping[str, Any] | None) -> Any:
        action = self.plan.actions(np.array([step]), state[None])[0]
        return self.axes.shaped_action(self._nearest(action, self._feasible(step, info)))

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
        """Keep the noise of one step, `next_info["outcome"]` or what `outcome=` returns."""
        self.checked_transition(step, observation, action, reward, next_observation)
        told = self._told(step, observation, action, reward, next_observation, next_info or {})
        with self.run.lock:
            self._keep(step, *told)

    def learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        if self.outcome is None:
            raise ConfigurationError(
                f"{self.env_name}: a log has no outcomes, so nothing would be learned; give "
                "Resolver(env, outcome=function), or plan with zooming.plan and zooming.Records"
            )
        super().learn_transitions(recorded, done)

    def _told(self, step: int, *seen: Any) -> tuple[Floats | None, bool]:
        """Return the noise of a step, or None if it was not told, and whether it is censored."""
        info = seen[-1]
        given = info.get("outcome") if self.outcome is None else self.outcome(*seen)
        if given is None:
            if not self._has_warned_of_untold:
                warnings.warn(
                    f"{self.env_name}: update was given no outcome, so nothing is learned from the "
                    "step; give update(..., next_info=info) with the info of the step, or "
                    "Resolver(env, outcome=function)",
                    UserWarning,
                    stacklevel=count_own_frames(),
                )
            self._has_warned_of_untold = True
            return None, False
        hidden = info.get("censored", False) if self.censored is None else self.censored(*seen)
        n_noise = self._seen.shape[2]
        try:
            found = np.asarray(given, np.float64).reshape(-1)
        except (TypeError, ValueError):
            found = np.empty(0)
        if len(found) != n_noise or not np.isfinite(found).all():
            source = "outcome=" if self.outcome is not None else 'info["outcome"]'
            raise TransitionError(
                f"{self.env_name}, step {step}: the outcome {short_repr(given)} is not "
                f"{count_noun(n_noise, 'finite number')}; check {source}"
            )
        if hidden and n_noise > 1:
            raise TransitionError(
                f"{self.env_name}, step {step}: only noise of one number can be censored"
            )
        return found, bool(hidden)

    def _keep(self, step: int, outcome: Floats | None, hidden: bool) -> None:
        """Store the outcome of a step. Step 0 begins an episode."""
        if step == 0:
            self._reserve(1)
            self._n_episodes += 1
        if outcome is None:
            self._n_untold += 1
            return
        row = max(self._n_episodes - 1, 0)
        self._seen[row, step], self._hidden[row, step] = outcome, hidden
        self._n_episodes = max(self._n_episodes, 1)

    def _reserve(self, n: int) -> None:
        """Make room for n more episodes."""
        needed = self._n_episodes + n
        if needed > len(self._seen):
            size = max(needed, 2 * len(self._seen))
            seen = np.full((size, *self._seen.shape[1:]), np.nan)
            hidden = np.zeros((size, self.horizon), bool)
            seen[: len(self._seen)], hidden[: len(self._seen)] = self._seen, self._hidden
            self._seen, self._hidden = seen, hidden

    def set_n_episodes(self, n: int) -> None:
        if n != self._n_episodes:
            raise ValueError(f"the file states {n} episodes, but holds noise of {self._n_episodes}")

    @property
    def n_records(self) -> int:
        """Number of episodes whose noise the plan may use: those since the last change."""
        return self._n_episodes - self._first

    @property
    def records(self) -> Records:
        """The noise seen since the law last changed, as `zooming.Records`."""
        part = slice(self._first, self._n_episodes)
        seen, hidden, options = self._seen[part], self._hidden[part], self._options
        there = ~np.isnan(seen).any(axis=2)
        seasons = options.get("by") or range(self.horizon)
        if len({seasons[k] for k in np.flatnonzero(there.any(axis=0))}) < len({*seasons}):
            options = {**options, "law": "pooled", "by": None}  # until each has a value
        return Records(seen, censored=hidden if hidden.any() else None, **options)

    def learn_records(self, records: Records) -> None:
        """Take recorded episodes as if they had been played, and plan.

        The choice of `law=` or `by=`, and the names, also hold for noise that is seen later.

        Parameters
        ----------
        records : Records
            Noise of the model, with episodes of the agent's horizon.
        """
        values, hidden = records.cut(self.horizon)
        if values.shape[2] != self._seen.shape[2]:
            raise ConfigurationError(
                f"the records have {values.shape[2]} columns of noise, but the dynamics take "
                f"{self._seen.shape[2]}"
            )
        options, has_choice = self._options, records.kind != "auto" or records.by is not None
        chosen = {"law": records.kind, "by": records.by} if has_choice else {}
        with self.run.lock:
            self._options = {**options, **chosen, "names": records.names}
            self._reserve(len(values))
            part = slice(self._n_episodes, self._n_episodes + len(values))
            self._seen[part], self._hidden[part] = values, hidden
            self._n_episodes += len(values)
            try:
                self._resolve(records if part.start == 0 else None)
            except ConfigurationError:
                self._n_episodes, self._options = part.start, options
                self._seen[part] = np.nan
                raise

    # --- planning ---------------------------------------------------------------------------------

    def _begin_episode(self) -> None:
        """Look for a change of the law, and make a plan if one is due."""
        n = self._n_episodes
        if self.model is None:
            return
        if n % CHECK_EVERY == 0 and n > self._checked:
            self._checked = n
            hides = bool(self._hidden[self._first : n].any())  # then it changes with the actions
            change = None if hides else changed_after(self._seen[self._first : n])
            if change is not None:
                self._first += change
                self._due = n
        if n >= self._due and not np.isnan(self._seen[self._first : n]).all():
            self._resolve()

    def _plan_within(self, step: int) -> None:
        """Plan within the first episode, whenever the steps have doubled."""
        is_first = self._n_episodes == 1 and step > 0 and step & (step - 1) == 0
        if is_first and self.model is not None and not np.isnan(self._seen[0, step - 1]).any():
            self._resolve(within=True)
            self._due = 1

    def _resolve(self, records: Records | None = None, within: bool = False) -> None:
        """Plan on the law of the noise seen. `within` an episode, the grid stays as it is."""
        assert self.model is not None
        records = self.records if records is None else records
        if self.resolution is None and not self.model.has_whole_states and not within:
            laws = planning_laws(self.model, records, self.horizon)
            cells = usual_cells(self.model, sum(len(weights) for _, weights in laws))
            if not 1.0 / COARSER <= cells / self.plan.resolution <= COARSER:
                self.plan = self._new_plan(cells)
        self._laws = solve_plan(self.plan, self.model, records)
        self._n_plans += 1
        self._due = max(self._n_episodes + 1, self._first + math.ceil(GROWTH * self.n_records))

    def play(self, env: Any, crossing: Crossing, log: RunArrays, end: int) -> int:
        while (done := int(log.done[0])) < end:
            self._begin_episode()
            n = self._n_episodes
            plan = self.plan if n else self._rehearse(env, crossing.generator)
            last = min(end, done + max(1, self._due - n), done + CHECK_EVERY - n % CHECK_EVERY)
            code, outcomes = self._play_fused(env, crossing.generator, plan, log, last)
            for k, outcome in enumerate(outcomes):
                self._keep(k % min(self.horizon, env.horizon), outcome, False)
            if code:
                return code
        return 0

    def _play_fused(
        self, env: Any, generator: Any, plan: GridPolicy, log: RunArrays, last: int
    ) -> tuple[int, Floats]:
        """Play a plan until the log has `last` episodes. Return the kernel's code and the noise."""
        told = Crossing(generator, env.draw_outcome, env.start, env.given)
        n_steps = min(self.horizon, env.horizon)
        whole = np.full(self.axes.n_state, float(env.has_whole_states))
        bounds = np.stack([env.state_box.low, env.state_box.high, whole], axis=1)
        room = np.empty(((last - int(log.done[0])) * n_steps, env.n_noise))
        seen = np.zeros(1, np.int64)
        code = policies.play()(
            told.handle, env.params, n_steps, *self.reward_range, plan.frame, plan.cells,
            plan.best, plan.mixes, bounds, room, log.returns, log.n_balls, log.done, last,
            log.trouble, self.run.clipping, seen,
        )  # fmt: skip
        return int(code), room[: int(seen[0])]

    def _rehearse(self, env: Any, generator: Any) -> GridPolicy:
        """Return the policy of the first episode: at each step the plan that `act` would make.

        The episode is played with copies of the generator, once for each plan. The noise of the
        first k steps does not depend on what is played later.
        """
        found, clipping, k = self._new_plan(self.plan.resolution), self.run.clipping.copy(), 1
        while k < min(self.horizon, env.horizon):
            twin = copy_generator(generator)
            code, outcomes = self._play_fused(env, twin, found, RunArrays(1), 1)
            self.run.clipping[:] = clipping
            if code:  # the episode itself will say why
                return found
            values = np.full((1, self.horizon, env.n_noise), np.nan)
            values[0, :k] = outcomes[:k]
            self._resolve(Records(values), within=True)
            found.best[k:], found.mixes[k:] = self.plan.best[k:], self.plan.mixes[k:]
            k *= 2
        return found

    # --- the policy -------------------------------------------------------------------------------

    def greedy_actions(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        for step, state in zip(steps.tolist(), states, strict=True):
            self.problem.check_point(step, state, 0)
        actions = self.plan.actions(steps, states)
        return np.array(
            [self._nearest(action, one) for action, one in zip(actions, allowed, strict=True)]
        )

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        """Return V(x) of the plan, 0 before there is one."""
        return self.plan.value(self.problem.check_step(step), self.checked_state(step, observation))

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        """Return Q(x, a) of the plan: the action now, and the plan from the next step on."""
        step, state = self.problem.check_step(step), self.checked_state(step, observation)
        problem = self.problem
        played = problem.check_point(step, problem.flat_action(step, action), self.axes.n_state)
        if self._laws is None or self.model is None:
            if self.model is None and self.plan.is_solved:
                raise ConfigurationError(
                    f"this agent was loaded without its environment ({self.env_name}), whose "
                    "dynamics Q needs; give it: zooming.load(path, env=env), or, if its model was "
                    "given, agent.tell(model=model)"
                )
            return 0.0
        return float(self._grid().backup(step, state[None], played[None], GIVEN_ACTIONS)[0][0])

    def _grid(self) -> Grid:
        assert self.model is not None
        assert self._laws is not None
        grid = self.plan.grid(self.model, self._laws)
        grid.values = self.plan.values
        return grid

    def visits(self, step: int, observation: Any, action: Any) -> int:
        """Return the number of recorded outcomes that the plan uses: the same for every pair."""
        return int((~np.isnan(self._seen[self._first : self._n_episodes, :, 0])).sum())

    @property
    def interpolates(self) -> bool:  # type: ignore[override]
        """Whether actions are mixed between grid points."""
        return not any(self.plan.is_whole)

    counted = "cells"

    @property
    def n_balls(self) -> int:
        """Number of grid points, summed over all steps."""
        return self.plan.n_points

    @property
    def nbytes(self) -> int:
        return self.plan.nbytes + self._n_episodes * self.horizon * 8 * self._seen.shape[2]

    def _status(self) -> dict[str, Any]:
        """Return how the plan was made, and its value where there is one start state."""
        n = self.visits(0, None, None)
        found: dict[str, Any] = {"noise": n, "plans": self._n_plans, "next plan": self._due}
        if n:
            how = self.records.choice(self.horizon)[0]
            kinds = {"pooled": "one for all steps", "step": "one per step"}
            found["law"] = kinds.get(how, "one law per season")
        if self._first:
            found["law changed"] = f"after episode {self._first}"
        start = self._only_start()
        if start is not None and self.plan.is_solved:
            found["should earn"] = self.plan.value(0, start)
        return found

    def doubts(self) -> list[str]:
        found = super().doubts()
        if self._n_untold:
            found.append(
                f"{self._n_untold:,} steps came without an outcome, and nothing was learned from "
                "them: give update(..., next_info=info)"
            )
        return found

    def __repr__(self) -> str:
        return (
            f"Resolver({self.env_name}, horizon={self.horizon}, {self._n_plans} plans after "
            f"{self.n_episodes} episodes{clipping_text(self)})"
        )

    # --- files ------------------------------------------------------------------------------------

    def _to_json(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options without functions: a file that named them would have to run them."""
        return {**options, **dict.fromkeys(TOLD)}

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        found = find_compiled(env)
        is_known = found is not None and found.given is not None and found.tells_outcomes
        given = options if is_known else {**options, "model": UNTOLD}
        return super().from_options(env, given, arrays)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        n = self._n_episodes
        values = {
            "first": self._first, "due": self._due, "n_plans": self._n_plans,
            "n_untold": self._n_untold, "checked": self._checked,
            "is_solved": self.plan.is_solved, "n_noise": self._seen.shape[2],
            "cells": self.plan.resolution,
            "told": [one for one in TOLD[1:] if getattr(self, one) or one in self._untold],
        }  # fmt: skip
        if self._options:
            values["records"] = {**self._options, "by": _as_labels(self._options.get("by"))}
        arrays = {"seen": self._seen[:n], "hidden": self._hidden[:n], **self.plan.state()}
        for step, law in enumerate(self._laws or ()):
            arrays[f"values_{step}"], arrays[f"weights_{step}"] = law
        return values, arrays

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        seen, hidden = arrays["seen"], arrays["hidden"]
        n_noise = check_int(values["n_noise"], "n_noise", 1, 1000)
        if self.model is not None and n_noise != self.model.n_noise:
            raise ValueError(f"noise of {n_noise} numbers, but the model has {self.model.n_noise}")
        n = len(seen)
        if seen.dtype != np.float64 or seen.shape != (n, self.horizon, n_noise):
            raise ValueError("the noise has another shape")
        if hidden.dtype != bool or hidden.shape != (n, self.horizon) or np.isinf(seen).any():
            raise ValueError("the noise is not finite, or its mask has another shape")
        self._first = check_int(values["first"], "first", 0, n)
        self._due, self._n_plans, self._n_untold, self._checked = (
            check_int(values[name], name, 0) for name in ("due", "n_plans", "n_untold", "checked")
        )
        self._n_episodes = n
        if self.model is None:
            self._untold = {"model", *(one for one in TOLD if one in values["told"])}
        self._options = _stored_options(values.get("records", {}), self.horizon, n_noise)
        self._seen, self._hidden = np.array(seen), np.array(hidden)
        if not n:
            self._seen = np.full((8, self.horizon, n_noise), np.nan)
            self._hidden = np.zeros((8, self.horizon), bool)
        cells = check_int(values["cells"], "cells", 1, 10_000)
        n_points = self.plan.best.shape[1]
        if not self.plan.is_whole[0]:
            n_points = (cells + 1) ** self.axes.n_state
        if arrays["best"].shape[:2] != (self.horizon, n_points):  # before memory is asked for
            raise ValueError("the plan has another number of grid points than its cells say")
        if cells != self.plan.resolution:
            self.plan = self._new_plan(cells)
        self.plan.restore(arrays, values["is_solved"] is True)
        if "values_0" in arrays:
            laws = [(arrays[f"values_{h}"], arrays[f"weights_{h}"]) for h in range(self.horizon)]
            for points, weights in laws:
                if (
                    points.shape != (len(weights), n_noise)
                    or points.dtype != np.float64
                    or weights.dtype != np.float64
                    or not (np.isfinite(points).all() and (weights >= 0).all())
                ):
                    raise ValueError("a law of the noise has another shape")
            self._laws = [(np.array(points), np.array(weights)) for points, weights in laws]


def _check_told(function: Any, name: str) -> Any:
    if function is not None and not callable(function):
        raise ConfigurationError(
            f"{name}={short_repr(function)}: give a function {name}(observation, action, reward, "
            "next_observation, info)"
        )
    return function


def _as_labels(by: Sequence[Any] | None) -> list[Any] | None:
    """Return the seasons for a file: as they are, or as numbers if JSON has no such values."""
    if by is None or all(type(one) in (str, int, bool) for one in by):
        return None if by is None else list(by)
    numbers = {one: k for k, one in enumerate(dict.fromkeys(by))}
    return [numbers[one] for one in by]


def _stored_options(stored: dict[str, Any], horizon: int, n_noise: int) -> dict[str, Any]:
    """Return the options of `Records` that a file holds, checked: {} for an older file."""
    options: dict[str, Any] = {
        name: stored[name] for name in ("law", "by", "names") if name in stored
    }
    if options.get("by") is not None:
        options["by"] = tuple(options["by"])
        if not all(type(one) in (str, int, bool) for one in options["by"]):
            raise ValueError("a season is neither text nor a number")
    Records(np.zeros((1, horizon, n_noise)), **options)  # raises if they are wrong
    return options


def forms_of(model: CompiledEnv) -> tuple[str, ...]:
    """Return the forms of a law that a plan tries in turn, until the dynamics accept one.

    It is not smoothed if states are integers: noise may then be a name, such as a node of a graph.
    The last form has only values of the records.
    """
    return ("bold", "seen") if model.has_whole_states else ("smooth", "bold", "seen")


def planning_laws(model: CompiledEnv, records: Records, horizon: int) -> list[Outcomes]:
    """Return the law of each step that a plan tries first."""
    return records.laws(horizon, forms_of(model)[0])


def solve_plan(policy: GridPolicy, model: CompiledEnv, records: Records) -> list[Outcomes]:
    """Solve a policy for the law of the records, and return the laws.

    If the dynamics refuse a value that only the law of one form has, the next form is tried. An
    error then names a value of the records.
    """
    *others, last = forms_of(model)
    for form in others:
        laws = records.laws(policy.horizon, form)
        with contextlib.suppress(ConfigurationError):
            policy.solve(model, laws)
            return laws
    laws = records.laws(policy.horizon, last)
    policy.solve(model, laws)
    return laws


def changed_after(seen: Floats) -> int | None:
    """Return the number of episodes before the law of the noise changed, or None if it did not.

    `seen` is [n_episodes, n_steps, n_columns]. See the head of this module.
    """
    best, found = ALARM, None
    for window in WINDOWS:
        if len(seen) < 2 * window:
            break
        before = min(len(seen) - window, MOST_BEFORE)
        recent = seen[len(seen) - window - before :]
        z = largest_change(recent, window)
        if z > best:
            best, found = z, len(seen) - window
    return found


def largest_change(traces: Floats, n_last: int) -> float:
    """Return by how many standard errors the last episodes [n, H, k] differ from the others."""
    worst = 0.0
    for column in range(traces.shape[2]):
        for scores in episode_scores(traces[:, :, column]):
            n, spread = len(scores), float(scores.var(ddof=1))
            if spread > 0.0:
                off = float(scores[n - n_last :].sum() - n_last * scores.mean())
                worst = max(worst, abs(off) / math.sqrt(n_last * (n - n_last) / n * spread))
    return worst


def episode_scores(values: Floats) -> list[Floats]:
    """Return two scores of each episode: of the size and of the spread of its noise."""
    sizes, spreads = np.zeros(len(values)), np.zeros(len(values))
    for step in range(values.shape[1]):
        column = values[:, step]
        there = ~np.isnan(column)
        if not there.any():
            continue
        ranks = rank(column[there])
        ranks = ranks / len(ranks) - ranks.mean() / len(ranks)
        sizes[there] += ranks
        distance = np.abs(ranks)
        spreads[there] += distance - distance.mean()
    return [sizes, spreads]
