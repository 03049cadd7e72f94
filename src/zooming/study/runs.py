"""The configuration of a study, and its chunks of runs.

A chunk is one problem, one agent and a block of seeds. Its content is a function of the
configuration alone. So a study gives the same files for any number of workers, any order and any
engine.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from zooming.agents import seeds
from zooming.agents.history import History
from zooming.agents.many import learn_many
from zooming.analysis.sampling import sample_value
from zooming.errors import ConfigurationError, ZoomingError
from zooming.study import modules
from zooming.study.curve_episodes import N_VALUES, checkpoint_episodes, learn_valued
from zooming.study.problems import AGENTS, OPTIMUM, AgentChoice, Problem, json_default
from zooming.study.rivals.registry import SLOW
from zooming.validation import check_int, option_names, refuse_unknown

# Limits of a chunk. Long runs get small chunks: interruptions lose little, and all cores work.
# An environment of the user's may take seconds a run, so each of its runs is a chunk.
MOST_SEEDS, MOST_EPISODES = 20, 40_000
WARM_UP = 20  # episodes; some kernels are first called after several
FINAL_VALUE = "final_value"  # name of the array of sampled values


@dataclass(frozen=True)
class Configuration:
    """The configuration of a study: problems x agents x seeds, of `episodes` each.

    `stream` separates the seeds of tuning from those of evaluation. `optimum` is the precision of
    the optima: "fine", or "rough" at half the resolution. The policies of the first `n_valued` runs
    of each agent on each problem are valued exactly. The final policy of every run is valued on
    `value_episodes` sampled episodes.
    """

    problems: tuple[Problem, ...]
    agents: tuple[AgentChoice, ...]
    episodes: int
    n_seeds: int
    entropy: int = 0
    stream: str = "run"
    optimum: str = "fine"
    n_valued: int = 0
    value_episodes: int = 0

    def __post_init__(self) -> None:
        check_int(self.n_valued, "valued", 0)
        check_int(self.value_episodes, "value_episodes", 0)
        check_int(self.episodes, "episodes", 1)
        check_int(self.n_seeds, "seeds", 1)
        check_int(self.entropy, "entropy", 0, most=None)
        if self.optimum not in OPTIMUM:
            raise ConfigurationError(f"optimum={self.optimum!r}: choose one of {OPTIMUM}")
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
        """Make every agent on every problem once, to report invalid settings before computing."""
        for problem in self.problems:
            with _prefix_errors(problem.name):
                creator = gym.spec(modules.find_id(problem.env_id)).entry_point
                make = load_env_creator(creator) if isinstance(creator, str) else creator
            if make is not None:
                refuse_unknown(
                    problem.env_id, problem.options.keys() - {*option_names(gym.make)}, make
                )
            with _prefix_errors(problem.name):
                problem.make()
            for agent in self.agents:
                with _prefix_errors(f"{agent.label} on {problem.name}", agent.kind):
                    agent.make(problem.make(), 0, self.episodes)

    def as_json(self) -> dict[str, Any]:
        """Return the configuration as values that JSON can hold."""
        described: dict[str, Any] = json.loads(json.dumps(asdict(self), default=json_default))
        for name in ("n_valued", "value_episodes"):  # as before there was such a setting
            if not described[name]:
                del described[name]
        return described

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Configuration:
        """Return the configuration from the output of `as_json`; ConfigurationError if invalid."""
        try:
            problems = tuple(Problem(**problem) for problem in content["problems"])
            agents = tuple(AgentChoice(**agent) for agent in content["agents"])
            texts = [text for problem in problems for text in (problem.name, problem.env_id)] + [
                a.kind for a in agents
            ]
            if not all(isinstance(text, str) for text in (*texts, content.get("stream", ""))):
                raise TypeError("a name is not a string")
            if not all(
                isinstance(one, dict)
                for one in (*(p.options for p in problems), *(a.settings for a in agents))
            ):
                raise TypeError("the options of a problem or an agent are not a dict")
            return cls(**{**content, "problems": problems, "agents": agents})
        except (TypeError, KeyError, AttributeError, ConfigurationError) as error:
            raise ConfigurationError(
                f"its configuration is not that of a study: {error}"
            ) from error

    @property
    def name(self) -> str:
        """File name: readable, and unique for each configuration."""
        return _file_name("-".join(problem.name for problem in self.problems), self.as_json())

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return sum(
            -(-self.n_seeds // self._block(problem, agent))
            for problem in self.problems
            for agent in self.agents
        )

    def _block(self, problem: Problem, agent: AgentChoice) -> int:
        """Number of seeds of a chunk: fewer for long runs.

        One for an environment of the user's, or a rival that takes seconds or minutes a run.
        """
        if not problem.env_id.startswith("zooming/") or agent.kind in SLOW:
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
        most = self._block(problem, agent)
        blocks = [
            (first, min(first + most, self.n_seeds)) for first in range(0, self.n_seeds, most)
        ]
        return [
            Chunk(
                problem,
                agent,
                self.episodes,
                first,
                last,
                self.entropy,
                self.stream,
                max(0, min(last, self.n_valued) - first),
                self.value_episodes,
            )
            for first, last in blocks
        ]


@dataclass(frozen=True)
class Chunk:
    """The runs of one agent on one problem with the seeds from `first` to `last` - 1.

    The policies of the first `n_valued` of them are valued exactly, and the final policies of all
    on `value_episodes` sampled episodes.
    """

    problem: Problem
    agent: AgentChoice
    episodes: int
    first: int
    last: int
    entropy: int
    stream: str
    n_valued: int = 0
    value_episodes: int = 0

    @property
    def name(self) -> str:
        """File name: readable, and unique for each chunk."""
        what = [asdict(self.problem), asdict(self.agent), self.episodes, self.entropy, self.stream]
        what += [self.n_valued] if self.n_valued else []
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

    def run(self, n_threads: int = 1) -> dict[str, NDArray[Any]]:
        """Train the agents. Return totals per run, and curves per run and checkpoint."""
        return self.measure(self.learn(n_threads))

    def learn(self, n_threads: int = 1) -> list[tuple[History, list[float]]]:
        """Train the agents. Return the history of each run, and its exact policy values, if any."""
        run_seeds = [
            seeds.derive_seed(self.entropy, f"{self.stream} {i}")
            for i in range(self.first, self.last)
        ]
        # The engines start one process per core, so each uses one thread.
        with self._name_errors():
            env, make = self.problem.make(), partial(self.agent.make, episodes=self.episodes)
            valued = [
                learn_valued(make(self.problem.make(), seed), env, self.episodes)
                for seed in run_seeds[: self.n_valued]
            ]
            others = learn_many(
                make, env, run_seeds[self.n_valued :], self.episodes, n_workers=n_threads
            )
        return [*valued, *((history, list[float]()) for history in others)]

    def measure(self, runs: list[tuple[History, list[float]]]) -> dict[str, NDArray[Any]]:
        """Return the arrays of the chunk from what `learn` returned."""
        histories = [history for history, _ in runs]
        episodes = checkpoint_episodes(self.episodes)
        totals = [np.cumsum(history.returns) for history in histories]
        tail = max(1, self.episodes // 10)
        values = [found for _, found in runs if found]
        n_points = len(checkpoint_episodes(self.episodes, N_VALUES))
        policy_values = {"policy_values": np.array(values).reshape(len(values), n_points)}
        return {
            **(policy_values if self.n_valued else {}),
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

        Runs with the same number play the same episodes, whatever the agent, and runs with other
        numbers play others.
        """
        with self._name_errors():
            env = self.problem.make()
            return np.array([
                sample_value(
                    history.agent,
                    env,
                    self.value_episodes,
                    seeds.derive_seed(self.entropy, f"{self.stream} {i} value"),
                )
                for i, history in enumerate(histories, self.first)
            ])  # fmt: skip

    def _name_errors(self) -> AbstractContextManager[None]:
        """Prefix errors of the block with the agent and the problem."""
        return _prefix_errors(
            f"{self.agent.label} on {self.problem.name}", self.agent.kind, ours=(ZoomingError,)
        )


@contextmanager
def _prefix_errors(
    where: str,
    kind: str | None = None,
    ours: tuple[type[Exception], ...] = (TypeError, ValueError, gym.error.Error),
) -> Iterator[None]:
    """Prefix errors of the block with `where`.

    If a message names an option in Python's syntax, append how a study takes it.
    """
    try:
        yield
    except ours as error:
        hint = ""
        if kind is not None and "max_episode_steps=" in str(error):
            hint = f" (here: --set max_episode_steps=N for the problem, or {kind}:horizon=N)"
        elif kind is not None and re.search(r"\bgive\b.*\w=", str(error), re.IGNORECASE):
            hint = f" (here: {kind}:option=value for the agent, --set option=value for the problem)"
        raise (type(error) if isinstance(error, ZoomingError) else ConfigurationError)(
            f"{where}: {error}{hint}"
        ) from error


def _file_name(readable: str, content: Any) -> str:
    """Return a file name: a readable text and a digest of the content."""
    digest = hashlib.sha256(
        json.dumps(content, default=json_default, sort_keys=True).encode()
    ).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._=-]+', '_', readable)[:80]}--{digest}"
