"""Q-learning on a fixed uniform net, the baseline of the paper. [Song and Sun 2019]"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.ball_agent import ACTIONS, MOST_BALLS
from zooming.agents.tabled import TabledAgent
from zooming.bonuses import Bonus
from zooming.checks import real, whole
from zooming.errors import SpaceError
from zooming.spaces import Axes
from zooming.table import BallTable

PAPERS_EPISODES = 2000
MOST_PER_AXIS = 2**26  # cells along one axis


class NetQ(TabledAgent):
    """Q-learning on a net of the given spacing (in the unit cube); the update rule is AdaptiveQ's.

    Without `spacing` the net is the paper's for K = `episodes` (2000 if not given): (K H)^(-1 / (d + 2)) in d dimensions of
    states and actions together. The action played in a ball is its net point, the low "corner" (multiples of the spacing),
    unless `action` says otherwise.

    >>> import gymnasium as gym, zooming
    >>> agent = zooming.NetQ(gym.make("zooming/Oil-v0"), episodes=2000, seed=0)
    >>> round(agent.spacing, 6), agent.n_balls
    (0.1, 500)
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
        action: str = "corner",
        horizon: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon, reward_range=reward_range, bounds=bounds,
            ordered=ordered, squash=squash, weights=weights, seed=seed,
        )  # fmt: skip
        if spacing is None:
            n_episodes = whole(PAPERS_EPISODES if episodes is None else episodes, "episodes", 1)
            spacing = float(n_episodes * self.horizon) ** (-1 / (self.axes.n_wide + 2))
        elif episodes is not None:
            raise SpaceError(f"spacing={spacing!r} and episodes={episodes!r}: either gives the net, so give one of them")
        self.spacing: float = real(spacing, "spacing", 0.0, 1.0)
        if self.spacing == 0:
            raise SpaceError("spacing=0: the net's spacing is a share of the space, above 0 and at most 1")
        borders = self.axes.net(self.spacing, MOST_PER_AXIS)
        n_balls = self.horizon * math.prod(len(axis_borders) + 1 for axis_borders in borders)
        if n_balls > MOST_BALLS:
            raise SpaceError(f"spacing={spacing:g} in {len(self.axes)} dimensions makes {n_balls:,} balls; use a coarser net")
        core = self._core(n_balls)
        core["spacing"] = self.spacing
        self._begin(BallTable.of_cells(core, self._root_values(core), borders))

    @classmethod
    def _from_options(cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
        given = {key: options[key] for key in ("bounds", "ordered", "squash", "weights")}
        borders = Axes(env.observation_space, env.action_space, **given).net(options["spacing"], len(arrays["balls"]))
        if options["horizon"] * math.prod(len(axis_borders) + 1 for axis_borders in borders) > len(arrays["balls"]):
            raise ValueError(f"{len(arrays['balls'])} rows are too few for the spacing {options['spacing']}")
        return super()._from_options(env, options, arrays)

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        net = self.table.rows
        super()._restore(values, arrays)
        if any((self.table.rows[name] != net[: self.table.rows_in_use][name]).any() for name in ("child", "axis", "threshold")):
            raise ValueError(f"the balls are not a net of spacing {self.spacing}")

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "spacing": self.spacing}
