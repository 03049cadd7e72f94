"""Problems of a user's own module, module:Id: every command runs them, and nothing but what a
user named is imported."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import zooming
from helpers import words
from zooming.agents.files import container as files
from zooming.app import cli
from zooming.lab.study import engines
from zooming.lab.study.problems import Problem, problem_named
from zooming.lab.study.study import Study

SHOP = """
import gymnasium as gym
import numpy as np
import zooming
from pathlib import Path

Path(__file__).with_name("trace").write_text("imported")
SHELF = gym.spaces.Box(0.0, 1.0, (1,), np.float64)


class Shop(gym.Env):
    observation_space = action_space = SHELF

    def __init__(self, price=0.5):
        self.price = price

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0.5]), {}

    def step(self, action):
        return self.np_random.uniform(size=1), self.price * float(action[0]), False, False, {}


def sell(state, action, step, params, outcome, next_state):
    next_state[0] = outcome[0]
    return params[0] * action[0]


def fast_shop(price=0.5):
    demand = [[0.2], [0.6]], [0.5, 0.5]
    return zooming.compiled_env(sell, SHELF, SHELF, 2, start=[0.5], params=[price], outcomes=demand)


gym.register("Shop-v0", entry_point=Shop, max_episode_steps=2)
gym.register("FastShop-v0", entry_point=fast_shop)
"""
SIZE = ["--agents", "random", "--episodes", "4", "--seeds", "2"]
# No folder of the caller's is on the path.
AS_INSTALLED = [sys.executable, "-P", "-c", "from zooming.app.cli import main; main()"]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The folder of a module `shop`, where commands are given; the module is forgotten at the
    end, as is its folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget()


def forget():
    for module in words("shop package package.inner broken lacks quits garbled empty"):
        sys.modules.pop(module, None)
    for env_id in ("Shop-v0", "FastShop-v0"):
        gym.registry.pop(env_id, None)


def command(program, *arguments, **options):
    return subprocess.run(
        [*program, *arguments], check=True, capture_output=True, text=True, **options
    ).stdout


@pytest.mark.process
@pytest.mark.slow
def test_the_installed_command_runs_plain_and_compiled_environments_of_this_folder(shop):
    text = "run shop:Shop-v0 shop:FastShop-v0 --workers 1 --out study"
    shown = command(AS_INSTALLED, *words(text), *SIZE)
    assert "shop:FastShop-v0, optimum 1" in shown
    assert len(list(Path("study", "chunks").glob("*.zoom"))) == 4  # a user's may be slow: one run


@pytest.mark.process
@pytest.mark.slow
def test_an_installed_module_is_tuned(shop, monkeypatch):
    (shop / "installed").mkdir()
    (shop / "shop.py").rename(shop / "installed" / "shop.py")
    monkeypatch.syspath_prepend(shop / "installed")
    text = "tune shop:Shop-v0 --set price=0.4 --agents adaptive-q --values 0.1 1 --episodes 4 "
    cli.main(words(text + "--seeds 2 --evaluation-seeds 2 --workers 1 --out tuning"))
    (found,) = json.loads((shop / "tuning" / "tuned.json").read_text())
    assert found["problem"] == "shop:Shop-v0:price=0.4"
    (study,) = (shop / "tuning" / "evaluation").iterdir()
    (row,) = Study.stored(study).summary(study)
    assert row.agent == f"adaptive-q:bonus={found['value']}"


def test_a_problem_made_by_hand_is_imported_too(shop):
    study = Study([Problem("mine", "shop:Shop-v0", {"price": 0.3})], ["random"], 4, 1)
    assert study.configuration.problems[0].make().unwrapped.price == 0.3
    assert str(shop) in sys.path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("shpo:Shop-v0", "", r"there is no module 'shpo' in .*, and none is installed"),
        ("shop:Chop-v0", "", r"the module 'shop' registers no environment 'Chop-v0'; did you"),
        ("empty:Shop-v0", "x = 1", r"the module 'empty' registers no environment 'Shop-v0'"),
        ("empty:Nope-v0", "x = 1", r"registers no environment 'Nope-v0'(?!.*Hopper)"),
        ("broken:X", "\nraise OSError('no net')", r"'broken' cannot be imported: OSError: no net"),
        ("lacks:X", "import nonesuch", r"'lacks' cannot be imported: ModuleNotFoundError: "
            r".*'nonesuch'"),
        ("quits:X", "raise SystemExit(3)", r"'quits' cannot be imported: SystemExit: 3"),
        ("garbled:X", "\ndef (", r"'garbled' cannot be imported: SyntaxError: invalid syntax "
            r"\(.*garbled.py, line 2\)"),
        ("oil-laplace-1:dims=2", "", "give oil-laplace-1 its options by --set key=value"),
        ("Own-v0", "", r"no problem is named 'Own-v0' .*an environment of your own is module:Id"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_refused_with_the_way_out(name, content, message, shop):
    if content:
        (shop / f"{name.split(':')[0]}.py").write_text(content)
    with pytest.raises(SystemExit, match=message) as ended:
        cli.main(["run", name, "--out", "study"])
    assert ended.value.code == 2
    assert "\n" not in str(ended.value.args[0])
    assert not (shop / "study").exists()


# --- nothing is imported that data names ----------------------------------------------------------


@pytest.fixture(params=["FastShop-v0"])
def foreign(shop, monkeypatch, request):
    """The folder of a finished study of an environment of shop, in a process that has not
    imported it."""
    monkeypatch.setattr(
        engines, "compute", lambda chunks, *_: ((chunk, chunk.run(), 0.1) for chunk in chunks)
    )
    Study([f"shop:{request.param}"], ["adaptive-q"], 4, 2).run("study")
    forget()
    monkeypatch.undo()
    monkeypatch.chdir(shop)
    monkeypatch.syspath_prepend(shop)  # it could be imported
    (shop / "trace").unlink()
    return shop / "study"


@pytest.mark.slow
def test_a_report_imports_nothing_that_the_folder_names(foreign, shop):
    cli.main(["report", "study"])
    assert "shop" not in sys.modules
    assert not (shop / "trace").exists()
    assert "The optimum is 1." in (shop / "study" / "report.html").read_text()


@pytest.mark.parametrize("foreign", ["Shop-v0"], indirect=True)
def test_a_stored_study_is_not_continued_with_a_module_that_nobody_named(foreign, shop):
    next((foreign / "chunks").iterdir()).unlink()
    with pytest.raises(zooming.ConfigurationError, match="If you trust it, import shop"):
        Study.stored(foreign).run(foreign)
    assert not (shop / "trace").exists()


@pytest.mark.parametrize("env_id", ["shop:Shop-v0", "zooming/shop:Shop-v0"])
def test_an_agent_file_that_names_a_module_does_not_import_it(shop, env_id, monkeypatch):
    monkeypatch.syspath_prepend(shop)
    zooming.AdaptiveQ(gym.make("zooming/Oil-v0"), seed=0).save("agent.zoom")
    header, arrays = files.read_container("agent.zoom")
    header["env"]["make"]["id"] = env_id
    files.write_container("agent.zoom", header, arrays)
    with pytest.raises(zooming.CheckpointError, match="is not one of zooming's environments"):
        zooming.load("agent.zoom")
    with pytest.raises(SystemExit, match="is not one of zooming's environments"):
        cli.main(["audit", "agent.zoom", "--solve"])
    assert "shop" not in sys.modules
    assert not (shop / "trace").exists()


@pytest.mark.slow
def test_an_audit_solves_the_environment_that_the_command_names(shop, capsys):
    env = problem_named("shop:FastShop-v0", {"price": 0.25}).make()
    zooming.AdaptiveQ(env, seed=0).save("agent.zoom")
    with pytest.raises(SystemExit, match="name it, --env module:Id"):
        cli.main(["audit", "agent.zoom", "--solve"])
    with pytest.raises(SystemExit, match="--set requires --env"):
        cli.main(["audit", "agent.zoom", "--set", "price=0.25"])
    cli.main(["audit", "agent.zoom", "--solve", "--env", "shop:FastShop-v0", "--set", "price=0.25"])
    assert "optimum 0.5" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="the given environment"):
        cli.main(
            ["audit", "agent.zoom", "--env", "zooming/Ambulance-v0", "--set", "n_ambulances=2"]
        )
