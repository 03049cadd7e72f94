"""Single-partition Q-learning: one partition for all steps. [Araujo, Figueiredo, Botto 2020]"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.tables.adaptive_q import first_boxes, split_core, take_split_options
from zooming.agents.tables.q_learner import TIES, QLearner
from zooming.bonuses import Bonus, Doubling
from zooming.errors import ConfigurationError
from zooming.kernels import BALL, STORED_BALL
from zooming.kernels.boxes import searching
from zooming.kernels.boxes.searching import STATE, Search
from zooming.kernels.loop.crossing import pack
from zooming.partitions.boxes import BoxTable, allocate
from zooming.partitions.faults import fault
from zooming.spaces.axes import Axes
from zooming.spaces.masks import has_mask
from zooming.validation import Floats, check_flag, check_float, check_int

_COUNTS = (
    "turn", "n_splits", "n_trained", "n_evaluated", "n_copies", "kept_rows", "kept_balls", "n_balls"
)  # fmt: skip


class SearchTable(BoxTable):
    """The boxes of a search. `search` is a `kernels.boxes.searching.STATE` record, `kept` the copy.

    Before the first evaluations are done, there is no copy, and `search["n_copies"]` is 0.
    """

    episode_kernels = searching.KERNELS
    _queries = searching.QUERIES

    def __init__(
        self,
        axes: Axes,
        core: NDArray[Any],
        rows: NDArray[Any],
        stats: Floats | None = None,
        search: NDArray[Any] | None = None,
        kept: NDArray[Any] | None = None,
    ) -> None:
        self.search = np.zeros(1, STATE) if search is None else search
        self.kept = allocate(len(rows)) if kept is None else kept
        super().__init__(axes, core, rows, stats)

    def start(
        self, n_evaluations: int, temperature: float, growth: float, damping: float, patience: int
    ) -> None:
        """Write the options of the search. It begins with evaluations of the first table."""
        now = self.search
        now["turn"], now["n_evaluations"], now["patience"] = 1, n_evaluations, patience
        now["temperature"] = now["first_temperature"] = temperature
        now["growth"], now["damping"], now["best"] = growth, damping, -np.inf
        now["n_balls"] = self.core["n_balls"]

    def best(self) -> BoxTable:
        """Return the best table so far.

        Before the first evaluation, it is the table in training.
        """
        n = int(self.search["kept_rows"][0])
        if not self.search["n_copies"][0]:
            return self
        core = self.core.copy()
        core["n_rows"], core["n_balls"] = n, self.search["kept_balls"]
        return BoxTable(self.axes, core, self.kept[:n])

    # --- size -------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self.search["kept_rows"][0]) * BALL.itemsize

    def _grown(self, n_rows: int) -> dict[str, Any]:
        kept = allocate(n_rows)
        kept[: len(self.kept)] = self.kept
        return {"kept": kept}

    def _handle_of_more(self, more: dict[str, Any]) -> Any:
        return pack(Search(self.search, more.get("kept", self.kept)))

    def copy(self) -> SearchTable:
        copied = super().copy()
        assert isinstance(copied, SearchTable)
        n = max(len(copied.rows), int(self.search["kept_rows"][0]))
        copied.search[:] = self.search
        copied.reserve(n - copied.rows_in_use)
        n = int(self.search["kept_rows"][0])
        copied.kept[:n] = self.kept[:n]
        return copied

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        n = int(self.search["kept_rows"][0])
        return {**super().state(), "search": self.search, "kept": self.kept[:n].view(STORED_BALL)}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        search, stored, fresh = arrays["search"], arrays["kept"], self.search
        if search.dtype != STATE or search.shape != (1,) or stored.dtype != STORED_BALL:
            raise ValueError("the search has another layout")
        for name in ("n_evaluations", "patience", "first_temperature", "damping"):
            if search[name][0] != fresh[name][0]:
                raise ValueError(
                    f"{name} is {search[name][0]}, but {fresh[name][0]} in the options"
                )
        now, n = search[0], len(stored)
        is_search = (
            all(now[name] >= 0 for name in _COUNTS)
            and now["turn"] <= now["n_evaluations"]
            and now["kept_rows"] == n
            and (now["n_copies"] > 0) == (n > 0) == bool(np.isfinite(now["best"]))
            and 0.0 < now["temperature"] < np.inf
            and 1.0 <= now["growth"] < np.inf
            and np.isfinite(now["total"])
        )
        if not is_search:
            raise ValueError("the numbers of the search contradict each other")
        kept = allocate(n)
        kept.view(STORED_BALL)[:] = stored
        core = arrays["core"].copy()
        core["n_rows"], core["n_balls"] = n, now["kept_balls"]
        found = fault(core, kept, np.zeros((0, int(core["n_stats"][0]))), self.axes.table)
        if n and found:
            raise ValueError(f"the copy of the best table is invalid: {found}")
        super().restore(arrays)
        self.reserve(n - self.rows_in_use)
        self.kept[:n] = kept
        self.search[:] = search


class SinglePartitionQ(QLearner):
    """Q-learning on one adaptive partition for all steps: a search by training and evaluation.

    An episode is a training episode or an evaluation. `evaluations` episodes of the greedy policy
    are played first, and again after each training episode. All of them are episodes of `learn` and
    of its history: with the default, 1 in 21 trains. A training episode draws balls with
    probabilities proportional to exp(Q / (temperature D)), where D is the horizon times the span of
    rewards. If the mean return of the evaluations is at least the best so far, the agent keeps a
    copy of its table, and the temperature is reset to its first value. Otherwise the temperature
    grows. After `patience` training episodes that had a split but brought no improvement, the agent
    goes back to its copy. `docs/lab/relatives.md` has the definition. Nothing is proved about this
    agent.

    `predict`, `value`, `q_value`, `visits` and `partition` read the copy. The policy does not
    depend on the step. This suits problems whose rewards and transitions do not depend on it
    either.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bonus : float or Bonus, optional
        Exploration bonus: a number c means c / sqrt(t). `bonuses.Theory` is possible, too.
        By default c is 0.1 times the span of `reward_range`.
    evaluations : int, default 20
        Episodes of the greedy policy after each training episode.
    temperature : float, default 0.01
        Temperature at the start and after each improvement.
    growth : float, default 2.0
        Factor of the temperature after a training episode without improvement.
    damping : float, default 0.8
        At each improvement, `growth` becomes `growth ** damping`. From 0 to 1.
    patience : int, default 2
        Training episodes with a split but no improvement before the agent goes back to its copy.
    published : bool, default False
        Search as in the paper's experiments, see `as_published`.
    split : {"all", "longest"}, default "all"
        Sides that a split halves: all that are longer than half the diameter, or one longest side.
    max_balls : int, optional
        Largest number of active balls. A ball is split only while its children fit in.
    **options
        cap (here "horizon" by default), ties, action: as for `AdaptiveQ`. Options of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.SinglePartitionQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(episodes=2100)
    >>> agent.status()["training episodes"], agent.status()["evaluation episodes"]
    (100, 2000)
    >>> agent.predict([0.5], state=0)[0] == agent.predict([0.5], state=4)[0]
    array([ True])
    """

    has_lemmas = False

    shares_steps = True

    def __init__(
        self,
        env: Any,
        *,
        evaluations: int = 20,
        temperature: float = 0.01,
        growth: float = 2.0,
        damping: float = 0.8,
        patience: int = 2,
        published: bool = False,
        cap: str = "horizon",
        split: str = "all",
        max_balls: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, cap=cap, **options)
        take_split_options(self, split, max_balls)
        self.evaluations = check_int(evaluations, "evaluations", 1)
        self.temperature = check_float(temperature, "temperature", 1e-6, 10.0)
        self.growth = check_float(growth, "growth", 1.0, 1e6)
        self.damping = check_float(damping, "damping", 0.0, 1.0)
        self.patience = check_int(patience, "patience", 1)
        self.published = check_flag(published, "published")
        core = split_core(self)
        core["learning"] = kernels.PUBLISHED_SEARCH if published else kernels.SEARCH
        if core["bonus_rule"][0] != kernels.SCALED or isinstance(self.bonus, Doubling):
            raise ConfigurationError(
                f"SinglePartitionQ goes back to earlier tables, which bonus={self.bonus} cannot "
                "do; give a number, or bonuses.Theory"
            )
        table = first_boxes(self, core, SearchTable)
        table.start(
            self.evaluations, self.temperature, self.growth, self.damping, self.patience
        )  # fmt: skip
        self._begin(table)

    @classmethod
    def as_published(cls, env: Any, bonus: float | Bonus, **options: Any) -> SinglePartitionQ:
        """Return the agent in the form of the paper's experiments.

        All steps are alike: V(x') = min(H, max Q) also after the last step, so Q is not the return
        that is left. D is the largest |Q| of the relevant balls, and the temperature does not
        grow before a ball was split. Values are capped by H, and actions are uniform in the ball.
        """
        return cls(env, bonus=bonus, cap="horizon", action="uniform", published=True, **options)

    interleaves = False  # the table counts the return of its current episode

    @property
    def learned(self) -> Any:
        return self.table.best()

    def _act(self, step: int, observation: Any, info: Mapping[str, Any] | None, keeps: bool) -> Any:
        if not (info and has_mask(info)):
            return super()._act(step, observation, info, keeps)
        step = self.problem.check_step(step)
        state = self.problem.check_point(step, self.problem.flat_state(step, observation), 0)
        allowed = self._feasible(step, info)
        explores = bool(searching.begin(self.table.handle, step == 0))
        action = np.empty(self.axes.n_action)
        self.table.select(
            step, state, action, ties=TIES[self.ties], rule=int(self.table.core["action_rule"][0]),
            allowed=allowed, draws=explores,
        )  # fmt: skip
        return self.axes.shaped_action(action)

    def _status(self) -> dict[str, Any]:
        """Return the progress of the search.

        "best mean": mean return of the copy's evaluations, NaN before the first are done. "copies":
        how often the table was copied. "temperature" and "growth" as they are now.
        """
        now = self.table.search[0]
        is_training = bool(now["turn"] == 0)  # the last episode, if `is_open`, has not been counted
        return {
            **super()._status(),
            "training episodes": int(now["n_trained"] + (now["is_open"] and is_training)),
            "evaluation episodes": int(now["n_evaluated"] + (now["is_open"] and not is_training)),
            "best mean": float(now["best"]) if np.isfinite(now["best"]) else math.nan,
            "copies": int(now["n_copies"]),
            "temperature": float(now["temperature"]),
            "growth": float(now["growth"]),
        }
