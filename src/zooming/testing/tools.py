"""Tools for `check_agent`: test environments, and functions that make and compare agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.training.many import build_agent
from zooming.spaces.axes import Axes
from zooming.spaces.masks import feasible

EPISODES = 20
N_POINTS = 12  # random states
_SHIFTS = {1: (0, 1, 1), 2: (1, 0, 1), 3: (1, 1, 0)}  # feasible shifts (down, none, up) by gear


class Uneven(gym.Env[Any, Any]):
    """An environment in Python with two state axes of different units and one action axis.

    An episode may end early.
    """

    def __init__(self) -> None:
        low, high = np.array([-2.0, 0.0]), np.array([3.0, 100.0])
        self.observation_space: gym.spaces.Box = gym.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 4.0, (1,), np.float32)
        self._state: NDArray[Any] = low

    @classmethod
    def limited(cls) -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = gym.wrappers.TimeLimit(cls(), 3)
        return env

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        low, high = self.observation_space.low, self.observation_space.high
        self._state = low + self.np_random.random(2) * (high - low)
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        reward = 1.0 - abs(float(action[0]) - self._state[0]) / 6.0
        self._state[0] += 0.5 * (min(3.0, float(action[0])) - self._state[0])
        self._state[1] = self.np_random.uniform(0.0, 100.0)
        return self._state.copy(), reward, bool(self._state[1] > 90.0), False, {}


class Gears(gym.Env[Any, Any]):
    """An environment in Python with mixed spaces, where the gear determines the feasible shifts.

    An episode may end early.
    """

    def __init__(self) -> None:
        speed = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = gym.spaces.Dict(
            {"gear": gym.spaces.Discrete(3, start=1), "speed": speed}
        )
        self.action_space = gym.spaces.Dict({
            "gas": gym.spaces.Box(-1.0, 1.0, (1,), np.float32), "shift": gym.spaces.Discrete(3),
        })  # fmt: skip
        self._gear, self._speed = 1, 0.5

    @classmethod
    def limited(cls) -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = gym.wrappers.TimeLimit(cls(), 3)
        return env

    def _seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        mask = np.array(_SHIFTS[self._gear], np.int8)
        seen = {"gear": np.int64(self._gear), "speed": np.array([self._speed], np.float32)}
        return seen, {"action_mask": {"shift": mask}}

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._gear, self._speed = int(self.np_random.integers(1, 4)), float(self.np_random.random())
        return self._seen()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._gear = min(3, max(1, self._gear + int(action["shift"]) - 1))
        self._speed = min(1.0, max(0.0, self._speed + 0.3 * float(action["gas"][0])))
        observation, info = self._seen()
        return (
            observation,
            1.0 - abs(self._gear / 4 - self._speed),
            bool(self._speed > 0.9),
            False,
            info,
        )


def make_ambulance() -> Any:
    """Make the compiled environment of `check_agent`: an ambulance with random starts."""
    return gym.make("zooming/Ambulance-v0", start="uniform")


def _counts(agent: Any) -> tuple[Any, ...]:
    """Return the counters of an agent, with None for counters that it lacks."""
    return tuple(getattr(agent, name, None) for name in ("n_episodes", "n_clipped"))


def knowledge(agent: Any) -> Any:
    """Return everything that learning can change in an agent: its saved state and its counters.

    For an agent without a saved state, return the counters alone.
    """
    try:
        values, arrays = agent._state()
    except (NotImplementedError, AttributeError):
        values, arrays = {}, {}
    stored = [
        (name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    ]
    return json.dumps(values), stored, _counts(agent), agent.n_balls, agent.nbytes


class Broken(Exception):
    """Raised if a promise is broken. The message says what was observed."""


class Skipped(Exception):
    """Raised if a promise cannot be checked. The message says why."""


def require(is_so: bool, otherwise: str) -> None:
    """Raise Broken with the message `otherwise` unless `is_so`."""
    if not is_so:
        raise Broken(otherwise)


class Trial:
    """Agents of one kind on one environment, with assertions that compare them."""

    def __init__(self, make_agent: Callable[..., Any], make_env: Callable[[], Any]) -> None:
        self.make_agent, self.make_env = make_agent, make_env
        self.env = make_env()
        spec = getattr(self.env, "spec", None)
        self.env_name = spec.id if spec is not None else type(self.env.unwrapped).__name__
        self.name = getattr(make_agent, "__name__", type(make_agent).__name__)

    def agent(self, **options: Any) -> Any:
        """Return a new agent with seed 0 on a new environment."""
        return build_agent(self.make_agent, self.make_env(), 0, **options)

    def observations(self) -> list[Any]:
        """Return random observations, the same at every call. A bounded box adds two corners."""
        space = self.env.observation_space
        space.seed(0)
        self.env.action_space.seed(0)
        corners = (
            [space.low.copy(), space.high.copy()]
            if isinstance(space, gym.spaces.Box) and space.is_bounded()
            else []
        )
        return [space.sample() for _ in range(N_POINTS)] + corners

    def batch(self) -> Any:
        """Return all of `observations` as one batch, in the form of a vector environment."""
        space, found = self.env.observation_space, self.observations()
        empty: Any = gym.vector.utils.create_empty_array(space, len(found))
        return gym.vector.utils.concatenate(space, found, empty)

    def singles(self, actions: Any, n: int) -> list[bytes]:
        """Return the n actions of a batch, each as bytes."""
        space = gym.vector.utils.batch_space(self.env.action_space, n)
        return [as_bytes(action) for action in gym.vector.utils.iterate(space, actions)]

    def outside(self, agent: Any, space: Any) -> Iterator[Any]:
        """Yield points outside a space.

        For an agent with `bounds=`, which clips, yield only NaN.
        """
        axes = getattr(agent, "axes", ())
        clips = any(getattr(axes[i], "clips", False) for i in range(len(axes)))
        return _outside(space, clips)

    def predictions(self, agent: Any) -> list[bytes]:
        """Return the predicted actions for all observations, as bytes, step by step."""
        batch, n = self.batch(), len(self.observations())
        return [
            as_bytes(agent.predict(batch, state=np.full(n, step))[0])
            for step in range(agent.horizon)
        ]

    def require_action(self, action: Any, call: str, *arguments: Any) -> None:
        """Raise Broken unless `action` is in the action space.

        `call.format(*arguments)` describes the call that returned it. The text is made only on
        failure, because it would take a fifth of the time.
        """
        space = self.env.action_space
        fault = _form_fault(action, space)
        if fault is None and not space.contains(action):
            fault = f" gave {action}, which is not in {space}"
        if fault is not None:
            raise Broken(call.format(*arguments) + fault)

    def require_feasible(self, action: Any, info: dict[str, Any], call: str) -> None:
        """Raise Broken unless `info` allows `action`."""
        axes = Axes(self.env.observation_space, self.env.action_space, squash=True)
        flat = axes.from_unit_cube(axes.flat_action(action), axes.n_state)
        allowed = feasible(axes, info, self.env_name)
        is_whole = allowed.n_values > 0
        near = np.abs(allowed.nearest(flat.copy()) - flat) <= np.where(is_whole, 0.0, 1e-6)
        require(bool(near.all()), f"{call} gave {action}, which {info} does not allow")

    def require_same(self, one: Any, other: Any, history: Any, expected: Any) -> None:
        """Raise Broken unless two agents and their histories are equal in all observable ways."""
        for name in ("returns", "n_balls"):
            ours, theirs = getattr(history, name), getattr(expected, name)
            if np.asarray(ours).tobytes() != np.asarray(theirs).tobytes():
                n = min(len(ours), len(theirs))
                k = next((i for i in range(n) if ours[i] != theirs[i]), n)
                seen = (
                    f"{ours[k]} and {theirs[k]}"
                    if k < n
                    else f"{len(ours)} and {len(theirs)} entries"
                )
                raise Broken(f"the {name} differ from episode {k + 1} on ({seen})")
        require(knowledge(one) == knowledge(other), "what the agent would save differs")
        require(
            self.predictions(one) == self.predictions(other),
            "the histories agree, but the policies differ",
        )


def as_bytes(value: Any) -> bytes:
    """Return a state or an action as bytes, with nested parts joined."""
    if isinstance(value, dict):
        return b"".join(as_bytes(part) for part in value.values())
    if isinstance(value, tuple):
        return b"".join(as_bytes(part) for part in value)
    return np.asarray(value).tobytes()


def _form_fault(action: Any, space: Any, place: str = "") -> str | None:
    """Return how an action differs from a sample in structure, type, shape or dtype, or None.

    `place` is the index of the part of the action, for the message.
    """
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        parts = _parts(space)
        given = (
            dict(enumerate(action))
            if isinstance(action, tuple) and isinstance(space, gym.spaces.Tuple)
            else action
        )
        if not (isinstance(given, dict) and set(given) == set(parts)):
            name = type(space).__name__
            return f"{place} gave {action!r}, whose parts are not the {list(parts)} of a {name}"
        faults = (_form_fault(given[key], part, f"{place}[{key!r}]") for key, part in parts.items())
        return next((fault for fault in faults if fault is not None), None)
    kind, name = (
        (np.generic, "NumPy number")
        if isinstance(space, gym.spaces.Discrete)
        else (np.ndarray, "array")
    )
    if not isinstance(action, kind):
        return f"{place} gave {action!r}, which is no {name}"
    if action.shape != space.shape:
        return f"{place} has the shape {action.shape}, not {space.shape}"
    if action.dtype != space.dtype:
        return f"{place} is {action.dtype}, not {space.dtype}"
    return None


def _outside(space: Any, clips: bool) -> Iterator[Any]:
    """Yield points outside a space: with NaN and, unless `clips`, beyond its ends."""
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        for key, part in _parts(space).items():
            for bad in _outside(part, clips):
                values = {
                    name: bad if name == key else other.sample()
                    for name, other in _parts(space).items()
                }
                yield values if isinstance(space, gym.spaces.Dict) else tuple(values.values())
    elif isinstance(space, gym.spaces.Discrete) and not clips:
        yield from (np.int64(space.start - 1), np.int64(space.start + space.n))
    elif isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        has_ends = space.is_bounded() and not clips
        middle = (space.low + space.high) / 2 if has_ends else space.sample()
        beyond = [2 * space.high - space.low, 2 * space.low - space.high] if has_ends else []
        for bad in (np.full_like(space.low, np.nan), *beyond):
            point = middle.copy()
            point.flat[-1] = bad.flat[-1]
            yield point


def _parts(space: Any) -> dict[Any, Any]:
    """Return the parts of a Dict or Tuple space by key or index."""
    return (
        dict(space.spaces) if isinstance(space, gym.spaces.Dict) else dict(enumerate(space.spaces))
    )
