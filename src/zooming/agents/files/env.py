"""Store the environment of an agent: its spaces, and how to make it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from zooming.errors import CheckpointError, ConfigurationError
from zooming.spaces.axes import Axes, axes_of
from zooming.spaces.flatten import build_tree

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent


MOST_STORED = 1_000  # axes of a MultiBinary in a file; agents take far fewer


def space_of(stored: dict[str, Any]) -> gym.Space[Any]:
    """Return the space that `Leaf.describe` or `Branch.describe` gave as JSON."""
    kind = stored["kind"]
    if kind == "Dict":
        # A list of pairs: Gymnasium would sort the keys of a dict.
        return gym.spaces.Dict([(key, space_of(part)) for key, part in stored["parts"]])
    if kind == "Tuple":
        return gym.spaces.Tuple([space_of(part) for _, part in stored["parts"]])
    if kind in ("Box", "Discrete", "MultiDiscrete"):
        dtype: Any = np.dtype(stored["dtype"]).type
        if kind == "Discrete":
            return gym.spaces.Discrete(stored["n"], start=stored["start"], dtype=dtype)
        if kind == "Box":
            low, high = np.array(stored["low"], dtype), np.array(stored["high"], dtype)
            return gym.spaces.Box(low, high, dtype=dtype)
        n_values, start = np.array(stored["nvec"], dtype), np.array(stored["start"], dtype)
        return gym.spaces.MultiDiscrete(n_values, dtype=dtype, start=start)
    if kind == "MultiBinary":
        n_axes = math.prod(stored["n"]) if isinstance(stored["n"], list) else stored["n"]
        if n_axes > MOST_STORED:  # the only kind whose JSON is smaller than its arrays
            raise ValueError(f"MultiBinary has {n_axes} axes; agents have at most {MOST_STORED}")
        return gym.spaces.MultiBinary(stored["n"])
    raise ValueError(f"{kind} is not a kind of space")


@dataclass
class StoredEnv:
    """Spaces, name and horizon of a saved environment.

    An agent can act and update with it, but not learn.
    """

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    name: str
    horizon: int | None = None  # of the saved agent
    spec: None = None


def compare_env(path: Any, stored: Agent, env: Any) -> None:
    """Raise CheckpointError for the first axis in which `env` differs from the stored spaces."""
    try:
        states = build_tree(env.observation_space, "state", "observation_space")
        actions = build_tree(env.action_space, "action", "action_space")
        paths = [axis.path for axis in axes_of(states, actions)]
        if paths == stored.axes.paths:  # else options would name axes that are not there
            options = {**stored.axes.options, "names": None}
            given = Axes(env.observation_space, env.action_space, **options)
    except ConfigurationError as error:
        raise CheckpointError(f"{path}: the given environment does not fit: {error}") from error
    if paths != stored.axes.paths:
        raise CheckpointError(
            f"{path}: learned on the axes {stored.axes.paths}, but the given environment has "
            f"{paths}"
        )
    were = [*stored.axes.states.leaves(), *stored.axes.actions.leaves()]
    are = [*given.states.leaves(), *given.actions.leaves()]
    for was, now in zip(were, are, strict=True):
        if (was.dtype, was.shape) != (now.dtype, now.shape):
            name = f"the {was.name} space" if was.name in ("state", "action") else was.name
            raise CheckpointError(
                f"{path}: {name} was {was.dtype} of shape {was.shape} when the agent learned, "
                f"but is {now.dtype} of shape {now.shape} in the given environment"
            )
    for (name, low, high, kind), (_, given_low, given_high, given_kind) in zip(
        stored.axes.describe(), given.describe(), strict=True
    ):
        if (low, high, kind) != (given_low, given_high, given_kind):
            kinds = ("", "") if kind == given_kind else (f" {kind}", f" {given_kind}")
            raise CheckpointError(
                f"{path}: axis {name} was{kinds[0]} [{low}, {high}] when the agent learned, "
                f"but is{kinds[1]} [{given_low}, {given_high}] in the given environment"
            )


def env_recipe(env: Any) -> dict[str, Any] | None:
    """Return id and arguments of one of zooming's environments, or None for any other.

    Others are not stored, because load() would have to run the code that a file names.
    """
    spec = getattr(env, "spec", None)
    if spec is None or not spec.id.startswith("zooming/") or spec.additional_wrappers:
        return None
    kwargs = _to_json(spec.kwargs)
    if any(callable(value) for value in kwargs.values()):
        return None
    return {"id": spec.id, "max_episode_steps": spec.max_episode_steps, "kwargs": kwargs}


def records_hash(env: Any) -> str | None:
    """Return the hash of the records that an environment plays, or None if it has none."""
    records = getattr(getattr(env, "unwrapped", env), "records", None)
    return None if records is None else str(records.hash)


def make_env(make: dict[str, Any] | None) -> Any:
    """Make one of zooming's environments from its recipe."""
    if make is None:
        return None
    if not str(make["id"]).startswith("zooming/") or make["id"] not in gym.registry:
        raise ValueError(f"{make['id']} is not one of zooming's environments")
    if not isinstance(make["kwargs"], dict):
        raise ValueError("the options of the environment are no table")
    return gym.make(make["id"], max_episode_steps=make["max_episode_steps"], **make["kwargs"])


def _to_json(value: Any) -> Any:
    """Convert a value for JSON: arrays and tuples become lists."""
    if isinstance(value, dict):
        return {key: _to_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(entry) for entry in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
