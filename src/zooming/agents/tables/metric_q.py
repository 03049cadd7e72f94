"""Adaptive Q-learning with balls of any metric.

[SBY19 Alg. 1 and the covering oracle of section 3]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from zooming import bonuses
from zooming.agents.base.status import clipping_text
from zooming.agents.files.options import bonus_from_json, build_agent
from zooming.agents.tables.q_learner import MOST_BALLS, QLearner
from zooming.errors import ConfigurationError
from zooming.kernels import METRIC_CORE
from zooming.metrics import Balls, Greedy, Metric, Norm, Oracle, Packing, Pairs, Product, Space
from zooming.metrics.sides import KINDS
from zooming.metrics.space import SIDES, metric_from_json, metric_to_json
from zooming.partitions.balls import BallTable
from zooming.partitions.view import Partition
from zooming.spaces.axes import Axes
from zooming.validation import check_flag, check_float, check_int

MOST_BYTES = 1e9  # largest memory that a loaded file may require


class MetricQ(QLearner):
    """Q-learning on the balls of any metric, given a distance and a covering oracle.

    The Lipschitz constant of a bonus is the change of Q per d_max, the largest distance of two
    pairs.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    metric : metrics.Product, metrics.Pairs or Metric
        Distance of (state, action) pairs. A single metric measures states and actions alike,
        and the distance of two pairs is then the larger of the two distances.
    oracle : metrics.Greedy, metrics.Packing or callable, optional
        Covers a ball with balls of half its radius, see `zooming.metrics.space`.
        By default `metrics.Greedy()`.
    lazy : bool, default False
        Add one child per visit, centered at the pair that was played, until the children cover
        the ball, as in the paper's footnote. By default all children are added at once.
    split_after : float, default 1.0
        A ball of radius r is split after `split_after` (d_max / r)^2 visits.
    max_balls : int, optional
        Largest number of active balls. At that number no ball is added.
    bonus, cap, ties, action, horizon, reward_range, rewards, bounds, squash, seed
        As for `AdaptiveQ` and `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0")
    >>> agent = zooming.MetricQ(env, zooming.metrics.LInf(), seed=0)
    >>> history = agent.learn(episodes=2000)
    >>> bool(history.returns[-200:].mean() > 4.5)  # the optimum is 4.75
    True
    >>> found = agent.balls(step=0)
    >>> float(found.radius.max()), int(found.n_points.sum())  # 129 x 129 pairs
    (0.25, 16641)
    """

    table: BallTable

    def __init__(
        self,
        env: Any,
        metric: Product | Pairs | Metric,
        *,
        oracle: Greedy | Packing | Oracle | None = None,
        lazy: bool = False,
        split_after: float = 1.0,
        bonus: float | bonuses.Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        squash: bool | float | Mapping[str, float] = False,
        max_balls: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon,
            reward_range=reward_range, rewards=rewards,
            bounds=bounds, squash=squash, seed=seed,
        )  # fmt: skip
        if isinstance(metric, Metric):
            metric = Product(metric, metric)
        if not isinstance(metric, (Product, Pairs)):
            raise ConfigurationError(
                f"metric={metric!r}: give a metrics.Product, metrics.Pairs, or one of "
                f"{', '.join(f'metrics.{name}' for name in KINDS)}"
            )
        self.metric = metric
        self.lazy = check_flag(lazy, "lazy")
        if self.lazy and oracle is not None:
            raise ConfigurationError(
                "lazy=True uses no oracle; give lazy=True or oracle=, not both"
            )
        self.oracle: Greedy | Packing | Oracle = Greedy() if oracle is None else oracle
        is_known = isinstance(self.oracle, (Greedy, Packing))
        if not is_known and (isinstance(oracle, type) or not callable(oracle)):
            raise ConfigurationError(
                f"oracle={oracle!r}: give metrics.Greedy(), metrics.Packing(), or a function "
                "(uncovered, radius, space)"
            )
        self.split_after = check_float(split_after, "split_after", 1e-6, 1e6)
        if max_balls is not None:
            max_balls = check_int(max_balls, "max_balls", self.horizon, MOST_BALLS)
        self.max_balls = max_balls
        core = self.make_core(max_balls or MOST_BALLS, METRIC_CORE)
        core["lazy"], core["power"] = self.lazy, self.metric.power
        core["split_after"] = self.split_after
        space = Space(self.metric, self.axes, self.horizon)
        self._begin(BallTable(self.axes, core, space, self.oracle))

    def _has_only_atoms(self) -> bool:
        return False  # a root has all points

    # --- the learned policy -----------------------------------------------------------------------

    def balls(self, step: int) -> Balls:
        """Return the active balls of a step (from 0) as arrays."""
        return self.table.view(self.problem.check_step(step))

    def partition(self, step: int) -> Partition:
        raise ConfigurationError(
            "MetricQ has balls, not boxes: agent.balls(step) gives them as arrays"
        )

    def _status(self) -> dict[str, Any]:
        return {"metric": repr(self.metric), **super()._status()}

    def why_no_bound(self) -> str | None:
        return (
            "no bound with constants is known for balls of a general metric; it would need the "
            "packing numbers of this metric (theory.metric_regret_bound) and a union bound over "
            "all balls that may arise"
        )

    # --- files ------------------------------------------------------------------------------------

    def saved_options(self) -> dict[str, Any]:
        if not isinstance(self.oracle, Greedy | Packing):
            raise ConfigurationError(
                "an oracle of your own cannot be saved: a file that named it would have to run "
                "its code"
            )
        return super().saved_options()

    def option_values(self) -> dict[str, Any]:
        oracle = None if self.lazy else self.oracle
        own = {"metric": self.metric, "oracle": oracle, "lazy": self.lazy}
        return {**super().option_values(), **own}

    def _to_json(self, options: dict[str, Any]) -> dict[str, Any]:
        oracle = 1 if isinstance(self.oracle, Greedy) else "packing"
        own = {"metric": metric_to_json(self.metric), "oracle": oracle}
        return {name: own.get(name, one) for name, one in super()._to_json(options).items()}

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        if options["horizon"] > len(arrays["balls"]):
            raise ValueError(
                f"{len(arrays['balls'])} balls are too few for the horizon {options['horizon']}"
            )
        if options["oracle"] not in (1, "packing"):
            raise ValueError(
                f"its oracle is Greedy({options['oracle']!r}), which compared several centers and "
                "is no longer offered; train again with metrics.Greedy()"
            )
        metric = metric_from_json(options["metric"], arrays)
        if isinstance(metric, Product):
            bounds, squash = options["bounds"], options["squash"]
            axes = Axes(env.observation_space, env.action_space, bounds=bounds, squash=squash)
            n_states = metric.states.n_points(axes, 0, axes.n_state)
            n_actions = metric.actions.n_points(axes, axes.n_state, axes.n_action)
            # Memory of `Space` and `BallTable`: distances, orders, and the owner of each pair.
            n_entries = options["horizon"] * n_states * n_actions
            n_bytes = 40 * (n_states**2 + n_actions**2) + 4 * n_entries
            if n_bytes > MOST_BYTES:
                raise ValueError(
                    f"{n_states:,} states and {n_actions:,} actions over {options['horizon']} "
                    f"steps would take about {n_bytes / 1e9:.1f} GB, more than a file may ask for; "
                    "if it is yours, raise zooming.agents.tables.metric_q.MOST_BYTES"
                )
        oracle = None
        if not options["lazy"]:
            oracle = Packing() if options["oracle"] == "packing" else Greedy()
        given = {**options, "bonus": bonus_from_json(options["bonus"]), "oracle": oracle}
        return build_agent(cls, env, {**given, "metric": metric})

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the arrays to save. Domains are computed from the balls by `restore_state`."""
        _, arrays = super().saved_state()
        if isinstance(self.metric, Pairs):
            return {}, {**arrays, "pair_distances": self.metric.distances}
        for name in SIDES:
            if not isinstance(getattr(self.metric, name), Norm):
                arrays[f"{name}_distances"] = getattr(self.table.space, name).distances
        return {}, arrays

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.env_name}, {self.metric!r}, horizon={self.horizon}, "
            f"bonus={self.bonus}, {self.n_balls} balls after {self.n_episodes} "
            f"episodes{clipping_text(self)})"
        )
