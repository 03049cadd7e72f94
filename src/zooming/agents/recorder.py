"""Record the transitions that an agent plays in compiled code, for other agents of a portfolio."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.replay import Transitions
from zooming.kernels import recording
from zooming.kernels.crossing import Crossing


class Recorder:
    """A compiled environment that records its transitions while an agent plays it.

    Call the agent's `play` with this object in place of the environment, and with `recording` in
    place of the environment's crossing.

    Parameters
    ----------
    env : CompiledEnv
        The environment.
    crossing : Crossing
        The environment with the generator of the run.
    n_rows : int
        Largest number of transitions to record.
    reward_range : (float, float)
        A reward outside this range is recorded, and the agent gets NaN, which it refuses.
    """

    def __init__(
        self, env: Any, crossing: Crossing, n_rows: int, reward_range: tuple[float, float]
    ) -> None:
        self.env, self.horizon = env, env.horizon
        self.n_state, self.n_action = len(env.state_box.low), len(env.action_box.low)
        self.n_numbers = 2 + 2 * self.n_state + self.n_action
        self.params: NDArray[np.float64] = recording.new_memory(
            crossing.handle, env.params, n_rows, self.n_numbers, *reward_range
        )
        functions = recording.recording_functions(crossing.dynamics, crossing.start)
        self.real = crossing  # the memory has addresses into it
        self.recording = Crossing(crossing.generator, *functions)

    def crossing(self, generator: np.random.Generator | None = None) -> Any:
        """Return a crossing of the real environment with `generator`. It records nothing."""
        return self.env.crossing(generator)

    @property
    def n_rows(self) -> int:
        """Number of recorded transitions."""
        return int(self.params[recording.COUNT])

    @property
    def last_reward(self) -> float:
        """The reward of the last transition, even if the agent got NaN in its place."""
        return float(self._rows()[-1, 1])

    def set_range(self, reward_range: tuple[float, float]) -> None:
        """Let the agent get NaN for rewards outside this range from now on."""
        self.params[[recording.REWARD_LOW, recording.REWARD_HIGH]] = reward_range

    def clear(self) -> None:
        """Forget all transitions."""
        self.params[recording.COUNT] = 0.0

    def drop_last(self) -> None:
        """Forget the last transition, which the agent refused."""
        self.params[recording.COUNT] -= 1.0

    def rewards(self, first: int) -> NDArray[np.float64]:
        """Return the recorded rewards from row `first` on."""
        return self._rows()[first:, 1]

    def transitions(self, first: int = 0) -> Transitions:
        """Return the recorded transitions from row `first` on."""
        rows, n_state = self._rows()[first:], self.n_state
        after = 2 + n_state + self.n_action
        steps = rows[:, 0].astype(np.int64)
        return Transitions(
            steps=steps,
            states=rows[:, 2 : 2 + n_state].copy(),
            actions=rows[:, 2 + n_state : after].copy(),
            rewards=rows[:, 1].copy(),
            next_states=rows[:, after:].copy(),
            terminated=steps + 1 == self.horizon,
        )

    def _rows(self) -> NDArray[np.float64]:
        first, n = int(self.params[recording.FIRST_ROW]), self.n_rows * self.n_numbers
        return self.params[first : first + n].reshape(-1, self.n_numbers)
