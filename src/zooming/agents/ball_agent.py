"""What agents that keep balls share, whatever the shape: one of the policies played, with a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zooming import bonuses
from zooming.agents.base import Agent

if TYPE_CHECKING:
    from zooming.pac import Certificate


class BallAgent(Agent):
    """An agent whose knowledge is a table of balls, boxes or others; `table` has `rows`, `rows_in_use` and `copy`."""

    table: Any
    bonus: bonuses.Bonus
    action: str

    def learn_pac(
        self,
        epsilon: float,
        delta: float,
        *,
        episodes: int | None = None,
        best_of: int = 1,
        evaluation_episodes: int = 1000,
        progress_bar: bool = False,
    ) -> Certificate:
        """Learns, and returns one of the policies played, drawn uniformly, in a certificate of what is known about it.

        The number of `episodes` is the theory's for a gap of at most `epsilon` with probability 1 - `delta`, or a budget;
        where no bound is known (`NetQ`, `MetricQ`) it must be given. With `best_of` several are drawn and the best of them is
        chosen, by `evaluation_episodes` fresh episodes each. The certificate says what was proved, under which assumptions,
        and what was only measured. Its `policy` is an agent of its own: save it, or use its `predict`. This agent itself has
        learned all the episodes.

        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> certificate = agent.learn_pac(epsilon=0.5, delta=0.1, episodes=2000, best_of=3, evaluation_episodes=100)
        >>> certificate.status, certificate.drawn, certificate.evaluation_episodes
        ('nothing', (551, 1587, 1900), 400)
        """
        from zooming.pac import learn_pac  # it knows agents

        return learn_pac(
            self, epsilon, delta, episodes=episodes, best_of=best_of, evaluation_episodes=evaluation_episodes,
            progress_bar=progress_bar,
        )  # fmt: skip

    def _without_bound(self) -> str | None:
        """Why no bound on the regret with constants is known for agents of this kind; None if one is."""
        return f"no bound with constants is known for {type(self).__name__}"

    def _against_bound(self) -> str | None:
        """What about this very agent the bound does not cover; None if it covers it."""
        return None

    def _smoothness(self) -> str | None:
        """In which space Q* is assumed to be Lipschitz; None if nothing is assumed."""
        return "on the unit cube" if self.axes.n_wide else None
