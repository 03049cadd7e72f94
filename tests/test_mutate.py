"""The tool that measures the tests finds the faults that tests notice, and those they do not."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import mutate

TOY = '''
def largest(values, floor=0):
    """Return the largest value, at least 3."""
    best: int = 3  # é: positions are counted in bytes
    for value in values:
        if value > best and value != 99:
            best = value
    return best


def unused(x):
    return -x
'''
TESTS = """
from toy import largest


def test_largest():
    assert largest([1, 5, 4]) == 5
    assert largest([]) == 3
"""


def test_a_mutant_changes_one_spot_and_is_a_program():
    source = TOY.encode()
    mutants = mutate.mutants_of("toy.py", source)
    changed = {(mutant.old, mutant.new) for mutant in mutants}
    assert {
        ("3", "(3 + 1)"),
        ("3", "(3 - 1)"),
        ("value > best", "(value >= best)"),
        ("value != 99", "(value == 99)"),
        ("value > best and value != 99", "(value > best or value != 99)"),
        ("value > best and value != 99", "(not (value > best and value != 99))"),
        ("return best", "return None"),
        ("-x", "(x)"),
    } <= changed
    assert not any(old == "0" for old, _ in changed)  # a default value
    for mutant in mutants:
        ast.parse(mutant.apply(source))
        assert source[mutant.start : mutant.stop].decode() == mutant.old
        assert TOY.splitlines()[mutant.line - 1].find(mutant.old.splitlines()[0]) >= 0


@pytest.mark.parametrize(("code", "new"), [
    ("total += 1", "pass"), ("raise ValueError", "pass"), ("call(x)", "pass"),
    ("array[0] = x", "pass"), ("a + b", "(a - b)"), ("a // b", "(a * b)"), ("a << b", "(a >> b)"),
    ("not a", "(a)"), ("a is b", "(a is not b)"), ("a in b", "(a not in b)"), ("True", "False"),
    ("0.5", "(0.5 + 1)"),
])  # fmt: skip
def test_every_kind_of_change_is_made(code, new):
    source = f"def f():\n    {code}\n".encode()
    assert new in [mutant.new for mutant in mutate.mutants_of("f.py", source)]


def test_what_only_the_reader_sees_is_left_alone():
    source = b'def f(x: "1 + 1" = 2) -> 3:\n    """Four."""\n    name = f"{x + 5}"\n    y: 6\n'
    source += b"    kind = float64[::1]\n"
    assert mutate.mutants_of("f.py", source) == []


@pytest.mark.process
@pytest.mark.slow
def test_a_mutant_is_killed_or_survives(tmp_path):
    for name, text in (("src/toy.py", TOY), ("tests/test_toy.py", TESTS)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    room = mutate.Room("toy", ("src/toy.py",), {"tests/test_toy.py": ""})
    copy = mutate.Copy(tmp_path, tmp_path / "copy", room)
    copy.observe()
    found = {(mutant.old, mutant.new): mutant for mutant in copy.mutants()}
    assert not copy.survives(found["return best", "return None"])
    assert copy.survives(found["value > best", "(value >= best)"])  # the same function
    unused = found["-x", "(x)"]
    assert copy.chosen(unused, 9.0) == ([], 0.0)
    assert copy.survives(unused)
    assert (tmp_path / "copy" / "src" / "toy.py").read_text() == TOY
