"""The base class of agents with balls: options, bonus of the episode, doubling trick, PAC."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming import bonuses, kernels
from zooming.agents import seeds
from zooming.agents.agent import Agent
from zooming.errors import ConfigurationError
from zooming.kernels import pausing
from zooming.validation import as_float, check_int

if TYPE_CHECKING:
    from zooming.analysis.pac import Certificate

CAPS = ("remaining", "horizon")
TIES = {"random": kernels.RANDOM, "first": kernels.FIRST}
ACTIONS = {"center": kernels.CENTER, "uniform": kernels.UNIFORM}
DEFAULT_BONUS = 0.1  # c, for rewards that span 1
MOST_BALLS = 2**30 - 1  # a table of twice as many rows still has 31-bit row numbers


class BallAgent(Agent):
    """An agent with a table of balls: boxes, or balls of a metric."""

    _actions = ACTIONS
    _core_layout = kernels.CORE

    def __init__(
        self,
        env: Any,
        *,
        bonus: float | bonuses.Bonus | None = None,
        cap: str = "remaining",
        ties: str = "random",
        action: str = "center",
        **options: Any,
    ) -> None:
        super().__init__(env, **options)
        low, high = self.reward_range
        self.bonus = bonuses.as_bonus(DEFAULT_BONUS * (high - low) if bonus is None else bonus)
        self.cap = one_of("cap", cap, CAPS)
        self.ties = one_of("ties", ties, TIES)
        self.action = one_of("action", action, self._actions)
        self.table: Any  # set by the subclass through _begin
        self._first_table: Any = None  # copy for restarts of the doubling trick
        self._paused = np.zeros(pausing.STATE + self.axes.n_state)  # see `pausing`

    def _core(self, max_balls: int) -> NDArray[Any]:
        low, high = self.reward_range
        core = np.zeros(1, self._core_layout)
        core["max_balls"] = max_balls
        core["random"] = seeds.word(self.seed, "agent")
        core["horizon"] = self.horizon
        core["n_state"], core["n_action"] = self.axes.n_state, self.axes.n_action
        core["ties"], core["action_rule"] = TIES[self.ties], self._actions[self.action]
        core["full_cap"] = self.cap == "horizon"
        core["reward_low"], core["reward_high"], core["reward_span"] = low, high, high - low
        self._set_bonus(core)
        return core

    def _set_bonus(self, core: NDArray[Any]) -> None:
        """Write the bonus of the coming episode, or of its doubling phase, into `core`."""
        bonus, span, coming = self.bonus, float(core["reward_span"][0]), int(core["episode"][0]) + 1
        if isinstance(bonus, bonuses.Doubling):
            bonus, core["phase"] = bonus.phase(coming), bonuses.number_of_phase(coming)
        if (
            isinstance(bonus, (bonuses.Theory, bonuses.Exact, bonuses.Bernstein))
            and self._has_only_atoms()
        ):
            bonus = replace(bonus, lipschitz=0.0)  # each ball is one point, so its diameter is 0
        try:
            core["bonus"] = as_float(bonus.scale(self.horizon, span))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{type(self.bonus).__name__}.scale must return a number ({error})"
            ) from error
        if not np.isfinite(core["bonus"][0]):
            raise ConfigurationError(
                f"the bonus {self.bonus} has the scale {core['bonus'][0]}; it must be finite"
            )
        if isinstance(bonus, (bonuses.Theory, bonuses.Exact, bonuses.Bernstein)):
            core["per_root_iota"], core["plain"] = bonus.terms(self.horizon, span)
            core["iota"] = bonus.log_term(self.horizon)
            core["first_iota"] = core["iota"] if bonus.episodes is None else 0.0
        if isinstance(bonus, bonuses.Exact):
            core["bonus_rule"], core["lipschitz"] = kernels.EXACT, bonus.lipschitz
            core["reward_spread"] = bonus.reward_spread(span)
        elif isinstance(bonus, bonuses.Bernstein):
            core["bonus_rule"], core["c1"], core["c2"] = kernels.BERNSTEIN, bonus.c1, bonus.c2

    def _has_only_atoms(self) -> bool:
        """Return whether every ball contains a single point from the start."""
        return False

    def _root_values(self, core: NDArray[Any]) -> NDArray[np.float64]:
        return np.array([kernels.ceiling(core, step) for step in range(self.horizon)])

    # --- the doubling trick -----------------------------------------------------------------------

    def _begin(self, table: Any) -> None:
        """Set the initial table."""
        self.table = table
        self._first_table = table.copy() if isinstance(self.bonus, bonuses.Doubling) else None

    def _restart_if_due(self) -> None:
        """Reset the table if the next episode begins a phase of the doubling trick."""
        old = self.table.core
        if (
            self._first_table is None
            or bonuses.number_of_phase(int(old["episode"][0]) + 1) == old["phase"][0]
        ):
            return
        fresh = self._first_table.copy()
        fresh.core["random"], fresh.core["episode"] = old["random"], old["episode"]
        self._set_bonus(fresh.core)
        self.table = fresh  # last, so that an interrupt leaves the old or the new table

    def _go_on(self, n: int) -> int:
        """Make a pending split or restart; return how many of n episodes may be played now.

        The number is limited by the next restart of the doubling trick.
        """
        if self._paused[pausing.N_STEPS]:
            row = int(self._paused[pausing.DUE_ROW])
            if self._is_due(row):  # false if an interrupt came right after the split
                self._split(row)
        elif self._first_table is not None:
            self._restart_if_due()
        if self._first_table is None:
            return n
        n_left: int = 2 ** (int(self.table.core["phase"][0]) + 1) - 1 - self.n_episodes
        return min(n, n_left)

    def _is_due(self, row: int) -> bool:
        """Return whether a ball is due."""
        raise NotImplementedError

    def _split(self, row: int) -> None:
        """Split a due ball, where the kernel does not."""
        raise NotImplementedError

    @property
    def n_episodes(self) -> int:
        # The update rule counts in the table, so both agree after any interrupt.
        return int(self.table.core["episode"][0]) - bool(self._paused[pausing.N_STEPS])

    def _take_n_episodes(self, n: int) -> None:
        if not 0 <= n <= self.n_episodes:  # older files hold the episodes that learn() finished
            raise ValueError(f"{n} episodes, but the table has seen {self.n_episodes}")

    def drop_paused(self) -> None:
        """Drop an episode paused for a split: another driver cannot continue it."""
        self._paused[pausing.N_STEPS] = 0.0

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
        """Learn, and return one of the policies played, drawn uniformly, with a certificate.

        The certificate states what is proved, under which assumptions, and what was measured. Its
        `policy` is a separate agent. This agent keeps all it has learned.

        Parameters
        ----------
        epsilon : float
            Largest accepted gap to the optimal value, above 0.
        delta : float
            Failure probability, between 0 and 1.
        episodes : int, optional
            Episodes to learn. By default the number of the theory for `epsilon` and `delta`;
            required where no bound is known (`NetQ`, `MetricQ`).
        best_of : int, default 1
            Number of policies drawn. The best one in evaluation is returned.
        evaluation_episodes : int, default 1000
            Fresh episodes for each evaluation; 0 for none.
        progress_bar : bool, default False
            Show a progress bar. Needs rich.

        Returns
        -------
        Certificate
            The policy and what is known about it.

        Examples
        --------
        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> certificate = agent.learn_pac(
        ...     epsilon=0.5, delta=0.1, episodes=2000, best_of=3, evaluation_episodes=100
        ... )
        >>> certificate.status, certificate.drawn, certificate.evaluation_episodes
        ('nothing', (551, 1587, 1900), 400)
        """
        import zooming  # imported here because analysis imports agents

        return zooming.learn_pac(
            self, epsilon, delta, episodes=episodes, best_of=best_of,
            evaluation_episodes=evaluation_episodes,
            progress_bar=progress_bar,
        )  # fmt: skip

    def _without_bound(self) -> str | None:
        """Return why no regret bound with constants is known for this class; None if one is."""
        return f"no bound with constants is known for {type(self).__name__}"

    def _against_bound(self) -> str | None:
        """Return which option of this agent the bound does not cover; None if it covers all."""
        return None

    # --- size and files ---------------------------------------------------------------------------

    @property
    def n_balls(self) -> int:
        return int(self.table.core["n_balls"][0])

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)

    def _core_at(self, core: NDArray[Any]) -> NDArray[Any]:
        """Return the core of a new agent at the episode of a stored core.

        ValueError if a field that follows from the options differs.
        """
        episode, phase = int(core["episode"][0]), int(core["phase"][0])
        fresh: NDArray[Any] = self.table.core.copy()
        check_int(episode, "episode", 0)
        if self._first_table is not None:
            # Between a restart and the first update the phase is that of the coming episode.
            if phase not in {
                bonuses.number_of_phase(max(episode, 1)),
                bonuses.number_of_phase(episode + 1),
            }:
                raise ValueError(
                    f"episode {episode} is not in the phase {phase} of the doubling trick"
                )
            fresh["episode"] = 2**phase - 1
            self._set_bonus(fresh)
        fresh["episode"] = episode
        kernels.set_iota(fresh)
        for name in self._core_layout.names or ():
            # Learning changes these three; all others follow from the options.
            if name not in ("n_rows", "n_balls", "random") and core[name][0] != fresh[name][0]:
                raise ValueError(
                    f"{name} is {core[name][0]} in the table but {fresh[name][0]} in the options"
                )
        return fresh


def one_of(name: str, given: str, allowed: Any) -> str:
    """Return `given` if it is allowed; otherwise raise ConfigurationError with the allowed
    choices.
    """
    if given not in tuple(allowed):
        raise ConfigurationError(
            f"{name}={given!r}: choose one of {', '.join(repr(choice) for choice in allowed)}"
        )
    return given
