"""Kill processes of a desk at random moments, and look for answers that were lost.

`python tests/kills.py 200` does it 200 times with SQLite, and `python tests/servers.py
tests/kills.py 200` with PostgreSQL.
"""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import gymnasium as gym
import numpy as np

import zooming

zooming.AdaptiveQ(gym.make("zooming/Oil-v0")).learn(1)  # so that forks have the compiled code


class Shop:
    """Ask and tell at random: several episodes side by side, rewards late and out of order."""

    def __init__(self, desk, seed, name=None, is_late=True, write=None):
        self.desk, self.rng, self.is_late = desk, np.random.default_rng(seed), is_late
        self.name, self.write = name or f"shop {seed}", write or (lambda *line: None)
        self.lanes = {k: (0, self.rng.random(1)) for k in range(6)}
        self.waiting, self.made = [], []

    def run(self, n):
        for _ in range(n):
            if self.waiting and (not self.is_late or self.rng.random() < 0.55):
                self.tell(int(self.rng.integers(len(self.waiting))))
            else:
                self.ask(int(self.rng.integers(len(self.lanes))))
        if not self.is_late:
            while self.waiting:
                self.tell(0)

    def ask(self, lane):
        episode, state = self.lanes[lane]
        made = self.desk.ask(state, episode=f"{self.name}/{lane}/{episode}")
        self.write("ask", made.id, made.episode, made.step, made.action.tolist(), state.tolist())
        after, is_over = self.rng.random(1), self.rng.random() < 0.05
        reward = float(1.0 - 0.9 * abs(made.action[0] - state[0])) * 0.9 + 0.1 * self.rng.random()
        self.waiting.append((made.id, reward, after, is_over))
        is_over = is_over or made.step == 4
        self.lanes[lane] = (episode + 1, self.rng.random(1)) if is_over else (episode, after)
        self.made.append(made)

    def tell(self, which):
        id, reward, after, is_over = self.waiting.pop(which)
        kind = self.desk.tell(id, reward, after, is_over)
        self.write("tell", id, reward, after.tolist(), is_over, kind)


def work(place, path, seed, learner):
    """Run a shop while the one that started it lives, and write what was answered into a file."""
    desk = zooming.Desk.open(place, learner=learner, durability="process")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(*line):
        os.write(file, (json.dumps(line) + "\n").encode())

    write("ready")
    shop = Shop(desk, seed, name=f"shop {seed}", write=write)
    while multiprocessing.parent_process().is_alive():
        shop.run(10)
        time.sleep(0.1)  # others need the processor, too


def attack(place, kills, askers, learners, seed, agent=None):
    """Kill a random process `kills` times. Return what was lost, answers, and events replayed."""
    rng = np.random.default_rng(seed)
    env = gym.make("zooming/Oil-v0")
    zooming.Desk(agent or zooming.AdaptiveQ(env, seed=0), place, learner="elsewhere").close()
    context = multiprocessing.get_context("forkserver")  # which imports zooming once
    context.set_forkserver_preload(["kills"])
    folder, count, running = Path(tempfile.mkdtemp(prefix="zooming-kills-")), 0, []

    def start(learner):
        nonlocal count
        count += 1
        arguments = place, str(folder / f"{count}.log"), 1000 + count, learner
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        running.append((process, learner, folder / f"{count}.log"))

    for learner in ["elsewhere"] * askers + ["behind"] * learners:
        start(learner)
    try:
        for _ in range(kills):
            # Processes that still start are killed, too; but half of them must be at work.
            while sum(path.exists() for *_, path in running) < len(running) / 2:
                time.sleep(0.01)
            time.sleep(float(rng.uniform(0.0, 0.5)))
            process, learner, _ = running.pop(int(rng.integers(len(running))))
            assert process.is_alive(), "a worker ended by itself"
            process.kill()  # SIGKILL
            process.join()
            start(learner)
    finally:
        for process, _, _ in running:
            process.kill()
            process.join()
    answers = [line for path in sorted(folder.glob("*.log")) for line in answers_in(path)]
    with zooming.Desk.open(place, learner="behind") as desk:
        assert desk.wait(300)
        lost = list(find_lost(desk, answers))
        found = lost, len(answers), desk.verify().n_events
    shutil.rmtree(folder)
    return found


def answers_in(path):
    """Yield what a process was answered, without a last line that its death has cut."""
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n") and line != '["ready"]\n':
            yield json.loads(line)


def find_lost(desk, answers):
    """Yield what was answered, and the database does not have or now answers otherwise."""
    rows = desk.storage.read("SELECT id, step, action, state FROM decisions")
    asked = {id: (step, action, state) for id, step, action, state in rows}
    told = desk.storage.read("SELECT decision, data FROM events WHERE kind = 'tell'")
    told = {(decision, json.loads(data)["reward"]) for decision, data in told}
    last = {line[2]: line[1] for line in answers if line[0] == "ask"}
    for line in answers:
        if line[0] == "tell" and (line[1], line[2]) not in told:
            yield line
        if line[0] == "ask":
            _, id, episode, step, action, seen = line
            found = asked.get(id, (None, None, None))
            if found[:2] != (step, json.dumps(action)):
                yield line
            elif found[2] == "open" and last[episode] == id:
                again = desk.ask(seen, episode=episode, step=step)  # a later one may be unlogged
                if (again.id, again.action.tolist()) != (id, action):
                    yield line


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which kills the workers
    where = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp() + "/shop.db"
    began = time.time()
    lost, n_answers, n_events = attack(where, int(sys.argv[1]), askers=8, learners=2, seed=0)
    print(
        f"{sys.argv[1]} kills, {n_answers:,} answers, {len(lost)} lost, {n_events:,} events "
        f"replayed to the same bytes, {time.time() - began:.0f} s"
    )
    sys.exit(bool(lost))
