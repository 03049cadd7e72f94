"""The package as a whole: names, imports, command line, documentation."""

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium as gym
import pytest
import yaml

import zooming
from zooming.analysis import solve
from zooming.app import cli
from zooming.lab import bench
from zooming.lab.study import problems

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EXTRAS = {
    "rich", "tyro", "matplotlib", "polars", "ray", "torch", "stable_baselines3",
    "scipy", "pandas",
}  # fmt: skip


def run(*command, **options):
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, **options
    ).stdout


def test_every_public_name_exists_and_is_documented():
    for name in zooming._HOME:
        assert name == "__version__" or getattr(zooming, name).__doc__, name
    assert {*zooming.__all__, "__version__"} == set(dir(zooming))
    with pytest.raises(AttributeError, match="Adaptive"):
        zooming.Adaptive  # noqa: B018


def sections_missing(name):
    """Return the sections that the docstring of a public name should have and has not."""
    value = getattr(zooming, name)
    wanted = ["Parameters", "Examples"] + ([] if inspect.isclass(value) else ["Returns", "Raises"])
    return [one for one in wanted if f"\n{one}\n{'-' * len(one)}\n" not in inspect.getdoc(value)]


def test_every_public_class_and_function_has_the_sections_of_numpydoc():
    values = {name: getattr(zooming, name) for name in zooming._HOME}
    classes = [name for name, value in values.items() if inspect.isclass(value)]
    named = [name for name, value in values.items() if inspect.isfunction(value)]
    named += [name for name in classes if not issubclass(values[name], Exception)]
    assert len(named) > 30
    assert not {name: found for name in named if (found := sections_missing(name))}


def test_the_front_door_is_narrow_and_the_other_names_are_still_found():
    modules = {name for name in zooming.__all__ if inspect.ismodule(getattr(zooming, name))}
    assert modules == {"bonuses", "callbacks", "errors", "metrics", "plots", "theory"}
    assert len(set(zooming.__all__) - modules) <= 31
    assert {"History", "Agent", "ConfigurationError", "learn_from"} <= set(zooming._HOME)
    imported = {}
    exec("from zooming import *", imported)
    assert set(imported) - {"__builtins__"} == set(zooming.__all__)


@pytest.mark.process
def test_the_core_pulls_in_none_of_the_extras():
    program = (
        "import sys, gymnasium as gym, zooming; "
        "zooming.AdaptiveQ(gym.make('zooming/Oil-v0')).learn(2); print(*sys.modules)"
    )
    loaded = {name.split(".")[0] for name in run(sys.executable, "-c", program).split()}
    by_numba = run(sys.executable, "-c", "import sys, numba; print(*sys.modules)").split()
    assert not (loaded - set(by_numba)) & EXTRAS  # Numba imports SciPy where it is installed
    assert "numba" in loaded


def test_every_module_can_be_imported():
    names = [m.name for m in pkgutil.walk_packages(zooming.__path__, "zooming.")]
    assert len(names) > 150
    for name in names:
        importlib.import_module(name)


def module_of(path):
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", [module_of(path) for path in SOURCES if ">>>" in path.read_text()])
def test_doctests(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


# --- command line ---------------------------------------------------------------------------------


def test_list_names_agents_and_environments(capsys):
    cli.main(["list"])
    shown = capsys.readouterr().out
    agents = ["adaptive-q", "net-q", "tree-q", "planner", "auto", "random", "no-movement", "median"]
    for name in ("oil-laplace-1", *agents, "zooming/Oil-v0", "zooming/Ambulance-v0"):
        assert re.search(rf"^  {name}\s+\w+", shown, re.M), name
    assert " Return " not in shown  # a command says what an agent is, not what a function returns


@pytest.mark.slow
def test_bench_measures_every_case(monkeypatch, capsys):
    names = ("oil laplace 1", "3 ambulances (6-D)")
    monkeypatch.setattr(bench, "PROBLEMS", {name: bench.PROBLEMS[name] for name in names})
    cli.main(["bench", "--quick"])
    shown = capsys.readouterr().out
    assert shown.count("oil laplace 1") >= 1
    assert "3 ambulances" in shown


# --- documentation --------------------------------------------------------------------------------


def blocks(language):
    """(file, code) of every fenced block of a language in the documentation."""
    for path in pages():
        for code in re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.S):
            yield pytest.param(code, id=f"{path.name}: {code.splitlines()[0][:40]}")


@pytest.fixture
def coarse(monkeypatch):
    """Solve problems on a quarter of the usual cells per axis, and forget the optima afterwards."""
    usual = solve.default_resolution

    def quarter(*arguments):
        return max(4, usual(*arguments) // 8 * 2)

    for module in (solve, problems):
        monkeypatch.setattr(module, "default_resolution", quarter)
    monkeypatch.setattr(problems, "_OPTIMA", {})


SMALLER = {  # what makes a command of the documentation short; the last option counts
    "run": "--episodes 20 --seeds 2 --workers 1",
    "tune": "--episodes 20 --seeds 2 --evaluation-seeds 2 --workers 1",
    "reproduce": "--episodes 20 --seeds 2 --workers 1",
    "leaderboard": "--problems bidding --agents auto,net-q --episodes 20 --seeds 2 --engine local "
    "--workers 1",
    "explain": "--episodes 20",
    "show": "--episodes 1",
    "warm": "--agents random --jobs 1",
}


def commands_of(page):
    """The words of each command on a page."""
    texts = [block.values[0] for block in blocks("sh") if block.id.split(":")[0] == page]
    lines = [line.split("#")[0] for text in texts for line in text.splitlines()]
    return [
        shlex.split(command) for line in lines for command in line.split("&&") if command.strip()
    ]


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def without_folder(words):
    """A command without the folder that it writes or reports."""
    text = " ".join(words)
    return re.sub(r" --out \S+|(?<=zooming report) \S+", "", text)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("page", sorted({block.id.split(":")[0] for block in blocks("sh")}))
@pytest.mark.usefixtures("as_a_user", "coarse")
def test_commands_in_the_documentation_run(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = commands_of(page)
    assert commands
    if page != "README.md":  # what it says runs on its own page, with another folder
        said = {without_folder(words) for words in commands_of("README.md")}
        fresh = [words for words in commands if without_folder(words) not in said]
        written = {words[words.index("--out") + 1] for words in fresh if "--out" in words}
        commands = [words for words in commands if words in fresh or words[-1] in written]
    text = "\n".join(path.read_text() for path in pages() if path.name == page)
    own = re.search(r"module of its own, `(\w+\.py)`, that ends with `([^`]+)`", text)
    for (code,) in (block.values for block in blocks("python") if block.id.split(":")[0] == page):
        if named := re.match(r"# (\w+\.py)\n", code):
            Path(named[1]).write_text(code)  # a file that the commands need
        if own and "(gym.Env)" in code:
            Path(own[1]).write_text(code.partition("\nenv = ")[0] + f"\n{own[2]}\n")
            sys.path.insert(0, str(Path.cwd()))
    for program, *words in commands:
        if program == "make":
            assert set(words) <= targets, words
        elif program == "zooming" and words[0] == "bench":
            with pytest.raises(SystemExit, match=r"^0$"):  # it takes a minute however small;
                cli.main([*words, "--help"])  # a test of its own runs it
        elif program == "zooming":
            if words[0] in ("audit", "export", "explain", "show"):
                for file in (word for word in words if word.endswith(".zoom")):
                    if "--env" in words:
                        own_env = gym.make(words[words.index("--env") + 1])
                        agent = zooming.Auto(own_env, horizon=7, seed=0)
                    else:
                        agent = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), max_balls=64, seed=0)
                    agent.learn(1)
                    agent.save(file)
            cli.main([*words, *SMALLER.get(words[0], "").split()])
        elif program == "python":
            assert words[0].startswith("examples/"), words  # a test of its own runs them all
            assert (ROOT / words[0]).exists(), words
        else:
            assert [program, words[0]] == ["pip", "install"], words


FEWER = {  # what makes an example short: arguments of its main, and constants
    "auto": {"n_seeds": 2},
    "city": {"episodes": 1000},
    "defaults_or_published": {"episodes": (200, 1000), "n_seeds": 10},
    "demo": {"EPISODES": 60},
    "first_agent": {"episodes": 1000, "n_seeds": 5},
    "from_log_to_policy": {"LEVELS": (12, 20)},
    "how_good": {"episodes": 1000},
    "on_device": {"episodes": 200},
    "own_compiled_problem": {"episodes": 5000},
    "own_gymnasium_env": {"episodes": 500},
    "pricing": {"episodes": 3000, "n_seeds": 2},
    "reading_a_partition": {"episodes": 5000},
    "study_from_python": {"episodes": 500, "seeds": 4},
    "two_ambulances": {"episodes": 2000},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
@pytest.mark.usefixtures("as_a_user", "coarse")
def test_examples_run(path, capsys):
    source, fewer = path.read_text(), FEWER.get(path.stem)
    assert len(source.splitlines()) <= 85
    sys.path.insert(0, str(path.parent))
    if fewer is None:
        runpy.run_path(str(path), run_name="__main__")
    else:
        assert re.search(r'^if __name__ == "__main__":( .*)?\n    main\(\)\n\Z', source, re.M)
        main = runpy.run_path(str(path), run_name="example")["main"]
        constants = {name: value for name, value in fewer.items() if name.isupper()}
        assert constants.keys() <= main.__globals__.keys()
        main.__globals__.update(constants)
        main(**{name: value for name, value in fewer.items() if name not in constants})
    assert capsys.readouterr().out.strip()


def test_figures_and_links_of_the_documentation_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for path in pages:
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert link.startswith("https://") or (path.parent / link).exists(), (
                f"{path.name}: {link}"
            )


# --- for contributors -----------------------------------------------------------------------------

GUIDE, ARCHITECTURE = ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"


@pytest.mark.parametrize("page", [GUIDE, ARCHITECTURE], ids=lambda page: page.name)
def test_every_path_that_contributors_are_told_exists(page):
    text = page.read_text()
    named = set(re.findall(r"[\w./-]+\.(?:py|md|toml|ya?ml|cff|svg)\b", text))
    named |= set(re.findall(r"`([\w./-]+/)`", text))
    assert len(named) > 10
    folders = (ROOT, ROOT / "src" / "zooming", page.parent)
    for path in named:
        assert any((folder / path).exists() for folder in folders), path


def test_every_command_that_contributors_are_told_exists():
    code = "".join(re.findall(r"```.*?```|`[^`]+`", GUIDE.read_text(), re.S))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {"lint", "test"} <= set(re.findall(r"\bmake ([a-z-]+)", code)) <= targets


def test_every_name_that_contributors_are_told_is_in_its_file():
    named = re.findall(r"`(\w+)`\s+(?:in|of)\s+`([\w/]+\.py)`", GUIDE.read_text())
    assert len(named) >= 8
    for name, path in named:
        source = (ROOT / path).read_text()
        assert re.search(rf"^ *(?:def |class )?{name}\b", source, re.M), (name, path)


def test_every_function_of_the_architecture_is_in_its_file():
    named = re.findall(r"`([\w.]+)`\s+in\s+`([\w/]+\.py)`", ARCHITECTURE.read_text())
    assert len(named) > 25
    for name, path in named:
        if path.startswith("tests/"):
            continue
        source = (ROOT / "src" / "zooming" / path).read_text()
        for part in name.split("."):
            assert re.search(rf"^ *(?:def|class) {part}\b", source, re.M), (name, path)


def test_the_citation_has_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == zooming.__version__
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Sinclair", "Banerjee", "Yu"]
    assert paper["url"] in (ROOT / "README.md").read_text()


def test_the_workflow_tests_every_supported_version():
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    versions = job["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={versions[0]}"
    assert job["steps"][-1]["run"] == "make test PYTHON=python${{ matrix.python }}"
