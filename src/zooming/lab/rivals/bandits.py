"""The X-armed bandits of PyXAB as agents, for problems of one step without context."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.envs.compiled import find_compiled
from zooming.envs.starts import FIXED
from zooming.errors import ConfigurationError
from zooming.lab.rivals.rival import LibraryAgent, Transition, import_library
from zooming.spaces.flatten import INTERVAL
from zooming.spaces.masks import Feasible
from zooming.validation import Floats, check_choice, check_int

# Name of each algorithm, and the module of PyXAB that has it.
ALGORITHMS = {"VHCT": "VHCT", "HCT": "HCT", "T_HOO": "HOO", "POO": "POO", "Zooming": "Zooming"}
_OURS = ("domain", "partition", "rounds", "algo")  # options that the adapter sets


class BanditAgent(LibraryAgent):
    """An X-armed bandit of PyXAB with its default settings, on the bounds of the actions.

    It receives rewards scaled to [0, 1] by `reward_range`. `predict` plays the library's
    `get_last_point`. The agent cannot be saved.

    Parameters
    ----------
    env : gymnasium.Env
        An environment of one step with continuous actions whose state is always the same.
    algorithm : {"VHCT", "HCT", "T_HOO", "POO", "Zooming"}
        The class of PyXAB. POO runs VHCT with several smoothness parameters.
    settings : dict, optional
        Arguments of that class, for example {"rho": 0.7}.
    episodes : int, default 2000
        Number of rounds, which T_HOO and POO need in advance. A study passes its own number.
    **options
        Options of `Agent`: horizon, reward_range, rewards, bounds, seed.

    Raises
    ------
    ConfigurationError
        If the library is missing, or the problem has several steps, several states, or actions
        that are not continuous.

    Examples
    --------
    >>> import gymnasium as gym
    >>> agent = BanditAgent(gym.make("zooming/Oil-v0", horizon=1), "HCT", seed=0)
    >>> history = agent.learn(200)
    >>> bool(history.returns[-50:].mean() > history.returns[:50].mean())
    True
    """

    family = "pyxab"

    def __init__(
        self,
        env: Any,
        algorithm: str,
        settings: Mapping[str, Any] | None = None,
        *,
        episodes: int = 2000,
        **options: Any,
    ) -> None:
        super().__init__(env, algorithm, settings, **options)
        self.episodes = check_int(episodes, "episodes", 1)
        self._check_problem(env)
        learner = _find(check_choice("algorithm", algorithm, ALGORITHMS))
        self._check_settings(learner, _OURS)
        parameters = inspect.signature(learner).parameters
        low, high = self.axes.action_ends
        ours: dict[str, Any] = {"domain": np.stack([low, high], axis=1).tolist()}
        if "rounds" in parameters:
            ours["rounds"] = max(2, self.episodes)
        if "algo" in parameters:
            ours["algo"] = _find("VHCT")
        self._generator = np.random.RandomState(seeds.derive_seed(self.seed, "agent", np.uint32))
        with self._own_generator():
            self.bandit = learner(**ours, **self.settings)
        self._n_rounds = 0
        self._last: Floats | None = None  # the point that predict plays

    def act(self, step: int, observation: Any, *, info: Mapping[str, Any] | None = None) -> Any:
        """Return the action that the bandit chooses."""
        self.checked_state(step, observation)
        with self._own_generator():
            point = self._flat(self.bandit.pull(self._n_rounds + 1))
        self._asked = self._nearest(point, self._feasible(step, info))
        return self.axes.shaped_action(self._asked.copy())

    def _learn(self, seen: Transition) -> None:
        self._check_asked(seen.action)
        low, high = self.reward_range
        with self._own_generator():
            self.bandit.receive_reward(self._n_rounds + 1, (seen.reward - low) / (high - low))
        self._n_rounds, self._asked, self._last = self._n_rounds + 1, None, None

    def _policy(
        self,
        steps: NDArray[np.int64],
        states: Floats,
        deterministic: bool,
        allowed: Sequence[Feasible | None],
    ) -> Floats:
        if self._last is None:
            copied = copy.deepcopy(self.bandit)  # to ask it changes it
            with self._own_generator(keeps=False):
                self._last = self._flat(
                    copied.get_last_point() if self._n_rounds else copied.pull(1)
                )
        return np.repeat(self._last[None], len(steps), axis=0)

    counted = "nodes"

    @property
    def n_balls(self) -> int:
        """Number of tree nodes (POO: of all its trees), or of active balls for Zooming."""
        if hasattr(self.bandit, "V_algo"):
            return sum(_n_nodes(one) for one in self.bandit.V_algo)
        return _n_nodes(self.bandit)

    @property
    def nbytes(self) -> int:
        """Memory of the numbers and references of the bandit, in bytes."""
        return _size(self.bandit)

    def _flat(self, point: Any) -> Floats:
        low, high = self.axes.action_ends
        return np.clip(np.array(point, np.float64).reshape(-1), low, high)

    @contextmanager
    def _own_generator(self, keeps: bool = True) -> Iterator[None]:
        """Replace NumPy's global generator, which the library uses, by the agent's own.

        The user's generator is restored at the end of the `with` block. With `keeps=False`, the
        draws of the block do not advance the agent's generator.
        """
        before = np.random.get_state()
        np.random.set_state(self._generator.get_state())
        try:
            yield
        finally:
            if keeps:
                self._generator.set_state(np.random.get_state())
            np.random.set_state(before)

    def _check_problem(self, env: Any) -> None:
        """Raise ConfigurationError if these bandits cannot play the problem."""
        name, axes, who = self.env_name, self.axes, self.label
        if self.horizon != 1:
            raise ConfigurationError(
                f"{who} is a bandit for episodes of one step, and those of {name} have "
                f"{self.horizon}"
            )
        if set(axes.kinds[axes.n_state :]) != {INTERVAL}:
            raise ConfigurationError(
                f"{who} plays continuous actions only, and those of {name} are whole numbers, at "
                "least in part"
            )
        inner = find_compiled(env)
        has_one_state = (axes.low[: axes.n_state] == axes.high[: axes.n_state]).all()
        if not has_one_state and (inner is None or inner.start_kind != FIXED):
            raise ConfigurationError(
                f"{who} is a bandit without context, and the state of {name} varies; give it one "
                "state: observation_space = Discrete(1), or start=... of a compiled environment"
            )


def _find(algorithm: str) -> Any:
    return getattr(import_library(f"PyXAB.algos.{ALGORITHMS[algorithm]}"), algorithm)


def _n_nodes(bandit: Any) -> int:
    active = getattr(bandit, "active_points", None)
    return len(active) if active is not None else sum(map(len, bandit.partition.get_node_list()))


def _size(root: Any) -> int:
    """Return the size of an object and its parts: 8 bytes for each number and reference.

    `sys.getsizeof` is not used, because it depends on how a list has grown: a copy would differ.
    """
    total, seen, rest = 0, set(), [root]
    while rest:
        one = rest.pop()
        if isinstance(one, type) or inspect.isroutine(one) or id(one) in seen:
            continue
        if isinstance(one, np.ndarray):
            items: list[Any] = [0.0] * one.size
        elif isinstance(one, Mapping):
            items = list(one.values())
        elif isinstance(one, list | tuple | set):
            items = list(one)
        else:
            items = list(getattr(one, "__dict__", {}).values())
        if items:
            seen.add(id(one))
        total += 8 * len(items)
        rest += [item for item in items if not isinstance(item, int | float | str)]
    return total
