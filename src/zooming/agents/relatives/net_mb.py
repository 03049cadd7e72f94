"""NetMB: a model-based agent on a fixed net, with backward induction.

[Azar et al. 2017 on a net]
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from zooming import bonuses
from zooming.agents.net_q import NetQ
from zooming.agents.relatives.models import ModelLearner
from zooming.partitions.modeled import ModelTable


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
        Options of `NetQ`: spacing, episodes, bonus, points, cap, action, ties, horizon,
        reward_range, rewards, bounds, ordered, squash, weights, names, seed.

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
        """Return the agent in the authors' form: points 0, eps, 2 eps, ..., capped by H, monotone.

        Parameters
        ----------
        env : gymnasium.Env
            The environment to learn on.
        bonus : float or Bonus
            Exploration bonus: a number c means c / sqrt(n).
        **options
            Other options of `NetMB`.
        """
        return cls(env, bonus=bonus, cap="horizon", points="multiples", monotone=True, **options)
