"""The surface that every agent has."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zooming import notebook
from zooming.agents.history import History, Log
from zooming.agents.problem import Setting
from zooming.errors import SpaceError, ZoomingError
from zooming.kernels.crossing import Crossing
from zooming.partitions.view import Partition
from zooming.spaces.flatten import numeric
from zooming.spaces.masks import Feasible, feasible, has_mask, one_each
from zooming.validation import known_options


class Agent(Setting, ABC):
    """Learns a policy for episodes of `horizon` steps; steps are counted from 0.

    `reward_range`: (low, high), the lowest and the highest reward that may come; `zooming.reward_range(env)` proposes one. A
    reward outside is an error, and nothing is learned from it. With `rewards="clip"` the agent learns from the nearer end
    instead: such rewards are counted (`n_clipped`), shown, and warned about once, and returns are still what the environment
    paid. NaN and infinities are refused in any case.

    `bounds`: {axis: (low, high)} for an axis without ends, or with a smaller range that matters; values beyond count as the
    ends. `squash`: True, a scale, or {axis: scale}, for axes that shall have no ends. `ordered`: True, or the names of
    discrete axes whose values are near each other when their numbers are. `weights`: {axis: weight}, or one per axis: how far
    apart an axis keeps points; 0 for one that does not matter. An axis may be named by the space that holds it.

    An agent of your own defines `act`, `update` and `greedy`, with `checked_state` and `checked_transition` to refuse what must
    not be learned from; `learn`, `predict` and the callbacks are there then, and `zooming.check_agent` tells whether it keeps
    the promises. One that can be saved also defines `_options`, `_state` and `_restore`, and is listed in `checkpoints`.
    """

    # --- learning ------------------------------------------------------------------------------------------------------

    @known_options
    def learn(
        self,
        episodes: int,
        *,
        progress_bar: bool = False,
        driver: str = "auto",
        checkpoints: Iterable[int] = (),
        callback: Callable[[Any, History], Any] | Iterable[Callable[[Any, History], Any]] | None = None,
    ) -> History:
        """Plays and learns from whole episodes; `learn(a)` then `learn(b)` equals `learn(a + b)`.

        `driver` is "auto", "fused" (compiled environments only) or "python": the history is the same to the last bit. After
        each of the `checkpoints` (episodes, counted from 1) the exact value of the policy so far goes into the history.

        `callback(agent, history)`, or each of a list, is called after every episode with the history of this call so far; if
        it returns False the run ends there, as if only so many episodes had been asked for. With an attribute `every` it is
        called only after every so many episodes of the agent, and after the last. `zooming.callbacks` has some ready.

        The history takes 24 bytes an episode, as the episodes are played. A call of more than 100,000,000 episodes (2.4 GB) is
        refused; call it several times then. After an interrupt or an error `interrupted_history` has the episodes so far.

        >>> import gymnasium as gym, zooming
        >>> agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
        >>> history = agent.learn(1000, callback=lambda agent, history: agent.n_balls < 60)
        >>> bool(history.n_balls[-2] < 60 <= history.n_balls[-1]), len(history) == agent.n_episodes
        (True, True)
        """
        from zooming.agents import training  # drivers know agents

        return training.learn(
            self, episodes, progress_bar=progress_bar, driver=driver, checkpoints=checkpoints, callback=callback
        )

    @property
    def interrupted_history(self) -> History | None:
        """The history of the latest learn(), if an interrupt or an error ended it: its whole episodes; None otherwise."""
        return None if self.latest_run is None else self.latest_run.final_history()

    @abstractmethod
    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """The action to play while learning, by the agent's own exploration rule.

        `info` is what the environment gave with the observation: an `action_mask`, `action_low` or `action_high` in it is
        respected (see `zooming.spaces.masks`).
        """

    @abstractmethod
    def update(
        self,
        step: int,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        terminated: bool = False,
        *,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """Learns from one transition; a bad one is refused and changes nothing.

        `next_info` came with the next observation: its value is then that of the actions that are feasible there.
        """

    # --- the learned policy --------------------------------------------------------------------------------------------

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True, *, info: Any = None
    ) -> tuple[Any, NDArray[np.int64]]:
        """(action, state) of the greedy policy, with Stable-Baselines3's signature; learning is not touched.

        The policy depends on the step, so `state` is the step of each environment (None: step 0), and comes back one
        higher; where `episode_start` is true it starts at 0 again. With `deterministic=False` the action is drawn uniformly
        from the best ball.
        `info` came with the observation (for a batch, one dict each, or the dict of arrays of Gymnasium's vector
        environments): only feasible actions are played.
        Gymnasium's own vector environments must reset in the same step (`AutoresetMode.SAME_STEP`), as Stable-Baselines3's do.
        """
        try:
            states, is_batch = self.axes.flat_states(observation)
        except ZoomingError as error:
            where = "0" if state is None else ", ".join(str(step) for step in np.ravel(np.asarray(state, object)))
            raise type(error)(f"{self.env_name}, step {where}: {error}") from error
        try:
            steps = np.zeros(len(states), np.int64) if state is None else np.array(state).reshape(-1)
        except ValueError as error:
            raise SpaceError(f"state={state!r}: give the step of each environment, whole numbers") from error
        if not np.issubdtype(steps.dtype, np.integer):
            raise SpaceError(f"state={state!r}: give the step of each environment, whole numbers")
        steps = steps.astype(np.int64)
        if len(steps) != len(states):
            raise SpaceError(f"state has {len(steps)} entries for {len(states)} observations; it is one step per environment")
        if episode_start is not None:
            starts = np.asarray(episode_start, bool).reshape(-1)
            if len(starts) not in (1, len(steps)):
                raise SpaceError(f"episode_start has {len(starts)} entries for {len(steps)} environments")
            steps[np.broadcast_to(starts, steps.shape)] = 0
        for step in steps.tolist():
            self._check_step(step, is_batch)
        infos = one_each(info, len(states), is_batch)
        allowed = [self._feasible(step, one) for step, one in zip(steps.tolist(), infos, strict=True)]
        actions = self._greedy(steps, states, deterministic, allowed)
        return self.axes.shaped_action(actions if is_batch else actions[0]), steps + 1

    def greedy(self, step: int, state: NDArray[np.float64]) -> Any:
        """The action of the learned policy, for a state that `checked_state` gave; it learns nothing and draws nothing.

        It is a vector as `checked_transition` gives it: flat, squashed axes squashed, between `axes.action_ends`.
        """
        if type(self)._greedy is Agent._greedy:
            name = type(self).__name__
            raise NotImplementedError(f"{name} does not say what its policy plays: define greedy(self, step, state)")
        return self._greedy(np.array([self._check_step(step)]), state.reshape(1, -1), True, [None])[0]

    def _greedy(
        self,
        steps: NDArray[np.int64],
        states: NDArray[np.float64],
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> NDArray[np.float64]:
        """One flat action per (step, state), out of what is allowed (None: everything): `greedy` in a loop, or faster."""
        actions = np.empty((len(steps), self.axes.n_action))
        for k, step in enumerate(steps.tolist()):
            action = numeric(self.greedy(step, self._checked(step, states[k], 0)), "greedy's action")
            if action.shape != actions[k].shape:
                raise SpaceError(
                    f"greedy gave an action of shape {action.shape}; give the flat vector of {self.axes.n_action} numbers that "
                    f"checked_transition gives"
                )
            actions[k] = self._nearest(action, allowed[k])
        return actions

    def nearest_feasible(self, step: int, action: Any, info: Mapping[str, Any] | None) -> NDArray[np.float64]:
        """The flat action, moved to the nearest one that `info` allows; as it is, if `info` says nothing of actions."""
        return self._nearest(numeric(action, "action"), self._feasible(step, info))

    def _feasible(self, step: int, info: Mapping[str, Any] | None) -> Feasible | None:
        return feasible(self.axes, info, f"{self.env_name}, step {step}") if info and has_mask(info) else None

    def _nearest(self, action: NDArray[np.float64], allowed: Feasible | None) -> NDArray[np.float64]:
        """The flat action, moved to what is allowed."""
        if allowed is None:
            return action
        n_state = self.axes.n_state
        return self.axes.to_unit_cube(allowed.nearest(self.axes.from_unit_cube(action, n_state)), n_state)

    def q_value(self, step: int, observation: Any, action: Any) -> float:
        """The optimistic estimate Q of the ball that holds (observation, action) at this step."""
        raise self._no_estimate()

    def value(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> float:
        """V(x): the largest Q over the balls relevant for the observation (and feasible, if `info` says what is), capped."""
        raise self._no_estimate()

    def visits(self, step: int, observation: Any, action: Any) -> int:
        """n of the ball that holds (observation, action), its ancestors' visits included."""
        raise self._no_estimate()

    def partition(self, step: int) -> Partition:
        """The active balls of a step as arrays."""
        raise self._no_estimate()

    @property
    def n_balls(self) -> int:
        """Active balls, all steps together."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of what the agent has learned."""
        return 0

    def _repr_html_(self) -> str:
        facts = {"environment": self.env_name, "episodes": f"{self.n_episodes:,}", "horizon": self.horizon, **self._facts()}
        if self.n_clipped:
            facts["rewards clipped"] = f"{self.n_clipped:,}"
        return notebook.card(type(self).__name__, facts, self._pictures())

    def _facts(self) -> dict[str, Any]:
        """What a notebook shows of this kind of agent beyond what all have."""
        return {"bytes": f"{self.nbytes:,}"}

    def _pictures(self) -> list[str]:
        return []

    # --- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the agent to one file, atomically; `zooming.load` continues exactly where it stopped.

        A link to a file is followed. What is there and is no file (a folder, a device, a pipe) is refused with an OSError.
        """
        from zooming.agents import checkpoints  # checkpoints know agents

        checkpoints.save(self, path)

    def check_savable(self) -> None:
        """SpaceError if `save` would refuse this agent, so that a long run is told before it begins."""
        from zooming.agents import checkpoints

        if type(self).save is Agent.save:
            checkpoints.check(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> Self:
        """The agent in a file, to use or to go on learning; see `zooming.load`."""
        from zooming.agents import checkpoints

        agent = checkpoints.load(path, env)
        if not isinstance(agent, cls):
            raise SpaceError(f"{path} holds {type(agent).__name__}, not {cls.__name__}; zooming.load reads any agent")
        return agent

    def _options(self) -> dict[str, Any]:
        """Keyword arguments, as JSON, that make an agent like this one."""
        raise NotImplementedError

    @classmethod
    def _from_options(cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """An agent with these options, before it takes back what it had learned, which `arrays` holds."""
        return cls(env, **options)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was learned: a few JSON values, and arrays."""
        raise NotImplementedError

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Takes back what `_state` gave; ValueError or KeyError, in words, if it cannot be."""
        raise NotImplementedError

    def _no_estimate(self) -> SpaceError:
        return SpaceError(f"{type(self).__name__} is a heuristic: it keeps no balls and no estimates. AdaptiveQ and NetQ do.")


@runtime_checkable
class Compiled(Protocol):
    """An agent that plays whole episodes of a compiled environment without coming back to Python."""

    def play(self, env: Any, crossing: Crossing, log: Log, end: int) -> int:
        """Plays whole episodes until log.done[0] is `end`, or fewer; the code of `kernels` that says why it came back.

        The compiled code itself writes all that must be known of an episode: its return and its balls into the `log`, that it
        is done, and what was learned. `crossing` is the environment with this agent's random numbers.
        """
