"""What a run of `learn` needs beside what the agent has learned."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base.seeds import generator_at


class RunState:
    """The state of an agent's runs: lock, generator of the environment, flags, `agent.run`.

    Drivers and readers in other threads share it. It is not part of what was learned.

    Parameters
    ----------
    clips : bool
        Whether rewards outside the reward range are clipped.
    """

    def __init__(self, clips: bool) -> None:
        # Held while the agent changes or is read. Learning releases it between calls of kernels.
        self.lock = threading.RLock()
        self.is_asked = False  # whether a reader may wait for the lock
        self.learner = 0  # thread that runs learn(), 0 if none does
        self.latest: Any = None  # the `Pauses` of a running or failed learn()
        self.stop_flag: threading.Event | None = None  # set by learn_many when it is interrupted
        self.env_rng: np.random.Generator | None = None  # of the environment; set by learn()
        self.n_begun = 0  # episodes begun by `Agent.begin`
        self.open_play: Any = None  # a reference to the `Play` of the last of them
        self.stored_env: dict[str, Any] | None = None  # from a file, if loaded without env
        self.clipping = np.array([clips, 0])  # whether to clip rewards, number clipped
        self.has_warned_of_clipping = False
        self.was_cut = False  # whether an episode of learn() went on when the horizon ended it
        # The state in which all episodes began, and their number; 0 if they differ.
        self.seen_start: tuple[NDArray[np.float64], int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the lock, so that an agent can be copied and pickled."""
        kept = {name: one for name, one in vars(self).items() if name != "lock"}
        return {**kept, "open_play": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()

    @property
    def env_generator(self) -> dict[str, Any] | None:
        """State of the environment's generator before the next episode, None before learn()."""
        return None if self.env_rng is None else dict(self.env_rng.bit_generator.state)

    @env_generator.setter
    def env_generator(self, state: dict[str, Any] | None) -> None:
        self.env_rng = None if state is None else generator_at(state)

    def free_env(self, env: Any) -> Any:
        """Return the environment to play on, or a copy of it while another thread learns on it."""
        is_free = env is None or self.learner in (0, threading.get_ident())
        return env if is_free else copy.deepcopy(env)

    def see_start(self, state: NDArray[np.float64]) -> None:
        """Remember the start of an episode, as long as all were equal."""
        if self.seen_start is None:
            self.seen_start = state, 1
        elif self.seen_start[1]:
            is_same = np.array_equal(self.seen_start[0], state)
            self.seen_start = self.seen_start[0], self.seen_start[1] + 1 if is_same else 0
