"""The agent with nothing to set: a planner and an optimistic tree that learn from each other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.auto.constants import (
    BLOCK,
    CERTAIN,
    CONSTANTS,
    DOUBTFUL,
    KEPT,
    LEAST_RECALLS,
    LOST,
    MOST_BLOCK,
    MOST_CUBES,
    PILOT,
    WARM,
    in_words,
)
from zooming.agents.auto.portfolio import (
    IS_OPEN,
    LEADS,
    REASON,
    RECALLS,
    Portfolio,
    common_range,
)
from zooming.agents.auto.returns import STUCK, Choice, Trend, fall, seems_fallen
from zooming.agents.auto.rules import Form, RuleLearner
from zooming.agents.base import seeds
from zooming.agents.base.agent import Agent
from zooming.agents.base.problem import stated_range
from zooming.agents.base.seeds import seed_of
from zooming.agents.base.status import Status
from zooming.agents.files.options import build_agent, fixed_options_of, options_of
from zooming.agents.planner.planner import Planner
from zooming.agents.resolver import Resolver
from zooming.agents.tables.tree_q import TreeQ
from zooming.agents.training.replay import Transitions, kept_transitions
from zooming.errors import CheckpointError, ConfigurationError
from zooming.kernels.plans.layout import CLEAR, FAR_PRICE, PRICE
from zooming.kernels.plans.layout import CONSTANTS as PLANNER
from zooming.partitions.cells import THIRDS
from zooming.validation import (
    LARGEST_REWARD,
    SMALLEST_SPAN,
    Floats,
    check_flag,
    check_int,
    count_own_frames,
    short_repr,
)

_WATCHED = ("n_taken", "n_wanted", "n_before")  # saved; see `Auto._watch_returns`


class Auto(Portfolio):
    """Learn fast with nothing to set. Try this agent first; `AdaptiveQ` is the one with a theorem.

    It is a `Portfolio` of a `Planner` and a `TreeQ`, which both learn from every episode. The tree
    may lead only where repeated transitions show no noise. `docs/auto.md` explains it on a page. A
    step takes 20 to 100 times as long as with `AdaptiveQ`, and memory grows with the samples up to
    `max_samples`. Nothing is proved about it.

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
    rule : tuple or rule, optional
        The form of a rule that may be good: (function, {name: (low, high)}), where
        `function(step, observation, **numbers)` returns an action, or a rule of the gallery,
        `env.unwrapped.rule`. The agent searches its numbers by playing it, at most every second
        episode until it earns clearly more than the planner; then it is recommended. With a rule,
        episodes are played from Python, one at a time, and the agent cannot be saved;
        `agent.planner` can.
    resolver : bool or dict, default False
        Whether the dynamics are known, so that a `Resolver` plans with them and with the noise that
        it sees; or its options, such as `model` and `outcome`. It plays in place of the tree, and
        is recommended unless the planner earns clearly more, because the noise depends on the
        action or the dynamics are wrong. Episodes are played from Python, one at a time.
    stationary : bool, default False
        Whether the law of the environment never changes. If it may, the agent starts anew when an
        old plan, played again, earns clearly less than it did; `changes` has the episodes after
        which it started anew. A resolver tests the law of the noise itself.
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
        rule: Any = None,
        resolver: bool | Mapping[str, Any] = False,
        stationary: bool = False,
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
        self._given_rule, self._form = rule, None if rule is None else Form(rule)
        self._given_resolver, self.resolver = resolver, self._make_resolver(resolver, seed)
        super().__init__(self._first_parts(self.planner, seed), seed=seed)
        self.max_samples = self.planner.max_samples
        if not isinstance(stationary, bool):
            raise ConfigurationError(f"stationary={stationary!r}: give True or False")
        self.stationary = stationary
        self.known_range = None if known is None else self.planner.reward_range
        self.changes: list[int] = []  # episodes after which it started anew
        self._returns: Floats = np.empty(0)  # the latest of leaders, since the last doubt
        self._recalls: Floats = np.empty(0)  # of the control, see `_watch_returns`
        self._n_taken = 0  # episodes when the control was taken
        self._n_wanted = 0  # returns of it that are wanted now
        self._n_before = 0  # returns of it before returns seemed to have fallen; 0: they do not

    @property
    def rule(self) -> RuleLearner | None:
        """The searched rule; None if none was given."""
        return next((agent for agent in self._parts if isinstance(agent, RuleLearner)), None)

    def _first_parts(self, planner: Planner, seed: int) -> list[Agent]:
        """Return the agents to begin with: the planner, and the resolver or rule, if any."""
        if self.resolver is not None:
            return [planner, self.resolver]
        if self._form is None:
            return [planner]
        rule = RuleLearner(planner.env, planner, self._form, seeds.derive_seed(seed, "rule"))
        self._name_as_part(rule)
        return [planner, rule]

    def _make_resolver(self, given: bool | Mapping[str, Any], seed: int) -> Resolver | None:
        if given is False:
            return None
        is_named = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
        if self._form is not None or not (given is True or is_named):
            raise ConfigurationError(
                f"resolver={short_repr(given)}: give True, or a dict of options of Resolver, such "
                'as {"model": env, "outcome": function}; and no rule= beside it'
            )
        own = {name: self.planner.problem.options[name] for name in ("horizon", "rewards", "names")}
        own |= {"seed": seeds.derive_seed(seed, "resolver"), **({} if given is True else given)}
        return Resolver(self.planner.env, **own)

    # --- the tree ---------------------------------------------------------------------------------

    @property
    def tree(self) -> TreeQ | None:
        """The tree; None during the pilot."""
        return next((agent for agent in self._parts if isinstance(agent, TreeQ)), None)

    def _before_choice(self) -> None:
        """Add the tree after the pilot, and tell it the scale of rewards.

        While all rewards are equal, nothing is known about their scale. A span of 1 serves: without
        a tree and without a bonus, nothing would explore.
        """
        if self._watches:
            self._watch_returns(self.trend.n_episodes)
        if self._n_since < PILOT or self.resolver is not None:
            return
        least, most = self._rewards_seen()
        span, tree = most - least, self.tree
        if span < SMALLEST_SPAN:
            span = 1.0 if self.known_range is None else self.known_range[1] - self.known_range[0]
        if tree is None:
            tree = self._make_tree()
            tree.rescale(span, None if self.known_range else most)
            self._teach_pilot(tree)
            self._add(tree)
        elif span != tree.scale:
            self._catch_up(tree)
            tree.rescale(span)

    @property
    def _n_since(self) -> int:
        """Number of episodes since the last start."""
        return self.n_episodes - (self.changes[-1] if self.changes else 0)

    @property
    def _watches(self) -> bool:
        """Whether returns are watched. A resolver tests the law of the noise itself."""
        return not self.stationary and self.resolver is None

    def _credit(self, returns: list[float], player: int, reason: int, **changes: Any) -> None:
        if reason == RECALLS:
            changes["_recalls"] = np.append(self._recalls, returns)
        elif reason == LEADS and self._watches:
            changes["_returns"] = np.append(self._returns, returns)[-KEPT:]
        super()._credit(returns, player, reason, **changes)

    def _choose(self) -> None:
        super()._choose()
        self.planner.table.recall(bool(self.counts[REASON] == RECALLS))

    def _next_block(self) -> tuple[int, int, int]:
        missing = self._n_wanted - len(self._recalls)
        return (0, missing, RECALLS) if missing > 0 else super()._next_block()

    def _watch_returns(self, n: int) -> None:
        """Start anew if an old plan earns less than it did; n episodes were played since a start.

        This plan, the control, is the one that was recommended when the episodes had doubled. It is
        played at once, and again if the returns of the leader seem to have fallen. They may fall by
        chance or by a bad plan. If the control earns clearly less, the law has changed.
        """
        if len(self._recalls) < self._n_wanted:
            return
        if self._n_before:
            before, after = np.split(self._recalls, [self._n_before])
            by, lost = fall(before, after), float(before.mean() - after.mean())
            if by > CERTAIN and lost > LOST * (float(before.mean()) - self.trend.early()):
                self._start_anew()
            elif by > DOUBTFUL and len(after) < len(before):
                self._n_wanted += len(after)
            else:
                vars(self).update(
                    _recalls=before, _returns=np.empty(0), _n_before=0, _n_wanted=len(before)
                )
        elif self._n_taken and seems_fallen(self._returns):
            n_before = len(self._recalls)
            vars(self).update(_n_before=n_before, _n_wanted=n_before + LEAST_RECALLS)
        elif n >= max(WARM, 2 * self._n_taken):
            self._catch_up(self.planner)
            n_wanted = max(LEAST_RECALLS, min(MOST_BLOCK, int(BLOCK * n)))
            self.planner.table.take_control()
            # One call, so that after an interrupt the control is either taken again or in use.
            vars(self).update(_recalls=np.empty(0), _n_wanted=n_wanted, _n_taken=n)

    def _start_anew(self) -> None:
        """Forget all that was learned, because the law of the environment has changed."""
        n = self.n_episodes
        options = self.planner.get_params()
        options["seed"] = seeds.derive_seed(self.seed, f"planner {n}")
        planner = Planner(self.planner.env, **options)
        self._name_as_part(planner)
        parts = self._first_parts(planner, self.seed + n)
        for one in parts:
            one.run.lock, one.run.plays = self.run.lock, self.run.plays
        # One call, so that an interrupt leaves either everything as it was or a new start.
        vars(self).update(
            planner=planner, _parts=parts, choice=Choice(len(parts)), trend=Trend(),
            changes=[*self.changes, n], _returns=np.empty(0), _recalls=np.empty(0), _n_taken=0,
            _n_wanted=0, _n_before=0,
        )  # fmt: skip
        warnings.warn(
            f"{self.env_name}: an old plan earns clearly less after {n:,} episodes than before. So "
            "the law of the environment has changed, and the agent starts anew. If the law cannot "
            "change, give stationary=True",
            stacklevel=count_own_frames(),
        )

    def _leader(self) -> int:
        """Return who plays: the planner, or a resolver, or a rule that may be better, or the tree.

        Where repeated transitions show no noise, returns tell whether the tree is better. Otherwise
        a few lucky returns would let it lead, and those of the planner lag behind what it has
        learned. So that the planner learns, a rule plays at most every second episode until it is
        clearly better. It is not judged before the first generation of its search is over.
        """
        best, rule = self._best(), self.rule
        if rule is None or self._parts[best] is self.tree:
            return best
        planned, ruled = self.choice.plays[:2]
        if ruled > planned and best != 1:
            return 0
        return 1 if planned and not rule.search.n_generations else self.choice.hope(2)

    def _free(self) -> int | None:
        """Return the index of the tree if it need not play.

        It cannot lead where there is noise. There, a rule explores in its place, or it costs too
        much: it clearly loses more against the planner than exploring may.
        """
        if self.tree is None or self._is_left_to_tree() or self._is_exact():
            return None
        planned, own = self.choice.late(0), self.choice.late(len(self._parts) - 1)
        is_dear = False
        if planned and own:
            lost = planned[0] - own[0] - CLEAR * math.hypot(planned[1], own[1])
            is_dear = lost > FAR_PRICE * PRICE * float(self.planner.table.core["spread"][0])
        return len(self._parts) - 1 if is_dear or self.rule else None

    def _best(self) -> int:
        if self.resolver is not None:
            return int(not self._is_clearly_better(0, 1))
        if self._is_left_to_tree():
            return len(self._parts) - 1
        if self._is_exact():
            return super()._leader()
        return int(self.rule is not None and self._is_clearly_better(1, 0))

    def _is_clearly_better(self, one: int, other: int) -> bool:
        """Return whether the mean return of an agent is higher by CLEAR standard errors."""
        found, others = self.choice.late(one), self.choice.late(other)
        if found is None or others is None:
            return False
        return found[0] - others[0] > CLEAR * math.hypot(found[1], others[1])

    def _why(self, player: int, names: list[str]) -> str:
        has_choice = self.rule is not None or self.resolver is not None
        if self.counts[REASON] == RECALLS:
            return "an old plan shows whether the law of the environment has changed"
        if player != self._leader() or len(names) == 1 or has_choice or self._is_exact():
            return super()._why(player, names)
        if self._is_left_to_tree():
            return "there are too many axes for the grid of a planner"
        return "the tree leads only where repeated transitions show no noise"

    def _is_exact(self) -> bool:
        """Return whether repeated transitions show no noise."""
        return bool(self.planner.table.core["is_exact"][0])

    def _is_left_to_tree(self) -> bool:
        """Return whether there are so many axes that a planner's grid is too coarse."""
        return self.planner.table.n_others > THIRDS and self.tree is not None

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
            tree.learn_transitions(kept)

    def update(self, step: int, *transition: Any, **options: Any) -> None:
        if step == 0 and self.tree is None and not self.counts[IS_OPEN]:
            with self.run.lock:
                self._settle()
                self._before_choice()
        super().update(step, *transition, **options)

    def learn_transitions(
        self, recorded: Transitions, done: NDArray[np.int64] | None = None
    ) -> None:
        starts = np.flatnonzero(np.asarray(recorded.steps) == 0)
        n_pilot = max(0, PILOT - self._n_since)
        if self.tree is None and len(starts) > n_pilot:  # the tree begins within the record
            first = int(starts[n_pilot])
            super().learn_transitions(recorded.part(0, first))
            self._before_choice()
            recorded = recorded.part(first, len(recorded.steps))
        super().learn_transitions(recorded)

    @staticmethod
    def _name_as_part(agent: Agent) -> None:
        """Let the error messages of an inner agent refer to Auto and its options."""
        agent.problem.agent_name, agent.problem.is_part = "Auto", True

    def _make_tree(self) -> TreeQ:
        # With "all" a split makes 2^axes balls: 700 MB after 100 episodes on 12 axes.
        split = "all" if self.axes.n_wide <= MOST_CUBES else "longest"
        most = math.nextafter(LARGEST_REWARD, 0.0)
        reward_range = self.known_range or (-most, most)
        options = {**self.planner.problem.options, "reward_range": reward_range, "split": split}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the planner has warned of the same
            tree = TreeQ(self.planner.env, seed=seeds.derive_seed(self.seed, "tree"), **options)
        self._name_as_part(tree)
        tree.run.lock = self.run.lock
        return tree

    def _add(self, tree: TreeQ) -> None:
        agents, choice = [*self._parts, tree], Choice(len(self._parts) + 1)
        choice.windows[:-1], choice.begun[:-1] = self.choice.windows, self.choice.begun
        self.problem.reward_range = common_range(agents)
        # One call, so that an interrupt finds all of it or nothing.
        vars(self).update(_parts=agents, choice=choice, reward_range=self.problem.reward_range)

    # --- words ------------------------------------------------------------------------------------

    def doubts(self) -> list[str]:
        found = super().doubts()  # with known dynamics, the first episodes may be the best ones
        return found if self.resolver is None else [one for one in found if one != STUCK]

    def status(self, constants: bool = False) -> Status:
        """Return who plays and why, how the returns develop, and the status of the planner.

        Parameters
        ----------
        constants : bool, default False
            Whether to add all constants, each with its reason.

        Returns
        -------
        Status
            The entries of `Portfolio.status`, and "planner": the entries of `Planner.status`.
            "rule": the numbers of the rule, if one was given; "resolver": noise, plans and law.
            "started anew after episodes": when returns had fallen clearly, if ever. `print` shows
            it readably.
        """
        check_flag(constants, "constants")
        believed = self.planner.status()
        for name in ("horizon", "recommended should earn", "warnings"):  # said of all agents
            del believed[name]
        changes: dict[str, Any] = {} if self.rule is None else {"rule": self.rule.numbers}
        if self.resolver is not None:
            own = self.resolver.status()
            names = ("noise", "plans", "law", "law changed")
            changes["resolver"] = {name: own[name] for name in names if name in own}
        if self.changes:
            changes["started anew after episodes"] = self.changes
        shown = {"constants": in_words(CONSTANTS) | in_words(PLANNER)} if constants else {}
        return Status({**super().status(), **changes, "planner": believed, **shown})

    def _names(self) -> list[str]:
        kinds = {Planner: "planner", RuleLearner: "rule", Resolver: "resolver", TreeQ: "tree"}
        return [kinds[type(agent)] for agent in self._parts]

    # --- files ------------------------------------------------------------------------------------

    def option_values(self) -> dict[str, Any]:
        known = None if self.known_range is None else list(self.known_range)
        options = {**self.problem.options, "reward_range": known, "seed": self.seed}
        del options["rewards"]
        own: dict[str, Any] = {"max_samples": self.max_samples, "rule": self._given_rule}
        own["resolver"] = self._given_resolver
        return {**own, "stationary": self.stationary, **options}

    def get_params(self) -> dict[str, Any]:
        """Return the keyword arguments that rebuild this agent, see `Agent.get_params`."""
        return options_of(self)

    def saved_options(self) -> dict[str, Any]:
        if self._form is not None:
            raise ConfigurationError(
                "Auto with rule= cannot be saved, because a rule is a function of yours; save "
                "agent.planner, or note agent.rule.numbers"
            )
        if not isinstance(self._given_resolver, bool):
            raise ConfigurationError(
                "Auto with options of resolver= cannot be saved, because some are functions of "
                "yours; save agent.resolver, and give them again with its method tell"
            )
        return self.get_params()

    def fixed_options(self) -> dict[str, Any]:
        return fixed_options_of(self)

    @classmethod
    def from_options(
        cls, env: Any, options: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Any:
        return build_agent(cls, env, options)

    def saved_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super().saved_state()
        own = {"has_tree": self.tree is not None, "changes": self.changes}
        own |= {name: getattr(self, "_" + name) for name in _WATCHED}
        return {**values, **own}, {**arrays, "returns": self._returns, "recalls": self._recalls}

    def restore_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if "first_cuts" in values:
            raise CheckpointError(
                "the file is of an earlier version of Auto, which had three trees; learn again, "
                "or load it with the version that saved it"
            )
        if values["has_tree"]:
            self._add(self._make_tree())
        changes = [check_int(n, "changes", 1) for n in values["changes"]]
        recalls = arrays.get("recalls", np.empty(0))  # older files lack these, and kept others
        returns = arrays["returns"] if "recalls" in arrays else recalls
        for one in (returns, recalls):
            if one.dtype != np.float64 or one.ndim != 1 or not np.isfinite(one).all():
                raise ValueError("the returns are not a list of finite numbers")
        counts = {name: check_int(values.get(name, 0), name, 0) for name in _WATCHED}
        is_few = counts["n_before"] <= len(recalls) and counts["n_wanted"] <= 4 * MOST_BLOCK
        if changes != sorted(changes) or not is_few:
            raise ValueError("the changes are not in order, or plays of the control are invalid")
        super().restore_state(values, arrays)
        self.changes, self._returns, self._recalls = changes, returns[-KEPT:].copy(), recalls.copy()
        self._n_taken, self._n_wanted, self._n_before = (counts[name] for name in _WATCHED)
