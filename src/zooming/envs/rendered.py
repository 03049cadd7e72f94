"""Render environments: `render_mode`, the record of the episode, and `render`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from zooming.errors import ConfigurationError
from zooming.methods import UpperMethod
from zooming.validation import Floats

MODES = ("human", "rgb_array", "ansi")
FRAMES_PER_SECOND = 2  # episodes are short, and each step takes time to read


@dataclass(frozen=True)
class Scene:
    """The content of a picture: the episode so far, in the units of the dynamics.

    Parameters
    ----------
    state : array of float
        The current state.
    played : list of (state, action, reward)
        One entry for each step so far.
    pens : module
        `zooming.plots.rendering`: marks, legend and colors in the style of all pictures.
    """

    state: Floats
    played: list[tuple[Floats, Floats, float]] = field(default_factory=list)
    pens: Any = None

    @property
    def before(self) -> Floats:
        """The state before the last action. Before the first step, it is the start state."""
        return self.played[-1][0] if self.played else self.state

    @property
    def action(self) -> Floats | None:
        """The last action, or None before the first step."""
        return self.played[-1][1] if self.played else None


class RenderedEnv(gym.Env[Any, Any]):
    """Base class of environments with `render`.

    Without a render mode nothing is recorded or imported.
    """

    # Gymnasium's name and type
    metadata = {"render_modes": list(MODES), "render_fps": FRAMES_PER_SECOND}  # noqa: RUF012
    name: str
    horizon: int
    state_box: gym.spaces.Box
    action_box: gym.spaces.Box

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode is not None and render_mode not in MODES:
            raise ConfigurationError(
                f"render_mode={render_mode!r}: choose one of {', '.join(map(repr, MODES))}, or None"
            )
        self.render_mode = render_mode
        self._state: Floats | None = None
        self._played: list[tuple[Floats, Floats, float]] = []
        self._pictures: Any = None  # created on first use

    def render(self) -> Any:
        """Return the picture as pixels ("rgb_array") or text ("ansi"), or show it ("human").

        "human" opens a matplotlib window, or prints the text if there is no display. In this mode
        `reset` and `step` render by themselves.
        """
        if self.render_mode is None:
            gym.logger.warn(
                f"{self.name} was made without a render mode. Make it with "
                'render_mode="rgb_array", "human" or "ansi": '
                f'gymnasium.make(..., render_mode="rgb_array")'
            )
            return None
        if self._state is None:
            raise gym.error.ResetNeeded(
                f"{self.name}: no episode is under way; call reset() before render()"
            )
        if self._pictures is None:
            self._pictures = self._make_pictures()
        return self._pictures.render(self.render_mode, self._state, self._played)

    draw = UpperMethod()  # a subclass may define draw(ax, scene): a picture of its own
    _make_pictures = UpperMethod()

    def close(self) -> None:
        if self._pictures is not None:
            self._pictures.close()
            self._pictures = None

    def _record(
        self, state: Floats | None = None, action: Floats | None = None, reward: float = 0.0
    ) -> None:
        """Record a step, or begin a new episode. It is only called with a render mode."""
        if state is None or action is None:
            self._played = []
        else:
            self._played.append((state, action, reward))
        if self.render_mode == "human":
            self.render()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pictures": None}  # a window is never copied or pickled
