"""A study's folder that is damaged, edited or somebody else's: a sentence, or the same result
again, never anything else."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import zooming
from helpers import words
from zooming.agents.files import container as files
from zooming.app import cli
from zooming.lab.report import make_page
from zooming.lab.study.problems import Problem, problem_named
from zooming.lab.study.store import Store
from zooming.lab.study.study import Study, read_study

ARGUMENTS = {"episodes": 12, "seeds": 2}
JSON_FILES, TABLES = ("manifest.json", "optima.json"), ("results.parquet", "curves.parquet")


def study(**options):
    return Study(["oil-quadratic-1"], ["adaptive-q", "random"], **{**ARGUMENTS, **options})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished study."""
    folder = tmp_path_factory.mktemp("stored") / "study"
    study().run(folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "study")


def results(folder):
    """What a user sees: numbers of a report, and of the study run again, which also repairs the
    folder."""
    numbers = {
        row.agent: (row.optimum, row.mean_regret, row.mean_return)
        for row in Study.stored(folder).summary(folder)
    }
    return numbers, {label: runs.regret.tolist() for label, runs in read_study(folder).items()}


def tables(folder):
    return {name: (folder / name).read_bytes() for name in TABLES}


def replaced(path, *keys):
    """A function that puts a value at a place of a JSON file."""

    def put(value):
        content = json.loads(path.read_text())
        at = content
        for key in keys[:-1]:
            at = at[key]
        if value is KeyError:
            del at[keys[-1]]
        else:
            at[keys[-1]] = value
        path.write_text(json.dumps(content))

    return put


WRONG = [None, True, -1, 1.5, 10**30, float("nan"), "12", [], {"a": 1}, KeyError]
TEXTS = [b"", b"{", b"null", b"[]", b"\xff\xfe\x00", b"[" * 100_000, b"{}", b'{"format": 1}']
PLACES = {
    "manifest.json": "format configuration computed_with computed_with.0 configuration.problems "
    "configuration.problems.0 configuration.problems.0.name configuration.problems.0.env_id "
    "configuration.problems.0.options configuration.agents configuration.agents.0.kind "
    "configuration.agents.0.settings configuration.episodes configuration.n_seeds "
    "configuration.entropy configuration.stream configuration.optimum",
    "optima.json": "format sha256 problems problems.oil-quadratic-1 "
    "problems.oil-quadratic-1.optimum problems.oil-quadratic-1.env_id "
    "problems.oil-quadratic-1.options problems.oil-quadratic-1.precision",
}


WAYS_OUT = (
    "restore or delete it", "update zooming", "choose another --out", "he command that began ",
)  # fmt: skip


def outcome(folder, truth):
    """How a report and the same command again answer: `refused`, or `rebuilt` if they give the
    true numbers."""
    answers = []
    for ask in (lambda: results(folder), lambda: study().run(folder) and results(folder)):
        try:
            found = ask()
        except zooming.ZoomingError as error:
            sentence = str(error)
            is_named = str(folder) in sentence and any(way in sentence for way in WAYS_OUT)
            answers.append("refused" if is_named else sentence)
        else:
            answers.append("rebuilt" if found == truth else f"gives {found}")
    return answers


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name in PLACES for place in words(PLACES[name])]
)
def test_wrong_values_in_manifest_and_optima_are_refused_or_solved_again(name, place, made, folder):
    truth, path = results(made), folder / name
    keys = [int(key) if key.isdigit() else key for key in place.split(".")]
    for value in WRONG:
        shutil.copy(made / name, path)
        replaced(path, *keys)(value)
        if path.read_text() == json.dumps(json.loads((made / name).read_text())):
            continue  # it was the right value
        answers = outcome(folder, truth)
        if name == "optima.json":
            assert answers == ["rebuilt", "rebuilt"], value
            assert path.read_bytes() == (made / name).read_bytes()
        elif value is KeyError or place == "computed_with.0":
            # Of what has a default, or is only shown.
            assert {*answers} <= {"refused", "rebuilt"}, value
        else:
            assert answers == ["refused", "refused"], value


@pytest.mark.parametrize("name", [*JSON_FILES, *TABLES, "timings.jsonl"])
def test_a_file_cut_anywhere_or_of_other_bytes_is_refused_or_rebuilt(name, made, folder):
    truth, whole = results(made), (made / name).read_bytes()
    cuts = [whole[: len(whole) * i // 7] for i in range(7)]
    flipped = [
        whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :]
        for i in range(0, len(whole), len(whole) // 12)
    ]
    for content in [*TEXTS, *cuts, *flipped]:
        (folder / name).write_bytes(content)
        answers = outcome(folder, truth)
        if name in ("optima.json", *TABLES):
            assert answers == ["rebuilt", "rebuilt"], content[:40]
            assert (folder / name).read_bytes() == whole
        shutil.copy(made / name, folder / name)


def test_a_file_that_cannot_be_read_is_named(folder, monkeypatch):
    for name in JSON_FILES:
        (folder / name).unlink()
        (folder / name).mkdir()  # what root cannot read either
    message = r"cannot read .*manifest.json \(Is a directory\); make it readable, or restore"
    with pytest.raises(zooming.ConfigurationError, match=message):
        make_page(folder)
    with pytest.raises(zooming.ConfigurationError, match=r"cannot read .*manifest.json"):
        study().run(folder)


NEWER = r"format 2 is newer than this zooming reads \(1\); update zooming"


@pytest.mark.parametrize(
    ("number", "message"), [(2, NEWER), (0, "its format is 0"), ("1", "its format is '1'")]
)
def test_a_manifest_of_another_format_is_refused(number, message, folder, capsys):
    replaced(folder / "manifest.json", "format")(number)
    with pytest.raises(zooming.ConfigurationError, match=message):
        study().run(folder)
    with pytest.raises(SystemExit, match=message):
        cli.main(["report", str(folder)])


def test_the_optimum_of_other_settings_is_solved_again(made, folder, tmp_path):
    """A file of another study, with a right checksum, for a problem of the same name."""
    other = problem_named("oil-quadratic-1", {"horizon": 2})
    object.__setattr__(other, "name", "oil-quadratic-1")
    Study([other], ["random"], 2, 1).run(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "optima.json", folder / "optima.json")
    assert results(folder) == results(made)


def test_a_manifest_that_was_deleted_is_written_again_by_the_command_that_began(made, folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(zooming.ConfigurationError, match=r"holds another study|holds no study"):
        study(episodes=13).run(folder)
    study().run(folder)
    assert json.loads((folder / "manifest.json").read_text()) == json.loads(
        (made / "manifest.json").read_text()
    )


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("damage", ["column", "rows", "twice", "other", "values", "types"])
def test_a_table_of_wrong_content_is_made_again(damage, name, made, folder):
    table = pl.read_parquet(folder / name)
    table = {
        "column": lambda: table.drop("regret", "seed"),
        "rows": lambda: table.head(1),
        "twice": lambda: pl.concat([table, table]),
        "other": lambda: table.with_columns(problem=pl.lit("another")),
        "values": lambda: table.with_columns(regret=pl.lit(float("nan")), total_return=pl.lit(1e9)),
        "types": lambda: table.with_columns(total_return=pl.lit("much")),
    }[damage]()
    table.write_parquet(folder / name)
    assert results(folder) == results(made)
    study().run(folder)
    assert tables(folder) == tables(made)


@pytest.mark.parametrize(
    "damage", ["gone", "short", "text", "nan", "seeds", "episodes", "curve", "chunk"]
)
def test_a_chunk_with_a_right_checksum_and_wrong_content_is_refused_and_computed_again(
    damage, made, folder
):
    path = next((folder / "chunks").glob("*adaptive-q*.zoom"))
    header, arrays = files.read_container(path)
    change = {
        "gone": lambda: arrays.pop("final_return"),
        "short": lambda: arrays.update(total_return=arrays["total_return"][:1]),
        "text": lambda: arrays.update(total_return=np.array(["much", "more"])),
        "nan": lambda: arrays["final_return"].__setitem__(0, np.nan),
        "seeds": lambda: arrays["seed"].__setitem__(0, 7),
        "episodes": lambda: arrays["curve_episode"].__setitem__(0, 7),
        "curve": lambda: arrays["total_return"].__setitem__(0, 1e9),
        "chunk": lambda: header.update(chunk="another"),
    }
    change[damage]()
    files.write_container(path, header, arrays)
    message = r"it holds .*The command that began the study sets it aside"
    with pytest.raises(zooming.ConfigurationError, match=message):
        make_page(folder)
    study().run(folder)
    assert path.with_suffix(".damaged").exists()
    assert results(folder) == results(made)
    assert tables(folder) == tables(made)


def test_a_manifest_that_asks_for_any_number_of_seeds_costs_nothing(folder):
    replaced(folder / "manifest.json", "configuration", "n_seeds")(10**15)
    with pytest.raises(zooming.ConfigurationError, match="is not finished"):
        Study.stored(folder).summary(folder)
    with pytest.raises(zooming.ConfigurationError, match="is not finished"):
        read_study(folder)


def test_a_manifest_edited_to_hide_seeds_is_noticed(tmp_path):
    study(seeds=40, episodes=5).run(tmp_path)
    replaced(tmp_path / "manifest.json", "configuration", "n_seeds")(20)
    with pytest.raises(zooming.ConfigurationError, match=r"chunks, but manifest.json names only"):
        Study.stored(tmp_path).summary(tmp_path)
    with pytest.raises(zooming.ConfigurationError, match="it was edited, or files were added"):
        make_page(tmp_path)


def test_a_folder_that_only_others_may_write_is_read(made, folder, monkeypatch):
    """A reader repairs nothing on disk."""
    (folder / "optima.json").write_text("{}")
    monkeypatch.setattr(files, "write_atomically", lambda *arguments: pytest.fail("a reader wrote"))
    assert results(folder) == results(made)


@pytest.mark.parametrize("found", [
    {},
    {"problem": "../evaluation/x", "agents": {}},
    {"problem": "x", "agents": {"a": 1}},
    3,
    {"problem": "x", "agents": {}, "verdicts": [3]},
    {"problem": 1, "agents": {}},
])  # fmt: skip
def test_damaged_findings_are_refused(found, tmp_path):
    (tmp_path / "findings.json").write_text(json.dumps({"settings": {}, "figures": {"1": found}}))
    message = r"findings.json is damaged .*zooming reproduce makes it again"
    with pytest.raises(zooming.ConfigurationError, match=message):
        make_page(tmp_path)


def test_a_store_reads_optima_and_never_solves(folder, monkeypatch):
    store = Store.of_folder(folder)
    monkeypatch.setattr(Problem, "optimal", lambda *arguments: pytest.fail("solved"))
    assert store.optima()["oil-quadratic-1"].error > 0
    (folder / "optima.json").unlink()
    assert store.optima() is None
