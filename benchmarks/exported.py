"""Measure exported policies: bytes, comparisons, and the time of a decision in C, Python and SQL.

Run `python benchmarks/exported.py`; it takes about a minute and needs gcc. States are uniform in
the space, so most comparisons are unpredictable. Times are those of the processor, the least of
three runs.
"""

from __future__ import annotations

import runpy
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import gymnasium as gym
import numpy as np

import zooming
from zooming.export.write import policy_form

CASES = (
    ("Auto", "Inventory", 300),
    ("Auto", "Pricing", 300),
    ("Auto", "Queue", 300),
    ("Auto", "Bidding", 300),
    ("AdaptiveQ", "Ambulance", 2000),
    ("TreeQ", "Inventory", 2000),
)
N_STATES, N_ASKED = 2**16, 20_000_000
MAIN = """
#include <stdio.h>
#include <time.h>
#include "policy.h"
static double states[N_STATES][POLICY_N_STATE];
int main(int n, char **words)
{
    double action[POLICY_N_ACTION], sum = 0.0;
    clock_t start;
    long k;
    FILE *file = fopen(words[n - 1], "rb");
    if (!file || fread(states, sizeof states, 1, file) != 1) {
        return 1;
    }
    start = clock();
    for (k = 0; k < N_ASKED; ++k) {
        policy_act(POLICY_HORIZON - 1, states[k % N_STATES], action);
        sum += action[0];
    }
    printf("%g %g", (double)(clock() - start) / CLOCKS_PER_SEC / N_ASKED, sum);
    return 0;
}
"""


def measure(agent: Any, folder: Path) -> list[str]:
    """Return what the table says of one agent."""
    axes, form = agent.axes, policy_form(agent)
    ends = axes.low[: axes.n_state], axes.high[: axes.n_state]
    states = np.random.default_rng(0).uniform(*ends, (N_STATES, axes.n_state))
    sizes = {
        ending: agent.export(folder / f"policy{ending}").stat().st_size
        for ending in (".py", ".json", ".h", ".sql")
    }
    states.tofile(folder / "states")
    program = MAIN.replace("N_STATES", str(N_STATES)).replace("N_ASKED", f"{N_ASKED}L")
    (folder / "main.c").write_text(program)
    subprocess.run(["gcc", "-O2", "-o", folder / "run", folder / "main.c"], check=True)
    runs = [
        subprocess.run([folder / "run", folder / "states"], capture_output=True, check=True)
        for _ in range(3)
    ]
    in_c = min(float(run.stdout.split()[0]) for run in runs)
    act, some = runpy.run_path(str(folder / "policy.py"))["act"], states[:10_000].tolist()
    in_python = seconds(lambda: [act(0, state) for state in some]) / len(some)
    n_bytes = sum(table.nbytes for table in form.tables().values())
    in_sql = [seconds(question) / N_STATES for question in questions(folder / "policy.sql", states)]
    return [
        f"{n_bytes:,} B", *(f"{size / 1000:.1f} kB" for size in sizes.values()), f"{form.depth}",
        f"{in_c * 1e9:.0f} ns", *(f"{one * 1e6:.2g} us" for one in (in_python, *in_sql)),
    ]  # fmt: skip


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work, the least of three runs."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def questions(query: Path, states: np.ndarray) -> list[Callable[[], object]]:
    """Return the query of a policy over all states, in SQLite and in DuckDB."""
    n = states.shape[1]
    columns = ", ".join(f"state_{i} DOUBLE" for i in range(n))
    total = f"SELECT sum(action_0) FROM ({query.read_text().rstrip().rstrip(';')}) AS played"
    found: list[Callable[[], object]] = []
    bases: tuple[Any, ...] = (sqlite3.connect(":memory:"), duckdb.connect(":memory:"))
    for base in bases:
        base.execute(f"CREATE TABLE states (step INTEGER, {columns})")
        for first in range(0, len(states), 4096):
            rows = [f"(0, {', '.join(map(repr, x))})" for x in states[first:][:4096].tolist()]
            base.execute(f"INSERT INTO states VALUES {', '.join(rows)}")
        found.append(lambda base=base: base.execute(total).fetchall())
    return found


def main() -> None:
    """Print the table of docs/export.md."""
    head = "tables .py .json .h .sql comparisons C Python SQLite DuckDB"
    print("| agent | " + " | ".join(head.split()) + " |")
    print("|---" * (len(head.split()) + 1) + "|")
    for name, problem, episodes in CASES:
        agent = getattr(zooming, name)(gym.make(f"zooming/{problem}-v0"), seed=0)
        agent.learn(episodes)
        with tempfile.TemporaryDirectory() as folder:
            cells = measure(agent, Path(folder))
        print(f"| `{name}`, {problem} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
