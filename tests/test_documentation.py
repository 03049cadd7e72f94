"""The pages: they build without a warning, name what exists, miss nothing, and show every
picture."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import zooming

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import tables as tables_tool

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
EVERY_PAGE = sorted([*ROOT.glob("*.md"), *PAGES])
FIGURES = sorted((DOCS / "figures").glob("*.png"))
MOST_BYTES = 150_000  # of a committed figure


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("docs")
    # Without an entry for each function in the navigation of each page, it takes a fifth less.
    options = ["-W", "--keep-going", "-q", "-D", "toc_object_entries=0", "-d", f"{out}/doctrees"]
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(out / "html")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return out / "html"


@pytest.mark.process
def test_the_pages_build_without_a_warning(built):
    pages = {path.relative_to(DOCS).with_suffix("") for path in PAGES}
    assert pages <= {path.relative_to(built).with_suffix("") for path in built.rglob("*.html")}


@pytest.mark.process
def test_every_public_name_is_in_the_api_with_its_words(built):
    shown = (built / "api.html").read_text()
    public = [name for name in zooming._HOME if name not in ("__version__", "learn_pac")]
    public += [f"plots.{name}" for name in zooming.plots.__all__ if name != "COLORS"]
    public += [f"bonuses.{name}" for name in zooming.bonuses.KINDS]
    public += [f"metrics.{name}" for name in zooming.metrics.KINDS]
    places = set(re.findall(r'id="(?:module-)?zooming\.([\w.]+)"', shown))
    missing = [name for name in public if name not in places]
    assert not missing, f"list in docs/api.md: {missing}"
    assert "Write the agent to one file, atomically" in shown
    words = re.sub(r"<[^>]+>", "", shown)
    # Types as a reader knows them.
    assert not re.search(r"ndarray\[|_SupportsArray|\b(Floats|Ints|Allowed)\b", words)


@pytest.mark.process
def test_the_pages_load_nothing_from_the_network(built):
    for page in built.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(
            r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"', text
        )
        assert not loaded, (page.name, loaded)


# --- symbols and lemmas ---------------------------------------------------------------------------


def tables(path):
    """{column: cell} of every row of every table on a page."""
    header = None
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            header = None
        elif header is None:
            header = cells
        elif not set(line) <= set("|-"):
            yield dict(zip(header, cells, strict=True))


def names(cell):
    return re.findall(r"`([^`]+)`", re.sub(r"\(law `[^`]+`\)", "", cell))


@pytest.fixture(scope="module")
def live():
    """What the words agent, partition, ... stand for on the page."""
    env = gym.make("zooming/Oil-v0", horizon=2)
    agent = zooming.AdaptiveQ(env, seed=0)
    history, optimal = agent.learn(5), zooming.solve(env, resolution=8)
    return {"agent": agent, "partition": agent.partition(0), "history": history, "optimal": optimal}


def found(name, live):
    head, *rest = re.sub(r"\(.*\)", "", name).split(".")
    if head in live and rest:
        value = live[head]
    elif head in zooming._HOME:
        value = getattr(zooming, head)
    else:
        value, rest = innermost_module(["zooming", head, *rest])
    for part in rest:
        value = getattr(value, part)
    return value is not None


def innermost_module(parts):
    """Return the module named by the longest prefix of `parts`, and the other parts."""
    for n in range(len(parts), 1, -1):
        try:
            return importlib.import_module(".".join(parts[:n])), parts[n:]
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(".".join(parts))


def test_every_name_of_the_symbols_page_exists(live):
    rows = list(tables(DOCS / "symbols.md"))
    assert len(rows) > 40
    for row in rows:
        assert names(row["code"]), row
        assert all(found(name, live) for name in names(row["code"])), row


def test_every_test_of_the_symbols_page_exists():
    tests = {
        name
        for path in (ROOT / "tests").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    named = [
        name for row in tables(DOCS / "symbols.md") if "test" in row for name in names(row["test"])
    ]
    assert len(named) > 25
    assert not set(named) - tests


# --- pictures -------------------------------------------------------------------------------------


def test_every_example_has_its_picture_and_every_picture_its_page():
    shown = "".join(page.read_text() for page in PAGES)
    tables = {"control", "defaults_or_published"}  # whose results are no picture
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")} - tables
    # Figure 1 is drawn by zooming reproduce, the other by benchmarks/budget.py.
    assert {figure.stem for figure in FIGURES} == examples | {"figure_1", "budget"}
    assert {path.suffix for path in (DOCS / "figures").iterdir()} == {".png"}
    for figure in FIGURES:
        assert f"figures/{figure.name})" in shown, figure.name
        assert figure.stat().st_size < MOST_BYTES, figure.name
        assert (
            figure.stem in ("figure_1", "budget")
            or f'"out/{figure.name}"' in (ROOT / "examples" / f"{figure.stem}.py").read_text()
        )


# --- tables ---------------------------------------------------------------------------------------


def test_every_row_of_every_table_has_as_many_cells_as_its_heading():
    n_tables = 0
    for page in EVERY_PAGE:
        heading = None
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if not line.startswith("|"):
                heading = None
                continue
            cells = len(re.findall(r"(?<!\\)\|", line))
            n_tables += heading is None
            heading = heading or cells
            assert cells == heading, f"{page.relative_to(ROOT)}, line {number}"
    assert n_tables > 20


def test_every_measured_table_names_a_commit_a_command_and_paths_that_exist():
    measured = [one for page in EVERY_PAGE for one in tables_tool.declared(page)]
    assert measured
    is_complete = tables_tool.git("rev-parse", "--is-shallow-repository").stdout.strip() == "false"
    for table in measured:
        lines = table.page.read_text().splitlines()
        assert lines[table.line].startswith("|") or lines[table.line + 1].startswith("|"), table
        assert all((ROOT / path).exists() for path in table.paths), table
        if is_complete:
            assert tables_tool.git("cat-file", "-e", f"{table.commit}^{{commit}}").returncode == 0


def test_a_table_of_numbers_is_declared_as_measured():
    number = re.compile(r"[-−+]?[\d.,]+( ?[%±].*)?")
    for page in EVERY_PAGE:
        declared = {table.line for table in tables_tool.declared(page)}
        lines, top = page.read_text().splitlines(), 0
        for k, line in enumerate(lines):
            top = k if not line.startswith("|") or not lines[k - 1].startswith("|") else top
            if sum(bool(number.fullmatch(cell.strip())) for cell in line.split("|")) > 1:
                assert {top, top - 1} & declared, f"{page.relative_to(ROOT)}, line {k + 1}"


def test_a_table_is_old_if_what_it_measures_has_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables_tool, "ROOT", tmp_path)
    git = tables_tool.git
    git("init", "-q")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")

    def commit():
        git("add", ".")
        git(*identity, "commit", "-q", "-m", "x")
        return git("rev-parse", "--short=8", "HEAD").stdout.strip()

    (tmp_path / "code.py").write_text("1")
    first, page = commit(), tmp_path / "PAGE.md"
    page.write_text(f'<!-- measured: commit={first} command="x" paths="code.py" -->\n| a |\n')
    commit()
    assert tables_tool.main() == 0
    (tmp_path / "code.py").write_text("2")
    commit()
    assert tables_tool.main() == 1
    assert "PAGE.md:1: old, 1 changes since" in capsys.readouterr().out
    page.write_text("<!-- measured: today -->\n")
    with pytest.raises(ValueError, match=r"PAGE\.md, line 1: write"):
        tables_tool.main()
