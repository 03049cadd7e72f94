"""Draw the pictures of docs/problems and print the table of its first page.

    python tools/problems.py [NAME ...]

Each picture has the policy that `Auto` learned beside the optimum and the rule that people use, and
the value of that policy over the episodes. A problem takes 20 s of processor time or, with
hundreds of outcomes, minutes.
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
from zooming.analysis.solve import policy_value
from zooming.plots.style import BAND, COLORS, GRAY, drawing

FOLDER = Path(__file__).parent.parent / "docs" / "problems"
N_SEEDS, N_POINTS = 3, 61
# Episodes after which policies are valued, five per decade.
CHECKPOINTS = [
    round(number * scale)
    for scale in (10, 100, 1_000)
    for number in (1.25, 2, 3.2, 5, 8)
    if 20 <= number * scale <= 5_000
]
VALUE_EPISODES = 100  # sampled for a value; see `policy_value`
FEW_VISITS = 10  # a policy that was tried less often is drawn faintly


@dataclass
class View:
    """How a problem is shown: its actions over one axis of the state, at one step."""

    step: int
    state: str  # label of the axis
    action: str  # label of the actions
    axis: int = 0
    fixed: tuple[float, ...] = ()  # a whole state, whose other axes stay; by default there are none
    is_counted: bool = False  # only whole numbers occur on the axis
    ends: tuple[float, float] | None = None  # part of the axis to show; by default all


VIEWS = {
    "Newsvendor": View(3, "stock in the morning", "units to order", ends=(0.0, 12.0)),
    "Inventory": View(3, "stock, nothing under way", "units to order", 0, (0.0, 0.0)),
    "Pricing": View(4, "seats left", "price", is_counted=True),
    "Queue": View(6, "jobs that wait", "service rate", is_counted=True),
    "Admission": View(6, "jobs that wait", "share admitted", is_counted=True),
    "Storage": View(
        12, "price, battery half full", "energy to buy", 1, (5.0, 0.0), ends=(0.0, 0.5)
    ),
    "Autoscaling": View(8, "servers that run", "servers to run"),
    "Bidding": View(0, "value", "bid"),
    "Allocation": View(4, "budget left, need 20", "share to give", 0, (0.0, 20.0)),
    "GraphAmbulance": View(2, "node of the ambulance", "node to wait at"),
    "RiverSwim": View(8, "place", "stroke"),
    "Regulator": View(2, "deviation", "push", ends=(-1.5, 1.5)),
    "Caching": View(4, "pressure", "threshold"),
    "Balancing": View(4, "work of server 1, 2 at server 2", "share of server 1", 0, (0.0, 2.0)),
    "Prefetching": View(4, "share of runs, no backlog", "distance", 0, (0.0, 0.0)),
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in VIEWS]
    if unknown:
        sys.exit(
            f"no view of {', '.join(unknown)}: add it to VIEWS of this file ({', '.join(VIEWS)})"
        )
    print("| problem | H | optimum | within | by formula | rule | random |")
    print("|---|---|---|---|---|---|---|")
    for name in names or VIEWS:
        print(draw(name, VIEWS[name]), flush=True)


def draw(name: str, view: View) -> str:
    """Draw the picture of one problem and return its row of the table."""
    began = time.perf_counter()
    env = gym.make(f"zooming/{name}-v0")
    inner = env.unwrapped
    optimal = zooming.solve(env)
    rule = value_of(optimal, inner.rule, 40 * VALUE_EPISODES)
    random = zooming.Random(env, seed=0).learn(20_000).returns.mean()
    agents = [zooming.Auto(env, seed=seed) for seed in range(N_SEEDS)]
    values = np.array([learn(agent, optimal) for agent in agents])

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
    draw_policies(left, view, inner, optimal, agents[0])
    draw_values(right, values, optimal.return_, rule, random)
    save(figure, FOLDER / f"{stem(name)}.png")

    formula = inner.closed_form()
    cells = [
        f"[{name}]({stem(name)}.md)",
        str(inner.horizon),
        f"{optimal.return_:.5g}",
        f"{optimal.return_error:.2g}",
        "" if formula is None else f"{formula:.5g}",
        f"{rule:.5g}",
        f"{random:.4g}",
    ]
    print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    for episodes, found in zip(
        CHECKPOINTS, 100 * (values.T - random) / (optimal.return_ - random), strict=True
    ):
        runs = ", ".join(f"{percent:.1f}" for percent in sorted(found))
        print(f"  {episodes:,} episodes: {runs} % of the gain", file=sys.stderr)
    return f"| {' | '.join(cells)} |"


def learn(agent, optimal) -> list[float]:
    """Return the value of an agent's policy at each checkpoint."""
    values, done = [], 0
    for episodes in CHECKPOINTS:
        agent.learn(episodes - done)
        done = episodes
        values.append(value_of(optimal, agent))
    return values


def value_of(optimal, policy, episodes: int = VALUE_EPISODES) -> float:
    """Return the value of a policy that has `predict`."""
    env = optimal.grid.env

    def choose(step, states):
        played = policy.predict(env.observations(states), state=np.full(len(states), step))[0]
        return env.actions(played)

    return policy_value(optimal.grid, choose, episodes)[0]


def draw_policies(ax, view, inner, optimal, agent) -> None:
    """Draw the actions of the optimum, the rule and the agent over one axis of the state."""
    box = inner.state_box
    low, high = view.ends or (box.low[view.axis], box.high[view.axis])
    is_counted = view.is_counted or inner.has_whole_states
    n = int(high - low) + 1 if is_counted else N_POINTS
    places = np.linspace(low, high, n)
    states = np.tile(np.array(view.fixed or [0.0]), (n, 1))
    states[:, view.axis] = places
    observed = inner.observations(states)
    steps = np.full(n, view.step)
    best = np.array([np.ravel(optimal.action(view.step, x))[0] for x in observed])
    chosen = {"optimum": best}
    for label, policy in (("rule", inner.rule), ("Auto", agent)):
        played = policy.predict(observed, state=steps)[0]
        chosen[label] = inner.actions(played)[:, 0]
    visits = [
        agent.visits(view.step, x, action) for x, action in zip(observed, played, strict=True)
    ]
    learned = np.where(np.array(visits) >= FEW_VISITS, chosen["Auto"], np.nan)
    styles = ("s", "D", "o") if is_counted else ("-", "-.", "-")
    with drawing(ax):
        for (label, actions), style, color, width in zip(
            chosen.items(), styles, (GRAY, COLORS[1], COLORS[0]), (4, 2, 1.5), strict=True
        ):
            marks = {"markersize": 2.2 * width} if is_counted else {"linewidth": width}
            if label == "Auto":
                ax.plot(places, learned, style, color=color, label=label, **marks)
                marks["alpha"], label = 0.35, "rarely tried"
            ax.plot(places, actions, style, color=color, label=label, **marks)
        ax.set(xlabel=f"{view.state}, step {view.step}", ylabel=view.action)
        put_legend_above(ax)


def draw_values(ax, values, optimum: float, rule: float, random: float) -> None:
    """Draw the value of the learned policies over the episodes: the median and all of the runs."""
    with drawing(ax):
        ax.axhline(optimum, color=GRAY, linestyle="--", label="optimum")
        ax.axhline(rule, color=COLORS[1], linestyle="-.", label="rule")
        ax.axhline(random, color=COLORS[2], linestyle=":", label="random")
        ax.fill_between(
            CHECKPOINTS, values.min(0), values.max(0), color=COLORS[0], alpha=BAND, lw=0
        )
        ax.plot(CHECKPOINTS, np.median(values, axis=0), color=COLORS[0], label="Auto")
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set(xlabel="episodes", ylabel="value of the policy")
        put_legend_above(ax)


def put_legend_above(ax) -> None:
    """Put the legend above the panel, where it hides no line."""
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, handlelength=1.5, columnspacing=1.2
    )


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
