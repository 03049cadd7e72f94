"""Adaptive Q-learning: the paper's algorithm. [SBY19 Alg. 1]

An agent whose balls are boxes that are split is a `QLearner` whose `__init__` calls
`take_split_options`, then `_begin(first_boxes(self, split_core(self)))`. With `set_budget`, its
table stays within `max_balls` by removing balls; without, no ball is split that would not fit.
"""

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
from zooming.kernels.boxes.data_cuts import PER_AXIS
from zooming.partitions.boxes import BoxTable, DataTable
from zooming.partitions.table import n_roots as count_roots
from zooming.theory import MOST_SIDES
from zooming.validation import check_choice, check_int, count_noun

MOST_CELLS = 2**20  # balls of an initial partition
RULES = {"all": kernels.ALL, "longest": kernels.LONGEST}
DATA_RULES = {"variance": kernels.VARIANCE, "median": kernels.MEDIAN}
BALLS_EACH = 40  # of a partition, before steps share it; chosen on 19 problems, see docs/budget.md
MOST_HALVED = 12  # axes that one split may halve; it makes up to 2^12 balls


class AdaptiveQ(QLearner):
    """Q-learning on an adaptive partition of the state-action space. [SBY19 Alg. 1]

    The partition becomes finer where the agent plays often, which is where the return is high.
    If several episodes of `begin` are open, an action that one of them plays looks worse to the
    others until it is learned, by about its bonus.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    bonus : float or Bonus, optional
        Exploration bonus: a number c means c / sqrt(t), or an object of `zooming.bonuses`.
        By default c is 0.1 times the span of `reward_range`.
    split : {"all", "longest", "variance", "median"}, default "all"
        Sides that a split halves: all that are longer than half the diameter, or one longest side.
        The last two see the data in a ball, see `docs/spaces.md`: they cut the side where the
        samples differ most, or the longest side near the median of its samples.
    max_balls : int, optional
        Largest number of active balls. When it is reached, the ball that matters least makes room
        for each further split.
    max_bytes : int, optional
        Largest size of the table, `nbytes`. It sets `max_balls`.
    steps_per_partition : int, optional
        With `max_balls`: steps in a row that share a partition. By default, as many as it takes for
        40 balls in each.
    memory : int, optional
        For an environment whose law changes: the learning rate is (H + 1) / (H + min(t, memory)),
        so that later samples of a ball do not count less and less. See `docs/budget.md`.
    cap : {"remaining", "horizon"}, default "remaining"
        Cap values by the steps that remain or, as in the paper, by the horizon.
    action : {"center", "uniform"}, default "center"
        Play the center of the chosen ball or, as in the paper, a uniform draw from it.
    ties : {"random", "first"}, default "random"
        Choose a random ball among those of equal Q, as in the paper, or the first one.
    horizon, reward_range, rewards, bounds, ordered, squash, weights, names, seed
        As for `Agent`.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(episodes=2000)
    >>> bool(history.returns[-200:].mean() > 4.6)  # the optimum is 4.75
    True
    """

    heeds_others = True

    def __init__(
        self,
        env: Any,
        *,
        bonus: float | Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
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
        steps_per_partition: int | None = None,
        memory: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            env, bonus=bonus, cap=cap, ties=ties, action=action, horizon=horizon,
            reward_range=reward_range, rewards=rewards,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, names=names,
            seed=seed,
        )  # fmt: skip
        has_budget = max_balls is not None or max_bytes is not None
        together = steps_per_partition
        together = None if together is None else check_int(together, "steps_per_partition", 1)
        if together is not None and together > 1 and not has_budget:
            raise ConfigurationError(
                f"steps_per_partition={together} needs a budget: give max_balls or max_bytes"
            )
        self.steps_per_partition: int = together or (self.horizon if has_budget else 1)
        take_split_options(self, split, max_balls, RULES | DATA_RULES)
        core = split_core(self)
        if memory is not None:
            core["memory"] = memory = check_int(memory, "memory", 1, kernels.MAX_VISITS - 1)
        self.memory: int | None = memory
        if self.split not in DATA_RULES:
            set_budget(self, core, max_bytes, together)
            self._begin(first_boxes(self, core))
            return
        if has_budget:
            raise ConfigurationError(
                f"split={self.split!r} has no budget: leave max_balls and max_bytes out, or give "
                f"one of split={', '.join(map(repr, RULES))}"
            )
        self.max_bytes = None
        n_kept = int(core["n_stats"][0]) if core["bonus_rule"][0] else 0
        core["n_stats"] = n_kept + PER_AXIS * len(self.axes)
        self._begin(first_boxes(self, core, DataTable))

    @classmethod
    def as_published(cls, env: Any, bonus: float | Bonus, **options: Any) -> AdaptiveQ:
        """Return the agent in the paper's form: values capped by H, actions uniform in the ball.

        Parameters
        ----------
        env : gymnasium.Env
            The environment to learn on.
        bonus : float or Bonus
            Exploration bonus: a number c means c / sqrt(t). The paper tunes c.
        **options
            Other options of `AdaptiveQ`.
        """
        return cls(env, bonus=bonus, cap="horizon", ties="random", action="uniform", **options)

    @property
    def n_roots(self) -> int:
        return -(-self.horizon // self.steps_per_partition)

    def why_no_bound(self) -> str | None:
        return None

    def against_bound(self) -> str | None:
        if self.memory is not None:
            return f"with memory={self.memory:,}, the learning rate is not that of the bound"
        if self.max_balls is not None:
            return f"with max_balls={self.max_balls:,}, balls are removed that the bound relies on"
        if not self.table.core["cubes"][0] and self.axes.n_wide:
            return (
                "the constants of the bound are for cubes or atoms, not for other shapes of balls"
            )
        if self.axes.n_wide > MOST_SIDES:
            return (
                f"the bound covers at most {MOST_SIDES} axes, and this problem has "
                f"{self.axes.n_wide}"
            )
        return None


def take_split_options(
    agent: QLearner, split: str, max_balls: int | None, rules: Mapping[str, int] = RULES
) -> None:
    """Check `split` and `max_balls` and keep them as attributes of the agent."""
    is_whole = isinstance(max_balls, (int, np.integer)) and not isinstance(max_balls, bool)
    if max_balls is not None and not (is_whole and agent.n_roots <= max_balls <= MOST_BALLS):
        raise ConfigurationError(
            f"max_balls={max_balls!r}: give a whole number, at least one ball per "
            f"{'agent' if agent.shares_steps else 'partition'} "
            f"({agent.n_roots}) and at most {MOST_BALLS:,}"
        )
    agent.max_balls = None if max_balls is None else int(max_balls)
    agent.split = check_choice("split", split, rules)
    if agent.split == "all" and agent.axes.n_wide > MOST_HALVED:
        raise SpaceError(
            f"{agent.axes.n_wide} axes are too many: a split makes 2^axes balls, so at most "
            f"{MOST_HALVED} axes are "
            'supported. Give the agent fewer features (a wrapper), or split="longest", which '
            "halves one at a time."
        )


def split_core(agent: QLearner) -> NDArray[Any]:
    """Return the core of a table of boxes: `make_core`, with the split rule written into it."""
    core = agent.make_core(agent.max_balls or MOST_BALLS)
    core["rule"] = (RULES | DATA_RULES)[agent.split]
    core["cubes"] = agent.split == "all" and agent.axes.are_cubes
    core["split_axes"] = agent.axes.n_wide if agent.split == "all" else 1
    return core


def set_budget(
    agent: QLearner, core: NDArray[Any], max_bytes: int | None, together: int | None = 0
) -> None:
    """Let a table with `max_balls` or `max_bytes` remove balls when it is full.

    Call it when the bonus is in the core. With `max_bytes`, `agent.max_balls` becomes the largest
    number whose table fits. `together` is the number of steps that share a partition; None chooses
    it, and 0 keeps what the core has. See `kernels.boxes.budget`.
    """
    agent.max_bytes = None if max_bytes is None else check_int(max_bytes, "max_bytes", 1)
    if agent.max_balls is None and agent.max_bytes is None:
        return
    core["rule"] |= kernels.WITHIN
    core["cubes"] = 0
    n_kept = int(core["n_stats"][0]) if core["bonus_rule"][0] else 0
    core["n_stats"] = n_kept + 1 + len(agent.axes)
    row = kernels.BALL.itemsize + 8 * int(core["n_stats"][0])
    n_rows = 2 * MOST_BALLS if agent.max_bytes is None else agent.max_bytes // row
    most = min(agent.max_balls or MOST_BALLS, max(1, n_rows // 2))
    if together is None:
        together = max(1, BALLS_EACH * agent.horizon // most)
    if together > 0:
        agent.steps_per_partition = min(together, agent.horizon)
        core["shared"] = agent.steps_per_partition if agent.steps_per_partition > 1 else 0
    if agent.max_bytes is not None:
        n_roots = count_roots(core)
        n_first = n_roots * math.prod(agent.axes.n_values)
        n_balls = (n_rows - n_roots - n_roots % 2) // 2 + n_roots
        if n_balls < n_first:
            least = (2 * n_first - n_roots + n_roots % 2) * row
            raise ConfigurationError(
                f"max_bytes={agent.max_bytes:,} is too small: {least:,} bytes hold "
                f"{count_noun(n_first, 'first ball')}, and each further one takes {2 * row}"
            )
        agent.max_balls = min(n_balls, agent.max_balls or MOST_BALLS)
    core["max_balls"] = agent.max_balls


def first_boxes(agent: QLearner, core: NDArray[Any], kind: type[BoxTable] = BoxTable) -> Any:
    """Return the first table. Each partition has one ball per combination of categories."""
    axes, n_roots = agent.axes, agent.n_roots
    n_balls = n_roots * math.prod(axes.n_values)
    most = min(MOST_CELLS, agent.max_balls or MOST_BALLS)
    if n_balls > most:
        names = [name for name, n in zip(axes.names, axes.n_values, strict=True) if n > 1]
        limit = f"max_balls={most:,} allows" if most < MOST_CELLS else "are supported"
        if not names:
            raise SpaceError(
                f"{n_roots:,} steps make as many balls, more than the {most:,} that {limit}; give "
                "a shorter horizon"
            )
        raise SpaceError(
            f"the categories of {', '.join(names)} make {n_balls:,} balls over {n_roots} "
            "steps, more than the "
            f"{most:,} that {limit}. Name axes whose values have an order, "
            f"ordered={names[-1:]}, or give an axis weight 0"
        )
    table = kind.of_cells(axes, core, axes.cells())
    table.set_due()
    return table
