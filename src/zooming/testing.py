"""Conformance test for agents, of this package or your own: `zooming.check_agent`.

A promise is a function: its docstring is the promise, as reports and errors show it, and its code
checks it. Every check makes new agents. Agents are compared by their histories, their predictions
and the content that they would save.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from zooming.agents.training.drivers import Compiled
from zooming.agents.training.many import accepts, build_agent
from zooming.envs.compiled import find_compiled
from zooming.errors import BrokenPromise, ConfigurationError
from zooming.spaces.axes import Axes
from zooming.spaces.masks import feasible, has_mask
from zooming.validation import known_options

EPISODES = 20
N_POINTS = 12  # random states
_SHIFTS = {1: (0, 1, 1), 2: (1, 0, 1), 3: (1, 1, 0)}  # feasible shifts (down, none, up) by gear


class _Short(gym.Env[Any, Any]):
    """An environment in Python with three steps. An episode may end earlier."""

    @classmethod
    def limited(cls) -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = gym.wrappers.TimeLimit(cls(), 3)
        return env


class Uneven(_Short):
    """An environment with two state axes of different units and one action axis."""

    def __init__(self) -> None:
        low, high = np.array([-2.0, 0.0]), np.array([3.0, 100.0])
        self.observation_space: gym.spaces.Box = gym.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gym.spaces.Box(-1.0, 4.0, (1,), np.float32)
        self._state: NDArray[Any] = low

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        low, high = self.observation_space.low, self.observation_space.high
        self._state = low + self.np_random.random(2) * (high - low)
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        reward = 1.0 - abs(float(action[0]) - self._state[0]) / 6.0
        self._state[0] += 0.5 * (min(3.0, float(action[0])) - self._state[0])
        self._state[1] = self.np_random.uniform(0.0, 100.0)
        return self._state.copy(), reward, bool(self._state[1] > 90.0), False, {}


class Gears(_Short):
    """An environment with mixed spaces, where the gear determines the feasible shifts."""

    def __init__(self) -> None:
        speed = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = gym.spaces.Dict(
            {"gear": gym.spaces.Discrete(3, start=1), "speed": speed}
        )
        self.action_space = gym.spaces.Dict({
            "gas": gym.spaces.Box(-1.0, 1.0, (1,), np.float32), "shift": gym.spaces.Discrete(3),
        })  # fmt: skip
        self._gear, self._speed = 1, 0.5

    def _seen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        mask = np.array(_SHIFTS[self._gear], np.int8)
        seen = {"gear": np.int64(self._gear), "speed": np.array([self._speed], np.float32)}
        return seen, {"action_mask": {"shift": mask}}

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._gear, self._speed = int(self.np_random.integers(1, 4)), float(self.np_random.random())
        return self._seen()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self._gear = min(3, max(1, self._gear + int(action["shift"]) - 1))
        self._speed = min(1.0, max(0.0, self._speed + 0.3 * float(action["gas"][0])))
        observation, info = self._seen()
        reward = 1.0 - abs(self._gear / 4 - self._speed)
        return observation, reward, bool(self._speed > 0.9), False, info


def make_ambulance() -> Any:
    """Make the compiled environment of `check_agent`: an ambulance with random starts."""
    return gym.make("zooming/Ambulance-v0", start="uniform")


@dataclass(frozen=True)
class Checked:
    """The result of `zooming.check_agent`. Print it for a list.

    Attributes
    ----------
    kept
        The promises that the agent keeps, with the environment.
    skipped
        The promises that could not be checked, with the environment and the reason.
    """

    kept: list[str]
    skipped: list[str]

    def __str__(self) -> str:
        kept = [f"kept     {promise}" for promise in self.kept]
        return "\n".join(kept + [f"skipped  {promise}" for promise in self.skipped])


@known_options
def check_agent(
    make_agent: Callable[..., Any], make_env: Callable[[], Any] | None = None
) -> Checked:
    """Check that agents of one kind keep the promises of every agent: seeding, saving, batches, ...

    By default, three environments are used: a compiled one; one in Python whose states and actions
    have different dimensions and units; and one in Python with mixed spaces and feasible actions.
    In the last two, episodes may end early. An agent may refuse these two environments with
    ConfigurationError.

    Parameters
    ----------
    make_agent
        An agent class, or a function that makes an agent: `make_agent(env, seed)`.
    make_env
        Function that makes the environment to check on, for an agent that fits one problem only.
        The rewards must lie in the agent's range.

    Returns
    -------
    Checked
        The promises that were kept, and those that could not be checked.

    Raises
    ------
    BrokenPromise
        At the first broken promise, with what was observed.
    ConfigurationError
        If the agent refuses the first environment, or the one of `make_env`.

    Examples
    --------
    >>> import zooming
    >>> checked = zooming.check_agent(zooming.AdaptiveQ)
    >>> print(checked.kept[3])
    two agents with the same seed do the same (zooming/Ambulance-v0)
    >>> class Forgetful(zooming.AdaptiveQ):
    ...     def predict(self, *args, **options):
    ...         self.table.core["random"] += 1
    ...         return super().predict(*args, **options)
    >>> zooming.check_agent(Forgetful)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    zooming.errors.BrokenPromise: Forgetful on zooming/Ambulance-v0 breaks the promise "predict ...
    """
    kept: list[str] = []
    skipped: list[str] = []
    usual = [make_ambulance, Uneven.limited, Gears.limited]
    for k, environment in enumerate(usual if make_env is None else [make_env]):
        trial = Trial(make_agent, environment)
        try:
            trial.agent()
        except ConfigurationError as error:
            if k == 0:
                raise
            skipped.append(f"everything ({trial.env_name}): {error}")
            continue
        for check in PROMISES:
            promise = (check.__doc__ or "").rstrip(".")
            try:
                check(trial)
            except Skipped as reason:
                skipped.append(f"{promise} ({trial.env_name}): {reason}")
            except Exception as error:
                is_told = isinstance(error, Broken)
                seen = str(error) if is_told else f"{type(error).__name__}: {error}"
                cause = None if is_told else error
                raise BrokenPromise(
                    f'{trial.name} on {trial.env_name} breaks the promise "{promise}": {seen}'
                ) from cause
            else:
                kept.append(f"{promise} ({trial.env_name})")
    return Checked(kept, skipped)


# --- agents of one kind --------------------------------------------------------------------------


def knowledge(agent: Any) -> Any:
    """Return everything that learning can change in an agent: its saved state and its counters."""
    try:
        values, arrays = agent.saved_state()
    except (NotImplementedError, AttributeError):
        values, arrays = {}, {}
    stored = [
        (name, array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()
    ]
    counts = tuple(getattr(agent, name, None) for name in ("n_episodes", "n_clipped"))
    return json.dumps(values), stored, counts, agent.n_balls, agent.nbytes


class Broken(Exception):
    """Raised if a promise is broken. The message says what was observed."""


class Skipped(Exception):
    """Raised if a promise cannot be checked. The message says why."""


def require(is_so: bool, otherwise: str) -> None:
    """Raise Broken with the message `otherwise` unless `is_so`."""
    if not is_so:
        raise Broken(otherwise)


class Trial:
    """Agents of one kind on one environment, with assertions that compare them."""

    def __init__(self, make_agent: Callable[..., Any], make_env: Callable[[], Any]) -> None:
        self.make_agent, self.make_env = make_agent, make_env
        self.env = make_env()
        spec = getattr(self.env, "spec", None)
        self.env_name = spec.id if spec is not None else type(self.env.unwrapped).__name__
        self.name = getattr(make_agent, "__name__", type(make_agent).__name__)

    def agent(self, **options: Any) -> Any:
        """Return a new agent with seed 0 on a new environment."""
        return build_agent(self.make_agent, self.make_env(), 0, **options)

    def observations(self) -> list[Any]:
        """Return random observations, the same at every call. A bounded box adds two corners."""
        space = self.env.observation_space
        space.seed(0)
        self.env.action_space.seed(0)
        found = [space.sample() for _ in range(N_POINTS)]
        if isinstance(space, gym.spaces.Box) and space.is_bounded():
            found += [space.low.copy(), space.high.copy()]
        return found

    def batch(self) -> Any:
        """Return all of `observations` as one batch, in the form of a vector environment."""
        space, found = self.env.observation_space, self.observations()
        empty: Any = gym.vector.utils.create_empty_array(space, len(found))
        return gym.vector.utils.concatenate(space, found, empty)

    def singles(self, actions: Any, n: int) -> list[bytes]:
        """Return the n actions of a batch, each as bytes."""
        space = gym.vector.utils.batch_space(self.env.action_space, n)
        return [as_bytes(action) for action in gym.vector.utils.iterate(space, actions)]

    def outside(self, agent: Any, space: Any) -> Iterator[Any]:
        """Yield points outside a space; only NaN for an agent with `bounds=`, which clips."""
        axes = getattr(agent, "axes", ())
        clips = any(getattr(axes[i], "clips", False) for i in range(len(axes)))
        return _outside(space, clips)

    def predictions(self, agent: Any) -> list[bytes]:
        """Return the predicted actions for all observations, as bytes, step by step."""
        batch, n = self.batch(), len(self.observations())
        return [
            as_bytes(agent.predict(batch, state=np.full(n, step))[0])
            for step in range(agent.horizon)
        ]

    def require_action(self, action: Any, call: str, *arguments: Any) -> None:
        """Raise Broken unless `action`, from `call.format(*arguments)`, is in the action space."""
        space = self.env.action_space
        form, expected = _form(action), _form(space.sample())
        if form != expected:
            raise Broken(f"{call.format(*arguments)} gave {action!r}: {form}, not {expected}")
        if not space.contains(action):
            raise Broken(f"{call.format(*arguments)} gave {action}, which is not in {space}")

    def require_feasible(self, action: Any, info: dict[str, Any], call: str) -> None:
        """Raise Broken unless `info` allows `action`."""
        axes = Axes(self.env.observation_space, self.env.action_space, squash=True)
        flat = axes.from_unit_cube(axes.flat_action(action), axes.n_state)
        allowed = feasible(axes, info, self.env_name)
        is_whole = allowed.n_values > 0
        near = np.abs(allowed.nearest(flat.copy()) - flat) <= np.where(is_whole, 0.0, 1e-6)
        require(bool(near.all()), f"{call} gave {action}, which {info} does not allow")

    def require_same(self, one: Any, other: Any, history: Any, expected: Any) -> None:
        """Raise Broken unless two agents and their histories are equal in all observable ways."""
        for name in ("returns", "n_balls"):
            ours, theirs = getattr(history, name), getattr(expected, name)
            if np.asarray(ours).tobytes() != np.asarray(theirs).tobytes():
                n = min(len(ours), len(theirs))
                k = next((i for i in range(n) if ours[i] != theirs[i]), n)
                seen = f"{len(ours)} and {len(theirs)} entries"
                seen = f"{ours[k]} and {theirs[k]}" if k < n else seen
                raise Broken(f"the {name} differ from episode {k + 1} on ({seen})")
        require(knowledge(one) == knowledge(other), "what the agent would save differs")
        is_same = self.predictions(one) == self.predictions(other)
        require(is_same, "the histories agree, but the policies differ")


def as_bytes(value: Any) -> bytes:
    """Return a state or an action as bytes, with nested parts joined."""
    if isinstance(value, (dict, tuple)):
        parts = value.values() if isinstance(value, dict) else value
        return b"".join(as_bytes(part) for part in parts)
    return np.asarray(value).tobytes()


def _form(value: Any) -> Any:
    """Return structure, types and shapes of a state or an action."""
    if isinstance(value, dict):
        return {key: _form(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_form(part) for part in value]
    return type(value).__name__, str(getattr(value, "dtype", "")), np.shape(value)


def _outside(space: Any, clips: bool) -> Iterator[Any]:
    """Yield points outside a space: with NaN and, unless `clips`, beyond its ends."""
    if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
        parts = _parts(space)
        for key, part in parts.items():
            for bad in _outside(part, clips):
                values = {k: bad if k == key else other.sample() for k, other in parts.items()}
                yield values if isinstance(space, gym.spaces.Dict) else tuple(values.values())
    elif isinstance(space, gym.spaces.Discrete) and not clips:
        yield from (np.int64(space.start - 1), np.int64(space.start + space.n))
    elif isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        has_ends = space.is_bounded() and not clips
        middle = (space.low + space.high) / 2 if has_ends else space.sample()
        beyond = [2 * space.high - space.low, 2 * space.low - space.high] if has_ends else []
        for bad in (np.full_like(space.low, np.nan), *beyond):
            point = middle.copy()
            point.flat[-1] = bad.flat[-1]
            yield point


def _parts(space: Any) -> dict[Any, Any]:
    """Return the parts of a Dict or Tuple space by key or index."""
    is_dict = isinstance(space, gym.spaces.Dict)
    return dict(space.spaces if is_dict else enumerate(space.spaces))


# --- promises -------------------------------------------------------------------------------------


def _tells_what_happened(trial: Trial) -> None:
    """learn(n) returns a history with the returns and the numbers of balls of n episodes."""
    history = trial.agent().learn(3)
    is_told = len(history.returns) == len(history.n_balls) == 3
    require(is_told, "learn(3) did not give 3 returns and 3 numbers of balls")
    is_finite = bool(np.isfinite(history.returns).all())
    require(is_finite, f"learn(3) gave the returns {history.returns}")


def _repeats(trial: Trial) -> None:
    """two agents with the same seed do the same."""
    one, other = trial.agent(), trial.agent()
    trial.require_same(one, other, one.learn(EPISODES), other.learn(EPISODES))


def _learns_in_parts(trial: Trial) -> None:
    """learn(a) then learn(b) equals learn(a + b)."""
    parts, whole = trial.agent(), trial.agent()
    history = parts.learn(7) + parts.learn(EPISODES - 7)
    trial.require_same(parts, whole, history, whole.learn(EPISODES))


def _stops(trial: Trial) -> None:
    """a callback sees every episode, and a run that it stops after k equals learn(k)."""
    stopped, short, seen = trial.agent(), trial.agent(), []

    def stop_at_7(agent: Any, history: Any) -> bool:
        seen.append(len(history.returns))
        return len(history.returns) < 7

    history = stopped.learn(EPISODES, callback=stop_at_7)
    require(seen == list(range(1, 8)), f"it was called after the episodes {seen}")
    trial.require_same(stopped, short, history, short.learn(7))
    trial.require_same(stopped, short, stopped.learn(7), short.learn(7))


def _saves(trial: Trial) -> None:
    """an agent that is saved and loaded continues as if it had never stopped."""
    saved, never_stopped = trial.agent(), trial.agent()
    if not hasattr(saved, "save"):
        raise Skipped("it cannot be saved")
    saved.learn(EPISODES)
    never_stopped.learn(EPISODES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.zoom"
        try:
            saved.save(path)
        except (ConfigurationError, NotImplementedError) as error:
            raise Skipped(f"it cannot be saved ({error})") from error
        loaded = type(saved).load(path, env=trial.make_env())
    trial.require_same(loaded, never_stopped, loaded.learn(EPISODES), never_stopped.learn(EPISODES))


def _drivers_agree(trial: Trial) -> None:
    """the fused driver and the Python one give the same run to the last bit."""
    fused, python = trial.agent(), trial.agent()
    is_compiled = isinstance(fused, Compiled)
    if not (is_compiled and fused.axes.are_plain) or find_compiled(fused.env) is None:
        raise Skipped(
            "the fused driver is for compiled environments and compiled agents without bounds="
        )
    history = fused.learn(EPISODES, driver="fused")
    trial.require_same(fused, python, history, python.learn(EPISODES, driver="python"))


def _stays_within_its_balls(trial: Trial) -> None:
    """an agent with max_balls never has more balls than that."""
    agent = trial.agent()
    if getattr(agent, "max_balls", None) is None:
        if not (hasattr(agent, "max_balls") and accepts(trial.make_agent, "max_balls")):
            raise Skipped("it has no option max_balls")
        agent = trial.agent(max_balls=4 * agent.n_balls)
    history = agent.learn(10 * EPISODES)
    most = max(int(history.n_balls.max()), agent.n_balls)
    require(most <= agent.max_balls, f"it had {most} balls with max_balls={agent.max_balls}")


def _leaves_global_generators_alone(trial: Trial) -> None:
    """an agent never uses the global random generators."""
    before = _global_generators()
    agent = trial.agent()
    agent.learn(EPISODES)
    for deterministic in (True, False):
        agent.predict(trial.batch(), deterministic=deterministic)
    message = "numpy.random or random has moved; draw from a generator of the agent's own"
    require(_global_generators() == before, message)


def _global_generators() -> Any:
    """Return the states of the global generators of numpy.random and random."""
    name, keys, *rest = np.random.get_state()
    return name, np.asarray(keys).tobytes(), *rest, random.getstate()


def _has_the_surface(trial: Trial) -> None:
    """an agent has learn, act, update, predict, horizon, n_balls and nbytes."""
    agent = trial.agent()
    for name in ("learn", "act", "update", "predict"):
        require(callable(getattr(agent, name, None)), f"it has no method {name}")
    for name in ("horizon", "n_balls", "nbytes"):
        value = getattr(agent, name, None)
        is_count = isinstance(value, (int, np.integer)) and bool(value >= 0)
        require(is_count, f"{name} is {value!r}, not a whole number")


def _plays_inside(trial: Trial) -> None:
    """act and predict return actions of the action space, also before any learning."""
    agent = trial.agent()
    for _ in range(2):
        for step in range(agent.horizon):
            for observation in trial.observations():
                trial.require_action(agent.act(step, observation), "act({}, {})", step, observation)
                for greedy in (True, False):
                    action, _ = agent.predict(observation, np.array([step]), deterministic=greedy)
                    call = "predict({}, deterministic={}) at step {}"
                    trial.require_action(action, call, observation, greedy, step)
        agent.learn(EPISODES)


def _predicts_without_a_trace(trial: Trial) -> None:
    """predict changes nothing, and a second call gives the same action."""
    asked, left_alone = trial.agent(), trial.agent()
    for _ in range(2):
        is_same = trial.predictions(asked) == trial.predictions(asked)
        require(is_same, "two predictions for the same states differ")
        for deterministic in (True, False):
            asked.predict(trial.batch(), deterministic=deterministic)
        trial.require_same(asked, left_alone, asked.learn(EPISODES), left_alone.learn(EPISODES))


def _predicts_in_batches(trial: Trial) -> None:
    """predict accepts a batch, with one step per environment as state, and obeys episode_start."""
    agent = trial.agent()
    agent.learn(EPISODES)
    batch, observations = trial.batch(), trial.observations()
    n = len(observations)
    steps = np.arange(n) % agent.horizon
    actions, after = agent.predict(batch, state=steps)
    message = f"the steps {steps.tolist()} came back as {list(after)}, not one higher"
    require(np.array_equal(after, steps + 1), message)
    alone = [
        as_bytes(agent.predict(observation, state=np.array([step]))[0])
        for observation, step in zip(observations, steps, strict=True)
    ]
    message = "a batch and its observations one by one have different actions"
    require(trial.singles(actions, n) == alone, message)
    starts = np.arange(n) % 2 == 0
    restarted, after = agent.predict(batch, state=steps, episode_start=starts)
    expected, _ = agent.predict(batch, state=np.where(starts, 0, steps))
    message = f"episode_start={starts.tolist()} gave the steps {list(after)}"
    require(np.array_equal(after, np.where(starts, 1, steps + 1)), message)
    message = "where an episode starts, the action is not the one of step 0"
    require(as_bytes(restarted) == as_bytes(expected), message)
    first, of_step_0 = agent.predict(batch)[0], agent.predict(batch, state=np.zeros(n, int))[0]
    require(as_bytes(first) == as_bytes(of_step_0), "state=None is not step 0")


def _refuses(trial: Trial) -> None:
    """an invalid state, action, reward or step raises ValueError and changes nothing."""
    refusing, left_alone = trial.agent(), trial.agent()
    for agent in (refusing, left_alone):
        agent.learn(EPISODES)
    good, action = trial.observations()[0], trial.env.action_space.sample()
    low, high = getattr(refusing, "reward_range", (0.0, 1.0))
    calls: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = []
    act, update = refusing.act, refusing.update
    for step in (-1, refusing.horizon):
        calls.append((f"act at step {step}", act, (step, good)))
        calls.append((f"update at step {step}", update, (step, good, action, low, good)))
    is_any_reward_taken = getattr(refusing, "rewards", "refuse") == "clip" or high + 1.0 == high
    beyond = () if is_any_reward_taken else (high + 1.0, low - 1.0)
    for reward in (np.nan, np.inf, *beyond):
        calls.append((f"a reward of {reward}", update, (0, good, action, reward, good)))
    for bad in trial.outside(refusing, trial.env.observation_space):
        calls.append((f"act in the state {bad}", act, (0, bad)))
        calls.append((f"predict in the state {bad}", refusing.predict, (bad,)))
        calls.append((f"update from the state {bad}", update, (0, bad, action, low, good)))
        calls.append((f"update to the state {bad}", update, (0, good, action, low, bad)))
    for bad in trial.outside(refusing, trial.env.action_space):
        calls.append((f"update with the action {bad}", update, (0, good, bad, low, good)))
    before = knowledge(refusing)
    for what, call, arguments in calls:
        try:
            call(*arguments)
        except ValueError:
            pass
        except Exception as error:
            raise Broken(
                f"{what} raised {type(error).__name__} ({error}), which is no ValueError"
            ) from error
        else:
            raise Broken(f"{what} was not refused")
        require(knowledge(refusing) == before, f"{what} was refused, but the agent changed")
    trial.require_same(refusing, left_alone, refusing.learn(EPISODES), left_alone.learn(EPISODES))


def _ends_where_the_environment_does(trial: Trial) -> None:
    """after a terminal transition there is no future value."""
    ended, went_on = trial.agent(), trial.agent()
    state, action = trial.observations()[0], trial.env.action_space.sample()
    try:
        is_worth = ended.horizon > 1 and ended.value(1, state) > 0
    except (ConfigurationError, AttributeError) as error:
        raise Skipped("it keeps no estimates") from error
    if not is_worth:
        raise Skipped("its values begin at 0, or an episode has one step")
    low, _ = getattr(ended, "reward_range", (0.0, 1.0))
    for _ in range(EPISODES):  # an agent may keep its values for some visits
        ended.update(0, state, action, low, state, True)
        went_on.update(0, state, action, low, state, False)
    one, other = ended.q_value(0, state, action), went_on.q_value(0, state, action)
    message = f"Q is {one:g} after terminated=True, and {other:g} if the episode goes on"
    require(one < other, message)


def _plays_what_is_feasible(trial: Trial) -> None:
    """only actions that info allows are played, by act and by predict."""
    agent, env = trial.agent(), trial.make_env()
    for episode in range(EPISODES):
        observation, info = env.reset(seed=episode)
        for step in range(agent.horizon):
            if not has_mask(info):
                raise Skipped("the environment names no feasible actions")
            for greedy in (True, False):
                options = {"deterministic": greedy, "info": info}
                action, _ = agent.predict(observation, np.array([step]), **options)
                call = f"predict({observation}, deterministic={greedy}) at step {step}"
                trial.require_feasible(action, info, call)
            action = agent.act(step, observation, info=info)
            trial.require_feasible(action, info, f"act({step}, {observation})")
            before = observation
            observation, reward, terminated, truncated, info = env.step(action)
            agent.update(step, before, action, reward, observation, terminated, next_info=info)
            if terminated or truncated:
                break


def _leaves_inputs_alone(trial: Trial) -> None:
    """an agent does not change the arrays that it is given."""
    agent = trial.agent()
    for observation in trial.observations():
        before, action = as_bytes(observation), agent.act(0, observation)
        played = as_bytes(action)
        agent.predict(observation)
        reward = float(np.mean(getattr(agent, "reward_range", (0.0, 1.0))))
        agent.update(0, observation, action, reward, observation)
        is_same = as_bytes(observation) == before and as_bytes(action) == played
        require(is_same, f"the state {observation} or its action changed")


PROMISES = (
    _has_the_surface, _plays_inside, _tells_what_happened, _repeats, _predicts_without_a_trace,
    _predicts_in_batches, _learns_in_parts, _stops, _saves, _drivers_agree, _refuses,
    _ends_where_the_environment_does, _plays_what_is_feasible, _leaves_inputs_alone,
    _stays_within_its_balls, _leaves_global_generators_alone,
)  # fmt: skip
