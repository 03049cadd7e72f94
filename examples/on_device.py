"""Learn in 4 kB of C, step by step, which requests of a trace to admit to a cache."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming

DEVICE = """#include "cache.h"
static cache_learner z;
unsigned start(void) { cache_init(&z); return sizeof z; }
int act(int h, double x, double *a) { return cache_act(&z, h, &x, a); }
int learn(int h, double x, double a, double r, double y)
{ return cache_learn(&z, h, &x, &a, r, &y, 0); }
"""


def play(env, act, learn, episodes: int) -> np.ndarray:
    returns = np.zeros(episodes)
    for k in range(episodes):
        state, _ = env.reset(seed=None if k else 0)
        for step in range(env.unwrapped.horizon):
            after, reward, *_ = env.step(action := act(step, state))
            learn(step, state, action, reward, after)
            state, returns[k] = after, returns[k] + reward
    return returns


def main(episodes: int = 3000) -> None:
    env, number, played = gym.make("zooming/Caching-v0"), ctypes.c_double, (ctypes.c_double * 1)()
    with tempfile.TemporaryDirectory() as folder:
        zooming.AdaptiveQ(env, max_balls=80, seed=0).export(f"{folder}/cache.h", learner=True)
        Path(folder, "cache.c").write_text(DEVICE)
        command = "cc -std=c99 -O2 -shared -fPIC cache.c -o cache.so -lm"
        subprocess.run(command.split(), cwd=folder, check=True)
        device = ctypes.CDLL(f"{folder}/cache.so")
    device.learn.argtypes = [ctypes.c_int, number, number, number, number]
    name, free = f"C, {device.start():,} bytes", zooming.AdaptiveQ(env, seed=0)
    act = lambda h, x: device.act(h, number(x[0]), played) or np.array(played[:])  # noqa: E731
    learn = lambda h, x, a, reward, y: device.learn(h, x[0], a[0], reward, y[0])  # noqa: E731
    runs = {name: play(env, act, learn, episodes)}
    runs["Python, without a limit"] = play(env, free.act, free.update, episodes)
    lines = {k: zooming.evaluate(rule, env).mean for k, rule in env.unwrapped.rules.items()}
    lines["optimum"], tail = zooming.solve(env).return_, episodes // 10
    _, ax = plt.subplots(figsize=(7, 3.3), layout="constrained")
    for name, returns in runs.items():
        print(f"{name:24} {returns[-tail:].mean():.3f}")
        ax.plot(np.convolve(returns, np.ones(tail) / tail, "valid"), label=name)
    for (name, value), style in zip(lines.items(), ("-.", ":", "-"), strict=True):
        print(f"{name:24} {value:.3f}")
        ax.axhline(value, color="gray", linestyle=style, label=name)
    ax.margins(y=0.1)
    ax.set(xlabel="episodes", ylabel=f"mean return of the next {tail:,}")
    ax.legend(loc="center right", bbox_to_anchor=(1.0, 0.4))
    Path("out").mkdir(exist_ok=True)
    plt.savefig("out/on_device.png", dpi=105)


if __name__ == "__main__":
    main()
