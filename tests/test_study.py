"""Studies: the same result however they are computed, and nothing lost whatever happens."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import zooming
from helpers import words
from zooming.agents.base import seeds
from zooming.agents.base.status import plain, plus_minus
from zooming.app import cli
from zooming.lab.study import engines
from zooming.lab.study.configuration import Chunk, checkpoint_episodes
from zooming.lab.study.problems import (
    PRESETS,
    Problem,
    agent_named,
    agents_named,
    problem_named,
    settings_from,
)
from zooming.lab.study.store import Store
from zooming.lab.tune import tune

ARGUMENTS = [
    *words("run oil-laplace-1 --agents adaptive-q,net-q:spacing=0.25 --episodes"),
    *words("10000 --seeds 20"),
]


def small(**options):
    return zooming.Study(
        ["oil-quadratic-1"], ["adaptive-q", "net-q"], **{"episodes": 200, "seeds": 25, **options}
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of `small()`, finished, and the rows of its table."""
    folder = tmp_path_factory.mktemp("small") / "study"
    return folder, small().run(folder)


@pytest.fixture
def folder(finished, tmp_path):
    """Return a copy of the folder."""
    return shutil.copytree(finished[0], tmp_path / "study")


def fingerprint(folder):
    """A hash of every chunk and table."""
    found = sorted([*Path(folder, "chunks").glob("*"), *Path(folder).glob("*.parquet")])
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def command(folder, *more, arguments=ARGUMENTS, **options):
    program = [sys.executable, "-c", "from zooming.app.cli import main; main()"]
    return subprocess.Popen(
        [*program, *arguments, "--out", str(folder), *more],
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def children(pid):
    return [
        int(child)
        for child in subprocess.run(
            ["pgrep", "-P", str(pid)], capture_output=True, text=True
        ).stdout.split()
    ]


def is_worker(pid):
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "study"
    cli.main([*ARGUMENTS, "--out", str(folder), "--workers", "1"])  # in this process
    return fingerprint(folder)


@pytest.mark.process
@pytest.mark.slow
def test_killed_at_random_moments_and_run_by_more_workers_gives_the_same_files(
    undisturbed, tmp_path
):
    folder, kills = tmp_path / "study", 0
    source = random.Random(0)
    for latest in (0.5, 3.0):  # the first kill comes before anything can be finished
        process = command(folder, "--workers", "2", start_new_session=True)
        try:
            process.communicate(timeout=latest * source.uniform(0.6, 1.0))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            kills += 1
    process = command(folder, "--workers", "2")
    process.communicate()
    assert kills > 0
    assert process.returncode == 0
    assert fingerprint(folder) == undisturbed
    assert len(undisturbed) == 2 * 5 + 2  # two agents, five blocks of four seeds, two tables


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "send", "code"), [(signal.SIGTERM, os.kill, 143), (signal.SIGINT, os.killpg, 130)]
)
def test_told_to_stop_it_keeps_what_is_done_and_only_the_command_speaks(
    number, send, code, tmp_path
):
    """Ctrl-C reaches the workers, too."""
    process = command(
        *(tmp_path / "study", "--episodes", "50000", "--workers", "1"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    while not any(Path(tmp_path, "study", "chunks").glob("*.zoom")):
        time.sleep(0.01)
        assert process.poll() is None
    assert any(is_worker(pid) for pid in children(process.pid))
    send(process.pid, number)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in shown
    assert "To continue: zooming run oil-laplace-1" in shown
    assert any(Path(tmp_path, "study", "chunks").glob("*.zoom"))


@pytest.mark.process
def test_workers_end_when_their_parent_is_killed(tmp_path):
    process = command(tmp_path / "study", "--episodes", "50000", "--workers", "2")
    while not (workers := [pid for pid in children(process.pid) if is_worker(pid)]):
        time.sleep(0.05)
        assert process.poll() is None
    process.kill()
    process.communicate()
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in workers):
            break
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


@pytest.mark.process
def test_told_to_stop_before_anything_is_computed_it_says_how_to_continue(tmp_path):
    arguments = ["run", "ambulance-beta-0.25", "ambulance-uniform-0.25", "--agents", "adaptive-q"]
    process = command(tmp_path / "study", arguments=arguments)
    while not (tmp_path / "study" / "manifest.json").exists():
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)  # it is solving the problems now
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "stopped after 0 of 40 runs" in shown
    assert "To continue: zooming run ambulance-beta-0.25" in shown


def test_two_commands_at_work_in_one_folder_are_refused(folder):
    study = small()
    with Store(folder, study.configuration).open():
        half_written = folder / "chunks" / ".live.part"
        half_written.write_bytes(b"at work")
        with pytest.raises(zooming.ConfigurationError, match="another command is writing"):
            study.run(folder)
        assert half_written.exists()  # the other's file is not touched
    assert study.run(folder)


def test_a_study_continued_with_other_versions_warns_and_records_both(folder):
    next((folder / "chunks").glob("*.zoom")).unlink()
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    content["computed_with"][0]["versions"]["numpy"] = "1.0"
    manifest.write_text(json.dumps(content))
    with pytest.warns(UserWarning, match=r'numpy: there "1.0", here'):
        small().run(folder)
    assert [
        made["versions"]["numpy"] for made in json.loads(manifest.read_text())["computed_with"]
    ] == ["1.0", np.__version__]
    small().run(folder)  # no warning: both are known


@pytest.mark.process
def test_a_killed_worker_is_replaced_and_its_runs_are_repeated(workers, tmp_path):
    chunks = small(seeds=60, episodes=8_000).configuration.chunks()
    expected = {chunk.name: chunk.run()["total_return"].tolist() for chunk in chunks}
    found, killed = {}, False
    for chunk, arrays, _ in engines.compute(chunks, "local", 2):
        found[chunk.name] = arrays["total_return"].tolist()
        if not killed:
            started = [pid for pid in children(os.getpid()) if is_worker(pid)]
            os.kill(started[0], signal.SIGKILL)
            killed = True
    assert found == expected


def test_a_finished_study_is_not_computed_again(finished, folder, monkeypatch):
    before = fingerprint(folder)
    monkeypatch.setattr(engines, "compute", lambda *arguments: pytest.fail("nothing was missing"))
    assert small().run(folder) == finished[1]
    assert fingerprint(folder) == before


def test_a_chunk_is_what_one_by_one_gives():
    chunk = small().configuration.chunks()[1]
    assert (chunk.first, chunk.last) == (20, 25)
    arrays = chunk.run()
    env = gym.make("zooming/Oil-v0", survey="quadratic", sharpness=1.0)
    history = zooming.AdaptiveQ(env, seed=seeds.derive_seed(0, "run 22")).learn(200)
    assert arrays["total_return"][2] == pytest.approx(history.returns.sum())
    assert arrays["final_return"][2] == history.returns[-20:].mean()
    assert (
        arrays["curve_n_balls"][2].tolist()
        == history.n_balls[checkpoint_episodes(200) - 1].tolist()
    )


def test_adding_seeds_and_agents_changes_no_other_run(tmp_path):
    few = small(seeds=20).configuration.chunks()[0].run()
    more = zooming.Study(
        ["ambulance-beta-0", "oil-quadratic-1"], ["random", "adaptive-q"], episodes=200, seeds=40
    )
    same = next(
        c
        for c in more.configuration.chunks()
        if c.problem.name == "oil-quadratic-1" and c.agent.kind == "adaptive-q"
    )
    assert same.run()["total_return"].tolist() == few["total_return"].tolist()


def test_tables_hold_every_run_and_the_regret(folder):
    rows = small().run(folder)
    results, curves = (
        pl.read_parquet(folder / f"{name}.parquet") for name in ("results", "curves")
    )
    assert len(results) == 50
    assert len(curves) == 50 * len(checkpoint_episodes(200))
    ours = results.filter(pl.col("agent") == "adaptive-q")
    assert ours["regret"].to_list() == pytest.approx(
        (200 * 4.8 - ours["total_return"]).to_list(), abs=0.01
    )
    assert rows[0].regret.mean == pytest.approx(ours["regret"].mean())
    last = curves.filter((pl.col("agent") == "adaptive-q") & (pl.col("episode") == 200))
    assert last["total_return"].to_list() == pytest.approx(ours["total_return"].to_list())
    paired = (
        results.filter(pl.col("agent") == "net-q")["total_return"].to_numpy()
        - ours["total_return"].to_numpy()
    )
    assert rows[1].advantage.mean == pytest.approx(paired.mean() / 200)
    assert rows[0].advantage is None


def test_another_configuration_is_refused_with_the_difference(folder):
    with pytest.raises(zooming.ConfigurationError, match=r"episodes: there 200, here 300"):
        small(episodes=300).run(folder)


def test_a_foreign_or_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(zooming.ConfigurationError, match="holds no study"):
        small().run(tmp_path)
    with pytest.raises(zooming.ConfigurationError, match=r"[cC]hoose another --out"):
        small().run(tmp_path / "notes.txt" / "study")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_configuration_that_came_to_nothing_is_no_obstacle(tmp_path):
    bad = zooming.Study(
        [Problem("car", "MountainCarContinuous-v0", {"max_episode_steps": 5})], ["net-q"], 3, 1
    )
    with pytest.raises(zooming.TransitionError, match="reward_range"):
        bad.run(tmp_path / "study", workers=1)
    cli.main(
        [
            *words("run MountainCarContinuous-v0 --set max_episode_steps=5 --agents"),
            *words("random:reward_range=(-1,100) --episodes 3 --seeds 2 --workers 1 --out"),
            str(tmp_path / "study"),
        ]
    )
    assert pl.read_parquet(tmp_path / "study" / "results.parquet").height == 2


def test_the_folder_is_looked_at_again_once_it_is_ours(tmp_path, monkeypatch):
    theirs, ours = small(), small(episodes=100)
    store = Store(tmp_path / "study", ours.configuration)
    checks, check = [], store._check_folder

    def check_and_let_the_other_in():
        check()
        if not checks:
            theirs.run(tmp_path / "study")
        checks.append(True)

    monkeypatch.setattr(store, "_check_folder", check_and_let_the_other_in)
    with (
        pytest.raises(zooming.ConfigurationError, match="episodes: there 200, here 100"),
        store.open(),
    ):
        pass


def test_a_folder_that_was_killed_before_its_manifest_is_taken_up_again(tmp_path):
    (tmp_path / "study" / "chunks").mkdir(parents=True)
    (tmp_path / "study" / ".manifest.json.x.part").write_text("{")
    assert len(small().run(tmp_path / "study", workers=1)) == 2
    assert not list((tmp_path / "study").glob(".*.part"))


def test_a_full_disk_keeps_what_is_done(tmp_path, monkeypatch):
    write, written = Store.write, []

    def fill_up(self, chunk, arrays, seconds):
        if written:
            raise OSError(28, "No space left on device")
        written.append(chunk)
        write(self, chunk, arrays, seconds)

    monkeypatch.setattr(Store, "write", fill_up)
    with pytest.raises(zooming.ConfigurationError, match=r"No space left.*20 of 50 runs are kept"):
        small().run(tmp_path / "study", workers=1)
    monkeypatch.undo()
    assert len(small().run(tmp_path / "study", workers=1)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("oil-laplace-2", "did you mean 'oil-laplace-1'"),
        ("--agents adaptve-q", "did you mean 'adaptive-q'"),
        ("--agents adaptive-q:bonis=1", "no option 'bonis'; did you mean 'bonus'"),
        ("--agents adaptive-q-published:bonus=1:max_ball=9", "did you mean 'max_balls'"),
        ("--agents metric-q:split_aftre=1", "'split_aftre'; did you mean 'split_after'"),
        ("--agents metric-q:metric=l3", "choose one of 'linf', 'l1', 'l2', 'discrete'"),
        ("--agents metric-q:metric=discrete", "Discrete needs one axis of whole numbers"),
        ("--set sharpnes=2", "did you mean 'sharpness'"),
        ("--set nonsense", "key=value"),
        ("--agents adaptive-q,adaptive-q", "twice"),
        ("--episodes 0", "--episodes 0"),
        ("--seeds 0", "--seeds 0"),
        ("--engine slurm", "choose one of"),
        ("--address x", "--engine ray"),
    ],
)
def test_what_is_misspelled_is_refused_with_a_sentence(arguments, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        cli.main(["run", "oil-laplace-1", *words(arguments), "--out", str(tmp_path / "study")])


def test_names_settings_and_any_gymnasium_id():
    assert agent_named("adaptive-q:bonus=0.5:cap=horizon").settings == {
        "bonus": 0.5,
        "cap": "horizon",
    }
    assert settings_from(["start=[0.1, 0.2]"]) == {"start": [0.1, 0.2]}
    assert problem_named("oil-laplace-10", {"dims": 2}).options == {
        "survey": "laplace",
        "sharpness": 10.0,
        "dims": 2,
    }
    assert problem_named("zooming/Oil-v0", {"horizon": 3}).make().unwrapped.horizon == 3
    assert len(PRESETS) == 15
    for problem in PRESETS.values():
        problem.make()


def test_the_command_prints_the_table_and_warns_about_few_seeds(tmp_path, capsys):
    cli.main(
        [
            *words("run oil-laplace-1 --agents adaptive-q,random --episodes 50 --seeds 2"),
            *words("--workers 1 --out"),
            str(tmp_path / "study"),
        ]
    )
    shown = capsys.readouterr().out
    assert (
        zooming.Study(["oil-laplace-1"], ["adaptive-q", "random"], 50, 2)
        .run(tmp_path / "study")[0]
        .seconds
        > 0
    )
    for expected in (
        "Study(1 problem x 2 agents x 2 seeds",
        "optimum 4.75",
        "random",
        "Only 2 seeds",
    ):
        assert expected in shown
    manifest = json.loads((tmp_path / "study" / "manifest.json").read_text())
    assert manifest["configuration"]["n_seeds"] == 2
    assert {"zooming", "numpy", "numba", "gymnasium", "python"} <= manifest["computed_with"][0][
        "versions"
    ].keys()


def test_one_seed_has_a_regret_without_an_interval(tmp_path, capsys):
    arguments = [
        *words("--agents adaptive-q --episodes 50 --seeds 1 --out"),
        str(tmp_path / "study"),
    ]
    cli.main(["run", "oil-laplace-1", *arguments])
    (row,) = zooming.Study(["oil-laplace-1"], ["adaptive-q"], 50, 1).run(tmp_path / "study")
    assert row.regret is None
    shown = capsys.readouterr().out
    assert f" {plain(row.mean_regret)} " in shown
    assert "Only 1 seed: " in shown


def test_an_environment_or_a_class_in_the_place_of_a_name_is_refused():
    with pytest.raises(zooming.ConfigurationError, match="is not a problem; give a preset's name"):
        zooming.Study([gym.make("zooming/Oil-v0")], ["adaptive-q"], 10, 2)
    with pytest.raises(zooming.ConfigurationError, match="is not an agent's name"):
        zooming.Study(["oil-laplace-1"], [zooming.AdaptiveQ], 10, 2)


def test_chunk_names_are_files_and_differ():
    problem = problem_named("zooming/Oil-v0", {"start": "uniform"})
    names = [
        Chunk(problem, agent_named(a), 10, 0, 5, e, "run").name
        for a in ("random", "net-q")
        for e in (0, 1)
    ]
    assert len(set(names)) == 4
    assert not any("/" in name for name in names)
    assert np.all(np.diff(checkpoint_episodes(1000)) > 0)
    assert checkpoint_episodes(1)[-1] == 1


@pytest.mark.process
@pytest.mark.slow
def test_ray_gives_the_same_results_even_when_a_node_dies(tmp_path):
    import ray
    from ray.cluster_utils import Cluster

    chunks = small(seeds=100, episodes=5000).configuration.chunks()
    expected = {chunk.name: chunk.run()["total_return"].tolist() for chunk in chunks}
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        doomed = cluster.add_node(num_cpus=1)
        found = {}
        for chunk, arrays, _ in engines.compute(chunks, "ray", None, cluster.address):
            found[chunk.name] = arrays["total_return"].tolist()
            if len(found) == 2:
                cluster.remove_node(doomed, allow_graceful=False)
        assert found == expected
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.parametrize(
    ("address", "variable", "expected"),
    [
        (None, None, ("local", 3)),
        (None, "there:1", ("there:1", None)),
        ("here:1", "there:1", ("here:1", None)),
    ],
)
def test_without_an_address_ray_starts_a_cluster_of_its_own(
    address, variable, expected, monkeypatch
):
    """Left to itself, Ray joins a cluster of another command on this machine."""
    import ray

    asked = []

    def refuse(*, address, num_cpus, **options):
        asked.append((address, num_cpus))
        raise ConnectionError("refused by the test")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    with pytest.raises(zooming.ConfigurationError, match=f"answers at {expected[0]}: refused"):
        list(engines.compute(small().configuration.chunks(), "ray", 3, address))
    assert asked == [expected]


# --- tuning ---------------------------------------------------------------------------------------


def tuned(folder, **options):
    problems = [problem_named("oil-laplace-1")]
    agents = agents_named(options.pop("agents", "adaptive-q,net-q"))
    options = {"episodes": 300, "seeds": 6, "evaluation_seeds": 5, "workers": 1, **options}
    return tune(problems, agents, folder, **options)


def test_the_grid_finds_the_value_with_the_largest_return_on_seeds_of_its_own(tmp_path):
    values = (0.01, 0.5, 5.0)
    ours, net = tuned(tmp_path / "tuning", values=values)
    own = [seeds.derive_seed(0, f"tune {i}") for i in range(6)]
    env = gym.make("zooming/Oil-v0")
    scores = {
        c: np.mean(
            [zooming.AdaptiveQ(env, bonus=c, seed=seed).learn(300).returns.mean() for seed in own]
        )
        for c in values
    }
    assert ours.value == max(scores, key=scores.get)
    assert ours.tuning_return == pytest.approx(max(scores.values()))
    assert [tried.value for tried in ours.tried] == [*values]
    assert [tried.mean_return for tried in ours.tried] == pytest.approx([scores[c] for c in values])
    for tried in net.tried:
        assert tried.interval.low < tried.mean_return < tried.interval.high
    assert ours.samples == net.samples == 3 * 6 * 300 * 5
    fresh = [
        zooming.AdaptiveQ(env, bonus=ours.value, seed=seeds.derive_seed(0, f"run {i}")).learn(300)
        for i in range(5)
    ]
    assert ours.evaluation.mean_return == pytest.approx(
        np.mean([history.returns[-30:].mean() for history in fresh])
    )
    assert tuned(tmp_path / "tuning", values=values) == [ours, net]  # nothing is computed again


def test_a_whole_number_can_be_tuned(tmp_path):
    few = {"episodes": 200, "seeds": 2, "evaluation_seeds": 2}
    (found,) = tuned(tmp_path, agents="adaptive-q", option="max_balls", values=(20, 200), **few)
    assert type(found.value) is int
    assert found.evaluation.n_balls <= found.value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": ()}, "at least one number"),
        ({"values": (float("nan"),)}, "finite"),
        ({"option": "bouns"}, "bouns"),
        ({"episodes": 0}, "episodes=0"),
        ({"seeds": 0}, "seeds=0"),
    ],
)
def test_bad_tuning_is_refused(options, message, tmp_path):
    with pytest.raises(zooming.ConfigurationError, match=message):
        tuned(tmp_path / "tuning", **options)


def test_the_command_tunes_and_prints_what_it_cost(tmp_path, capsys):
    cli.main(
        [
            *words("tune oil-laplace-1 --agents adaptive-q --values 0.1 1.0 --episodes 50"),
            *words("--seeds 2 --evaluation-seeds 2 --workers 1 --out"),
            str(tmp_path / "tuning"),
        ]
    )
    shown = capsys.readouterr().out
    assert "bonus=" in shown
    (found,) = json.loads((tmp_path / "tuning" / "tuned.json").read_text())
    assert f"bonus={found['value']:g}" in shown
    assert "1,000" in shown  # 2 values x 2 seeds x 50 episodes x 5 steps
    lines = {
        value: next(line for line in shown.splitlines() if f" bonus={value:g} │" in line)
        for value in (0.1, 1.0)
    }
    for tried in found["tried"]:
        half = (tried["interval"]["high"] - tried["interval"]["low"]) / 2
        assert plus_minus(tried["mean_return"], half) in lines[tried["value"]]
    assert [value for value, line in lines.items() if "best" in line] == [found["value"]]


def test_a_study_asks_for_polars_before_it_plays(tmp_path, monkeypatch):
    study = zooming.Study(["oil-laplace-1"], ["random"], seeds=2, episodes=10)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(zooming.ConfigurationError, match="a study needs polars: pip install"):
        study.run(tmp_path / "study")
    assert not (tmp_path / "study").exists()
