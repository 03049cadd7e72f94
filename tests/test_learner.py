"""The learner in C: equal to AdaptiveQ in every bit, in its stated memory, with safe blocks."""

import ctypes
import functools
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import zooming
from zooming.agents.files.device import facts_of
from zooming.app import cli
from zooming.kernels import ACTIVE

HERE = Path(__file__).parent
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion"]
SAFE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
SCALE = 32_768.0
NUMBERS = {"double": ctypes.c_double, "float": ctypes.c_float, "int": ctypes.c_int32}
pytestmark = pytest.mark.process


def compiler():
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert found, "install a C compiler (apt-get install gcc): learners are tested in it"
    return found


def make_agent(problem="Ambulance", max_balls=30, seed=3, **options):
    return zooming.AdaptiveQ(
        gym.make(f"zooming/{problem}-v0"), max_balls=max_balls, seed=seed, **options
    )


def export(agent, path, number="double", **options):
    scale = SCALE if number == "int" else 1.0
    return agent.export(path, learner=True, name="zl", number=number, scale=scale, **options)


class Learner:
    """A learner in C, called from Python in the environment's units."""

    def __init__(self, agent, folder, number="double", **options):
        header = export(agent, folder / "zl.h", number, **options)
        out = folder / "learner.so"
        flags = [f'-DHEADER="{header.name}"', f"-I{folder}"] + ["-DRING"] * ("pending" in options)
        command = [compiler(), "-O2", "-fPIC", "-shared", *STRICT, *flags, HERE / "learner.c"]
        subprocess.run([*command, "-o", out, "-lm"], check=True)
        self.lib, self.number, self.kind = ctypes.CDLL(out), number, NUMBERS[number]
        self.lib.make.restype, self.lib.number.restype = ctypes.c_void_p, ctypes.c_ulong
        self.scale = SCALE if number == "int" else 1.0
        self.n_action = agent.axes.n_action
        self.z = ctypes.c_void_p(self.lib.make())

    def to_c(self, point):
        values = np.asarray(point, np.float64).ravel() * self.scale
        values = np.rint(values).astype(np.int32) if self.number == "int" else values
        return (self.kind * len(values))(*values.tolist())

    def act(self, step, state, name="act"):
        action = (self.kind * self.n_action)()
        code = getattr(self.lib, name)(self.z, step, self.to_c(state), action)
        return code, np.array(action[:]) / self.scale

    def learn(self, step, state, action, reward, after, terminated=False):
        points = self.to_c(state), self.to_c(action), self.to_c([reward])[0], self.to_c(after)
        return self.lib.learn(
            self.z, step, *points[:2], self.kind(points[2]), points[3], int(terminated)
        )

    def block(self):
        found = (ctypes.c_ubyte * self.lib.number(2))()
        self.lib.save(self.z, found, ctypes.c_ulong(2**32))
        return bytes(found)

    def load(self, block):
        return self.lib.load(self.z, block, ctypes.c_ulong(len(block)))


def play_both(agent, learner, n_episodes, rng):
    """Play an ambulance with both, and compare every action. Return the returns."""
    x = np.empty(1)
    states = rng.beta(5.0, 2.0, (n_episodes, agent.horizon + 1))
    states[:, 0] = 0.5
    returns = np.zeros(n_episodes)
    kind = learner.kind
    action, zl = (kind * 1)(), learner.lib
    here, after = (kind * 1)(), (kind * 1)()
    for k in range(n_episodes):
        for h in range(agent.horizon):
            x = states[k, h : h + 1]
            here[0], after[0] = x[0], states[k, h + 1]
            played = agent.act(h, x)
            assert zl.act(learner.z, h, here, action) == 0
            assert action[0] == played[0], (k, h)
            reward = 1.0 - (0.25 * abs(x[0] - action[0]) + 0.75 * abs(after[0] - action[0]))
            agent.update(h, x, played, reward, states[k, h + 1 : h + 2])
            assert zl.learn(learner.z, h, here, action, kind(reward), after, 0) == 0
            returns[k] += reward
    return returns


def assert_same_table(agent, other):
    """Compare all that learning reads, bit by bit."""
    assert agent.n_balls == other.n_balls
    a, b = agent.table.state(), other.table.state()
    inner = a["balls"]["child"] != ACTIVE
    for name in ("value", "threshold", "child", "parent"):
        assert (a["balls"][name] == b["balls"][name]).all(), name
    assert (a["balls"]["axis"][inner] == b["balls"]["axis"][inner]).all()
    assert (a["balls"]["n_visits"][~inner] == b["balls"]["n_visits"][~inner]).all()
    assert (a["stats"][~inner] == b["stats"][~inner]).all()
    for name in a["core"].dtype.names:
        assert a["core"][name] == b["core"][name], name


def came_back(learner, agent, folder):
    path = folder / "device.bin"
    path.write_bytes(learner.block())
    return zooming.load(path, agent.env)


@pytest.mark.parametrize("ties", ["random", "first"])
@pytest.mark.parametrize("cap", ["remaining", "horizon"])
def test_invariant_the_double_build_is_adaptive_q_in_every_bit(tmp_path, ties, cap):
    memory = 40 if cap == "horizon" else None
    together = 1 if ties == "first" else 3
    agent = make_agent(ties=ties, cap=cap, steps_per_partition=together, memory=memory)
    learner = Learner(agent, tmp_path)
    play_both(agent, learner, 1000, np.random.default_rng(0))
    assert agent.n_balls == agent.max_balls
    assert_same_table(agent, came_back(learner, agent, tmp_path))


@pytest.mark.slow
def test_invariant_they_are_equal_in_every_bit_after_100_000_episodes(tmp_path):
    agent = make_agent(max_balls=60)
    learner = Learner(agent, tmp_path)
    returns = play_both(agent, learner, 100_000, np.random.default_rng(1))
    assert returns[-10_000:].mean() > 4.30  # the optimum is 4.37
    assert_same_table(agent, came_back(learner, agent, tmp_path))


@pytest.mark.parametrize("problem", ["Balancing", "Storage", "Regulator"])
def test_spaces_of_any_size_and_dimension_agree_in_every_bit(tmp_path, problem):
    agent = make_agent(problem, max_balls=80)
    learner, env = Learner(agent, tmp_path), agent.env
    for k in range(150):
        state, _ = env.reset(seed=k)
        for h in range(agent.horizon):
            code, action = learner.act(h, state)
            assert code == 0
            assert (action == agent.act(h, state)).all()
            after, reward, terminated, _, _ = env.step(action)
            agent.update(h, state, action, reward, after, terminated)
            assert learner.learn(h, state, action, reward, after, terminated) == 0
            state = after
    assert_same_table(agent, came_back(learner, agent, tmp_path))
    code, action = learner.act(1, state, "best")
    assert (action == agent.predict(state, state=[1])[0]).all()


def test_an_agent_goes_on_in_c_and_comes_back(tmp_path):
    agent = make_agent()
    agent.learn(400)
    learner = Learner(agent, tmp_path)  # begins with what the agent knows
    play_both(agent, learner, 300, np.random.default_rng(2))
    back = came_back(learner, agent, tmp_path)
    assert_same_table(agent, back)
    assert back.n_episodes == 700
    for h, x in ((0, 0.5), (2, 0.1), (4, 0.9)):
        assert back.predict([x], state=[h])[0] == agent.predict([x], state=[h])[0]
    (tmp_path / "again").mkdir()
    again = Learner(back, tmp_path / "again")
    play_both(agent, again, 100, np.random.default_rng(3))
    assert_same_table(agent, came_back(again, agent, tmp_path))


@pytest.mark.parametrize("number", NUMBERS)
def test_what_a_block_holds_comes_back_to_the_same_block(tmp_path, number):
    agent = make_agent()
    agent.learn(2000)
    learner = Learner(agent, tmp_path, number)
    block = learner.block()
    back = came_back(learner, agent, tmp_path)
    assert (back.n_balls, back.n_episodes) == (agent.n_balls, 2000)
    apart = np.abs(back.partition(1).q_value - agent.partition(1).q_value).max()
    assert apart <= {"double": 0.0, "float": 1e-6, "int": 1e-3}[number]
    (tmp_path / "again").mkdir()
    assert Learner(back, tmp_path / "again", number).block()[:-4] == block[:-4] or number == "int"


@pytest.mark.parametrize("number", NUMBERS)
def test_memory_and_rows_read_stay_within_what_the_header_states(tmp_path, number):
    agent = make_agent(max_balls=40)
    learner = Learner(agent, tmp_path, number)
    rng = np.random.default_rng(0)
    for _ in range(1500):
        for h in range(5):
            x, after = rng.random(2)
            action = learner.act(h, [x])[1] if rng.random() < 0.7 else rng.random(1)
            assert learner.learn(h, [x], action, float(rng.random() < 0.5), [after]) == 0
    size, stated, _, *reads = (learner.lib.number(i) for i in range(7))
    assert size == stated
    most_act, stated_act, most_learn, stated_learn = reads
    assert 0 < most_act <= stated_act
    assert 0 < most_learn <= stated_learn
    assert most_learn > 100  # removals were among them


@pytest.mark.parametrize("number", NUMBERS)
def test_the_code_has_less_than_500_lines_and_no_floating_point_in_integers(tmp_path, number):
    agent = make_agent(max_balls=64)
    agent.learn(1000)
    assert len(export(agent, tmp_path / "zl.h", number).read_text().splitlines()) < 500
    text = export(agent, tmp_path / "zl.h", number, pending=8).read_text()
    assert len(re.sub(r"static const [^;]*;\n", "", text).splitlines()) < 500
    if number == "int":
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        assert not any(word in code for word in ("double", "float", "math.h", "sqrt("))


@pytest.mark.parametrize("number", ["double", "int"])
def test_a_power_cut_at_any_byte_leaves_the_older_learner_or_the_newer(tmp_path, number):
    agent = make_agent(max_balls=12)
    learner = Learner(agent, tmp_path, number)
    older = ctypes.c_void_p(learner.lib.make())
    for k in range(40):
        for h in range(5):
            _, action = learner.act(h, [k / 40])
            learner.learn(h, [k / 40], action, 0.5, [0.3])
    n_older = learner.lib.cut(older, learner.z)
    assert n_older > 4 * 100  # every cut but those after the last byte that differs
    assert learner.lib.cut(learner.z, older) > 0


def test_a_damaged_or_foreign_block_is_an_error_in_c_and_a_sentence_in_python(tmp_path):
    agent = make_agent()
    learner = Learner(agent, tmp_path)
    block = learner.block()
    path = tmp_path / "device.bin"
    length = struct.unpack_from("<I", block, 4)[0]

    newer = block[:8] + b"\x07\x00" + block[10 : length - 4]
    newer += struct.pack("<I", zlib.crc32(newer)) + block[length:]
    facts = len(facts_of(agent, 1.0))
    crafted = block[: 16 + facts + 16] + struct.pack("<d", np.nan) + block[40 + facts : length - 4]
    crafted += struct.pack("<I", zlib.crc32(crafted)) + block[length:]
    for bad, sentence in (
        (b"\x00" * len(block), "not a zooming file"),
        (block[:40] + bytes([block[40] ^ 1]) + block[41:], "both slots of the block are damaged"),
        (crafted, "the mean reward is not one of its range"),
        (newer, "version 7, build 0 of a device's block; this zooming reads version 2"),
    ):
        assert learner.load(bad) == -5
        path.write_bytes(bad)
        with pytest.raises(zooming.CheckpointError, match=sentence):
            zooming.load(path, agent.env)
    assert learner.load(block[:-1]) == -5
    assert learner.load(block) == 0
    path.write_bytes(block)
    with pytest.raises(zooming.CheckpointError, match="does not name its environment; give it"):
        zooming.load(path)
    with pytest.raises(zooming.CheckpointError, match=r"\[0, 1\] on the device, but \[-6.5, 6.5\]"):
        zooming.load(path, gym.make("zooming/Regulator-v0"))
    assert len(block) // 2 > length - 1


def test_bad_input_is_an_error_code_and_nothing_is_learned(tmp_path):
    agent = make_agent()
    learner = Learner(agent, tmp_path, pending=2)
    before = learner.block()
    nan = float("nan")
    assert learner.act(-1, [0.5])[0] == learner.act(5, [0.5])[0] == -1
    assert learner.act(0, [nan])[0] == learner.act(0, [1.1])[0] == learner.act(0, [0.5])[0] - 2
    assert learner.learn(5, [0.5], [0.5], 1.0, [0.5]) == -1
    assert learner.learn(0, [-0.1], [0.5], 1.0, [0.5]) == -2
    assert learner.learn(0, [0.5], [0.5], 1.0, [nan]) == -2
    assert learner.learn(0, [0.5], [nan], 1.0, [0.5]) == -3
    assert learner.learn(0, [0.5], [0.5], nan, [0.5]) == -4
    assert learner.learn(0, [0.5], [0.5], 1.5, [0.5]) == -4
    assert learner.lib.tell(learner.z, 7, ctypes.c_double(1.0), learner.to_c([0.5]), 0) == -6
    assert learner.block() == before
    assert learner.learn(4, [0.5], [0.5], 1.0, [nan]) == 0  # after the last step nothing follows


def test_late_rewards_are_learned_in_the_order_in_which_they_come(tmp_path):
    agent = make_agent(max_balls=40)
    learner = Learner(agent, tmp_path, pending=8)
    lib, rng = learner.lib, np.random.default_rng(0)
    waiting = []
    for k in range(600):
        h, x, after = k % 5, rng.random(1), rng.random(1)
        action = (ctypes.c_double * 1)()
        ticket = lib.ask(learner.z, h, learner.to_c(x), action)
        assert ticket == k
        assert action[0] == agent.act(h, x)[0]
        waiting.append((ticket, h, x, np.array(action[:]), rng.random(), after))
        if len(waiting) == 6:
            ticket, h, x, played, reward, after = waiting.pop(k % 2)
            agent.update(h, x, played, reward, after)
            told = ticket, ctypes.c_double(reward), learner.to_c(after), 0
            assert lib.tell(learner.z, *told) == 0
            assert lib.tell(learner.z, *told) == -6  # answered
    assert_same_table(agent, came_back(learner, agent, tmp_path))
    first = lib.ask(learner.z, 0, learner.to_c([0.5]), (ctypes.c_double * 1)())
    for _ in range(8):
        lib.ask(learner.z, 0, learner.to_c([0.5]), (ctypes.c_double * 1)())
    assert lib.tell(learner.z, first, ctypes.c_double(1.0), learner.to_c([0.5]), 0) == -6


@pytest.mark.filterwarnings("ignore")
def test_rewards_are_clipped_and_states_beyond_bounds_are_taken_as_the_ends(tmp_path):
    class Sensor(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
        action_space = gym.spaces.Box(-2.0, 3.0, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1), {}

    agent = zooming.AdaptiveQ(
        Sensor(), horizon=2, bounds={"state": (-1.0, 4.0)}, rewards="clip", max_balls=20, seed=0
    )
    learner, rng = Learner(agent, tmp_path), np.random.default_rng(0)
    for _ in range(300):
        for h in (0, 1):
            (x, after), reward = rng.normal(1.5, 3.0, (2, 1)), rng.normal(0.5, 1.0)
            code, action = learner.act(h, x)
            assert code == 0
            played = agent.act(h, x)
            assert np.float64(played[0]) == action[0]
            agent.update(h, x, played, reward, after)
            assert learner.learn(h, x, action, reward, after) == 0
    assert learner.act(0, [np.inf])[0] == -2
    assert_same_table(agent, came_back(learner, agent, tmp_path))


@pytest.mark.parametrize("number", NUMBERS)
def test_random_changes_of_a_block_are_refused_or_harmless(tmp_path, number):
    header = export(make_agent(max_balls=24), tmp_path / "zl.h", number)
    program = tmp_path / "fuzz"
    flags = ["-DFUZZ", f'-DHEADER="{header.name}"', f"-I{tmp_path}", *SAFE]
    command = [compiler(), "-O1", *STRICT, *flags, HERE / "learner.c", "-o", program, "-lm"]
    subprocess.run(command, check=True)
    assert subprocess.run([program], timeout=300).returncode == 0


@pytest.fixture(scope="module")
def run_program(tmp_path_factory):
    """Return a function that runs benchmarks/learner.c, and returns the words that it prints."""

    @functools.cache
    def compile_program(number, flags, cc):
        folder = tmp_path_factory.mktemp("program")
        header = export(make_agent("Oil", max_balls=60), folder / "zl.h", number)
        scale = [f"-DSCALE={SCALE}"] if number == "int" else []
        subprocess.run(
            [cc or compiler(), "-O2", *STRICT[:5], f'-DHEADER="{header.name}"', f"-I{folder}",
             *scale, *flags, HERE.parent / "benchmarks" / "learner.c", "-o", folder / "run", "-lm"],
            check=True,
        )  # fmt: skip
        return folder / "run"

    def run(number, *arguments, flags=(), before=(), cc=None):
        command = [*before, compile_program(number, tuple(flags), cc), *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    return run


@pytest.mark.parametrize("number", NUMBERS)
def test_sanitizers_find_nothing(run_program, number):
    assert run_program(number, 1, 1500, 1, flags=SAFE) == run_program(number, 1, 1500, 1)


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.parametrize("number", NUMBERS)
def test_valgrind_finds_nothing(run_program, number):
    before = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]
    assert run_program(number, 1, 300, 1, before=before)


@pytest.mark.skipif(
    not (shutil.which("arm-linux-gnueabi-gcc") and shutil.which("qemu-arm")),
    reason="make compiler installs the cross compiler and QEMU on Debian",
)
@pytest.mark.parametrize("number", NUMBERS)
def test_arm_without_floating_point_unit_agrees_with_this_machine_in_every_bit(run_program, number):
    cross = {"cc": "arm-linux-gnueabi-gcc", "before": ["qemu-arm"]}
    flags = ["-static", "-mfloat-abi=soft", "-march=armv5te"]
    here = run_program(number, 1, 1500, 1)
    assert run_program(number, 1, 1500, 1, flags=flags, **cross)[1:3] == here[1:3]


@pytest.mark.parametrize(("problem", "least"), [(0, 4.650), (1, 4.304)])
def test_the_integer_build_learns_in_a_kilobyte(run_program, problem, least):
    runs = [run_program("int", problem, 20_000, seed) for seed in range(1, 5)]
    assert max(int(run[3]) for run in runs) <= 966
    assert np.mean([float(run[0]) for run in runs]) > least  # of 4.750 and 4.370


@pytest.mark.parametrize(
    ("problem", "options", "export_options", "sentence"),
    [
        ("Oil", {"max_balls": None}, {}, "fixed memory: make the agent with max_balls"),
        ("Oil", {"action": "uniform"}, {}, "does not have action='uniform': give \"center\""),
        ("Oil", {"bonus": zooming.bonuses.Theory()}, {}, "does not have bonus=.*: give a number"),
        ("Oil", {"split": "longest"}, {}, "does not have split='longest'"),
        ("Oil", {"weights": {"state": 0.5}}, {}, r"only intervals of weight 1 .* of weight 0.5"),
        ("GraphAmbulance", {"max_balls": 600}, {}, "only intervals of weight 1"),
        ("Oil", {}, {"number": "int"}, "has 1 units; give a scale with 1,024 to 65,535 units"),
        ("Oil", {}, {"number": "half"}, "number='half': choose one of"),
        ("Oil", {}, {"number": "int", "scale": "x"}, "scale='x': give a finite number"),
        ("Oil", {}, {"scale": 5.0}, 'scale=5.0: only number="int" has one'),
        ("Oil", {}, {"pending": -1}, "pending=-1"),
    ],
)
def test_what_has_no_learner_is_refused_in_a_sentence(
    tmp_path, problem, options, export_options, sentence
):
    agent = make_agent(problem, **{"max_balls": 30, **options})
    with pytest.raises(zooming.ConfigurationError, match=sentence):
        agent.export(tmp_path / "zl.h", learner=True, **export_options)
    assert not (tmp_path / "zl.h").exists()


def test_only_adaptive_q_and_only_headers_learn(tmp_path):
    env = gym.make("zooming/Oil-v0")
    with pytest.raises(zooming.ConfigurationError, match="NetQ has no learner in C"):
        zooming.NetQ(env, seed=0).export(tmp_path / "zl.h", learner=True)
    with pytest.raises(zooming.ConfigurationError, match="a learner is a C header"):
        make_agent().export(tmp_path / "zl.py", learner=True)
    with pytest.raises(zooming.ConfigurationError, match="pending requires learner=True"):
        make_agent().export(tmp_path / "zl.h", pending=3)


def test_names_of_axes_cannot_become_code(tmp_path):
    names = ['*/ int main(void) { return 1; } /* "', "??/ a\\"]
    agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), max_balls=20, seed=0, names=names)
    Learner(agent, tmp_path)


ARDUINO = """
#include <stdint.h>
#define A0 0
int analogRead(int); void analogWrite(int, int); void delay(unsigned long);
"""
EEPROM = """
struct Memory { void update(int, uint8_t); uint8_t read(int); };
extern Memory EEPROM;
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="a sketch is C++")
def test_the_sketch_for_arduino_compiles_as_cpp(tmp_path):
    export_options = {"learner": True, "number": "int", "scale": SCALE}
    make_agent(max_balls=40).export(tmp_path / "learner.h", **export_options)
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    (tmp_path / "EEPROM.h").write_text(EEPROM)
    sketch = HERE.parent / "examples" / "device" / "device.ino"
    flags = ["-std=c++11", "-x", "c++", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Os", "-c"]
    subprocess.run(
        ["g++", *flags, f"-I{tmp_path}", sketch, "-o", tmp_path / "sketch.o"], check=True
    )


def test_the_command_line_exports_a_learner(tmp_path, capsys):
    agent = make_agent()
    agent.learn(50)
    agent.save(tmp_path / "ambulance.zoom")
    out = tmp_path / "device.h"
    cli.main(["export", str(tmp_path / "ambulance.zoom"), str(out), "--learner"])
    assert "device_learn(" in out.read_text()
    assert out.name in capsys.readouterr().out
    assert out.read_text() == agent.export(tmp_path / "device.h", learner=True).read_text()
