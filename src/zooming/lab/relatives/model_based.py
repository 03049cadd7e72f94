"""AdaptiveMB: a model-based agent on an adaptive partition. [Sinclair et al. 2020: AdaMB]"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming import bonuses, kernels
from zooming.agents.tables.adaptive_q import first_boxes, split_core, take_split_options
from zooming.agents.tables.net_q import NetQ
from zooming.agents.tables.q_learner import QLearner
from zooming.bonuses import Doubling
from zooming.errors import ConfigurationError
from zooming.kernels import ACTIVE, ATOMS, WEIGHT, ceiling
from zooming.kernels.boxes import models
from zooming.kernels.boxes.models import MODEL_BALL, PLAN, Model
from zooming.kernels.loop.crossing import pack
from zooming.partitions.boxes import BoxTable
from zooming.partitions.faults import levels
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL
from zooming.spaces.masks import has_mask
from zooming.validation import Ints, check_choice, check_flag, check_float

Floats = NDArray[np.float64]
_STORED = ("plan", "model", "counts", "values")


class Estimates(NamedTuple):
    """The model's estimates for the active balls of a step, in the order of `partition(step)`.

    Next states are counted in the cells of the finest grid. Corners of cells are in the unit cube.
    """

    n_visits: Ints  # [n_balls]
    reward: Floats  # [n_balls]: mean reward; NaN without visits
    next_state: Floats  # [n_balls, n_cells]: share of visits that led to the cell
    low: Floats  # [n_cells, n_state]
    high: Floats


class ModelTable(BoxTable):
    """The boxes of an agent with a model of rewards and next states, see `kernels.boxes.models`.

    `model` has a `MODEL_BALL` record for each row. `counts` has the histograms of next states.
    """

    episode_kernels = models.KERNELS

    def __init__(
        self,
        axes: Axes,
        core: NDArray[Any],
        rows: NDArray[Any],
        stats: Floats | None = None,
        borders: Floats | None = None,
    ) -> None:
        n_state = axes.n_state
        self.plan, self.model = np.zeros(1, PLAN), _new_balls(len(rows))
        self.borders = np.empty((n_state, 0)) if borders is None else borders
        self.counts, self.values = np.zeros(0), np.zeros((int(core["horizon"][0]), 0))
        self.bins, self.starts = np.zeros((0, n_state), np.int64), np.zeros(1, np.int64)
        self.corners = np.empty((3, n_state))
        super().__init__(axes, core, rows, stats)

    def start(
        self,
        is_full: bool,
        is_monotone: bool,
        lipschitz: float | None = None,
        borders: list[Floats] | None = None,
    ) -> None:
        """Initialize the model on the first partition.

        `borders` are the borders of a net along its state axes.
        """
        self.plan["is_full"], self.plan["is_monotone"] = is_full, is_monotone
        self.plan["lipschitz"] = np.inf if lipschitz is None else lipschitz
        self._set_steps()
        if borders is not None:
            most = max(len(axis_borders) for axis_borders in borders)
            self.borders = np.full((len(borders), most), np.inf)
            for i, axis_borders in enumerate(borders):
                self.borders[i, : len(axis_borders)] = axis_borders
        self._add_level()

    def _set_steps(self) -> None:
        for step in range(int(self.core["horizon"][0])):
            for row, _, _ in levels(self.rows, np.array([step]), len(self.axes)):
                self.model["step"][row] = step

    # --- grids of next states ---------------------------------------------------------------------

    def _bins(self, level: int) -> Ints:
        """Return the number of cells along each state axis in the grid of a level."""
        n = self.axes.n_state
        if self.borders.shape[1]:
            return np.asarray(np.isfinite(self.borders).sum(axis=1) + 1)
        table = self.axes.table[:n]
        halved = np.where(table[:, ATOMS] > 0, table[:, ATOMS], 2.0**level)
        return np.where(table[:, WEIGHT] > 0, halved, 1).astype(np.int64)

    def _add_level(self) -> None:
        """Add a finer grid of states. Its cells get the values of the cells that contain them."""
        bins = self._bins(len(self.bins))
        n_cells, horizon = int(np.prod(bins)), int(self.core["horizon"][0])
        if len(self.bins):
            place = np.stack(np.unravel_index(np.arange(n_cells), bins), axis=1)
            coarse = place * self.bins[-1] // bins
            last = np.ravel_multi_index(tuple(coarse.T), tuple(self.bins[-1]))
            values = self.values[:, self.starts[-2] + last]
        else:
            caps = np.array([ceiling(self.core, step) for step in range(horizon)])
            values = np.repeat(caps[:, None], n_cells, axis=1)
        more = {
            "values": np.ascontiguousarray(np.concatenate([self.values, values], axis=1)),
            "bins": np.concatenate([self.bins, bins[None]]),
            "starts": np.append(self.starts, self.starts[-1] + n_cells),
        }
        self._replace(more)
        self.plan["n_levels"] = len(self.bins)

    def _replace(self, more: dict[str, Any]) -> None:
        # One call, so that an interrupt finds either all old arrays or all new ones.
        vars(self).update({**more, **self._packed(self.rows, self.stats, more)})

    def estimates(self, step: int) -> Estimates:
        """Return the model's estimates for the active balls of a step."""
        rows, _, _ = self.boxes(step)
        level = len(self.bins) - 1
        n_cells = int(np.prod(self.bins[level]))
        place = np.stack(np.unravel_index(np.arange(n_cells), self.bins[level]), axis=1)
        found = np.zeros((len(rows), n_cells))
        reward = np.zeros(len(rows))
        for k, row in enumerate(rows.tolist()):
            while row >= 0:
                ball = self.model[row]
                reward[k] += ball["reward"] * ball["n_visits"]
                if ball["first"] >= 0:
                    bins = self.bins[ball["level"]]
                    coarse = np.ravel_multi_index(
                        tuple((place * bins // self.bins[level]).T), tuple(bins)
                    )
                    inside = n_cells / np.prod(bins)
                    found[k] += self.counts[ball["first"] + coarse] / inside
                row = int(self.rows["parent"][row])
        n = self.rows["n_visits"][rows].astype(np.int64)
        with np.errstate(invalid="ignore"):
            return Estimates(n, reward / n, found / n[:, None], *self._cells(place, level))

    def _cells(self, place: Ints, level: int) -> tuple[Floats, Floats]:
        """Return the low and high corners of cells `place` in the grid of a level."""
        if not self.borders.shape[1]:
            return place / self.bins[level], (place + 1) / self.bins[level]
        n = self.axes.n_state
        edges = np.hstack([np.zeros((n, 1)), np.minimum(self.borders, 1.0), np.ones((n, 1))])
        axis = np.arange(n)
        return edges[axis, place], edges[axis, place + 1]

    # --- size -------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        own = self.rows_in_use * MODEL_BALL.itemsize + 8 * int(self.plan["used"][0])
        return super().nbytes + own + self.values.nbytes

    def reserve(self, n_rows: int) -> None:
        super().reserve(n_rows)
        if not len(self.bins):  # `start` has not been called yet
            return
        while self.plan["deepest"][0] >= len(self.bins):
            self._add_level()
        needed = int(self.plan["used"][0] + self.core["horizon"][0] * np.prod(self.bins[-1:]))
        if needed > len(self.counts):
            counts = np.zeros(max(needed, 3 * len(self.counts) // 2))
            counts[: len(self.counts)] = self.counts
            self._replace({"counts": counts})

    def _grown(self, n_rows: int) -> dict[str, Any]:
        model = _new_balls(n_rows)
        model[: len(self.model)] = self.model
        return {"model": model}

    def _handle_of_more(self, more: dict[str, Any]) -> Any:
        arrays = {**vars(self), **more}
        names = ("plan", "model", "counts", "values", "starts", "bins", "borders", "corners")
        return pack(Model(*(arrays[name] for name in names)))

    def copy(self) -> ModelTable:
        copied = super().copy()
        assert isinstance(copied, ModelTable)
        more = {
            name: getattr(self, name).copy()
            for name in ("plan", "counts", "values", "starts", "bins", "borders")
        }
        copied._replace({**more, "model": self.model[: len(copied.rows)].copy()})
        return copied

    # --- files ------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        n, used = self.rows_in_use, int(self.plan["used"][0])
        own = {"plan": self.plan, "model": self.model[:n], "counts": self.counts[:used]}
        return {**super().state(), **own, "values": self.values}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        plan, model, counts, values = (arrays[name] for name in _STORED)
        fresh, borders = self.plan.copy(), self.borders
        if (
            plan.dtype != PLAN
            or plan.shape != (1,)
            or model.dtype != MODEL_BALL
            or counts.dtype != np.float64
            or values.dtype != np.float64
            or values.ndim != 2
        ):
            raise ValueError("the model has another layout")
        super().restore({name: array for name, array in arrays.items() if name not in _STORED})
        self.borders, n = borders, self.rows_in_use
        self._add_level()
        while len(self.bins) < plan["n_levels"][0] <= 64:
            self._add_level()
        if plan["n_levels"][0] != len(self.bins) or values.shape != self.values.shape:
            raise ValueError("the grids of the model do not fit the balls")
        if any(plan[name] != fresh[name] for name in ("is_full", "is_monotone", "lipschitz")):
            raise ValueError("the planning of the model differs from the options")
        if len(model) != n or model.ndim != 1 or counts.ndim != 1:
            raise ValueError("the model does not fit the balls")
        self._check_model(plan, model, counts, values)
        room = _new_balls(len(self.rows))
        room[:n] = model
        self._replace(
            {"plan": plan.copy(), "model": room, "counts": counts.copy(), "values": values.copy()}
        )

    def _check_model(
        self, plan: NDArray[Any], model: NDArray[Any], counts: Floats, values: Floats
    ) -> None:
        """Raise ValueError if a stored model is not valid for the kernels."""
        fresh = self.model.copy()
        self._set_steps()
        steps, self.model = self.model["step"][: len(model)], fresh
        sizes = np.diff(self.starts)
        has = model["first"] >= 0
        level = model["level"]
        is_model = (
            np.array_equal(model["step"], steps)
            and plan["used"][0] == len(counts)
            and 0 <= plan["deepest"][0] <= self.rows["depth"].max()
            and ((level >= 0) & (level <= plan["deepest"][0]))[self.rows["child"] == ACTIVE].all()
            and (level[has] < len(sizes)).all()
            and (level >= 0).all()
            and (model["first"][has] + sizes[level[has]] <= len(counts)).all()
            and np.isfinite(model["reward"]).all()
            and (model["n_visits"] >= 0).all()
            and np.isfinite(values).all()
            and (counts >= 0).all()
            and np.isfinite(counts).all()
        )
        if not is_model:
            raise ValueError("the numbers of the model contradict each other")


def _new_balls(n_rows: int) -> NDArray[Any]:
    """Return the model records of balls without visits."""
    balls = np.zeros(n_rows, MODEL_BALL)
    balls["first"] = -1
    return balls


PLANNING = ("full", "one-step")


class ModelLearner(QLearner):
    """Base class of agents with a model of rewards and next states for each ball.

    `NetMB` describes the options, and `kernels.boxes.models` the algorithm.
    """

    has_lemmas = False

    def __init__(self, env: Any, *, planning: str, monotone: bool, **options: Any) -> None:
        self.planning = check_choice("planning", planning, PLANNING)
        self.monotone = check_flag(monotone, "monotone")
        super().__init__(env, **options)  # last: `NetQ` makes its table there

    def make_core(self, *arguments: Any, **options: Any) -> Any:
        core = super().make_core(*arguments, **options)
        core["learning"] = kernels.MODEL
        if core["bonus_rule"][0] != kernels.SCALED or isinstance(self.bonus, Doubling):
            raise ConfigurationError(
                f"{type(self).__name__} needs a bonus of the form c / sqrt(n), and bonus="
                f"{self.bonus} has another form; give a number, or bonuses.Theory"
            )
        return core

    def model(self, step: int) -> Estimates:
        """Return the estimated rewards and next states of the balls of a step.

        Returns
        -------
        Estimates
            `n_visits` and mean `reward` of each ball, in the order of `partition(step)`.
            `next_state` [ball, cell] is the share of visits that led to each cell of states. The
            corners of the cells in the unit cube are `low` and `high`. A visit that ended the
            episode led to no cell.
        """
        found: Estimates = self.table.estimates(self.problem.check_step(step))
        return found

    def _act(self, step: int, observation: Any, info: Mapping[str, Any] | None, keeps: bool) -> Any:
        if step == 0 and info and has_mask(info):
            self.checked_state(step, observation)
            models.plan(self.table.handle)
        return super()._act(step, observation, info, keeps)


class NetMB(ModelLearner, NetQ):
    """Model rewards and next cells on a fixed net, and plan with a bonus: UCBVI on the net.

    For every cell of states and actions, the agent counts which cells of states followed.
    `docs/lab/relatives.md` has the definition.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    planning : {"full", "one-step"}, default "full"
        Plan by backward induction over all cells after each episode, or for each cell when it is
        visited.
    monotone : bool, default False
        Forbid that Q and V rise, as in UCBVI. With a bonus that is too small for a proof,
        `monotone` would keep an estimate that is too low.
    **options
        Options of `NetQ` and `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Ambulance-v0", arrivals="uniform")
    >>> agent = zooming.NetMB(env, spacing=0.25, seed=0)
    >>> history = agent.learn(episodes=500)
    >>> model = agent.model(0)
    >>> model.next_state[model.n_visits.argmax()].round(2)  # uniform over four cells
    array([0.21, 0.27, 0.27, 0.26])
    """

    def __init__(
        self, env: Any, *, planning: str = "full", monotone: bool = False, **options: Any
    ) -> None:
        super().__init__(env, planning=planning, monotone=monotone, **options)

    def _make_table(self, core: NDArray[Any], borders: list[Any]) -> Any:
        table = ModelTable.of_cells(self.axes, core, borders)
        assert isinstance(table, ModelTable)
        table.start(self.planning == "full", self.monotone, borders=borders[: self.axes.n_state])
        return table

    @classmethod
    def as_published(cls, env: Any, bonus: float | bonuses.Bonus, **options: Any) -> NetMB:
        """Return the authors' form: points 0, eps, 2 eps, ..., capped by H, monotone."""
        return cls(env, bonus=bonus, cap="horizon", points="multiples", monotone=True, **options)


class AdaptiveMB(ModelLearner):
    """Model rewards and next states on an adaptive partition, and plan with a bonus: AdaMB.

    A ball counts next states on a grid that is as fine as the ball. A ball of depth l has side
    2^-l. With d state axes it is split at `split_factor` 2^((d + 2) l) visits, for d > 2 at
    `split_factor` 2^(d l). `docs/lab/relatives.md` has the definition, and says where it
    differs from the program of the paper's authors, which counts next states on the partition of
    the next step.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    planning : {"full", "one-step"}, default "full"
        Plan for all balls after each episode, or for each ball when it is visited.
    monotone : bool, default False
        Forbid that Q and V rise, as in the paper. A large ball averages good and bad points, so its
        Q may be too low for the best one. With a small bonus, `monotone` would keep the Q of its
        children too low.
    lipschitz : float, optional
        Smooth V so that it changes by at most this much per distance. By default no smoothing.
    split_factor : float, default 1.0
        Factor of the visits after which a ball is split.
    split : {"all"}, default "all"
        A split halves all sides, as the grids of next states do.
    max_balls : int, optional
        Largest number of active balls. A ball is split only while its children fit in.
    **options
        bonus (c / sqrt(n), not Exact or Bernstein), cap, ties, action: as for `AdaptiveQ`. Options
        of `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveMB(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(episodes=500)
    >>> agent.model(0).next_state.shape[0] == len(agent.partition(0))
    True
    """

    def __init__(
        self,
        env: Any,
        *,
        planning: str = "full",
        monotone: bool = False,
        lipschitz: float | None = None,
        split_factor: float = 1.0,
        split: str = "all",
        max_balls: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, planning=planning, monotone=monotone, **options)
        take_split_options(self, split, max_balls)
        self.lipschitz = (
            None if lipschitz is None else check_float(lipschitz, "lipschitz", 0.0, 1e12)
        )
        self.split_factor = check_float(split_factor, "split_factor", 1e-6, 1e6)
        if self.split != "all":
            raise ConfigurationError(
                f"split={self.split!r}: AdaptiveMB halves all sides, as the grids of its next "
                "states do; leave split= out"
            )
        axes = self.axes
        d = sum(
            axes.kinds[i] != CATEGORICAL and axes.table[i, WEIGHT] > 0 for i in range(axes.n_state)
        )
        core = split_core(self)
        core["due_power"], core["due_factor"] = d + 2 if d <= 2 else d, self.split_factor
        table = first_boxes(self, core, ModelTable)
        table.start(self.planning == "full", self.monotone, self.lipschitz)
        self._begin(table)

    @classmethod
    def as_published(cls, env: Any, bonus: float | bonuses.Bonus, **options: Any) -> AdaptiveMB:
        """Return the agent in the paper's form: monotone, capped by H, actions uniform in the ball.

        It is not the authors' program, see `docs/lab/relatives.md`.
        """
        return cls(env, bonus=bonus, cap="horizon", action="uniform", monotone=True, **options)
