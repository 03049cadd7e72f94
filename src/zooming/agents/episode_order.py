"""Refuse calls of `act` and `update` that cannot belong to one episode."""

from __future__ import annotations

import numpy as np

from zooming.errors import ConfigurationError
from zooming.validation import Floats

_MOST = 100  # observations acted on at one step that are remembered
_ROUNDING = 1e-6  # relative difference of equal states, of which one was rounded to float32


class EpisodeOrder:
    """Follow an episode by the calls of `act` and `update`.

    After act(h, x), update(h, x) or another `act` may follow; after an update that leads to y at
    step h, act(h, y) or update(h, y). So an episode may be learned step by step, or after it was
    played. Step 0 begins a new episode: always by `act`, and by `update` unless an `act` waits for
    its update. Updates of episodes that no `act` began are not checked.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Accept any call next."""
        # The step after the last update, the state there, and the states acted on since then at
        # each step. One assignment, so that an interrupt changes all of them or none.
        self._now: tuple[int, Floats | None, dict[int, list[Floats]]] = (0, None, {})

    @property
    def waits(self) -> bool:
        """Whether an `act` waits for its update."""
        return bool(self._now[2])

    def check_act(self, env_name: str, step: int, state: Floats) -> None:
        """Raise ConfigurationError if this `act` cannot follow."""
        now, reached, acted = self._now
        if step == 0 or acted or reached is None or (step == now and _has([reached], state)):
            return
        raise self._wrong(env_name, f"act came for step {step} and {state.tolist()}")

    def acted(self, step: int, state: Floats) -> None:
        """State that `act` was called."""
        now, reached, acted = self._now
        if step == 0:
            self._now = 0, None, {0: [state]}
        else:
            self._now = now, reached, {**acted, step: [*acted.get(step, [])[-_MOST:], state]}

    def check_update(
        self, env_name: str, step: int, state: Floats, next_state: Floats, is_over: bool
    ) -> None:
        """Raise ConfigurationError if this `update` cannot follow."""
        now, reached, acted = self._now
        if not acted and (step == 0 or reached is None):
            return
        states = [*acted.get(step, []), *([reached] if reached is not None and step == now else [])]
        if not _has(states, state):
            raise self._wrong(env_name, f"update came for step {step} and {state.tolist()}")
        if not is_over and not _has(acted.get(step + 1, [next_state]), next_state):
            raise self._wrong(env_name, f"update of step {step} leads to {next_state.tolist()}")

    def updated(self, step: int, next_state: Floats, is_over: bool) -> None:
        """State that `update` was called."""
        if is_over:
            self.forget()
        else:
            later = {at: states for at, states in self._now[2].items() if at > step}
            self._now = step + 1, next_state, later

    def _wrong(self, env_name: str, call: str) -> ConfigurationError:
        now, reached, acted = self._now
        if acted:
            step = max(acted)
            last = f"act was called at step {step} with {acted[step][-1].tolist()}"
        else:
            last = f"the episode is at step {now} with {np.asarray(reached).tolist()}"
        return ConfigurationError(
            f"{env_name}: {call}, but {last}; one agent plays one episode at a time, and act at "
            "step 0 begins the next one"
        )


def _has(states: list[Floats], state: Floats) -> bool:
    return any(
        np.array_equal(one, state) or np.allclose(one, state, rtol=_ROUNDING, atol=0.0)
        for one in states
    )
