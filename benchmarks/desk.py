"""Measure a desk: latency and rate of ask, a large file, a restart, and regret side by side.

python benchmarks/desk.py speed [postgresql://...]
python benchmarks/desk.py regret
"""

import statistics
import sys
import tempfile
import threading
import time

import gymnasium as gym
import numpy as np

import zooming

ASKS = 2000
PROBLEMS = ("Pricing", "Inventory", "Newsvendor", "Queue", "Bidding", "Storage")


def main(what: str, url: str | None = None) -> None:
    """Print a table."""
    if what == "regret":
        regret()
    else:
        speed(url)


def speed(url: str | None) -> None:
    """Measure asks of one thread and of 16, with and without plans being made behind."""
    print("| database | durability | agent | p50 ms | p99 ms | asks/s, 1 thread | 16 threads |")
    for durability in ("power", "process"):
        for name in ("AdaptiveQ", "Auto"):
            place = url or tempfile.mkdtemp() + "/shop.db"
            desk = make(place, name, durability)
            alone = ask_and_tell(desk, ASKS, "alone")
            rate = rate_of(desk, 16)
            p50, p99 = np.quantile(alone, [0.5, 0.99]) * 1e3
            kind = "PostgreSQL" if url else "SQLite"
            print(
                f"| {kind} | {durability} | {name} | {p50:.2f} | {p99:.2f} | "
                f"{len(alone) / sum(alone):,.0f} | {rate:,.0f} |",
                flush=True,
            )
            desk.wait(300)
            desk.close()
            began = time.perf_counter()
            zooming.Desk.open(place).close()
            print(f"  opened again in {time.perf_counter() - began:.2f} s", flush=True)
            if url:
                clear(url)
    if not url:
        large_file()


def make(place: str, name: str, durability: str, learner: str = "behind") -> zooming.Desk:
    """Return a desk of an agent on Pricing."""
    agent = getattr(zooming, name)(gym.make("zooming/Oil-v0", noise=0.05), seed=0)
    return zooming.Desk(agent, place, durability=durability, learner=learner)


def ask_and_tell(desk: zooming.Desk, n: int, name: str) -> list[float]:
    """Ask and tell n times. Return the seconds of each ask."""
    rng, found, state = np.random.default_rng(0), [], np.array([0.5])
    for k in range(n):
        began = time.perf_counter()
        made = desk.ask(state, episode=f"{name}/{k // 5}")
        found.append(time.perf_counter() - began)
        state = rng.random(1)
        desk.tell(made.id, float(1.0 - abs(made.action[0] - 0.3)), state)
    return found


def rate_of(desk: zooming.Desk, n_threads: int, n: int = 150) -> float:
    """Return how many asks, each with its tell, a second are answered to so many threads."""
    threads = [
        threading.Thread(target=ask_and_tell, args=(desk, n, f"thread {k}"))
        for k in range(n_threads)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return n_threads * n / (time.perf_counter() - began)


def large_file() -> None:
    """Measure asks in a file with a million decisions."""
    for n in (0, 1_000_000):
        desk = make(tempfile.mkdtemp() + "/shop.db", "AdaptiveQ", "process", "elsewhere")
        with desk.storage.transaction():
            desk.storage.run(
                "INSERT INTO decisions (episode, step, observation, action, explored, decider, "
                "version, at, state) WITH RECURSIVE c(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM "
                f"c WHERE k + 1 < {n}) SELECT k / 5, k % 5, '[0.123456789012345]', '[0.5]', 0, "
                f"'agent', 0, 0.0, 'told' FROM c WHERE {n} > 0"
            )
            desk.storage.run(
                "INSERT INTO episodes SELECT episode, 'store-' || episode, '1', '{}', 0.0, 1 "
                "FROM decisions WHERE step = 0"
            )
            desk.storage.run(
                "INSERT INTO events (kind, episode, decision, data, at) SELECT 'tell', episode, "
                'id, \'{"reward": 0.5, "next": [0.5], "terminated": false}\', 0.0 FROM decisions'
            )
        took = ask_and_tell(desk, ASKS, "new")
        p50, p99 = np.quantile(took, [0.5, 0.99]) * 1e3
        print(f"{n:,} decisions in the file: p50 {p50:.3f} ms, p99 {p99:.2f} ms", flush=True)
        desk.close()


def clear(url: str) -> None:
    """Remove the tables of a desk."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE meta, episodes, decisions, events, snapshots")


def regret(n: int = 400, seeds: int = 3, side_by_side: int = 16) -> None:
    """Compare returns of 16 episodes side by side with those of one after the other."""
    print("| problem | agent | one by one | 16 side by side | loss, in episodes |")
    for kind in ("AdaptiveQ", "Auto"):
        for problem in PROBLEMS:
            name, rows = f"zooming/{problem}-v0", []
            for seed in range(seeds):
                agents = [getattr(zooming, kind)(gym.make(name), seed=seed) for _ in range(2)]
                one = agents[0].learn(n, env=envs(name, 1)).returns
                many = agents[1].learn(n, env=envs(name, side_by_side)).returns
                rows.append((one.sum(), many.sum(), one[-n // 5 :].mean()))
            lost = [(one - many) / abs(usual) for one, many, usual in rows]
            spread = statistics.stdev(lost) / seeds**0.5
            print(
                f"| {problem} | {kind} | {np.mean([row[0] for row in rows]) / n:.4g} | "
                f"{np.mean([row[1] for row in rows]) / n:.4g} | "
                f"{statistics.mean(lost):.1f} ± {spread:.1f} |",
                flush=True,
            )


def envs(name: str, n: int) -> gym.vector.VectorEnv:
    """Return n environments that step together."""
    return gym.make_vec(name, num_envs=n, vectorization_mode="sync")


if __name__ == "__main__":
    main(*sys.argv[1:])
