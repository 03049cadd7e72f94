"""Release water from a reservoir, planned with recorded inflow.

The records are the yearly flow of the Nile at Aswan, 1871 to 1970, from the package statsmodels
(public domain; Cobb 1978). An episode is five years. The last third judges the plan.
"""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

import zooming

OUT = Path("out/reservoir_records.png")
FULL, NEED = 1000.0, 900.0  # water that the reservoir holds, and that the fields need in a year


def year(state, action, step, params, outcome, next_state):
    there = state[0] + outcome[0]
    released = min(action[0], there)
    next_state[0] = min(there - released, params[0])
    spilled = max(there - released - params[0], 0.0)
    short = max(params[1] - released, 0.0) / params[1]
    return -100.0 * short * short - 0.01 * spilled


def meet_the_need(step, stored):
    """What operators do: release what is needed, as long as there is water."""
    return [NEED]


def main() -> None:
    flow = sm.datasets.nile.load().data["volume"].to_numpy(float)
    store = gym.spaces.Box(0.0, FULL, (1,), np.float64)
    release = gym.spaces.Box(0.0, 1200.0, (1,), np.float64)
    records = zooming.Records(flow[:65], names=["flow"])
    dam = zooming.compiled_env(
        year, store, release, 5, start=[500.0], params=[FULL, NEED], outcomes=records, name="dam"
    )
    plan = zooming.plan(dam)
    print(plan)
    print("on the last third:", plan.compare(meet_the_need, zooming.Records(flow[65:])))

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.0), layout="constrained")
    left.plot(np.arange(1871, 1971), flow, color="0.4", linewidth=1)
    left.axvline(1936, color="0.8", linestyle=":")
    left.set(xlabel="year", ylabel="flow", title="records; planned on those before 1936")
    stored = np.linspace(0.0, FULL, 101)[:, None]
    for step in (0, 3, 4):
        action, _ = plan.predict(stored, np.full(101, step))
        right.plot(stored[:, 0], action[:, 0], label=f"year {step + 1} of 5")
    right.axhline(NEED, color="#D55E00", linestyle="--", label="meet the need")
    right.set(xlabel="stored", ylabel="release", title="plan")
    right.legend()
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
