"""The certificate of a policy that is probably nearly optimal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zooming import notebook
from zooming.analysis.evaluate import Evaluation

EVALUATION_SHARE = 0.25  # delta_e / delta, for the choice among several policies


@dataclass(frozen=True)
class Certificate:
    """The result of `agent.learn_pac`: a policy, and what is proved or measured about it.

    Print it for a summary. The proved bound and `value_low` hold with probability 1 - delta each,
    so both together with probability 1 - 2 delta.

    Attributes
    ----------
    policy
        A copy of the agent, as it was before the episode `chosen`.
    epsilon, delta
        The requested gap to the optimum, and the failure probability.
    status
        "proved", "claimed" (by the paper, whose proof has an open step for H > 1 with splits) or
        "nothing".
    gap_bound
        Upper bound on the gap to the optimum after these episodes, with probability 1 - delta;
        infinite if no bound applies.
    episodes_needed
        Number of episodes that the theory requires for `epsilon` and `delta` with one draw.
    reasons
        Why nothing is proved; empty otherwise.
    assumptions
        What the bounds assume.
    episodes
        Number of episodes learned.
    drawn
        Episodes, counted from 1, whose policies were drawn.
    chosen
        The episode whose policy was chosen.
    evaluation
        Value measured on fresh episodes; None if there were none.
    value_low
        Lower bound on the policy's value with probability 1 - delta, by Hoeffding's inequality. It
        assumes only rewards in their range and independent episodes.
    evaluation_episodes
        Number of episodes played for all evaluations.
    choice_error
        Bound on the errors of all means by which the policy was chosen. It may fail with
        probability delta / 4. 0 for one draw.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> certificate = agent.learn_pac(epsilon=0.5, delta=0.1, episodes=500)
    >>> certificate.status, certificate.chosen, round(certificate.value_low, 2)
    ('nothing', 397, 4.52)
    """

    policy: Any = field(repr=False)
    epsilon: float
    delta: float
    status: str
    gap_bound: float
    episodes_needed: float
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...]
    episodes: int
    drawn: tuple[int, ...]
    chosen: int
    evaluation: Evaluation | None
    value_low: float
    evaluation_episodes: int
    choice_error: float

    def __str__(self) -> str:
        return "\n".join(
            [self._title(), *(f"  {name:9} {text}" for name, text in self._lines().items())]
        )

    def _repr_html_(self) -> str:
        return notebook.card(self._title(), self._lines())

    def _title(self) -> str:
        return f"PAC certificate for epsilon = {self.epsilon:g}, delta = {self.delta:g}"

    def _lines(self) -> dict[str, str]:
        """Return the lines of the summary, by topic."""
        gap = f"V* - V is at most {self.gap_bound:.4g} with probability {1 - self.delta:g}"
        proved = {
            "proved": f"{gap} (asked: {self.epsilon:g})",
            "claimed": f"nothing; the paper claims that {gap}, but one step of its proof is open "
            "for H > 1 with splits",
            "nothing": f"nothing: {'; '.join(self.reasons)}",
        }
        whole_run = f"the policy of episode {self.chosen:,}, "
        m = len(self.drawn)
        whole_run += "drawn uniformly" if m == 1 else f"the best measured of {m} drawn uniformly"
        union = (
            f"; by a union bound the {m} means that chose it are within "
            f"{self.choice_error:.3g} of the truth with probability "
        )
        union += f"{1 - EVALUATION_SHARE * self.delta:g}"
        measured = "nothing"
        if self.evaluation is not None:
            measured = (
                f"its value is {self.evaluation}; at least {self.value_low:.4f} with probability "
                f"{1 - self.delta:g} "
                "(Hoeffding, if rewards stay in their range and episodes are "
                f"independent){union if m > 1 else ''}"
            )
        at_once = max(0.0, 1 - 2 * self.delta)
        both = (
            f"what is {self.status} and what is measured each hold with the probability stated; "
            f"both hold at once with probability {at_once:g}"
        )
        return {
            "policy": f"{whole_run} from {self.episodes:,}",
            "proved": proved[self.status],
            "assuming": "; ".join(self.assumptions),
            "measured": measured,
            **(
                {"together": both}
                if self.status != "nothing" and self.evaluation is not None
                else {}
            ),
            "samples": f"{self.episodes:,} episodes to learn, {self.evaluation_episodes:,} to "
            "evaluate",
        }
