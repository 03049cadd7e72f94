"""One kind of agent on one environment: how agents are made for a check, what they are asked, and how they are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.many import made

EPISODES = 20
N_POINTS = 12  # random states


class Uneven(gym.Env[Any, Any]):
    """A plain environment with two state axes of different units and one action; an episode may end early."""

    def __init__(self) -> None:
        low, high = np.array([-2.0, 0.0]), np.array([3.0, 100.0])
        self.observation_space: gym.spaces.Box = gym.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 4.0, (1,), np.float32)
        self._state: NDArray[Any] = low

    @classmethod
    def limited(cls) -> gym.Env[Any, Any]:
        return gym.wrappers.TimeLimit(cls(), 3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        low, high = self.observation_space.low, self.observation_space.high
        self._state = low + self.np_random.random(2) * (high - low)
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        reward = 1.0 - abs(float(action[0]) - self._state[0]) / 6.0
        self._state[0] += 0.5 * (min(3.0, float(action[0])) - self._state[0])
        self._state[1] = self.np_random.uniform(0.0, 100.0)
        return self._state.copy(), reward, bool(self._state[1] > 90.0), False, {}


def requests() -> Any:
    return gym.make("zooming/Ambulance-v0", start="uniform")


def knowledge(agent: Any) -> Any:
    """All that learning can change in an agent, as bytes, if the agent can say it; else what its surface shows."""
    try:
        values, arrays = agent._state()
    except (NotImplementedError, AttributeError):
        values, arrays = {}, {}
    stored = [(name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()]
    return json.dumps(values), stored, getattr(agent, "n_episodes", None), agent.n_balls, agent.nbytes


class Broken(Exception):
    """What was seen that breaks a promise."""


class Skipped(Exception):
    """Why a promise cannot be checked."""


def ask(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Broken(otherwise)


class Trial:
    """Agents of one kind on one environment, and how they are compared."""

    def __init__(self, make_agent: Callable[..., Any], make_env: Callable[[], Any]) -> None:
        self.make_agent, self.make_env = make_agent, make_env
        self.env = make_env()
        spec = getattr(self.env, "spec", None)
        self.env_name = spec.id if spec is not None else type(self.env.unwrapped).__name__
        self.name = getattr(make_agent, "__name__", type(make_agent).__name__)

    def agent(self, **options: Any) -> Any:
        """A new agent with seed 0 on an environment of its own."""
        return made(self.make_agent, self.make_env(), 0, **options)

    def observations(self) -> list[NDArray[Any]]:
        """Random states, the same each time, and the corners of a box."""
        space = self.env.observation_space
        space.seed(0)
        self.env.action_space.seed(0)
        corners = [space.low.copy(), space.high.copy()] if isinstance(space, gym.spaces.Box) else []
        return [np.asarray(space.sample()) for _ in range(N_POINTS)] + corners

    def batch(self) -> NDArray[Any]:
        return np.stack(self.observations())

    def outside(self, space: Any) -> Iterator[NDArray[Any]]:
        """Points that are not in a box."""
        if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
            width = space.high - space.low
            for bad in (np.full_like(space.low, np.nan), space.high + width, space.low - width):
                point = space.low + 0.5 * width
                point.flat[-1] = bad.flat[-1]
                yield point

    def predictions(self, agent: Any) -> list[bytes]:
        batch = self.batch()
        return [agent.predict(batch, state=np.full(len(batch), step))[0].tobytes() for step in range(agent.horizon)]

    def ask_action(self, action: Any, call: str) -> None:
        space = self.env.action_space
        ask(isinstance(action, np.ndarray), f"{call} gave {action!r}, which is no array")
        ask(action.shape == space.shape, f"{call} has the shape {action.shape}, not {space.shape}")
        ask(action.dtype == space.dtype, f"{call} is {action.dtype}, not {space.dtype}")
        ask(space.contains(action), f"{call} gave {action}, which is not in {space}")

    def ask_same(self, one: Any, other: Any, history: Any, expected: Any) -> None:
        """Asks that two agents are alike in all that can be seen."""
        for name in ("returns", "n_balls"):
            ours, theirs = getattr(history, name), getattr(expected, name)
            if np.asarray(ours).tobytes() != np.asarray(theirs).tobytes():
                n = min(len(ours), len(theirs))
                k = next((i for i in range(n) if ours[i] != theirs[i]), n)
                seen = f"{ours[k]} and {theirs[k]}" if k < n else f"{len(ours)} and {len(theirs)} entries"
                raise Broken(f"the {name} differ from episode {k + 1} on ({seen})")
        ask(knowledge(one) == knowledge(other), "what the agent would save differs")
        ask(self.predictions(one) == self.predictions(other), "the histories agree, but the policies differ")
