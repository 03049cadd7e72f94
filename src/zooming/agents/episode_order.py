"""Refuse calls of `act` and `update` that cannot belong to one episode."""

from __future__ import annotations

import numpy as np

from zooming.errors import ConfigurationError
from zooming.validation import Floats

_MOST = 100  # observations acted on at one step that are remembered


class EpisodeOrder:
    """Follow an episode by the calls of `act` and `update`.

    After act(h, x), only update(h, x) or another `act` may follow; after an update that leads to y
    at step h, act(h, y) or update(h, y). Step 0 begins a new episode: always by `act`, and by
    `update` unless an `act` waits for its update. Updates of episodes that no `act` began are not
    checked.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Accept any call next."""
        # The step, whether it was acted, and the states acted on, or the one to act on. One
        # assignment, so that an interrupt changes all of them or none.
        self._now: tuple[int, bool, list[Floats]] = (0, False, [])

    @property
    def waits(self) -> bool:
        """Whether an `act` waits for its update."""
        return self._now[1]

    def check_act(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `act` cannot follow."""
        now, is_acted, states = self._now
        is_fine = is_acted or (step == now and _has(states, state))
        if states and step and not is_fine:
            raise self._wrong(env_name, "act", step, state)

    def acted(self, step: int, state: Floats) -> None:
        """State that `act` was called."""
        now, is_acted, states = self._now
        earlier = states[-_MOST:] if step and is_acted and now == step else []
        self._now = step, True, [*earlier, state]

    def check_update(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `update` cannot follow."""
        now, is_acted, states = self._now
        is_new = step == 0 and not is_acted
        if states and not is_new and not (step == now and _has(states, state)):
            raise self._wrong(env_name, "update", step, state)

    def updated(self, step: int, next_state: Floats, is_over: bool) -> None:
        """State that `update` was called."""
        self._now = step + 1, False, [] if is_over else [next_state]

    def _wrong(self, env_name: str, call: str, step: int, state: Floats) -> ConfigurationError:
        now, is_acted, states = self._now
        last = f"act was called at step {now}" if is_acted else f"the episode is at step {now}"
        return ConfigurationError(
            f"{env_name}: {call} came for step {step} and {state.tolist()}, but {last} with "
            f"{states[-1].tolist()}; one agent plays one episode at a time, and act at step 0 "
            "begins the next one"
        )


def _has(states: list[Floats], state: Floats) -> bool:
    return any(np.array_equal(one, state) for one in states)
