"""AdaptiveMB: a model-based agent on an adaptive partition. [Sinclair et al. 2020: AdaMB]"""

from __future__ import annotations

from typing import Any

from zooming import bonuses
from zooming.agents.relatives.models import ModelLearner
from zooming.agents.split_options import first_boxes, split_core, take_split_options
from zooming.errors import ConfigurationError
from zooming.kernels import WEIGHT
from zooming.partitions.modeled import ModelTable
from zooming.spaces.flatten import CATEGORICAL
from zooming.validation import check_float


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
        Options of `AdaptiveQ`: bonus (c / sqrt(n), not Exact or Bernstein), cap, ties, action,
        horizon, reward_range, rewards, bounds, ordered, squash, weights, names, seed.

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
        self.begin(table)

    @classmethod
    def as_published(cls, env: Any, bonus: float | bonuses.Bonus, **options: Any) -> AdaptiveMB:
        """Return the agent in the paper's form: monotone, capped by H, actions uniform in the ball.

        It is not the authors' program, see `docs/lab/relatives.md`.

        Parameters
        ----------
        env : gymnasium.Env
            The environment to learn on.
        bonus : float or Bonus
            Exploration bonus: a number c means c / sqrt(n). The paper tunes c.
        **options
            Other options of `AdaptiveMB`.
        """
        return cls(env, bonus=bonus, cap="horizon", action="uniform", monotone=True, **options)
