"""Q-learning on a fixed uniform net, the baseline of the paper. [Song and Sun 2019]"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.ball_agent import ACTIONS, MOST_BALLS, one_of
from zooming.agents.tabled import TabledAgent
from zooming.bonuses import Bonus
from zooming.errors import SpaceError
from zooming.partitions.boxes import BallTable
from zooming.spaces.axes import Axes
from zooming.validation import check_float, check_int

PAPERS_EPISODES = 2000
POINTS = ("centers", "multiples")
MOST_PER_AXIS = 2**26  # cells along one axis


class NetQ(TabledAgent):
    """Q-learning on a net of the given spacing (in the unit cube); the update rule is AdaptiveQ's.

    Without `spacing` it is the paper's for K = `episodes` (2000 if not given): (K H)^(-1 / (d + 2)) in d dimensions of
    states and actions together. `points` says where the net's points lie along an interval. "centers": the axis is cut
    at the multiples of the spacing, and the points are the centers of the cells. "multiples": the points are 0, eps,
    2 eps, ... below 1, and a cell is what is nearest to its point; that is the paper's net, see `as_published`.
    `action`: what is played in a cell, its point ("center") or a "uniform" draw. "corner", the cell's low corner, is for
    files of older nets.

    >>> import gymnasium as gym, zooming
    >>> agent = zooming.NetQ(gym.make("zooming/Oil-v0"), episodes=2000, seed=0)
    >>> round(agent.spacing, 6), agent.n_balls
    (0.1, 500)
    >>> published = zooming.NetQ.as_published(gym.make("zooming/Oil-v0"), bonus=0.1, seed=0)
    >>> agent.partition(0).high[:3, 1].round(2), published.partition(0).high[:3, 1].round(2)
    (array([0.1, 0.2, 0.1]), array([0.05, 0.15, 0.05]))
    """

    _actions = {**ACTIONS, "corner": kernels.CORNER}  # noqa: RUF012  # a constant

    def __init__(
        self,
        env: Any,
        *,
        spacing: float | None = None,
        episodes: int | None = None,
        bonus: float | Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
        points: str = "centers",
        horizon: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon, reward_range=reward_range, rewards=rewards,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, seed=seed,
        )  # fmt: skip
        if spacing is None:
            n_episodes = check_int(PAPERS_EPISODES if episodes is None else episodes, "episodes", 1)
            spacing = float(n_episodes * self.horizon) ** (-1 / (self.axes.n_wide + 2))
        elif episodes is not None:
            raise SpaceError(f"spacing={spacing!r} and episodes={episodes!r}: either gives the net, so give one of them")
        self.spacing: float = check_float(spacing, "spacing", 0.0, 1.0)
        if self.spacing == 0:
            raise SpaceError("spacing=0: the net's spacing is a share of the space, above 0 and at most 1")
        self.points = one_of("points", points, POINTS)
        if self.points == "multiples" and self.action == "corner":
            raise SpaceError(
                'points="multiples" is played at its points; leave out action="corner", which is for files of older nets'
            )
        borders = self.axes.net(self.spacing, MOST_PER_AXIS, self.points)
        n_balls = self.horizon * math.prod(len(axis_borders) + 1 for axis_borders in borders)
        if n_balls > MOST_BALLS:
            raise SpaceError(f"spacing={spacing:g} in {len(self.axes)} dimensions makes {n_balls:,} balls; use a coarser net")
        core = self._core(n_balls)
        core["spacing"] = self.spacing
        if self.points == "multiples" and self.action == "center":
            core["action_rule"] = kernels.POINT  # the first and the last cell have their point elsewhere than in the middle
        self._begin(BallTable.of_cells(core, self._root_values(core), borders))

    @classmethod
    def as_published(cls, env: Any, bonus: float | Bonus, **options: Any) -> NetQ:
        """Return the paper's net: the nearest of the points 0, eps, 2 eps, ... is played, values are capped by H."""
        return cls(env, bonus=bonus, cap="horizon", ties="random", action="center", points="multiples", **options)

    @classmethod
    def _from_options(cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
        given = {key: options[key] for key in ("bounds", "ordered", "squash", "weights")}
        axes = Axes(env.observation_space, env.action_space, **given)
        # A file from before there was a choice has cells whose corner is played, which its options say.
        options = {"points": "centers", **options}
        borders = axes.net(options["spacing"], len(arrays["balls"]), options["points"])
        if options["horizon"] * math.prod(len(axis_borders) + 1 for axis_borders in borders) > len(arrays["balls"]):
            raise ValueError(f"{len(arrays['balls'])} rows are too few for the spacing {options['spacing']}")
        return super()._from_options(env, options, arrays)

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        net = self.table.rows
        super()._restore(values, arrays)
        if any((self.table.rows[name] != net[: self.table.rows_in_use][name]).any() for name in ("child", "axis", "threshold")):
            raise ValueError(f"the balls are not a net of spacing {self.spacing}")

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "spacing": self.spacing, "points": self.points}
