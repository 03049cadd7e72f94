"""The Python snippets of the pages run, and print the numbers that their comments state."""

import doctest
from pathlib import Path

import pytest

import snippets

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if snippets.blocks(page)
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("as_a_user")
def test_snippets_run_and_print_what_their_comments_state(page):
    faults = {snippet: snippets.run(snippet) for snippet in snippets.blocks(page)}
    assert not any(faults.values()), "\n".join(
        f"{snippet.splitlines()[0]}\n{''.join(found)}" for snippet, found in faults.items() if found
    )


def test_numbers_of_comments_are_compared():
    assert doctest.testmod(snippets).failed == 0
    code = "for x in (0.588, 0.941):\n    print(x)  # 0.59, then {}\n"
    assert snippets.run(code.format("0.94")) == []
    assert "line 2: the comment says 0.97" in snippets.run(code.format("0.97"))[0]
    below = "print(1445,\n      'balls')\n# {} balls\n"
    assert snippets.run(below.format("1,445")) == []
    assert snippets.run(below.format("1,400"))
    assert "ZeroDivisionError" in snippets.run("print(1 / 0)  # 1\n")[0]
    assert snippets.run("if False:\n    print(3)  # 3\n")  # a number that is never printed
    assert (
        "DeprecationWarning"
        in snippets.run("import warnings\nwarnings.warn('old', DeprecationWarning)\n")[0]
    )
