"""Write a policy as one HTML page, on which a person moves the state and sees the action."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from zooming.agents.base.problem import reset, take_step
from zooming.agents.base.status import own_policy
from zooming.agents.files import container as files
from zooming.errors import ConfigurationError
from zooming.export.forms import about, recommended
from zooming.export.regions import (
    Regions,
    gather,
    open_ends,
    partition_of,
    policy_regions,
    visit_density,
    weigh,
    whole_states,
)
from zooming.export.write import policy_form
from zooming.export.writers.json_document import json_content
from zooming.spaces.flatten import INTERVAL
from zooming.spaces.masks import has_mask
from zooming.spaces.names import printable, printable_names
from zooming.validation import Floats, as_path, check_int, known_options

FEW_VALUES = 12  # of an action axis: the page draws all of them, played or not
LONGEST_TITLE = 400  # characters
MOST_BALLS = 20_000  # of all steps; of more, those without visits are left out, or all of them


@known_options
def show(agent: Any, path: str | os.PathLike[str] = "policy.html", *, episodes: int = 10) -> Path:
    """Write an HTML page on which a person moves the state and sees what the policy does.

    The page is one file. It works without a network.

    Parameters
    ----------
    agent : Agent
        The agent.
    path : str or PathLike, default "policy.html"
        The file, which ends in `.html`. Open it in a browser.
    episodes : int, default 10
        Episodes of the policy to step through, at most 1,000. They need the agent's environment.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ConfigurationError
        If an argument is wrong, or nothing can be written there.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     agent.show(f"{folder}/oil.html").name
    'oil.html'
    """
    path = as_path(path)
    if path.suffix not in (".html", ".htm"):
        raise ConfigurationError(f"{path}: give the page a name that ends in .html")
    check_int(episodes, "episodes", 0, 1000)
    try:
        files.writable_path(path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    with agent.run.lock:  # no other thread learns meanwhile
        data = collect(agent, episodes)
    files.write_atomically(path, render(data).encode())
    return path


def render(data: dict[str, Any]) -> str:
    """Return the HTML of the data from `collect`. Strings are inserted as data, never as markup.

    In page.html, `%%NAME%%` is replaced by the part of that name. The policy allows no network, and
    no code or style but our own.
    """
    style, script = _read("page.css"), _read("page.js")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "TITLE": html.escape(printable(data["title"], LONGEST_TITLE)),
        "STYLE": style,
        # Escape `<`, which could end the script element that holds the data.
        "DATA": json.dumps(data, allow_nan=False, default=str).replace("<", "\\u003c"),
        "SCRIPT": script,
        "POLICY": html.escape(policy),
    }
    # One pass, so that placeholders in inserted text are not replaced.
    pieces = _read("page.html").split("%%")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (resources.files("zooming.export") / name).read_text()


def collect(agent: Any, episodes: int) -> dict[str, Any]:
    """Return the data of the page: cells, balls, and some episodes to step through."""
    title = about(agent)
    if getattr(agent, "is_guided", False):
        title += f". Own policy of the agent; the rule of its warm start {agent.guide.words()}"
    agent = own_policy(agent)
    axes, n_state, names = agent.axes, agent.axes.n_state, printable_names(agent.axes.names)
    with_balls, are_few = True, agent.n_balls <= MOST_BALLS
    if not are_few:
        n_visited = sum((agent.partition(h).n_visits > 0).sum() for h in range(agent.horizon))
        with_balls = n_visited <= MOST_BALLS
    steps, start = [], np.zeros(n_state)
    corners = _Corners()
    for step in range(agent.horizon):
        regions = policy_regions(step, agent)
        known = gather(agent, step, regions, regions.actions)
        if step == 0:
            first, last, is_sampled = regions.first, regions.last, not regions.is_exact
            weights = weigh(regions, known)
            start = regions.points[int(np.argmax(weights))]
        steps.append(
            {
                "corners": corners.number(regions.low, regions.high),
                "action": regions.actions.tolist(),
                "value": _numbers(known.q_value),
                "visits": _numbers(known.visits),
                "unseen": None if np.isnan(known.seen).any() else (known.seen == 0).tolist(),
                "balls": _balls(agent, step, regions, corners, are_few) if with_balls else None,
            }
        )
    played = _play(agent, episodes) if agent.env is not None else []
    start = np.array(played[0][0]["state"]) if played else start
    whole = whole_states(axes)
    return {
        "title": title,
        "n_episodes": agent.n_episodes,
        "has_unplayed": are_few,
        "shares_steps": getattr(recommended(agent), "shares_steps", False),
        "horizon": agent.horizon,
        "is_sampled": is_sampled,
        "policy": _interpolation(agent),
        "state": [
            {
                "name": names[i],
                "low": float(first[i] + 0.5 * whole[i]),
                "high": float(last[i] - 0.5 * whole[i]),
                "is_whole": bool(whole[i]),
            }
            for i in range(n_state)
        ],
        "action": [
            {"name": names[i], "is_whole": axis.kind != INTERVAL, "values": _few_values(axis)}
            | {"ends": [axis.low, axis.high] if np.isfinite(axis.high - axis.low) else None}
            for i, axis in ((i, axes[i]) for i in range(n_state, len(axes)))
        ],
        "start": start.tolist(),
        "corners": corners.found,
        "steps": steps,
        "episodes": played,
    }


def _few_values(axis: Any) -> list[float] | None:
    """Return the first and last value of an axis with few values, else None."""
    is_few = axis.kind != INTERVAL and axis.high - axis.low < FEW_VALUES
    return [axis.low, axis.high] if is_few else None


class _Corners:
    """Collect the corners of boxes. Corners that several steps share are stored once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._numbers: dict[tuple[bytes, bytes], int] = {}

    def number(self, low: Floats, high: Floats) -> int:
        """Return the index of these corners in `found`. New corners are added."""
        key = low.tobytes(), high.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self.found)
            self.found.append({"low": _faces(low), "high": _faces(high)})
        return self._numbers[key]


def _faces(corner: Floats) -> list[list[float | None]]:
    """Return corners as lists, with None for infinity."""
    return [[x if np.isfinite(x) else None for x in row] for row in corner.tolist()]


def _numbers(values: Floats) -> list[float | None]:
    return [round(x, 6) if np.isfinite(x) else None for x in values.tolist()]


def _interpolation(agent: Any) -> dict[str, Any] | None:
    """Return the exported JSON document of a policy that interpolates, or None for others."""
    if not recommended(agent).interpolates:
        return None
    try:
        return json_content(policy_form(agent))
    except ConfigurationError:
        return None


def _balls(
    agent: Any, step: int, regions: Regions, corners: _Corners, has_unplayed: bool
) -> dict[str, Any] | None:
    """Return the balls of a step with their visits per unit of state volume."""
    found = partition_of(agent, step)
    if found is None:
        return None
    n_state = agent.axes.n_state
    visits, density, _ = visit_density(agent, step, found, regions)
    low, high = found.low.copy(), found.high.copy()
    low[:, :n_state], high[:, :n_state] = open_ends(low[:, :n_state], high[:, :n_state])
    shown = has_unplayed | (found.n_visits > 0)
    return {
        "noun": found.noun,
        "corners": corners.number(low[shown], high[shown]),
        "q": _numbers(found.q_value[shown]),
        "visits": _numbers(visits[shown]),
        "density": [float(f"{x:.6g}") for x in density[shown]],
    }


def _play(agent: Any, episodes: int) -> list[list[dict[str, Any]]]:
    """Play episodes of the greedy policy. Return state, action and reward of each step."""
    env, axes, found = agent.run.free_env(agent.env), agent.axes, []
    for k in range(episodes):
        observation, info = reset(env, k)
        rows: list[dict[str, Any]] = []
        for step in range(agent.horizon):
            action, _ = agent.predict(
                observation, state=np.array([step]), info=info if has_mask(info) else None
            )
            state = axes.states.batch(observation, "observation")[0][0].tolist()
            observation, reward, terminated, truncated, info = take_step(env, action)
            played = axes.actions.batch(action, "action")[0][0].tolist()
            rows.append({"state": state, "action": played, "reward": float(reward)})
            if terminated or truncated:
                break
        found.append(rows)
    return found
