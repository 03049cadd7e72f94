"""The configuration of a study, and the chunks in which it is computed and stored.

A chunk is one problem, one agent and a block of seeds. Its content depends on the configuration
only. So a study gives the same files for any number of workers, any order and any engine.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from zooming.agents.base import seeds
from zooming.agents.base.problem import stated_steps
from zooming.agents.training.history import History
from zooming.agents.training.many import learn_many
from zooming.analysis.evaluate import evaluate
from zooming.errors import ConfigurationError, ZoomingError
from zooming.lab.study import modules
from zooming.lab.study.problems import AGENTS, DEEP, OPTIMUM, AgentChoice, Problem, json_default
from zooming.validation import Ints, check_choice, check_int, option_names, refuse_unknown

# Limits of a chunk. Long runs get small chunks: interruptions lose little, and all cores work.
MOST_SEEDS, MOST_EPISODES = 20, 40_000
N_CHECKPOINTS = 60
WARM_UP = 20  # episodes; some kernels are first called after several
FINAL_VALUE = "final_value"  # name of the array of sampled values


@dataclass(frozen=True)
class Configuration:
    """The configuration of a study: problems x agents x seeds. `Study` describes the fields."""

    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    episodes: int
    n_seeds: int
    entropy: int = 0
    stream: str = "run"
    optimum: str = "fine"
    value_episodes: int = 0

    def __post_init__(self) -> None:
        check_int(self.value_episodes, "value_episodes", 0)
        check_int(self.episodes, "episodes", 1)
        check_int(self.n_seeds, "seeds", 1)
        check_int(self.entropy, "entropy", 0, most=None)
        check_choice("optimum", self.optimum, OPTIMUM)
        if not self.problems or not self.agents:
            raise ConfigurationError(
                "a study needs at least one problem and one agent; zooming list shows some"
            )
        for what, names in (
            ("problem", [p.name for p in self.problems]),
            ("agent", [a.label for a in self.agents]),
        ):
            if len(set(names)) < len(names):
                raise ConfigurationError(
                    f"a study needs different {what}s, but one is listed twice: {', '.join(names)}"
                )
        for agent in self.agents:
            make = AGENTS[agent.kind]
            refuse_unknown(agent.kind, agent.settings, make)
            for name in ("env", "seed"):
                if name in agent.settings:
                    raise ConfigurationError(
                        f"{agent.label}: a study sets {name} for every run; leave it out"
                    )
            for name, parameter in inspect.signature(make).parameters.items():
                is_needed = (
                    parameter.default is parameter.empty
                    and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
                )
                if is_needed and name not in {"env", *agent.settings}:
                    raise ConfigurationError(
                        f"{agent.kind} needs {name}: write {agent.kind}:{name}=..."
                    )

    def check(self) -> None:
        """Make every agent on every problem once, so that invalid settings raise an error early."""
        for problem in self.problems:
            with prefix_errors(problem.name):
                creator = gym.spec(modules.find_id(problem.env_id)).entry_point
                make = load_env_creator(creator) if isinstance(creator, str) else creator
            if make is not None:
                refuse_unknown(
                    problem.env_id, problem.options.keys() - {*option_names(gym.make)}, make
                )
            with prefix_errors(problem.name):
                problem.make()
            for agent in self.agents:
                with prefix_errors(f"{agent.label} on {problem.name}", agent.kind):
                    made = agent.make(env := problem.make(), 0, self.episodes)
                if made.horizon < (stated_steps(env) or 0):
                    warnings.warn(
                        f"{agent.label} on {problem.name}: horizon={made.horizon}, but an episode "
                        f"has {stated_steps(env)} steps: the agent plays the first "
                        f"{made.horizon}, and an optimum is of all. Leave out horizon=",
                        stacklevel=2,
                    )

    def as_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values."""
        described: dict[str, Any] = json.loads(json.dumps(asdict(self), default=json_default))
        if not self.value_episodes:  # as before there was such a setting
            del described["value_episodes"]
        return described

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Configuration:
        """Return the configuration from the output of `as_json`.

        Raise ConfigurationError if it is invalid.
        """
        try:
            problems = tuple(Problem(**problem) for problem in content["problems"])
            agents = tuple(AgentChoice(**agent) for agent in content["agents"])
            texts = [text for problem in problems for text in (problem.name, problem.env_id)]
            texts += [*(agent.kind for agent in agents), content.get("stream", "")]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("a name is not a string")
            options = [*(p.options for p in problems), *(a.settings for a in agents)]
            if not all(isinstance(one, dict) for one in options):
                raise TypeError("the options of a problem or an agent are not a dict")
            return cls(**{**content, "problems": problems, "agents": agents})
        except (TypeError, KeyError, AttributeError, ConfigurationError) as error:
            raise ConfigurationError(
                f"its configuration is not that of a study: {error}"
            ) from error

    @property
    def name(self) -> str:
        """The file name, readable and unique for each configuration."""
        return _file_name("-".join(problem.name for problem in self.problems), self.as_json())

    @property
    def n_chunks(self) -> int:
        """Number of chunks, computed without making them."""
        blocks = [self._block(problem, agent) for problem in self.problems for agent in self.agents]
        return sum(-(-self.n_seeds // block) for block in blocks)

    def _block(self, problem: Problem, agent: AgentChoice) -> int:
        """Return the number of seeds of a chunk.

        It is 1 for an environment of the user's own, and for a deep rival: a run may take minutes.
        """
        if not problem.env_id.startswith("zooming/") or agent.kind.startswith(DEEP):
            return 1
        return max(1, min(MOST_SEEDS, MOST_EPISODES // self.episodes))

    def chunks(self) -> list[Chunk]:
        """Return all chunks, in the order of the tables."""
        return [
            chunk
            for problem in self.problems
            for agent in self.agents
            for chunk in self.chunks_of(problem, agent)
        ]

    def chunks_of(self, problem: Problem, agent: AgentChoice) -> list[Chunk]:
        """Return the chunks of an agent on a problem, in the order of their seeds."""
        most, rest = self._block(problem, agent), (self.entropy, self.stream, self.value_episodes)
        return [
            Chunk(problem, agent, self.episodes, first, min(first + most, self.n_seeds), *rest)
            for first in range(0, self.n_seeds, most)
        ]


def checkpoint_episodes(episodes: int) -> Ints:
    """Return about N_CHECKPOINTS episodes, denser at the beginning, with the last one."""
    even = np.linspace(1, episodes, N_CHECKPOINTS // 2)
    early = np.geomspace(1, episodes, N_CHECKPOINTS // 2)
    return np.unique(np.round(np.concatenate([even, early])).astype(np.int64))


@dataclass(frozen=True)
class Chunk:
    """The runs of one agent on one problem with the seeds from `first` to `last` - 1.

    The final policies are valued on `value_episodes` sampled episodes.
    """

    problem: Problem
    agent: AgentChoice
    episodes: int
    first: int
    last: int
    entropy: int
    stream: str
    value_episodes: int = 0

    @property
    def name(self) -> str:
        """The file name, readable and unique for each chunk."""
        what = [asdict(self.problem), asdict(self.agent), self.episodes, self.entropy, self.stream]
        what += [f"value {self.value_episodes}"] if self.value_episodes else []
        name = _file_name(f"{self.problem.name}--{self.agent.label}", what)
        return f"{name}--{self.first:05d}-{self.last:05d}"

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return self.last - self.first

    def warm_up(self) -> None:
        """Play a few episodes, so that compilation does not count as time of a run."""
        few = WARM_UP if self.problem.env_id.startswith("zooming/") else 1
        replace(
            self,
            episodes=min(few, self.episodes),
            last=self.first + 1,
            value_episodes=min(self.value_episodes, 1),
        ).run()

    def run(self) -> dict[str, NDArray[Any]]:
        """Train the agents. Return totals per run, and curves per run and checkpoint."""
        return self.measure(self.learn()[0])

    def learn(self) -> tuple[list[History], float]:
        """Train the agents. Return (histories, processor seconds of learning in all runs)."""
        run_seeds = [
            seeds.derive_seed(self.entropy, f"{self.stream} {i}")
            for i in range(self.first, self.last)
        ]
        with self._name_errors():
            env, make = self.problem.make(), partial(self.agent.make, episodes=self.episodes)
            began = time.process_time()
            # The engines start one process per core, so each uses one thread.
            histories = learn_many(make, env, run_seeds, self.episodes, n_workers=1)
            return histories, time.process_time() - began

    def measure(self, histories: list[History]) -> dict[str, NDArray[Any]]:
        """Return the arrays of the chunk, computed from the output of `learn`."""
        episodes = checkpoint_episodes(self.episodes)
        totals = [np.cumsum(history.returns) for history in histories]
        tail = max(1, self.episodes // 10)
        return {
            **({FINAL_VALUE: self._final_values(histories)} if self.value_episodes else {}),
            "seed": np.arange(self.first, self.last),
            "final_return": np.array([history.returns[-tail:].mean() for history in histories]),
            "total_return": np.array([total[-1] for total in totals]),
            "n_balls": np.array([history.agent.n_balls for history in histories]),
            "nbytes": np.array([history.agent.nbytes for history in histories]),
            "n_clipped": np.array([history.n_clipped for history in histories]),
            "horizon": np.array([history.agent.horizon for history in histories]),
            "curve_episode": episodes,
            "curve_total": np.array([total[episodes - 1] for total in totals]),
            "curve_n_balls": np.array([history.n_balls[episodes - 1] for history in histories]),
        }

    def _final_values(self, histories: list[History]) -> NDArray[np.float64]:
        """Return the value of each final policy on sampled episodes.

        Run k of every agent plays the same episodes. Other runs play other episodes.
        """
        with self._name_errors():
            env = self.problem.make()
            return np.array([
                evaluate(
                    history.agent,
                    env,
                    max(2, self.value_episodes),
                    seed=seeds.derive_seed(self.entropy, f"{self.stream} {i} value"),
                ).mean
                for i, history in enumerate(histories, self.first)
            ])  # fmt: skip

    def _name_errors(self) -> AbstractContextManager[None]:
        """Prefix the errors of the `with` block with the agent and the problem."""
        return prefix_errors(
            f"{self.agent.label} on {self.problem.name}", self.agent.kind, ours=(ZoomingError,)
        )


@contextmanager
def prefix_errors(
    where: str,
    kind: str | None = None,
    ours: tuple[type[Exception], ...] = (TypeError, ValueError, gym.error.Error),
) -> Iterator[None]:
    """Prefix the errors of the `with` block with `where`.

    If a message tells the user to set an option in Python, append how to set it in a study.
    """
    try:
        yield
    except ours as error:
        hint = ""
        if kind is not None and "max_episode_steps=" in str(error):
            hint = f" (here: --set max_episode_steps=N for the problem, or {kind}:horizon=N)"
        elif kind is not None and "reward_range=(low, high)" in str(error):
            hint = f" (here: '{kind}:reward_range=(low,high)' for the agent)"
        elif kind is not None and re.search(r"\bgive\b.*\w=", str(error), re.IGNORECASE):
            hint = f" (here: {kind}:option=value for the agent, --set option=value for the problem)"
        raise (type(error) if isinstance(error, ZoomingError) else ConfigurationError)(
            f"{where}: {error}{hint}"
        ) from error


def _file_name(readable: str, content: Any) -> str:
    """Return a file name made of a readable text and a digest of the content."""
    digest = hashlib.sha256(
        json.dumps(content, default=json_default, sort_keys=True).encode()
    ).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._=-]+', '_', readable)[:80]}--{digest}"
