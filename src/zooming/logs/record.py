"""Write logs: play a policy and record it, or return the samples that an agent keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from zooming.agents.base.policies import Exploration, as_function
from zooming.agents.base.problem import check_env, horizon_of, reset, stated_names, take_step
from zooming.agents.base.seeds import derive_seed
from zooming.agents.training.replay import Transitions, kept_transitions
from zooming.errors import ConfigurationError
from zooming.spaces.axes import axes_of
from zooming.spaces.flatten import build_tree
from zooming.spaces.names import column_names
from zooming.validation import check_float, check_int, import_frames, known_options


@known_options
def record(
    env: Any,
    policy: Any,
    episodes: int,
    *,
    epsilon: float = 0.0,
    noise: float = 0.0,
    ordered: bool | Iterable[str] = False,
    seed: int = 0,
    horizon: int | None = None,
    library: str = "polars",
) -> Any:
    """Play a policy and return the log, in the format that `agent.learn_from` reads.

    Parameters
    ----------
    env : gymnasium.Env
        The environment.
    policy : Agent or function
        An agent, whose `predict` is played, or a function `policy(step, observation)` that returns
        an action.
    episodes : int
        Number of episodes.
    epsilon : float, default 0.0
        Probability of a random action, drawn uniformly from the action space.
    noise : float, default 0.0
        Draw the other actions uniformly near those of the policy, up to this share of the range of
        each axis away. On a categorical axis, it is the probability of a random category.
    ordered : bool or names of axes, default False
        Discrete axes whose neighboring values are similar, as for agents: `noise` stays near on
        these. True means all of them. Integer boxes always have an order.
    seed : int, default 0
        Seed of the environment and of random actions.
    horizon : int, optional
        Steps of an episode. By default the environment's own number.
    library : {"polars", "pandas"}, default "polars"
        Library of the data frame, which must be installed.

    Returns
    -------
    DataFrame
        One row per step: episode and step from 0, state_0, ..., action_0, ..., reward,
        next_state_0, ..., terminated. Axes that the environment names
        in `env.metadata["names"]` have these names. Write it with `write_parquet` or `write_csv`.

    Raises
    ------
    ConfigurationError
        If an argument is wrong, or the policy gives an action outside the space.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> log = zooming.record(gym.make("zooming/Oil-v0"), lambda step, state: [0.7], episodes=2)
    >>> log.columns
    ['episode', 'step', 'state_0', 'action_0', 'reward', 'next_state_0', 'terminated']
    >>> log["next_state_0"].to_list()[:3], len(log)
    ([0.7, 0.7, 0.7], 10)
    """
    check_env(env)
    check_int(episodes, "episodes", 1)
    check_float(epsilon, "epsilon", 0.0, 1.0)
    check_float(noise, "noise", 0.0, 1.0)
    import_frames(library, "record")  # before anything is played
    n_steps = horizon_of(env, horizon)
    act = as_function(policy)
    states = build_tree(env.observation_space, "state", "observation_space")
    actions = build_tree(env.action_space, "action", "action_space")
    # Streams of their own: actions that share the environment's random numbers know its noise.
    generator = np.random.default_rng(derive_seed(check_int(seed, "seed", 0), "exploration"))
    env.action_space.seed(derive_seed(seed, "actions", np.uint32))
    n_state = sum(len(leaf.low) for leaf in states.leaves())
    axes = axes_of(states, actions, ordered, stated_names(env))
    kinds = [axis.kind for axis in axes[n_state:]]
    exploring = Exploration(list(actions.leaves()), epsilon, noise, kinds)
    numbers, rows = [], []
    for episode in range(episodes):
        observation, info = reset(env, seed if episode == 0 else None)
        for step in range(n_steps):
            is_random = bool(epsilon) and generator.random() < epsilon
            if is_random:
                action = env.action_space.sample()
            else:
                action = act(step, observation, info)
                center = actions.flat(action, "action")
                exploring.check_inside(center, step)
                if noise:
                    action = actions.shaped(exploring.draw_near(center, generator))
            flat_action = actions.flat(action, "action")
            before = states.flat(observation, "observation")
            observation, reward, terminated, truncated, info = take_step(env, action)
            after = states.flat(observation, "observation")
            numbers.append((episode, step, bool(terminated)))
            rows.append([*before, *flat_action, float(reward), *after])
            if terminated or truncated:
                break
    flat, (episode_of, steps, ended) = np.array(rows), np.array(numbers).T
    end = n_state + sum(len(leaf.low) for leaf in actions.leaves())
    found = Transitions(
        steps, flat[:, :n_state], flat[:, n_state:end], flat[:, end], flat[:, end + 1 :],
        ended.astype(bool),
    )  # fmt: skip
    names = [axis.name for axis in axes]
    return make_log(found, episode_of, names, n_state, library)


@known_options
def to_log(agent: Any, library: str = "polars") -> Any:
    """Return the transitions that an agent keeps, as a log.

    Only a `Planner` keeps its transitions. It rounds points to 1/6561 of an axis. If it has more
    than `max_samples` samples, it joins similar ones, and there is no log.

    Parameters
    ----------
    agent : Agent
        A planner, or an agent that has one among its `agents`.
    library : {"polars", "pandas"}, default "polars"
        Library of the data frame, which must be installed.

    Returns
    -------
    DataFrame
        One row per transition, with the columns of `record`.

    Raises
    ------
    ConfigurationError
        If the agent keeps no transitions, or has joined some of them.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.Planner(gym.make("zooming/Oil-v0"), seed=0)
    >>> history = agent.learn(3)
    >>> log = zooming.to_log(agent)
    >>> log.columns[:4], len(log)
    (['episode', 'step', 'state_0', 'action_0'], 15)
    """
    keeper = next(
        (
            one
            for one in (agent, *getattr(agent, "agents", ()))
            if hasattr(getattr(one, "table", None), "samples")
        ),
        None,
    )
    if keeper is None:
        raise ConfigurationError(
            f"{type(agent).__name__} keeps no transitions; record some with "
            "zooming.record(env, agent, episodes), or learn with a Planner"
        )
    found = kept_transitions(keeper)
    if found is None:
        why = (
            "has joined similar transitions" if keeper.table.n_samples else "has no transitions yet"
        )
        raise ConfigurationError(f"{type(keeper).__name__} {why}, so there is no log to return")
    axes, steps = keeper.axes, found.steps
    # An episode may lack its first steps, where rows of a log were skipped.
    begins = np.diff(steps, prepend=steps[:1] + 1) <= 0
    return make_log(found, np.cumsum(begins) - 1, axes.names, axes.n_state, library)


def make_log(
    found: Transitions, episodes: Any, names: Any, n_state: int, library: str, **more: Any
) -> Any:
    """Return transitions as a data frame with the columns of a log, and `more` of them."""
    state, action = column_names(names, n_state)
    columns: dict[str, Any] = {"episode": np.asarray(episodes, np.int64), "step": found.steps}
    columns |= {name: found.states[:, i] for i, name in enumerate(state)}
    columns |= {name: found.actions[:, i] for i, name in enumerate(action)}
    columns["reward"] = found.rewards
    columns |= {f"next_{name}": found.next_states[:, i] for i, name in enumerate(state)}
    columns |= {"terminated": found.terminated, **more}
    return import_frames(library, "a log").DataFrame(columns)
