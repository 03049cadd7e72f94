"""Make a policy that `zooming.evaluate` can play: an agent, or a function with the same methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from zooming.agents.env_facts import check_env, horizon_of
from zooming.agents.learning_problem import LearningProblem
from zooming.agents.rules import as_function, check_action
from zooming.errors import ConfigurationError, ZoomingError
from zooming.spaces.flatten import build_tree
from zooming.validation import short_repr


class FunctionPolicy:
    """A function `policy(step, observation)` with the `predict` of an agent.

    Parameters
    ----------
    function : callable
        Returns an action for a step, counted from 0, and an observation.
    env : gymnasium.Env
        The environment to play on.
    horizon : int, optional
        Steps of an episode. By default the environment's own number.
    """

    def __init__(self, function: Any, env: Any, horizon: int | None = None) -> None:
        self._function = as_function(function)
        self.env, self.horizon = env, horizon_of(env, horizon)
        self._actions = build_tree(env.action_space, "action", "action_space")

    def predict(self, observation: Any, state: Any = None, *, info: Any = None) -> tuple[Any, Any]:
        """Return (action, next step) for one observation, or for a batch of them.

        A batch has an array of steps as `state`. Actions are checked, and converted to the form of
        the action space.
        """
        if not isinstance(state, np.ndarray):
            step = 0 if state is None else int(state)
            return self._checked(step, self._function(step, observation, info)), step + 1
        problem = LearningProblem(self.env, "evaluate", horizon=self.horizon)
        actions = []
        for step, one in zip(state.tolist(), observation, strict=True):
            flat = check_action(problem, step, self._function(step, one, None), "policy")
            actions.append(problem.axes.shaped_action(flat))
        return np.array(actions), state + 1

    def _checked(self, step: int, action: Any) -> Any:
        """Return an action in the form of the action space. Raise ConfigurationError if outside."""
        wrong = f"step {step}: the policy returned {short_repr(action)}, which is not in "
        wrong += str(self.env.action_space)
        try:
            flat = self._actions.flat(action, "action")
        except ZoomingError as error:
            raise ConfigurationError(f"{wrong}: {error}") from error
        for leaf in self._actions.leaves():
            values = flat[leaf.first : leaf.last]
            slack = 1e-9 * (leaf.high - leaf.low)  # rounding
            if not ((leaf.low - slack <= values) & (values <= leaf.high + slack)).all():
                raise ConfigurationError(wrong)
        return self._actions.shaped(flat)


def as_policy(policy: Any, env: Any, horizon: int | None) -> tuple[Any, Any]:
    """Return (policy, environment), where the policy has `predict` and `horizon`.

    Raise ConfigurationError if it is neither an agent nor a function, or the environment is missing
    or wrong.
    """
    if hasattr(policy, "predict") and not isinstance(policy, type):
        if not hasattr(policy, "horizon"):
            raise ConfigurationError(
                f"{short_repr(policy)} has predict but no horizon, so it is not an agent; give a "
                "function of step and observation: evaluate(lambda step, observation: "
                "policy.predict(observation)[0], env)"
            )
        if horizon is not None:
            raise ConfigurationError(
                f"{type(policy).__name__} knows its horizon; leave out horizon="
            )
        env = _env_of(policy) if env is None else env
        check_env(env)
        return policy, env
    if not callable(policy):
        raise ConfigurationError(
            f"{short_repr(policy)} is not an agent; write evaluate(agent, env), the agent first, "
            "or evaluate(policy, env) with a function policy(step, observation)"
        )
    if env is None:
        raise ConfigurationError("a function as policy needs an environment: evaluate(policy, env)")
    check_env(env)
    return FunctionPolicy(policy, env, horizon), env


def _env_of(agent: Any) -> Any:
    """Return the agent's environment. Raise ConfigurationError if it has none."""
    env = getattr(agent, "env", None)
    if env is None and hasattr(agent, "env_name"):
        raise ConfigurationError(
            f"this agent was loaded without its environment ({agent.env_name}); give one: "
            "evaluate(agent, env), or load the "
            f"agent with it: zooming.load(path, env=env)"
        )
    if env is None:
        raise ConfigurationError(f"{short_repr(agent)} has no env; give one: evaluate(policy, env)")
    return env
