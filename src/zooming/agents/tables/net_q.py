"""Q-learning on a fixed uniform net, the baseline of the paper. [Song and Sun 2019]"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming import kernels
from zooming.agents.tables.q_learner import MOST_BALLS, QLearner
from zooming.bonuses import Bonus
from zooming.errors import ConfigurationError, SpaceError
from zooming.kernels import WEIGHT
from zooming.partitions.boxes import BoxTable
from zooming.spaces.axes import Axes
from zooming.spaces.flatten import CATEGORICAL, INTERVAL, ORDERED
from zooming.validation import Floats, check_choice, check_float, check_int


def net_borders(axes: Axes, spacing: float, most: int, points: str = "centers") -> list[Floats]:
    """Return the borders of a net along each axis. An axis of less weight has a wider spacing.

    Borders of an integer axis lie between two values, nearest to the multiples of the spacing.
    Raise SpaceError for more than `most` cells along one axis, before memory is allocated.
    """
    if max(axes.n_values) > most:
        raise SpaceError(
            f"the categories alone make more than {most:,} balls; name axes that have an "
            "order, ordered="
        )
    found = axes.cells()
    for i in range(len(axes)):
        axis = axes[i]
        if axis.kind == CATEGORICAL or axis.weight == 0:
            continue
        share, n_values = min(1.0, spacing / axes.table[i, WEIGHT]), axis.high - axis.low + 1
        n_cells = math.ceil(1 / share - 1e-9)  # against rounding up by rounding errors
        if min(n_cells, n_values if axis.kind == ORDERED else math.inf) > most:
            raise SpaceError(
                f"spacing={spacing:g} makes more than {most:,} balls; use a coarser net"
            )
        if axis.kind == ORDERED and share * n_values <= 1:
            found[i] = np.arange(1, int(n_values)) / int(n_values)  # between any two values
            continue
        is_shifted = points == "multiples" and axis.kind == INTERVAL
        found[i] = (np.arange(1, n_cells) - (0.5 if is_shifted else 0.0)) * share
        if axis.kind == ORDERED:
            inner = np.unique(np.rint(found[i] * n_values))
            found[i] = inner[(inner > 0) & (inner < n_values)] / n_values
    return found


PAPERS_EPISODES = 2000
POINTS = ("centers", "multiples")
MOST_PER_AXIS = 2**26  # cells along one axis


class NetQ(QLearner):
    """Q-learning on a fixed uniform net, with the update rule of AdaptiveQ.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    spacing : float, optional
        Spacing eps of the net as a share of the space, above 0 and at most 1.
        By default the paper's, (K H)^(-1 / (d + 2)) for d axes of states and actions together.
    episodes : int, optional
        K in the default spacing, by default 2000. Give `spacing` or `episodes`, not both.
    points : {"centers", "multiples"}, default "centers"
        Points of the net along an interval. "centers": the axis is cut at the multiples of eps,
        and the point of a cell is its center. "multiples": the points are 0, eps, 2 eps, ...
        below 1, and a cell contains all values nearest to its point, as in the paper.
    action : {"center", "uniform"}, default "center"
        Play the point of the chosen cell, or a uniform draw from the cell.
    bonus, cap, ties, horizon, reward_range, rewards, bounds, ordered, squash, weights, names, seed
        As for `AdaptiveQ` and `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.NetQ(gym.make("zooming/Oil-v0"), episodes=2000, seed=0)
    >>> round(agent.spacing, 6), agent.n_balls
    (0.1, 500)
    >>> published = zooming.NetQ.as_published(gym.make("zooming/Oil-v0"), bonus=0.1, seed=0)
    >>> agent.partition(0).high[:3, 1].round(2), published.partition(0).high[:3, 1].round(2)
    (array([0.1, 0.2, 0.1]), array([0.05, 0.15, 0.05]))
    """

    heeds_others = True

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
        reward_range: tuple[float, float] | None = None,
        rewards: str = "refuse",
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon,
            reward_range=reward_range, rewards=rewards,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, names=names,
            seed=seed,
        )  # fmt: skip
        if spacing is None:
            n_episodes = check_int(PAPERS_EPISODES if episodes is None else episodes, "episodes", 1)
            spacing = float(n_episodes * self.horizon) ** (-1 / (self.axes.n_wide + 2))
        elif episodes is not None:
            raise ConfigurationError(
                f"spacing={spacing!r} and episodes={episodes!r}: give only one of them, because "
                "each determines the net"
            )
        self.episodes = episodes
        self.spacing: float = check_float(spacing, "spacing", 0.0, 1.0)
        if self.spacing == 0:
            raise ConfigurationError(
                "spacing=0: the net's spacing is a share of the space, above 0 and at most 1"
            )
        self.points = check_choice("points", points, POINTS)
        borders = net_borders(self.axes, self.spacing, MOST_PER_AXIS, self.points)
        n_balls = self.horizon * math.prod(len(axis_borders) + 1 for axis_borders in borders)
        if n_balls > MOST_BALLS:
            raise ConfigurationError(
                f"spacing={spacing:g} in {len(self.axes)} dimensions makes {n_balls:,} balls; use "
                "a coarser net"
            )
        core = self.make_core(n_balls)
        core["spacing"] = self.spacing
        if self.points == "multiples" and self.action == "center":
            core["action_rule"] = kernels.POINT  # end cells are not centered at their point
        self._begin(self._make_table(core, borders))

    def _make_table(self, core: NDArray[Any], borders: list[Any]) -> Any:
        """Return a table with one ball per cell between these borders."""
        return BoxTable.of_cells(self.axes, core, borders)

    @classmethod
    def as_published(cls, env: Any, bonus: float | Bonus, **options: Any) -> NetQ:
        """Return the agent in the paper's form: points 0, eps, 2 eps, ..., values capped by H.

        A number c as the `bonus` means c / sqrt(t). The paper tunes c. Other options are of `NetQ`.
        """
        return cls(env, bonus=bonus, cap="horizon", points="multiples", **options)

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        given = {key: options[key] for key in ("bounds", "ordered", "squash", "weights")}
        axes = Axes(env.observation_space, env.action_space, **given)
        borders = net_borders(axes, options["spacing"], len(arrays["balls"]), options["points"])
        if options["horizon"] * math.prod(len(axis_borders) + 1 for axis_borders in borders) > len(
            arrays["balls"]
        ):
            raise ValueError(
                f"{len(arrays['balls'])} rows are too few for the spacing {options['spacing']}"
            )
        return super().from_options(env, options, arrays)

    def get_params(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, with the spacing for `episodes`."""
        params = super().get_params()
        params.pop("episodes", None)
        return params

    def option_values(self) -> dict[str, Any]:
        return {**super().option_values(), "spacing": self.spacing, "points": self.points}
