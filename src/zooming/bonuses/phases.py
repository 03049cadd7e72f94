"""The doubling trick: phases of 1, 2, 4, ... episodes, each with a bonus of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from zooming.bonuses.confident import Bernstein, Confident, Exact, Theory
from zooming.errors import ConfigurationError


@dataclass(frozen=True)
class Doubling:
    """The doubling trick for an unknown K: restarts at episodes 2, 4, 8, ... with K = 2, 4, 8, ...

    The phase of 2^j episodes, j = 0, 1, ..., uses the share 1 / ((j + 1) (j + 2)) of delta, so all
    phases together fail with probability delta. The regret bound for a known K then holds for all
    episodes, up to a constant factor. After a restart the policy knows nothing. `episodes=None`
    without Doubling has the same guarantee and forgets nothing.

    Parameters
    ----------
    bonus : Theory, Exact or Bernstein
        The bonus of each phase, without `episodes`.

    Examples
    --------
    >>> Doubling(Exact()).phase(5).episodes  # episodes 4 to 7
    4
    """

    bonus: Theory | Exact | Bernstein

    def __post_init__(self) -> None:
        if not isinstance(self.bonus, Confident):
            raise ConfigurationError(
                f"Doubling: {self.bonus!r} does not depend on K; give a Theory, Exact or Bernstein"
            )
        if self.bonus.episodes is not None:
            kind = type(self.bonus).__name__
            raise ConfigurationError(
                f"Doubling: episodes={self.bonus.episodes} is not an option here: each phase "
                f"chooses its own; write Doubling({kind}())"
            )

    def phase(self, episode: int) -> Any:
        """Return the bonus of the phase that contains `episode`, counted from 1."""
        j = number_of_phase(episode)
        return replace(self.bonus, episodes=2**j, delta=self.bonus.delta / ((j + 1) * (j + 2)))

    def scale(self, horizon: int, reward_span: float, episode: int = 1) -> float:
        scale: float = self.phase(episode).scale(horizon, reward_span)
        return scale


def number_of_phase(episode: int) -> int:
    """Return the phase j of an episode. Phase j has the episodes 2^j to 2^(j+1) - 1."""
    return int(episode).bit_length() - 1
