"""The agent with nothing to set: a planner and optimistic trees that learn from each other."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.auto.choices import Choice
from zooming.agents.auto.portfolio import IS_OPEN, Portfolio, common_range
from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.env_facts import stated_range
from zooming.agents.base.seeds import seed_of
from zooming.agents.base.status import Status
from zooming.agents.files.options import build_agent, fixed_options_of, options_of
from zooming.agents.planner.planner import Planner
from zooming.agents.tables.split_options import n_first_balls
from zooming.agents.tables.tree_q import TreeQ
from zooming.agents.training.replay import Transitions, kept_transitions
from zooming.spaces.axes import Axes
from zooming.validation import LARGEST_REWARD, SMALLEST_SPAN, check_float, check_int, check_range

TRIAL, FIRST_TRIAL = 200, 2000  # episodes of a new tree, and when it plays first
AFTER_TRIAL = 10  # plays that count afterwards: the tree goes on learning, and is forced to play
FIRST_CUTS = 0.35, 0.65  # range of its first cut: it has other borders than the tree that leads
MOST_FIRST = 4096  # balls that such a tree may begin with; otherwise it has the same borders


def time_after(time: int, n_episodes: int) -> int:
    """Return the number of episodes at which the next trial is due, after the one at `time`.

    Times double. No two trials come in a row.
    """
    while time < 1.5 * n_episodes:
        time *= 2
    return time


def draw_cut(axes: Axes, seed: int) -> float | None:
    """Return a random first cut of a new tree; None if it would begin with too many balls."""
    if not _can_cut(axes):
        return None
    return float(np.random.default_rng(seed).uniform(*FIRST_CUTS))


def check_cut(axes: Axes, first_cut: Any) -> float | None:
    """Return the stored first cut of a tree. Raise ValueError if no trial could have made it.

    Many first balls would take memory before the rows of a file are checked.
    """
    if first_cut is None:
        return None
    if not _can_cut(axes):
        raise ValueError(f"a tree with first_cut={first_cut!r} would have too many balls")
    return check_float(first_cut, "first_cut", *FIRST_CUTS)


def check_trial(number: Any, has_trees: bool) -> int:
    """Return the stored number of the tree that plays a trial. Raise ValueError if it is wrong."""
    found: int = check_int(number, "on_trial", 0)
    if found > 2 or (found and not has_trees):
        raise ValueError(f"agent {found} plays a trial, but it is no shared tree")
    return found


def _can_cut(axes: Axes) -> bool:
    return n_first_balls(axes, FIRST_CUTS[0]) <= MOST_FIRST


# (shared, slope) of each tree, see `TreeQ`. Two and four trees were worse: docs/lab/research.md.
TREES = ((True, 0.0), (True, 0.6), (False, 0.6))
PILOT = 5  # episodes that the planner plays first: the trees learn the scale of rewards from them
FAR = 1e9  # the trees accept rewards up to FAR times the largest one seen, if no range is known
DOUBT = 1.0  # see `Choice`: where returns are noisy, they understate what the planner has learned
MOST_CUBES = 6  # with more axes, the trees halve one side at a time
GROWTH = 1.1  # the trees are told the span of the rewards when it has grown by this factor


class Auto(Portfolio):
    """Learn fast with nothing to set. Try this agent first; `AdaptiveQ` is the one with a theorem.

    It is a `Portfolio` of a `Planner` and three `TreeQ`, which all learn from every episode. The
    returns decide which of them plays. `docs/auto.md` explains it on a page. A step takes 20 to 100
    times as long as with `AdaptiveQ`, and memory grows with the samples up to `max_samples`.
    Nothing is proved about it.

    Parameters
    ----------
    env : gymnasium.Env
        The environment to learn on.
    max_samples : int, default 1,000,000
        Number of samples that the planner keeps, see `Planner`.
    horizon : int, optional
        Steps of an episode. By default the environment's own number.
    reward_range : (float, float), optional
        Lowest and highest reward of one step; others are refused. By default the range that the
        environment states; if it states none, any finite reward is accepted. The scale of rewards
        is always learned from the data.
    bounds : dict, optional
        {axis: (low, high)}, for unbounded axes or a smaller range. Values beyond count as the ends.
    ordered : bool or names of axes, default False
        Discrete axes whose neighboring values are similar. True means all of them.
    squash : bool, float or dict, default False
        Maps unbounded axes to an interval: True (scale 1), a scale, or {axis: scale}.
    weights : dict or sequence, optional
        Weight of each axis in the metric: {axis: weight}, or one number per axis. An axis of
        weight 0 is ignored.
    names : dict or sequence, optional
        Names of the axes for everything that is printed, drawn or written: {axis: name}, or one
        name per axis, the state's first. By default those of `env.metadata["names"]`, if any.
    seed : int, optional
        Seed of the agents and of the environment. By default a random one.

    Examples
    --------
    >>> import gymnasium as gym, zooming
    >>> agent = zooming.Auto(gym.make("zooming/Oil-v0", sharpness=10.0), seed=0)
    >>> history = agent.learn(episodes=300)
    >>> bool(history.returns[-100:].mean() > 4.5)  # the optimum is 4.75
    True
    """

    def __init__(
        self,
        env: Any,
        *,
        max_samples: int = 1_000_000,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        bounds: Mapping[str, Any] | None = None,
        ordered: bool | Iterable[str] = False,
        squash: bool | float | Mapping[str, float] = False,
        weights: Mapping[str, float] | Iterable[float] | None = None,
        names: Mapping[str, str] | Iterable[str] | None = None,
        seed: int | None = None,
    ) -> None:
        seed = seed_of(seed)
        known = stated_range(env) if reward_range is None else reward_range
        self.planner = Planner(
            env, max_samples=max_samples, horizon=horizon, reward_range=known,
            bounds=bounds, ordered=ordered, squash=squash, weights=weights, names=names,
            seed=seeds.derive_seed(seed, "planner"),
        )  # fmt: skip
        self._name_as_part(self.planner)
        super().__init__([self.planner], seed=seed)
        self.max_samples = self.planner.max_samples
        self._known_range = None if known is None else self.planner.reward_range
        self._tree_range: tuple[float, float] | None = None  # once there are trees
        self._next_trial = FIRST_TRIAL
        self._on_trial = 0  # index in `agents` of the tree that plays a trial; 0: no trial

    # --- the trees --------------------------------------------------------------------------------

    @property
    def trees(self) -> list[TreeQ]:
        """The trees; empty during the pilot."""
        return [agent for agent in self._parts if isinstance(agent, TreeQ)]

    def _before_choice(self) -> tuple[int, int] | None:
        """Add the trees after the pilot, tell them the scale of rewards, and begin trials."""
        if waiting := self._end_trial():
            return waiting
        if self.n_episodes < PILOT:
            return None
        known = self._known_range
        least, most = self._rewards_seen()
        span = most - least
        if span < SMALLEST_SPAN and known is not None:
            span = known[1] - known[0]
        if span < SMALLEST_SPAN:
            return None  # all rewards were equal: nothing is known about their scale
        highest = None if known else most
        if not self.trees:
            far = min(LARGEST_REWARD / 2, FAR * max(span, abs(least), abs(most), 1.0))
            trees = self._make_trees(known or (-far, far))
            for tree in trees:
                tree.rescale(span, highest)
                self._teach_pilot(tree)
            self._add_trees(trees)
        for tree in self.trees:
            if span > GROWTH * tree.scale:
                self._catch_up(tree)
                tree.rescale(span)
        return self._begin_trial(span, highest)

    def _begin_trial(self, span: float, highest: float | None) -> tuple[int, int] | None:
        """If a trial is due and the leader may be stuck, put a new tree in place of a shared one.

        Return (number of the new tree in `self.agents`, episodes that it plays), or None. `span`
        and `highest` are the arguments of `TreeQ.rescale`.
        """
        if self.n_episodes < self._next_trial:
            return None
        next_trial, leader = time_after(self._next_trial, self.n_episodes), self.choice.leader()
        leading = self._parts[leader]
        is_shared = isinstance(leading, TreeQ) and leading.shared
        self._catch_up(self.planner)  # it may make a plan, which tells whether there is noise
        may_be_stuck = is_shared or (leader == 0 and self.planner.table.core["is_exact"][0])
        if not may_be_stuck:
            self._next_trial = next_trial
            return None
        number = 2 if leader == 1 else 1
        seed = seeds.derive_seed(self.seed, f"trial {self.n_episodes}")
        assert self._tree_range is not None  # there are trees
        tree = self._make_tree(number, seed, draw_cut(self.axes, seed), self._tree_range)
        tree.rescale(span, highest)
        agents, choice = list(self._parts), copy.deepcopy(self.choice)
        agents[number] = tree
        choice.forget(number)
        # One call, so that an interrupt leaves either everything as it was or a trial that is due.
        vars(self).update(_parts=agents, choice=choice, _on_trial=number, _next_trial=next_trial)
        return number, TRIAL

    def _end_trial(self) -> tuple[int, int] | None:
        """End a trial that was played.

        Return (tree, episodes) if an interrupt came before it began.
        """
        if self._on_trial and not self.choice.numbers[self._on_trial, 0]:
            return self._on_trial, TRIAL
        if self._on_trial:
            self.choice.shorten(self._on_trial, AFTER_TRIAL)
        self._on_trial = 0
        return None

    def _rewards_seen(self) -> tuple[float, float]:
        """Return the lowest and the highest reward so far."""
        core = self.planner.table.core
        least, most = float(core["least"][0]), float(core["most"][0])
        if self._played is not None:
            waiting = self._played.rewards_unknown_to(self.planner)
            if len(waiting):
                least = min(least, float(waiting.min()))
                most = max(most, float(waiting.max()))
        return least, most

    def _teach_pilot(self, tree: TreeQ) -> None:
        """Let a tree learn from the episodes before it began, as the planner has kept them.

        The planner keeps no masks. So values of next states are those of all actions.
        """
        self._catch_up(self.planner)
        kept = kept_transitions(self.planner)
        if kept is not None:
            tree._learn_transitions(kept)

    def update(self, step: int, *transition: Any, **options: Any) -> None:
        if step == 0 and not self.trees and not self.counts[IS_OPEN]:
            with self.run.lock:
                self._settle()
                self._before_choice()
        super().update(step, *transition, **options)

    def _learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        starts = np.flatnonzero(np.asarray(recorded.steps) == 0)
        n_pilot = max(0, PILOT - self.n_episodes)
        if not self.trees and len(starts) > n_pilot:  # the trees begin within the record
            first = int(starts[n_pilot])
            super()._learn_transitions(recorded.part(0, first))
            self._before_choice()
            recorded = recorded.part(first, len(recorded.steps))
        super()._learn_transitions(recorded)

    @staticmethod
    def _name_as_part(agent: Agent) -> None:
        """Let the error messages of an inner agent refer to Auto and its options."""
        agent.problem.agent_name, agent.problem.is_part = "Auto", True

    def _make_tree(
        self, number: int, seed: int, first_cut: float | None, reward_range: tuple[float, float]
    ) -> TreeQ:
        """Return a new tree with the options of `agents[number]`."""
        shared, slope = TREES[number - 1]
        # With "all" a split makes 2^axes balls: 700 MB after 100 episodes on 12 axes.
        split = "all" if self.axes.n_wide <= MOST_CUBES else "longest"
        known = {"reward_range": reward_range, "first_cut": first_cut, "split": split}
        options = {**self.planner.problem.options, **known}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the planner has warned of the same
            tree = TreeQ(self.planner.env, shared=shared, slope=slope, seed=seed, **options)
        self._name_as_part(tree)
        tree.run.lock = self.run.lock
        return tree

    def _make_trees(
        self,
        reward_range: tuple[float, float],
        first_cuts: Sequence[float | None] = (None,) * len(TREES),
    ) -> list[TreeQ]:
        names = (f"tree {shared} {slope}" for shared, slope in TREES)
        return [
            self._make_tree(number, seeds.derive_seed(self.seed, name), first_cut, reward_range)
            for number, (name, first_cut) in enumerate(zip(names, first_cuts, strict=True), 1)
        ]

    def _add_trees(self, trees: list[TreeQ]) -> None:
        agents = [*self._parts, *trees]
        self.problem.reward_range = common_range(agents)
        # One call, so that an interrupt finds all trees or none. The returns of the pilot are
        # forgotten: the planner knew nothing then, and would not play for many episodes.
        vars(self).update(
            _parts=agents,
            choice=Choice(len(agents), DOUBT),
            reward_range=self.problem.reward_range,
            _tree_range=trees[0].reward_range,
        )

    def _best(self) -> int:
        """Return the number of the agent that is recommended: 0, the planner, if there is noise.

        The planner learns from all episodes, whoever played them. Its own few returns are old where
        a tree leads, and a few lucky returns may let a tree lead: with noise, its policy was better
        than that of the tree at 11 of 11 checkpoints of Pricing and at the only one of Queue.
        """
        return super()._best() if self.planner.table.core["is_exact"][0] else 0

    # --- words ------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return who plays and why, how the returns develop, and the status of the planner.

        Returns
        -------
        Status
            The entries of `Portfolio.status`, and "planner": the entries of `Planner.status`.
            `print` shows it readably.
        """
        believed = self.planner.status()
        for name in ("horizon", "recommended should earn", "warnings"):  # said of all agents
            del believed[name]
        return Status({**super().status(), "planner": believed})

    def _why(self, player: int, names: list[str]) -> str:
        if self._on_trial and player == self._on_trial:
            return "it is a new tree, tried because the agent that leads may be stuck"
        return super()._why(player, names)

    def _names(self) -> list[str]:
        trees = [
            f"tree, {'shared' if tree.shared else 'apart'}, slope {tree.slope:g}"
            for tree in self.trees
        ]
        return ["planner", *trees]

    # --- files ------------------------------------------------------------------------------------

    def _known_options(self) -> dict[str, Any]:
        known = None if self._known_range is None else list(self._known_range)
        options = {**self.problem.options, "reward_range": known, "seed": self.seed}
        del options["rewards"]
        return {"max_samples": self.max_samples, **options}

    def get_params(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, see `Agent.get_params`."""
        return options_of(self)

    def _options(self) -> dict[str, Any]:
        return self.get_params()

    def _fixed_options(self) -> dict[str, Any]:
        return fixed_options_of(self)

    @classmethod
    def _from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        return build_agent(cls, env, options)

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super()._state()
        own = {
            "tree_range": self._tree_range,
            "first_cuts": [tree.first_cut for tree in self.trees],
            "next_trial": self._next_trial,
            "on_trial": self._on_trial,
        }
        return {**values, **own}, arrays

    def _restore(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if values["tree_range"] is not None:
            tree_range = check_range(values["tree_range"], "tree_range")
            cuts = [check_cut(self.axes, cut) for cut in values["first_cuts"]]
            self._add_trees(self._make_trees(tree_range, cuts))
        self._next_trial = check_int(values["next_trial"], "next_trial", 1)
        self._on_trial = check_trial(values["on_trial"], bool(self.trees))
        super()._restore(values, arrays)
