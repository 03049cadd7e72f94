"""Measure learners in C: memory, code, instructions a step, worst case, and what they earn.

    python benchmarks/learner.py
    python benchmarks/learner.py --parts

Each row is one build and one budget of balls, on problems with one state axis, one action axis and
five steps. `learner.c` plays them. RAM is the struct. Flash is the code of init, act, learn and
best for a Cortex-M3 (Thumb, -Os), without the library that computes with floating-point numbers;
then the same with save and load. Instructions are those of act and learn on x86-64 (-O2), counted
by callgrind over 5,000 episodes of the ambulance. The worst case is in rows read: the most that was
seen in 20,000 episodes, of what the header states. Returns are means of the last tenth of 20,000
episodes over 10 seeds. It needs a C compiler, `arm-linux-gnueabi-gcc` and valgrind.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np

import zooming

BUDGETS, NUMBERS, SCALE = (32, 64, 256, 1024), ("double", "float", "int"), 32_768.0
SOURCE = Path(__file__).with_suffix(".c")
PARTS = """#include "zl.h"
void a(zl_learner *z) { zl_init(z); }
int b(zl_learner *z, int h, const zl_number *x, zl_number *u) { return zl_act(z, h, x, u); }
int c(zl_learner *z, int h, const zl_number *x, const zl_number *u, zl_number r, const zl_number *y)
{ return zl_learn(z, h, x, u, r, y, 0); }
int d(zl_learner *z, int h, const zl_number *x, zl_number *u) { return zl_best(z, h, x, u); }
#ifdef BLOCK
size_t e(zl_learner *z, unsigned char *p) { return zl_save(z, p); }
int f(zl_learner *z, const unsigned char *p, size_t n) { return zl_load(z, p, n); }
#endif
"""


def run(*words) -> str:
    """Run a command and return what it prints."""
    return subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, text=True
    ).stdout


def measure(folder: Path, number: str, max_balls: int) -> list[str]:
    """Return one row of the table."""
    env = gym.make("zooming/Ambulance-v0")
    agent = zooming.AdaptiveQ(env, max_balls=max_balls, seed=0)
    scale = SCALE if number == "int" else 1.0
    text = agent.export(
        folder / "zl.h", learner=True, name="zl", number=number, scale=scale
    ).read_text()
    flash = [code_bytes(folder, flags) for flags in ([], ["-DBLOCK"])]
    flags = ["-std=c99", '-DHEADER="zl.h"', f"-DSCALE={scale}", f"-I{folder}", SOURCE, "-lm"]
    program, counting = folder / "program", folder / "counting"
    run("cc", "-O2", "-g", *flags, "-o", program)
    run("cc", "-O2", "-DCOUNT", *flags, "-o", counting)
    out = folder / "callgrind.out"
    collect = ["--toggle-collect=zl_act", "--toggle-collect=zl_learn"]
    run(
        "valgrind",
        "-q",
        "--tool=callgrind",
        *collect,
        f"--callgrind-out-file={out}",
        program,
        1,
        5000,
    )
    total = int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)[1])
    earned = [
        np.mean([float(run(program, problem, 20_000, seed).split()[0]) for seed in range(1, 11)])
        for problem in (0, 1)
    ]
    act, learn = run(counting, 1, 20_000).split()[4:6]
    stated = [re.search(rf"ZL_MOST_{word}[ =]+(\d+)", text)[1] for word in ("ACT", "LEARN")]
    ram = int(run(program, 0, 1).split()[3])
    return [
        number, f"{max_balls:,}", f"{ram:,}", f"{flash[0]:,}", f"{flash[1]:,}",
        f"{total / 25_000:,.0f}", f"{int(act):,} of {int(stated[0]):,}",
        f"{int(learn):,} of {int(stated[1]):,}", *(f"{value:.3f}" for value in earned),
    ]  # fmt: skip


EMPTY = """    unsigned h;
    z->random = 1, z->episode = 0, z->n_rows = ZL_ROOTS, z->n_balls = ZL_TREES;
    for (h = 0; h < ZL_ROOTS; ++h) {
        z->rows[h].value = zl_ceiling[0], z->rows[h].visits = z->rows[h].last = 0;
        z->rows[h].cuts[0] = 0, z->rows[h].up = h % 2 ? ZL_ROWS >> 8 : ZL_ROWS & 255;
    }
}
"""
WITHOUT = {  # what is taken out: (from, to, in its place), all of which the header must have
    "balls are removed when the table is full": [
        ("    if (z->n_balls == ZL_MAX_BALLS) {", "    }\n",
         "    if (z->n_balls == ZL_MAX_BALLS) return;\n"),
        ("pair = z->n_rows, removed,", "", "pair = z->n_rows,"),
    ],
    "steps share a tree": [
        ("    const zl_wide mean =", ";\n", ""),
        ("        next_value += zl_to_come(mean, step + 1) / ZL_FINE;\n", "", ""),
        (" - zl_to_come(mean, step)", "", ""),
        ("    n_recent = z->episode >", "(ZL_HORIZON * n_recent);\n", ""),
    ],
    "ages beyond 16 bits": [
        ("    n = z->episode % z->n_rows;", "last += 1;\n", ""),
    ],
    "it begins with what the agent knows": [
        ("    unsigned i;\n    z->random =", "}\n", EMPTY),
    ],
    "`best`": [],
    "bad input is an error": [
        ("    if (step < 0 || step >= ZL_HORIZON) return ZL_BAD_STEP;\n", "", ""),
        ("    if (step < 0 || step >= ZL_HORIZON) return ZL_BAD_STEP;\n", "", ""),
        ("        if (x < zl_low[axis] || x > zl_high[axis]) return 0;\n", "", ""),
        ("    if (!(reward >= ZL_REWARD_LOW", " return ZL_BAD_REWARD;\n", ""),
    ],
    "any ends of the axes": [
        ("        u = ((uint32_t)(x - zl_low[axis]) << 16)", ";", "        u = (uint32_t)x << 1;"),
        ("        *action = zl_low[axis] +", ";", "        *action = (int32_t)(twice / 4);"),
    ],
}  # fmt: skip


def parts(folder: Path) -> None:
    """Print the bytes of each part of the integer build, and of the rest."""
    agent = zooming.AdaptiveQ(gym.make("zooming/Ambulance-v0"), max_balls=32, seed=0)
    options = {"learner": True, "name": "zl", "number": "int", "scale": SCALE}
    text = agent.export(folder / "zl.h", **options).read_text()
    calls, before = PARTS, code_bytes(folder, [])
    print(f"| part | bytes |\n|---|---|\n| all | {before:,} |")
    for part, edits in WITHOUT.items():
        for start, end, new in edits:
            i = text.index(start)
            text = text[:i] + new + text[text.index(end, i + len(start)) + len(end) :]
        if part == "`best`":
            calls = "\n".join(line for line in PARTS.splitlines() if "zl_best" not in line)
        (folder / "zl.h").write_text(text)
        left = code_bytes(folder, [], calls)
        print(f"| {part} | {before - left:,} |")
        before = left
    print(f"| the rest: act, learn, cut balls | {before:,} |")


def code_bytes(folder: Path, flags: list[str], calls: str = PARTS) -> int:
    """Return the bytes of code and constants for a Cortex-M3."""
    (folder / "parts.c").write_text(calls)
    chip = ["-mcpu=cortex-m3", "-mthumb", "-mfloat-abi=soft", "-Os", "-fno-pie"]
    run(
        "arm-linux-gnueabi-gcc",
        "-std=c99",
        *chip,
        *flags,
        "-c",
        folder / "parts.c",
        "-o",
        folder / "parts.o",
    )
    return int(run("arm-linux-gnueabi-size", folder / "parts.o").splitlines()[1].split()[0])


def main() -> None:
    if "--parts" in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            parts(Path(folder))
        return
    names = ("build", "balls", "RAM", "flash", "flash with blocks", "instructions", "rows to act",
             "rows to learn", "oil", "ambulance")  # fmt: skip
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    with tempfile.TemporaryDirectory() as folder:
        for number in NUMBERS:
            for max_balls in BUDGETS:
                print(f"| {' | '.join(measure(Path(folder), number, max_balls))} |", flush=True)


if __name__ == "__main__":
    main()
