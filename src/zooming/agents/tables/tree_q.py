"""Q-learning on optimistic trees, one partition for all steps or one for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from zooming.agents.base.status import clipping_text
from zooming.agents.files.options import build_agent
from zooming.agents.tables.adaptive_q import first_boxes, set_budget, split_core, take_split_options
from zooming.agents.tables.q_learner import QLearner, check_n_rows
from zooming.kernels.boxes.layout import INDEX
from zooming.kernels.boxes.trees import N_TREE_STATS
from zooming.partitions.boxes import TreeTable
from zooming.validation import check_flag, check_float


class TreeQ(QLearner):
    """Q-learning on an optimistic tree of boxes, which all steps may share.

    A ball keeps its mean reward and its mean future reward per remaining step. So all steps can
    share one partition (`shared=True`), and learn from each other's samples. Without noise,
    the bonus of a ball of side w is `slope` w, as for a Lipschitz function. It shrinks where the
    noise of the samples exceeds w. A ball is split when it has 1 / w samples and the standard error
    of its mean is at most w / 4. `docs/trees.md` has the definition. Nothing is proved about it;
    `AdaptiveQ` has a theorem.

    On the paper's problems it has a third to a half of the regret of `AdaptiveQ`. Use
    `shared=False` if rewards or transitions change with the step. There is no bonus for few visits.
    So if all axes are categories, every ball is a point, and the agent is greedy after one visit.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    shared : bool, default True
        Whether to learn one partition for all steps, or one for each.
    slope : float, default 0.6
        Bonus of a ball without noise, divided by its side, in units of the span of `reward_range`.
    split, max_balls, max_bytes, ties, horizon, reward_range, rewards, bounds, ordered, squash
        As for `AdaptiveQ` and `Agent`, and so are `weights`, `names` and `seed`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> env = gym.make("zooming/Oil-v0", sharpness=10.0)
    >>> tree, paper = zooming.TreeQ(env, seed=0), zooming.AdaptiveQ(env, seed=0)
    >>> lost = [1000 * 4.75 - agent.learn(1000).returns.sum() for agent in (tree, paper)]
    >>> bool(3 * lost[0] < lost[1])
    True
    """

    has_lemmas = False  # but the laws of a partition hold

    def __init__(
        self,
        env: Any,
        *,
        shared: bool = True,
        slope: float = 0.6,
        ties: str = "random",
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
        split: str = "all",
        max_balls: int | None = None,
        max_bytes: int | None = None,
        seed: int | None = None,
    ) -> None:
        self.shared = self.shares_steps = check_flag(shared, "shared")
        super().__init__(
            env, bonus=0.0, ties=ties, horizon=horizon, reward_range=reward_range, rewards=rewards,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, names=names,
            seed=seed,
        )  # fmt: skip
        take_split_options(self, split, max_balls)
        self.slope: float = check_float(slope, "slope", 0.0, math.inf)
        core = split_core(self)
        core["bonus_rule"], core["n_stats"], core["lipschitz"] = INDEX, N_TREE_STATS, self.slope
        set_budget(self, core, max_bytes)
        self._begin(first_boxes(self, core, TreeTable))

    @property
    def scale(self) -> float:
        """The unit of bonus and noise: the span of `reward_range`, or that given to `rescale`."""
        return float(self.table.core["reward_span"][0])

    def rescale(self, span: float, unknown: float | None = None) -> None:
        """Measure bonus and noise in units of rewards that were seen, not of `reward_range`.

        `Auto` calls it, because a range that surely contains all rewards is often far too wide.

        Parameters
        ----------
        span : float
            The new unit, above 0.
        unknown : float, optional
            The reward assumed for balls without samples. By default it does not change; at first it
            is the highest of `reward_range`. This optimism makes the tree explore.
        """
        self.table.rescale(check_float(span, "span", math.ulp(0.0), math.inf), unknown)

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "partitions": "one for all steps" if self.shared else "one per step"
        }
        found |= {"slope": self.slope, "scale of rewards": self.scale}
        return {**found, **self._fullness()}

    def __repr__(self) -> str:
        return (
            f"TreeQ({self.env_name}, horizon={self.horizon}, shared={self.shared}, "
            f"slope={self.slope:g}, {self.n_balls} balls in {self.nbytes:,} bytes after "
            f"{self.n_episodes} episodes{clipping_text(self)})"
        )

    def option_values(self) -> dict[str, Any]:
        return {**super().option_values(), "shared": self.shared}

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        n_roots = 1 if options["shared"] else options["horizon"]
        check_n_rows(env, options, arrays, n_roots)  # before the table is allocated
        return build_agent(cls, env, options)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super().saved_state()
        return {**values, "scale": self.scale}, arrays

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        scale = values["scale"]
        if not (isinstance(scale, float) and 0.0 < scale < math.inf):
            raise ValueError(f"the scale of rewards is {scale}, not a positive number")
        self.table.core["reward_span"] = scale
        super().restore_state(values, arrays)
