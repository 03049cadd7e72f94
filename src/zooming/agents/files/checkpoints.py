"""Save and load agents. A loaded agent continues exactly where the saved one stopped."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from zooming.agents.base.problem import horizon_of
from zooming.agents.base.seeds import generator_at, seed_of
from zooming.agents.files import container as files
from zooming.agents.files import registry
from zooming.agents.files.device import is_block, load_block
from zooming.agents.files.env import (
    StoredEnv,
    compare_env,
    env_recipe,
    make_env,
    records_hash,
    space_of,
)
from zooming.agents.files.options import check_accepted
from zooming.agents.warm_start import Guide
from zooming.errors import CheckpointError, ConfigurationError
from zooming.validation import as_path, check_int, count_own_frames, known_options, short_repr
from zooming.version import __version__

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent

Kind = TypeVar("Kind", bound="Agent")


def check_class(agent: Agent) -> None:
    """Raise ConfigurationError with the reason if the class of an agent cannot be saved."""
    if getattr(agent.saved_state, "is_missing", False):
        raise ConfigurationError(
            f"{type(agent).__name__} cannot be saved: it does not define saved_state and "
            "restore_state"
        )
    agent.saved_options()


def save(agent: Agent, path: str | os.PathLike[str]) -> None:
    files.write_atomically(path, to_bytes(agent))


def to_bytes(agent: Agent) -> bytes:
    """Return the content of the file that `save` writes."""
    check_class(agent)
    if agent.run.env_generator is not None:
        generator_at(agent.run.env_generator)
    values, arrays = agent.saved_state()
    fixed = {} if registry.is_own(type(agent)) else agent.fixed_options()
    env = agent.run.stored_env
    if agent.env is not None:
        env = {
            "name": agent.env_name,
            "make": env_recipe(agent.env),
            "records": records_hash(agent.env),
            "generator": agent.run.env_generator,
        }
    header = {
        "zooming": __version__,
        "agent": type(agent).__name__,
        "options": agent.saved_options(),
        **({"fixed_options": fixed} if fixed else {}),
        "values": values,
        "guide": None if agent.guide is None else agent.guide.state(),
        "n_episodes": agent.n_episodes,
        "n_clipped": agent.n_clipped,
        **({"was_cut": True} if agent.run.was_cut else {}),
        **({"n_begun": agent.run.n_begun} if agent.run.n_begun else {}),
        "axes": agent.axes.describe(),
        "spaces": {"state": agent.axes.states.describe(), "action": agent.axes.actions.describe()},
        "env": env,
    }
    return files.pack_container(header, arrays)


@known_options
def load(path: str | os.PathLike[str], env: Any = None) -> Agent:
    """Load an agent from a file, to use it or to continue learning.

    The environment's generator is restored. So a loaded agent plays the same next episode that the
    saved one would have played.

    Parameters
    ----------
    path : str or PathLike
        A file written by `agent.save`, or the block of a learner in C (`docs/device.md`).
    env : gymnasium.Env, optional
        The environment to continue on. By default, one of zooming's own environments is made
        again; for any other, the agent can then act and update but not `learn`. A block does not
        name its environment, so `env` is required there.

    Returns
    -------
    Agent
        An agent of the class that was saved.

    Raises
    ------
    CheckpointError
        If the file is damaged, not zooming's, newer than this version, or does not fit `env`.

    Examples
    --------
    >>> import gymnasium as gym, tempfile, zooming
    >>> path = tempfile.mkdtemp() + "/oil.zoom"
    >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(100)
    >>> agent.save(path)
    >>> loaded = zooming.load(path)
    >>> loaded.n_episodes, bool((loaded.learn(50).returns == agent.learn(50).returns).all())
    (100, True)
    """
    return _load(path, env)


def load_as(kind: type[Kind], path: str | os.PathLike[str], env: Any = None) -> Kind:
    """Load an agent from a file that must hold an agent of the class `kind`.

    Unlike `load`, it also reads files of classes that users define. Raise ConfigurationError if the
    file holds an agent of another class.
    """
    agent = _load(path, env, kind)
    if not isinstance(agent, kind):
        raise ConfigurationError(
            f"{path} holds {type(agent).__name__}, not {kind.__name__}; zooming.load reads any "
            "agent"
        )
    return agent


def _load(path: str | os.PathLike[str], env: Any, mine: type[Agent] | None = None) -> Agent:
    content = as_path(path).read_bytes()
    if is_block(content):
        return load_block(path, content, env)  # type: ignore[no-any-return]
    return from_bytes(content, path, env, mine)


def from_bytes(
    content: bytes, path: Any, env: Any = None, mine: type[Agent] | None = None
) -> Agent:
    """Return the agent of a file's content. `path` is for error messages."""
    header, arrays = files.unpack_container(content, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same warnings came when the agent was made
            agent = _build_agent(path, env, header, arrays, mine)
    except CheckpointError:
        raise
    except files.WRONG_CONTENT as error:
        raise CheckpointError(
            f"{path}: the content is not what a saved agent holds ({error})"
        ) from error
    if env is not None:
        horizon_of(env, agent.horizon)  # warns if the episodes of this environment are shorter
        before, now = header["env"].get("records"), records_hash(env)
        if before is not None and now != before:
            warnings.warn(
                f"{path}: the agent was saved with the records {short_repr(before)}, but the given "
                f"environment has {'none' if now is None else repr(now)}; values may not fit",
                stacklevel=count_own_frames(),
            )
    return agent


def _build_agent(
    path: Any,
    env: Any,
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    mine: type[Agent] | None,
) -> Agent:
    name = header["agent"]
    is_mine = mine is not None and name == mine.__name__
    kind: Any = mine if is_mine else registry.find_class(name)
    if kind is None:
        raise CheckpointError(
            f"{path} holds {short_repr(name)}, which is not one of zooming's agents "
            f"({', '.join(registry.HOMES)}); if the class is yours, call its own load, for example "
            "Mine.load(path)"
        )
    fixed = header.get("fixed_options", {})
    options = {**fixed, **header["options"]}
    check_accepted(kind, header["options"])
    stored = StoredEnv(
        space_of(header["spaces"]["state"]),
        space_of(header["spaces"]["action"]),
        str(header["env"]["name"]),
        options.get("horizon"),
    )
    own = env if env is not None else make_env(header["env"]["make"])
    if own is not None:
        compare_env(path, kind.from_options(stored, options, arrays), own)
    agent: Agent = kind.from_options(own if own is not None else stored, options, arrays)
    agent.seed = seed_of(fixed.get("seed", agent.seed))
    agent.restore_state(header["values"], arrays)
    agent.set_n_episodes(check_int(header["n_episodes"], "n_episodes", 0))
    agent.run.restore_clipped(header["n_clipped"])
    agent.run.was_cut = header.get("was_cut", False) is True
    agent.run.n_begun = check_int(header.get("n_begun", 0), "n_begun", 0)
    if header["guide"] is not None:
        agent.guide = Guide.from_state(agent, header["guide"])
    generator = header["env"]["generator"]
    if own is None:
        agent.env, agent.run.stored_env = None, header["env"]
    elif generator is not None:
        generator_at(generator)  # raises now, not at the next learn(), if the state is invalid
        agent.run.env_generator = generator
    return agent
