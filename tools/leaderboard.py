"""Put the summary of a leaderboard into docs/leaderboard.md and README.md.

    python tools/leaderboard.py BOARD

BOARD is a folder of `zooming leaderboard`. The text between the two comments `<!-- leaderboard -->`
and `<!-- end of leaderboard -->` of each page is replaced: by all of summary.md in the
documentation, and by the table of the operations problems at 500 episodes (or the largest number
below) and the versions of libraries in the README.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- leaderboard -->", "<!-- end of leaderboard -->"
SHOWN = 500  # episodes of the table in the README


def main(board: Path) -> None:
    summary = (board / "summary.md").read_text().strip()
    replace(ROOT / "docs" / "leaderboard.md", summary)
    replace(ROOT / "README.md", short_table(summary))


def replace(page: Path, text: str) -> None:
    """Replace what is between the two comments of a page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{page} has no {BEGIN} followed by {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def short_table(summary: str) -> str:
    """Return the table of one group and number of episodes, under its heading as a sentence."""
    found = re.findall(r"### (.*?), ([\d,]+) episodes\n\n(\|.*?)(?:\n\n|\Z)", summary, re.S)
    first = [
        (int(count.replace(",", "")), table)
        for group, count, table in found
        if group == found[0][0]
    ]
    episodes, table = max(one for one in first if one[0] <= max(SHOWN, first[0][0]))
    seeds = re.search(r"up to (\d+ seeds?)", summary)
    libraries = re.search(r"^Libraries: .*", summary, re.M)
    note = f"\n\n{libraries[0]}" if libraries else ""
    return f"{found[0][0]}, {episodes:,} episodes, {seeds and seeds[1]}:\n\n{table}{note}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
