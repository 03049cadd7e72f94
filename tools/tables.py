"""List the tables of measured results, and which are old: their code has changed since.

    python tools/tables.py

A comment before such a table names the commit and the command that made it, and what it measures:

    <!-- measured: commit=0123abc command="zooming bench" paths="src/zooming/kernels" -->

A table is old if a later commit changes one of its paths. Measure it again, or take it out. The
exit code is 1 if there is an old one.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DECLARED = re.compile(
    r'<!-- measured: commit=([0-9a-f]{7,40}) command="([^"]+)" paths="([^"]+)" -->'
)


class Measured(NamedTuple):
    """What the comment before a table says, and where it is."""

    page: Path
    line: int
    commit: str
    command: str
    paths: list[str]


def pages() -> list[Path]:
    """Return all pages that may have tables."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def declared(page: Path) -> list[Measured]:
    """Return what the tables of a page declare. Raise ValueError for a comment that is no such."""
    found = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("<!-- measured"):
            if not (match := DECLARED.fullmatch(line)):
                raise ValueError(f"{page}, line {number}: write {DECLARED.pattern}, not {line}")
            commit, command, paths = match.groups()
            found.append(Measured(page, number, commit, command, paths.split()))
    return found


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def changes(table: Measured) -> list[str]:
    """Return the later commits that change what a table measures, one line each."""
    found = git("log", "--oneline", f"{table.commit}..", "--", *table.paths)
    if found.returncode:
        raise ValueError(f"{table.page}, line {table.line}: {found.stderr.strip()}")
    return found.stdout.splitlines()


def main() -> int:
    """Print one line for each table. Return 1 if one of them is old."""
    is_old = False
    for table in [one for page in pages() for one in declared(page)]:
        later = changes(table)
        is_old |= bool(later)
        state = f"old, {len(later)} changes since" if later else "new, as of"
        place = f"{table.page.relative_to(ROOT)}:{table.line}"
        print(f"{place}: {state} {table.commit}; {table.command}")
    return int(is_old)


if __name__ == "__main__":
    sys.exit(main())
