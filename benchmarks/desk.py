"""Measure a desk: latency and rate of ask, snapshots, a large file, and regret side by side.

python benchmarks/desk.py speed                           SQLite
python tests/servers.py benchmarks/desk.py speed          PostgreSQL
python benchmarks/desk.py snapshots                       asks while snapshots are stored
python benchmarks/desk.py large                           a million decisions in the file
python benchmarks/desk.py regret AdaptiveQ 20             16 episodes side by side, 20 seeds
python benchmarks/desk.py batch                           act_batch for a thousand observations
"""

import os
import sys
import tempfile
import threading
import time
from typing import Any

import gymnasium as gym
import numpy as np

import zooming

ASKS = 2000  # of one thread
PROBLEMS = (
    "Newsvendor", "Inventory", "Pricing", "Queue", "Admission", "Storage", "Autoscaling", "Bidding",
    "Allocation", "GraphAmbulance", "RiverSwim", "Regulator",
)  # fmt: skip


def main(what: str, *given: str) -> None:
    """Print a table."""
    {
        "speed": speed, "snapshots": snapshots, "large": large_file, "regret": regret,
        "batch": batch,
    }[what](*given)  # fmt: skip


def speed(url: str | None = None) -> None:
    """Measure asks of one thread and of 16, with and without plans being made behind."""
    print(
        "| database | durability | agent | p50, p99 ms | disk alone | asks/s, 1 thread | "
        "16 threads | opened again, s |"
    )
    for durability in ("power", "process"):
        for name in ("AdaptiveQ", "Auto"):
            place = url or tempfile.mkdtemp() + "/shop.db"
            desk = make(place, name, durability)
            disk = np.quantile(of_disk(ASKS), [0.5, 0.99]) * 1e3
            alone = ask_and_tell(desk, ASKS, "alone")
            rate = rate_of(desk, 16)
            p50, p99 = np.quantile(alone, [0.5, 0.99]) * 1e3
            kind = "PostgreSQL" if url else "SQLite"
            desk.wait(300)
            desk.close()
            began = time.perf_counter()
            zooming.Desk.open(place).close()
            print(
                f"| {kind} | {durability} | {name} | {p50:.1f}, {p99:.1f} | "
                f"{disk[0]:.1f}, {disk[1]:.1f} | "
                f"{len(alone) / sum(alone):,.0f} | {rate:,.0f} | "
                f"{time.perf_counter() - began:.2f} |",
                flush=True,
            )
            if url:
                clear(url)


def of_disk(n: int) -> list[float]:
    """Return the seconds that the disk takes for each of n writes of two pages."""
    found = []
    with tempfile.NamedTemporaryFile() as file:
        os.write(file.fileno(), bytes(8192 * n))  # room, as in a write-ahead log
        os.fsync(file.fileno())
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        for _ in range(n):
            os.write(file.fileno(), b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - began)
    return found


def snapshots(url: str | None = None) -> None:
    """Measure asks of one thread while another one stores an agent of megabytes again and again."""
    print("| database | durability | snapshots stored | p50 ms | p99 ms | p99.9 ms | longest ms |")
    for durability in ("power", "process"):
        for stores in (False, True):
            agent = zooming.NetQ(gym.make("zooming/Oil-v0", noise=0.05), seed=0, spacing=0.005)
            place = url or tempfile.mkdtemp() + "/shop.db"
            desk = zooming.Desk(agent, place, durability=durability)
            took, n_stored = asked_while(desk, stores)
            p50, p99, most = np.quantile(took, [0.5, 0.99, 0.999])
            print(
                f"| {'PostgreSQL' if url else 'SQLite'} | {durability} | {n_stored} | {p50:.2f} | "
                f"{p99:.2f} | {most:.2f} | {took.max():.2f} |",
                flush=True,
            )
            desk.close()
            if url:
                clear(url)


def asked_while(desk: zooming.Desk, stores: bool) -> tuple[Any, int]:
    """Return the milliseconds of asks, and how many snapshots were stored meanwhile."""
    is_done, n_stored = threading.Event(), 0

    def store() -> None:
        nonlocal n_stored
        while stores and not is_done.wait(0.05):
            before = desk.storage.read("SELECT MAX(seq) FROM snapshots")
            desk.snapshot()
            n_stored += desk.storage.read("SELECT MAX(seq) FROM snapshots") != before

    thread = threading.Thread(target=store)
    thread.start()
    took = ask_and_tell(desk, ASKS, "alone")
    is_done.set()
    thread.join()
    return np.array(took) * 1e3, n_stored


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
        connection.execute("DROP TABLE meta, episodes, decisions, events, snapshots, pieces, plans")


def regret(kind: str, seeds: str, *problems: str) -> None:
    """Compare returns of `learn` with those of 16 episodes side by side, on the same seeds.

    An episode is worth what it earns at the end of `learn`, or what it earns there more than random
    actions do, if that is more.
    """
    n = 400
    print("| problem | agent | lost side by side, in episodes | worst seed |")
    for problem in problems or PROBLEMS:
        name, lost = f"zooming/{problem}-v0", []
        random = zooming.Random(gym.make(name), seed=0).learn(n).returns.mean()
        for seed in range(int(seeds)):
            agents = [getattr(zooming, kind)(gym.make(name), seed=seed) for _ in range(2)]
            envs = gym.make_vec(name, num_envs=16, vectorization_mode="sync")
            usual, many = agents[0].learn(n).returns, agents[1].learn(n, env=envs).returns
            lost.append((usual.sum() - many.sum(), usual[-n // 5 :].mean()))
        last = np.mean([row[1] for row in lost])
        found = np.array([row[0] for row in lost]) / max(abs(last), last - random)
        error = found.std(ddof=1) / len(found) ** 0.5
        print(
            f"| {problem} | {kind} | {found.mean():.1f} ± {error:.1f} | {found.max():.0f} |",
            flush=True,
        )


def batch() -> None:
    """Measure the processor time of an action in `act_batch` of a thousand, after 1,000 episodes.

    The least of 30 calls: others use the machine, too.
    """
    print("| problem | `AdaptiveQ`, us | `Auto`, us |")
    for problem in ("Pricing", "Inventory", "GraphAmbulance"):
        found = []
        for kind in (zooming.AdaptiveQ, zooming.Auto):
            env = gym.make(f"zooming/{problem}-v0")
            agent, rng, took = kind(env, seed=0), np.random.default_rng(0), []
            agent.learn(1000)
            env.observation_space.seed(0)
            states = np.array([env.observation_space.sample() for _ in range(1000)])
            steps = rng.integers(agent.horizon, size=1000)
            for _ in range(31):
                began = time.process_time()
                agent.act_batch(steps, states)
                took.append(time.process_time() - began)
            found.append(f"{min(took) * 1e3:.2f}")
        print(f"| {problem} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
