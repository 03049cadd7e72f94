"""The configuration of a study, and its chunks."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from zooming.errors import ConfigurationError
from zooming.lab.rivals.registry import SLOW
from zooming.lab.study import modules
from zooming.lab.study.chunks import Chunk, file_name, prefix_errors
from zooming.lab.study.problems import AGENTS, OPTIMUM, AgentChoice, Problem, json_default
from zooming.validation import check_int, option_names, refuse_unknown

# Limits of a chunk. Long runs get small chunks: interruptions lose little, and all cores work.
# An environment of the user's may take seconds a run, so each of its runs is a chunk.
MOST_SEEDS, MOST_EPISODES = 20, 40_000


@dataclass(frozen=True)
class Configuration:
    """The configuration of a study: problems x agents x seeds, with `episodes` per run.

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
                    agent.make(problem.make(), 0, self.episodes)

    def as_json(self) -> dict[str, Any]:
        """Return the configuration as JSON values."""
        described: dict[str, Any] = json.loads(json.dumps(asdict(self), default=json_default))
        for name in ("n_valued", "value_episodes"):  # as before there was such a setting
            if not described[name]:
                del described[name]
        return described

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Configuration:
        """Return the configuration from the output of `as_json`.

        Raise ConfigurationError if it is invalid.
        """
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
        """The file name, readable and unique for each configuration."""
        return file_name("-".join(problem.name for problem in self.problems), self.as_json())

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return sum(
            -(-self.n_seeds // self._block(problem, agent))
            for problem in self.problems
            for agent in self.agents
        )

    def _block(self, problem: Problem, agent: AgentChoice) -> int:
        """Return the number of seeds of a chunk. Chunks of long runs have fewer seeds.

        It is 1 for an environment of the user's own, and for a rival that takes seconds or minutes
        per run.
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
