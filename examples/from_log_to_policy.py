"""From last year's log to a policy that runs anywhere: what other rules would have earned, a start
with a limited loss against the rule, and the policy as C, SQL and a page."""

from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np

import zooming
from zooming.app import cli

OUT = Path("out/from_log_to_policy.png")
LEVELS = (12, 14, 16, 18, 20, 22)
LOSS = 10.0  # return per episode that exploring may cost, a tenth of what the rule earns


def base_stock(level: float):
    """Return the rule that orders up to a level."""
    return lambda step, stock: np.clip(level - stock, 0.0, 30.0)


def main(episodes: int = 2000) -> None:
    env = gym.make("zooming/Inventory-v0", lead_time=1, fixed_cost=0.0)
    rule = base_stock(20.0)  # last year's: too much stock
    log = zooming.record(env, rule, 400, noise=0.2, seed=0)
    OUT.parent.mkdir(exist_ok=True)
    log.write_parquet(OUT.with_suffix(".parquet"))
    offline = zooming.AdaptiveQ(env, seed=0)
    print(offline.learn_from(OUT.with_suffix(".parquet")))
    print("The agent after the log:", str(zooming.evaluate_on(log, offline)).splitlines()[0])
    found = [zooming.evaluate_on(log, base_stock(level), env=env) for level in LEVELS]

    agent = zooming.AdaptiveQ(env, seed=0)
    history = agent.warm_start(rule, episodes=200, loss=LOSS) + agent.learn(episodes)
    print(f"{history}\n{agent.guide.status()}")
    agent.save(OUT.with_suffix(".zoom"))
    for path in (agent.export(OUT.with_suffix(".h")), agent.export(OUT.with_suffix(".sql"))):
        print(f"{path}: {path.stat().st_size:,} bytes")
    cli.main(["show", str(OUT.with_suffix(".zoom")), str(OUT.with_suffix(".html"))])

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    truth = [zooming.record(env, base_stock(n), 500)["reward"].sum() / 500 for n in LEVELS]
    means, ends = np.array([one.mean for one in found]), np.array([one.interval for one in found])
    left.errorbar(LEVELS, means, np.abs(ends.T - means), fmt="o", capsize=4, label="by the log")
    left.plot(LEVELS, truth, "k_", markersize=16, label="truth")
    left.set(xlabel="order up to", ylabel="mean return", title="what a rule would have earned")
    cold = zooming.AdaptiveQ(env, seed=0).learn(200 + episodes)
    strict = zooming.AdaptiveQ(env, seed=0)  # the default: exploring may cost 0.5 %
    kept = strict.warm_start(rule, episodes=200) + strict.learn(episodes)
    labels = f"warm start, loss={LOSS:g}", "warm start, default loss", "no rule"
    for label, one in zip(labels, (history, kept, cold), strict=True):
        right.plot(np.convolve(one.returns, np.full(100, 0.01), "valid"), label=label)
    earned = truth[LEVELS.index(20)]
    right.axhline(earned, color="k", linestyle=":", label="the rule")
    right.axhline(earned - LOSS, color="0.6", linestyle=":", label=f"{LOSS:g} below the rule")
    right.axvline(history.let_go or np.nan, color="0.6", label="let go")
    right.set(xlabel="episode", ylabel="mean return of 100", title="learning")
    left.legend()
    right.legend(loc="lower right")
    figure.savefig(OUT, dpi=110)


if __name__ == "__main__":
    main()
