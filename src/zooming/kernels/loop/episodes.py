"""Both drivers: whole episodes in compiled code, or one step at a time from Python.

The loop is written once, for any table: boxes, balls of a metric, the samples and the plan of a
planner, or the memory of a heuristic. `table_parts.Parts` are the compiled functions in which they
differ. Kernels validate only points and rewards, which they must read anyway. They return a code
and, if it needs one, a payload: a row, or the index of a bad coordinate. Python code raises the
error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, types

from zooming.kernels.boxes import layout
from zooming.kernels.boxes.update_rule import learned_reward
from zooming.kernels.loop.crossing import HANDLE, TABLE, unpack
from zooming.kernels.loop.jit import jit_inline, jit_kernel, jit_with_signature

N_STEPS, NEXT_ROW, RETURN, DUE_ROW, STATE = 0, 1, 2, 3, 4  # indices in `paused`
VECTOR, WHOLE = float64[::1], int64[::1]


@jit_inline
def pause(paused, n_steps, row, total, due_row, state):
    """Store where the episode stopped."""
    paused[N_STEPS], paused[NEXT_ROW] = n_steps, row
    paused[RETURN], paused[DUE_ROW] = total, due_row
    for i in range(state.shape[0]):
        paused[STATE + i] = state[i]


@jit_inline
def resume(paused, state):
    """Write the stored state. Return (steps played, row to play next, return so far), or zeros."""
    n_steps = np.int64(paused[N_STEPS])
    if n_steps == 0:
        return n_steps, np.int64(0), 0.0
    paused[N_STEPS] = 0.0
    for i in range(state.shape[0]):
        state[i] = paused[STATE + i]
    return n_steps, np.int64(paused[NEXT_ROW]), paused[RETURN]


@jit_inline
def keep_row(t, step, row, ties):
    """Return `row`: the `choose` of tables in which learning cannot change the best ball."""
    return row


class Parts(NamedTuple):
    """The compiled functions of one kind of table. `t` is its record of arrays.

    A point that was read stays in the scratch memory of `t`. It is the state for which `best`
    selects and `act` plays.
    """

    open: Any  # (handle) -> t
    with_own_scratch: Any  # (t) -> t with scratch memory of its own
    options: Any  # (t) -> (ties, action rule)
    has_room: Any  # (t, n_steps) -> whether so many steps can be played before Python acts
    read: Any  # (t, point) -> -1, or the index of a bad coordinate
    best: Any  # (t, step, ties) -> (row of the best relevant ball, its capped Q)
    act: Any  # (t, row, step, rule, action) -> row of the ball that contains the action written
    learn: Any  # (t, step, row, reward, next value, action) -> whether the ball is due
    split: Any  # (t, row) -> whether the ball was split; if not, Python must do it
    n_balls: Any  # (t) -> number of active balls
    sizes: Any = None  # (t) -> (n_state, n_action, horizon); this and the next: Python driver only
    locate: Any = None  # (t, step, point, action) -> (FINE, row) or (BAD_STATE, coordinate)
    choose: Any = keep_row  # (t, step, row of `best`, ties) -> row to play, asked last


@jit_kernel
def itself(t):
    """Return `t`: the `with_own_scratch` of tables whose `open` makes new scratch memory."""
    return t


@jit_inline
def no_split(t, row):
    """Return True: the `split` of tables that have nothing to split."""
    return True


def make_play(name: str, parts: Parts, table: Any = TABLE) -> Callable[..., int]:
    """Return the compiled loop over episodes. `table` is Numba's type of the handle."""
    open_table, with_own_scratch, options, has_room, read, best, act, learn, split, n_active = (
        parts[:10]
    )
    choose = parts.choose

    def play(
        table, handle, params, n_steps, reward_low, reward_high, action, returns, n_balls, done,
        end, trouble, paused, clipping,
    ):  # fmt: skip
        """Play whole episodes until done[0], the number of finished episodes, equals `end`.

        Return FINE, FULL (prepare the table and call again), DUE, BAD_REWARD or BAD_STATE. For the
        last two, `trouble` is (step, coordinate, value). DUE means that Python must split a ball
        and call again; `paused` stores where the episode stopped. `clipping` is (1 if rewards are
        clipped, number of clipped rewards). Returns add up the rewards before clipping. All results
        are written here, so an interrupt after the return loses nothing.

        The next state is looked up once. Its best ball gives V(x') for this update and is the ball
        to play next: the partition of step h+1 does not change in between. If all steps share one
        partition, it does change, and `choose` selects anew.
        """
        t = with_own_scratch(open_table(table))
        rng, dynamics, start = unpack(handle)
        ties, rule = options(t)
        n_state = paused.shape[0] - STATE
        state = np.empty(n_state)
        next_state = np.empty(n_state)
        while done[0] < end:
            if not has_room(t, n_steps):
                return layout.FULL
            first_step, row, total = resume(paused, state)
            if first_step == 0:
                start(params, rng, state)
            bad = read(t, state)
            if bad >= 0:
                trouble[0], trouble[1], trouble[2] = 0, bad, state[bad]
                return layout.BAD_STATE
            if first_step == 0:
                row, _ = best(t, 0, ties)
            for step in range(first_step, n_steps):
                row = choose(t, step, row, ties)
                row = act(t, row, step, rule, action)
                for i in range(n_state):
                    next_state[i] = np.nan  # reveals a coordinate that the dynamics do not write
                reward = dynamics(state, action, step, params, rng, next_state)
                learned = learned_reward(reward, reward_low, reward_high, clipping)
                if np.isnan(learned):
                    trouble[0], trouble[2] = step, reward
                    return layout.BAD_REWARD
                bad = read(t, next_state)
                if bad >= 0:
                    trouble[0], trouble[1], trouble[2] = step + 1, bad, next_state[bad]
                    return layout.BAD_STATE
                next_row = row
                next_value = 0.0
                if step + 1 < n_steps:
                    next_row, next_value = best(t, step + 1, ties)
                if learned != reward:
                    clipping[1] += 1
                if learn(t, step, row, learned, next_value, action) and not split(t, row):
                    pause(paused, step + 1, next_row, total + reward, row, next_state)
                    return layout.DUE
                total += reward
                row = next_row
                for i in range(n_state):
                    state[i] = next_state[i]
            returns[done[0]] = total
            n_balls[done[0]] = n_active(t)
            done[0] += 1
        return layout.FINE

    return _compile(
        play, name, table, HANDLE, VECTOR, int64, float64, float64, VECTOR, VECTOR, WHOLE, WHOLE,
        int64, VECTOR, VECTOR, WHOLE,
    )  # fmt: skip


def make_act(name: str, parts: Parts) -> Callable[..., int]:
    """Return the compiled kernel that selects a ball and writes its action, as in training."""
    open_table, options, read, best, choose, act = (
        parts.open, parts.options, parts.read, parts.best, parts.choose, parts.act,
    )  # fmt: skip
    sizes = parts.sizes

    def act_once(table, step, observation, action, keeps):
        """Select a ball and write its action. Return FINE, with its row as the payload.

        Return WRONG_SIZE for a vector of another length, or BAD_STATE with a coordinate. With
        `keeps`, the choice is stored, and `next_step` continues from it.
        """
        t = open_table(table)
        n_state, n_action, _ = sizes(t)
        if observation.shape[0] != n_state or action.shape[0] != n_action:
            return _answer(t, layout.WRONG_SIZE, 0)
        bad = read(t, observation)
        if bad >= 0:
            return _answer(t, layout.BAD_STATE, bad)
        ties, rule = options(t)
        row, _ = best(t, step, ties)
        row = act(t, choose(t, step, row, ties), step, rule, action)
        if keeps:
            t.place[layout.KEPT_STEP], t.place[layout.KEPT_ROW] = step, row
        return _answer(t, layout.FINE, row)

    return _compile(act_once, name, TABLE, int64, VECTOR, VECTOR, types.boolean, nogil=False)


def make_update(name: str, parts: Parts) -> Callable[..., int]:
    """Return the compiled kernel that learns from one transition."""
    open_table, has_room, read, best, learn, split = (
        parts.open, parts.has_room, parts.read, parts.best, parts.learn, parts.split,
    )  # fmt: skip
    sizes, locate = parts.sizes, parts.locate

    def update(table, step, observation, action, reward, next_observation, terminated, next_value):
        """Learn from one transition. Return FINE, or DUE if Python must split the ball.

        The payload is the row of the ball. With the other codes nothing changes: FULL, WRONG_SIZE,
        or BAD_STATE with the index of a coordinate in (observation, action, next observation). If
        `next_value` is not NaN, it is used as V(x').
        """
        t = open_table(table)
        n_state, n_action, horizon = sizes(t)
        if (
            observation.shape[0] != n_state
            or action.shape[0] != n_action
            or next_observation.shape[0] != n_state
        ):
            return _answer(t, layout.WRONG_SIZE, 0)
        if not has_room(t, 1):
            return _answer(t, layout.FULL, 0)
        code, row = locate(t, step, observation, action)
        if code != layout.FINE:
            return _answer(t, code, row)
        bad = read(t, next_observation)
        if bad >= 0:
            return _answer(t, layout.BAD_STATE, n_state + n_action + bad)
        if terminated or step + 1 >= horizon:
            next_value = 0.0
        elif np.isnan(next_value):
            _, next_value = best(t, step + 1, layout.EITHER)
        t.place[layout.ENDED] = np.int64(terminated)
        if learn(t, step, row, reward, next_value, action) and not split(t, row):
            return _answer(t, layout.DUE, row)
        return _answer(t, layout.FINE, row)

    transition = int64, VECTOR, VECTOR, float64, VECTOR, types.boolean
    return _compile(update, name, TABLE, *transition, float64, nogil=False)


def make_next_step(name: str, parts: Parts) -> Callable[..., int]:
    """Return the compiled kernel that does `update` and `act_once` in one crossing."""
    open_table, options, has_room, read, best, act, learn, split = (
        parts.open, parts.options, parts.has_room, parts.read, parts.best, parts.act, parts.learn,
        parts.split,
    )  # fmt: skip
    sizes, choose = parts.sizes, parts.choose

    def next_step(table, step, reward, next_observation, end, action):
        """Learn from the step that was played last. If the episode goes on, write the next action.

        `end` is GOES_ON, TERMINATED or TRUNCATED. Codes are those of `update`, and NOT_PLAYED if
        these kernels did not play the last action.
        """
        t = open_table(table)
        if t.place[layout.KEPT_STEP] != step:
            return _answer(t, layout.NOT_PLAYED, 0)
        n_state, n_action, horizon = sizes(t)
        if next_observation.shape[0] != n_state or action.shape[0] != n_action:
            return _answer(t, layout.WRONG_SIZE, 0)
        if not has_room(t, 1):
            return _answer(t, layout.FULL, 0)
        bad = read(t, next_observation)
        if bad >= 0:
            return _answer(t, layout.BAD_STATE, n_state + n_action + bad)
        row = t.place[layout.KEPT_ROW]
        t.place[layout.KEPT_STEP] = -1
        ties, rule = options(t)
        goes_on = end == layout.GOES_ON and step + 1 < horizon
        next_row = row
        next_value = 0.0
        if goes_on:
            next_row, next_value = best(t, step + 1, ties)
        elif end == layout.TRUNCATED and step + 1 < horizon:
            _, next_value = best(t, step + 1, layout.EITHER)
        code = layout.FINE
        t.place[layout.ENDED] = np.int64(end == layout.TERMINATED)
        if learn(t, step, row, reward, next_value, action) and not split(t, row):
            code = layout.DUE
        if goes_on:
            next_row = choose(t, step + 1, next_row, ties)
            next_row = act(t, next_row, step + 1, rule, action)
            t.place[layout.KEPT_STEP], t.place[layout.KEPT_ROW] = step + 1, next_row
        return _answer(t, code, row)

    return _compile(next_step, name, TABLE, int64, float64, VECTOR, int64, VECTOR, nogil=False)


def make_replay(name: str, update: Callable[..., int]) -> Callable[..., int]:
    """Return the compiled kernel that learns from recorded transitions by the kernel `update`."""

    def replay(
        table, steps, states, actions, rewards, next_states, terminated, reward_low, reward_high,
        clipping, done,
    ):  # fmt: skip
        """Learn from the transitions from index done[0] on, in their order. Return a code.

        FINE: all are learned. DUE: Python must split the ball of the last one that is learned. With
        the other codes of `update`, and BAD_REWARD, transition done[0] is not learned.
        """
        while done[0] < steps.shape[0]:
            k = done[0]
            reward = learned_reward(rewards[k], reward_low, reward_high, clipping)
            if np.isnan(reward):
                return layout.BAD_REWARD
            code = update(
                table, steps[k], states[k], actions[k], reward, next_states[k], terminated[k],
                np.nan,
            )  # fmt: skip
            if code != layout.FINE and code != layout.DUE:
                return code
            if reward != rewards[k]:
                clipping[1] += 1
            done[0] += 1
            if code == layout.DUE:
                return layout.DUE
        return layout.FINE

    matrix, truths = float64[:, ::1], types.boolean[::1]
    return _compile(
        replay, name, TABLE, WHOLE, matrix, matrix, VECTOR, matrix, truths, float64, float64,
        WHOLE, WHOLE,
    )  # fmt: skip


class Kernels(NamedTuple):
    """Functions that return the kernels of one kind of table, and compile them on first use."""

    play: Callable[[], Callable[..., int]]
    act_once: Callable[[], Callable[..., int]]
    update: Callable[[], Callable[..., int]]
    next_step: Callable[[], Callable[..., int]]
    replay: Callable[[], Callable[..., int]]


def compile_later(name: str, parts: Parts) -> Kernels:
    """Return the kernels of one kind of table, none of which is compiled yet."""
    makers = (make_play, make_act, make_update, make_next_step)
    play, act_once, update, next_step = (
        functools.cache(functools.partial(make, name, parts)) for make in makers
    )
    replay = functools.cache(lambda: make_replay(name, update()))
    return Kernels(play, act_once, update, next_step, replay)


def _compile(function: Any, name: str, *arguments: Any, **options: Any) -> Callable[..., int]:
    """Compile a function under a name of its own, for tracebacks and for the cache on disk."""
    function.__name__ = function.__qualname__ = f"{function.__name__}_{name}"
    return jit_with_signature(function, *arguments, name=function.__name__, **options)


@jit_inline
def _answer(t, code, payload):
    """Return the code, and write the payload to `t.place`. A pair would take 0.2 us longer."""
    t.place[layout.PAYLOAD] = payload
    return code
