"""Wrong commands are answered with a sentence and exit code 2: no traceback, nothing written,
flags written as flags."""

import os
import re
import runpy
import subprocess
import sys

import gymnasium as gym
import pytest

import zooming
from helpers import words
from zooming.app import cli
from zooming.lab.study.problems import agents_named
from zooming.lab.study.run_command import numbers_from

RUN = ["run", "oil-laplace-1", "--out", "OUT"]
TUNE = ["tune", "oil-laplace-1", "--out", "OUT"]


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "zooming: name a command: run, tune, "),
    (["frobnicate"], "zooming: no command is named 'frobnicate' (there are run, tune, "),
    (["train", "oil-laplace-1"], "zooming: no command is named 'train'; did you mean 'run'?"),
    (["run", "oil-laplace-1"], "Missing from zooming run"),
    (["run", "--out", "OUT"], "at least one problem and one agent; zooming list"),
    (["run", "oil-laplace-7", "--out", "OUT"], "did you mean 'oil-laplace-1'?"),
    (["run", "Hotel-v0", "--out", "OUT"], "did you mean 'shops_of_a_user:Hotel-v0'?"),
    (["--versoin"], "no command is named '--versoin'; did you mean '--version'?"),
    ([*RUN, "--episode", "10"], "Unrecognized options: --episode"),
    ([*RUN, "--episodes", "-5"], "zooming: --episodes -5: give a whole number >= 1"),
    ([*RUN, "--engine", "spark"], "zooming: --engine spark: choose one of local, ray"),
    ([*RUN, "--agents", "adaptive-q:bonus"], "'bonus' is not a setting; write key=value"),
    ([*RUN, "--agents", "adaptive-q:bonus=-1"],
     "adaptive-q:bonus=-1 on oil-laplace-1: bonus c=-1.0: give a finite number"),
    ([*RUN, "--agents", "adaptive-q:seed=3"], "adaptive-q:seed=3: a study sets seed for every run"),
    ([*RUN, "--agents", "adaptive-q-published"],
     "adaptive-q-published needs bonus: write adaptive-q-published:bonus=..."),
    ([*RUN, "--set", "sharpness=-3"], "sharpness=-3: give a finite number, at least 0"),
    (["run", "Pendulum-v1", "--out", "OUT", "--set", "graity=3"],
     "Pendulum-v1 has no option 'graity'"),
    (["run", "CartPole-v1", "--out", "OUT"],
     "squash=True (here: auto:option=value for the agent"),
    (["run", "CliffWalking-v1", "--out", "OUT"], "--set max_episode_steps=N for the problem"),
    (["run", "CartPole-v1", "--out", "OUT", "--agents", "median"], "median on CartPole-v1: "),
    ([*TUNE, "--agents", "random"], "random has no option 'bonus'"),
    ([*TUNE, "--agents", "net-q,auto"], "zooming: auto has nothing to tune: it has no bonus"),
    ([*TUNE, "--values"], "zooming: --values nothing: give at least one number"),
    ([*TUNE, "--values", "0.1,,1"], "zooming: --values 0.1,,1: could not convert string to float"),
    ([*TUNE, "--option", "max_balls", "--values", "50"], "net-q has no option 'max_balls'"),
    (["reproduce", "99", "--out", "OUT"], "the paper has no figure '99'"),
    (["reproduce", "1", "--out", "OUT", "--seeds", "1"], "--seeds 1: give at least 2"),
    (["report", "OUT"], "there is no folder"),
    (["audit", "OUT"], "No such file"),
    (["export", "AGENT"], "OUT"),
    (["audit", "AGENT", "--resolution", "8"], "--resolution requires --solve"),
    (["audit", "AGENT", "--solve", "--resolution", "3"],
     "zooming: --resolution 3: give a whole number >= 4"),
    (["evaluate", "AGENT"], "no command is named 'evaluate'; did you mean 'explain'?"),
    (["export", "AGENT", "out.h", "--name", "9 x"], "zooming: --name 9 x: give at most 40 letters"),
    (["export", "AGENT", "out.py", "--rules", "0"], "zooming: --rules 0: give a whole number >= 1"),
    (["export", "NET", "out.h", "--learner"], "Export its policy: leave out --learner"),
])  # fmt: skip
def test_a_wrong_command_is_answered_in_a_sentence(
    arguments, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "shops_of_a_user.py").write_text("gym.register('Hotel-v0', 'no:such')")
    (tmp_path / "an_example.py").write_text("env = gym.make('Hotel-v0')")
    monkeypatch.chdir(tmp_path)
    out, agent = tmp_path / "out", tmp_path / "agent.zoom"
    for name, kind in (("AGENT", zooming.AdaptiveQ), ("NET", zooming.NetQ)):
        if name in arguments:
            learner = kind(gym.make("zooming/Oil-v0"), seed=0)
            learner.learn(2)
            learner.save(agent)
    said = re.escape(message.removeprefix("zooming: "))
    with pytest.raises(SystemExit, match=rf"{said}|^2$") as ended:  # 2: tyro has printed it
        cli.main([
            {"OUT": str(out), "AGENT": str(agent), "NET": str(agent)}.get(one, one)
            for one in arguments
        ])  # fmt: skip
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_what_was_begun_and_came_to_nothing_is_checked_again(tmp_path, capsys):
    """A folder with a manifest and no run is nobody's: the next configuration is checked like
    the first."""
    study = zooming.Study(["oil-laplace-1"], ["random"], 10, 2)
    study.run(tmp_path / "study", workers=1)
    for chunk in (tmp_path / "study" / "chunks").iterdir():
        chunk.unlink()
    text = "run oil-laplace-1 --agents random:reward_range=3 --out"
    with pytest.raises(SystemExit, match="reward_range"):
        cli.main([*words(text), str(tmp_path / "study")])
    assert "0/20 runs" not in capsys.readouterr().out


def test_an_error_of_a_run_names_its_agent_and_how_a_study_takes_options(tmp_path):
    text = "run Pendulum-v1 --agents net-q:spacing=0.5 --episodes 2 --seeds 1 --workers 1"
    message = r"net-q:spacing=0.5 on Pendulum-v1: .* \(here: 'net-q:reward_range=\(low,high\)'"
    with pytest.raises(SystemExit, match=message):
        cli.main([*words(text), "--out", str(tmp_path / "study")])


def test_settings_with_brackets_are_one_setting():
    (agent,) = agents_named('adaptive-q:bounds={"state[0]":(0,1),"state[1]":(-2, 2)}:bonus=0.5')
    assert agent.settings == {"bounds": {"state[0]": [0, 1], "state[1]": [-2, 2]}, "bonus": 0.5}


@pytest.mark.parametrize("values", [["0.1,1"], ["0.1", "1"], ["0.1,", "1"], ["0.1, 1"]])
def test_numbers_are_separated_by_commas_or_spaces(values):
    assert repr(numbers_from(values)) == "(0.1, 1)"


@pytest.mark.process
@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_load_nothing_that_a_command_needs(argument):
    """Each command loads itself when it is called."""
    script = (
        "import sys\nfrom zooming.app.cli import main\nmain(sys.argv[1:])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, argument], capture_output=True, text=True, check=True
    )
    loaded = run.stderr.split()
    assert len([name for name in loaded if name.split(".")[0] == "zooming"]) < 20
    assert not {"numba", "tyro", "rich", "matplotlib", "polars"}.intersection(loaded)
    assert "zooming" in run.stdout


def test_the_help_describes_each_command_by_its_first_sentence(capsys):
    cli.main(["--help"])
    shown = capsys.readouterr().out
    for name in cli.COMMANDS:
        said = " ".join((cli.load(name).__doc__ or "").split()).split(". ")[0].rstrip(".")
        assert re.search(rf"^  {name} +{re.escape(said)}\.$", shown, re.M), name


@pytest.mark.parametrize("name", [one for one in cli.COMMANDS if one not in ("bench", "list")])
def test_the_help_names_values_in_words(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    shown = capsys.readouterr().out
    assert not re.search(r"STR|\{None\}|default: (None)?\)", shown)
    assert re.search(r"^usage: zooming \S+ .*( [A-Z]+|\])( \.\.\.)?$", shown, re.M)


def test_a_horizon_below_that_of_the_problem_is_said_and_numbers_have_no_exponent(tmp_path, capsys):
    text = "run zooming/Newsvendor-v0 --agents random:horizon=3 --episodes 9 --seeds 2 --out"
    with pytest.warns(UserWarning, match="horizon=3, but an episode has 7 steps: the agent plays"):
        cli.main([*words(text), str(tmp_path / "study")])
    shown = capsys.readouterr().out
    assert re.search(r"│ random:horizon=3 │ +-?[\d,.]+ ± [\d,.]+ │", shown)
    assert "e+" not in shown


def test_a_command_without_its_libraries_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tyro", None)
    monkeypatch.delitem(sys.modules, "zooming.app.saved_commands", raising=False)
    with pytest.raises(SystemExit, match=r"needs tyro: pip install 'zooming\[lab\]'"):
        cli.main(["export", "agent.zoom", "policy.py"])


@pytest.mark.parametrize(("command", "ending"), [("export", ".py"), ("show", ".html")])
def test_a_target_is_named_after_the_file(command, ending, tmp_path, capsys):
    agent, out = tmp_path / "agent.zoom", tmp_path / f"out{ending}"
    learner = zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0)
    learner.learn(5)
    learner.save(agent)
    cli.main([command, str(agent), str(out)])
    assert out.stat().st_size > 0
    assert capsys.readouterr().out.startswith(f"{out}: ")


@pytest.mark.parametrize("module", ["zooming", "zooming.app.cli"])
@pytest.mark.filterwarnings("ignore:'zooming.app.cli' found in sys.modules")
def test_the_command_is_there_as_a_module(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["zooming", "--version"])
    code = None
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as end:
        code = end.code
    assert code in (None, 0)
    assert capsys.readouterr().out == f"zooming {zooming.__version__}\n"


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments", [["-u", "-m", "zooming", "list"], ["-m", "zooming", "--help"]]
)
def test_a_command_ends_quietly_when_nobody_reads_its_output(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        run = subprocess.run(
            [sys.executable, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True
        )
    finally:
        os.close(writer)
    assert (run.stderr, run.returncode) == ("", cli.CODE_OF_BROKEN_PIPE)


@pytest.mark.parametrize("option", ["--to", "--out"])
def test_the_file_to_write_may_be_an_option(option, tmp_path, capsys):
    path = tmp_path / "net.zoom"
    agent = zooming.NetQ(gym.make("zooming/Oil-v0"), seed=0)
    agent.learn(10)
    agent.save(path)
    cli.main(["export", str(path), option, str(tmp_path / "net.json")])
    cli.main(["show", str(path), option, str(tmp_path / "net.html"), "--episodes", "0"])
    assert (tmp_path / "net.json").exists()
    assert (tmp_path / "net.html").exists()
    with pytest.raises(SystemExit):
        cli.main(["export", str(path), "a.py", option, "b.py"])
    assert "two files to write are named" in capsys.readouterr().err
