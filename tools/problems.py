"""Draw the pictures of docs/problems and print the table of its first page.

    python tools/problems.py [NAME ...]

Each picture has what was learned beside the optimum and the rule that people use, and the learning
curve. It takes about ten seconds a problem.
"""

import sys
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import gymnasium as gym
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import zooming
from zooming import plots
from zooming.plots.look import COLORS, GRAY, drawing

FOLDER = Path(__file__).parent.parent / "docs" / "problems"
EPISODES, N_SEEDS, N_POINTS = 20_000, 5, 61
FEW_VISITS = 10  # a policy that was tried less often is not drawn


@dataclass
class View:
    """How a problem is shown: its actions over one axis of the state, at one step."""

    step: int
    state: str  # label of the axis
    action: str  # label of the actions
    axis: int = 0
    fixed: tuple[float, ...] = ()  # a whole state, whose other axes stay; by default there are none


VIEWS = {
    "Newsvendor": View(3, "stock in the morning", "units to order"),
    "Inventory": View(3, "stock, nothing under way", "units to order", 0, (0.0, 0.0)),
    "Pricing": View(4, "seats left", "price"),
    "Queue": View(6, "jobs that wait", "service rate"),
    "Admission": View(6, "jobs that wait", "share admitted"),
    "Storage": View(12, "price, battery half full", "energy to buy", 1, (5.0, 0.0)),
    "Autoscaling": View(8, "servers that run", "servers to run"),
    "Bidding": View(0, "value", "bid"),
    "Allocation": View(4, "budget left, need 20", "share to give", 0, (0.0, 20.0)),
    "GraphAmbulance": View(2, "node of the ambulance", "node to wait at"),
    "RiverSwim": View(8, "place", "stroke"),
    "Regulator": View(2, "deviation", "push"),
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in VIEWS]
    if unknown:
        sys.exit(
            f"no view of {', '.join(unknown)}: add it to VIEWS of this file ({', '.join(VIEWS)})"
        )
    print("| problem | H | optimum | within | by formula | rule | random | learned | 95 % after |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names or VIEWS:
        print(draw(name, VIEWS[name]), flush=True)


def draw(name: str, view: View) -> str:
    """Draw the picture of one problem and return its row of the table."""
    began = time.perf_counter()
    env = gym.make(f"zooming/{name}-v0")
    inner = env.unwrapped
    optimal = zooming.solve(env)
    rule = zooming.evaluate(inner.rule, env, episodes=4_000).mean
    random = zooming.Random(env, seed=0).learn(4_000).returns.mean()
    histories = zooming.learn_many(zooming.AdaptiveQ, env, range(N_SEEDS), EPISODES)
    agent = zooming.AdaptiveQ(env, seed=0)
    agent.learn(EPISODES)

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
    draw_policies(left, view, inner, optimal, agent)
    plots.learning_curves({"AdaptiveQ": histories}, right, optimum=optimal)
    with drawing(right):
        right.axhline(rule, color=COLORS[1], linestyle="-.", label="rule")
        right.axhline(random, color=COLORS[2], linestyle=":", label="random")
        put_legend_above(right)
    save(figure, FOLDER / f"{stem(name)}.png")

    returns = np.mean([history.returns for history in histories], axis=0)
    learned = returns[-EPISODES // 10 :].mean()
    formula = inner.closed_form()
    shown = "" if formula is None else f"{formula:.5g}"
    print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return (
        f"| [{name}]({stem(name)}.md) | {inner.horizon} | {optimal.return_:.5g} | "
        f"{optimal.return_error:.2g} | {shown} | {rule:.5g} | {random:.4g} | {learned:.5g} | "
        f"{episodes_to(0.95, returns, random, optimal.return_)} |"
    )


def draw_policies(ax, view, inner, optimal, agent) -> None:
    """Draw the actions of the optimum, the rule and the agent over one axis of the state."""
    low, high = inner.state_box.low[view.axis], inner.state_box.high[view.axis]
    n = int(high - low) + 1 if inner.has_whole_states else N_POINTS
    places = np.linspace(low, high, n)
    states = np.tile(np.array(view.fixed or [0.0]), (n, 1))
    states[:, view.axis] = places
    observed = inner.observations(states)
    steps = np.full(n, view.step)
    best = np.array([np.ravel(optimal.action(view.step, x))[0] for x in observed])
    chosen = {"optimum": best}
    for label, policy in (("rule", inner.rule), ("AdaptiveQ", agent)):
        played = policy.predict(observed, state=steps)[0]
        chosen[label] = inner.actions(played)[:, 0]
    for i, (observation, action) in enumerate(zip(observed, played, strict=True)):
        if agent.visits(view.step, observation, action) < FEW_VISITS:
            chosen["AdaptiveQ"][i] = np.nan
    styles = ("s", "D", "o") if inner.has_whole_states else ("-", "-.", "-")
    with drawing(ax):
        for (label, actions), style, color, width in zip(
            chosen.items(), styles, (GRAY, COLORS[1], COLORS[0]), (4, 2, 1.5), strict=True
        ):
            marks = {"markersize": 2.2 * width} if inner.has_whole_states else {"linewidth": width}
            ax.plot(places, actions, style, color=color, label=label, **marks)
        ax.set(xlabel=f"{view.state}, step {view.step}", ylabel=view.action)
        put_legend_above(ax)


def put_legend_above(ax) -> None:
    """Put the legend above the panel, where it hides no line."""
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, handlelength=1.8)


def episodes_to(share: float, returns, random: float, optimum: float) -> str:
    """Return after how many episodes the mean of 200 is this share of the way up from random."""
    window = 200
    means = np.convolve(returns, np.ones(window) / window, "valid")
    reached = np.flatnonzero(means >= random + share * (optimum - random))
    return f"{round(reached[0] + window, -2):,}" if len(reached) else "not yet"


def save(figure, path: Path) -> None:
    """Save with 64 colors: a few dozen kilobytes a picture."""
    pixels = BytesIO()
    figure.savefig(pixels, dpi=100)
    plt.close(figure)
    image = Image.open(pixels).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def stem(name: str) -> str:
    """Return the file name of a problem: river_swim for RiverSwim."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


if __name__ == "__main__":
    main(sys.argv[1:])
