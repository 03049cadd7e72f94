"""Refuse calls of `act` and `update` that cannot belong to one episode."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zooming.errors import ConfigurationError
from zooming.validation import Floats

_ROUNDING = 1e-6  # relative difference of equal states, of which one was rounded to float32


class _Place(NamedTuple):
    step: int
    state: Floats
    waits: bool  # whether an `act` waits for its update

    def is_at(self, step: int, state: Floats) -> bool:
        return step == self.step and np.allclose(self.state, state, rtol=_ROUNDING, atol=0.0)


class EpisodeOrder:
    """Follow one episode by the calls of `act` and `update`; `Agent.begin` plays several.

    After act(h, x), update(h, x) or another `act` may follow; after an update that leads to y at
    step h, act(h, y) or update(h, y). Step 0 begins a new episode: always by `act`, and by
    `update` unless an `act` waits for its update. Updates of episodes that no `act` began are not
    checked.
    """

    _now: _Place | None = None

    def forget(self) -> None:
        """Accept any call next."""
        self._now = None

    @property
    def waits(self) -> bool:
        """Whether an `act` waits for its update."""
        return self._now is not None and self._now.waits

    def check_act(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `act` cannot follow."""
        now = self._now
        if step and now and not now.waits and not now.is_at(step, state):
            raise self._wrong(env_name, f"act came for step {step} and {state.tolist()}", now)

    def acted(self, step: int, state: Floats) -> None:
        """State that `act` was called."""
        self._now = _Place(step, state, True)

    def check_update(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `update` cannot follow."""
        now = self._now
        if now and (step or now.waits) and not now.is_at(step, state):
            raise self._wrong(env_name, f"update came for step {step} and {state.tolist()}", now)

    def updated(self, step: int, next_state: Floats, is_over: bool) -> None:
        """State that `update` was called."""
        self._now = None if is_over else _Place(step + 1, next_state, False)

    def _wrong(self, env_name: str, call: str, now: _Place) -> ConfigurationError:
        last = "act was called" if now.waits else "the episode is"
        return ConfigurationError(
            f"{env_name}: {call}, but {last} at step {now.step} with {now.state.tolist()}; act and "
            "update play one episode at a time, which act at step 0 begins. agent.begin() plays "
            "several at once"
        )
