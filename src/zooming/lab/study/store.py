"""The folder of a study: a manifest, one file per finished chunk, and tables made from them.

manifest.json            configuration; versions and platforms that computed it
.lock                    held by the running command
optima.json              the optimum of each problem that can be solved
timings.jsonl            processor seconds of each chunk; the one file that differs from run to run
chunks/NAME.zoom         written atomically when a chunk is finished, so every file is complete
results.parquet          one row per run
curves.parquet           one row per run and checkpoint

Files may be damaged, edited or foreign, so all that is read is validated. A chunk has a checksum,
and its name has a digest of its settings. The optima have a checksum and the settings that they
were solved for. Tables are made from chunks and never read.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.agents.files import container as files
from zooming.errors import CheckpointError, ConfigurationError
from zooming.lab.rivals.rival import versions_of
from zooming.lab.study.configuration import FINAL_VALUE, Chunk, Configuration, checkpoint_episodes
from zooming.lab.study.problems import AgentChoice, Problem
from zooming.validation import check_float, count_own_frames, import_frames
from zooming.version import __version__

MANIFEST, OPTIMA, TIMINGS, CHUNKS, LOCK = (
    "manifest.json", "optima.json", "timings.jsonl", "chunks", ".lock",
)  # fmt: skip
FORMAT = 1  # of manifest.json and optima.json
REMEDY = "restore or delete it, and the command that began the study writes it again"
PER_RUN = ("seed", "final_return", "total_return", "n_balls", "nbytes", "horizon", "n_clipped")
PER_CHECKPOINT = ("curve_total", "curve_n_balls")
_IN_RESULTS = ("seed", "final_return", "total_return", "n_balls", "nbytes")
MOST_SHOWN = 120  # characters shown of a setting that differs


class StoredOptimum(NamedTuple):
    """The optimal return of a problem, and its error (see `analysis.regret.optimum_error`)."""

    return_: float
    error: float


Optima = dict[str, StoredOptimum | None]  # by the problem's name; None: it cannot be solved


class Store:
    """The folder of a study. The constructor reads and writes nothing. `open` allows writing."""

    def __init__(self, folder: str | os.PathLike[str], configuration: Configuration) -> None:
        self.folder, self.configuration = Path(folder), configuration
        self.is_open = False  # whether this command has locked the folder and may write
        self._known: dict[str, dict[str, NDArray[Any]]] = {}  # cache of the chunks that were read

    @classmethod
    def of_folder(cls, folder: str | os.PathLike[str]) -> Store:
        """Return the store of an existing study.

        Raise ConfigurationError if the folder does not hold a study.
        """
        manifest = Path(folder) / MANIFEST
        if not manifest.exists():
            raise ConfigurationError(
                f"{folder} holds no study; zooming run ... --out {folder} makes one"
            )
        content = read_manifest(manifest)
        try:
            return cls(folder, Configuration.from_json(content["configuration"]))
        except ConfigurationError as error:
            raise ConfigurationError(f"{manifest} is damaged ({error}); {REMEDY}") from error

    @contextmanager
    def open(self) -> Iterator[None]:
        """Create and lock the folder, and write the manifest.

        Unlock it at the end of the `with` block.
        """
        try:
            self._check_folder()  # before anything is written to a foreign folder
            (self.folder / CHUNKS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _write_error(self.folder, error) from error
        with lock(self.folder):
            try:
                self._check_folder()  # again: another command may have written in between
                for part in [*self.folder.glob(".*.part"), *(self.folder / CHUNKS).glob(".*.part")]:
                    part.unlink()  # incomplete file of a killed process
                self._write_manifest()
            except OSError as error:
                raise _write_error(self.folder, error) from error
            self.is_open = True
            try:
                yield
            finally:
                self.is_open = False

    def _check_folder(self) -> None:
        """Raise ConfigurationError if the folder holds another study, or other files."""
        manifest = self.folder / MANIFEST
        if manifest.exists():
            stored, ours = read_manifest(manifest)["configuration"], self.configuration.as_json()
            if not _are_equal(stored, ours) and any((self.folder / CHUNKS).glob("*.zoom")):
                raise ConfigurationError(
                    f"{self.folder} holds another study; choose another --out.\n"
                    + "\n".join(_differences(stored, ours))
                )
        elif (
            self.folder.exists()
            and not self._has_only_our_chunks()
            and any(
                path.name not in (CHUNKS, LOCK) and not path.name.endswith(".part")
                for path in self.folder.iterdir()
            )
        ):
            raise ConfigurationError(
                f"{self.folder} is not empty and holds no study; choose another --out"
            )

    def _has_only_our_chunks(self) -> bool:
        """Return whether there are chunks, and all belong to this study.

        Then the folder is accepted even without a manifest.
        """
        found = {path.stem for path in (self.folder / CHUNKS).glob("*.zoom")}
        return bool(found) and found <= {chunk.name for chunk in self.configuration.chunks()}

    def _write_manifest(self) -> None:
        """Write the manifest. If it names other versions, add those of this machine and warn."""
        manifest = self.folder / MANIFEST
        versions = {name: version(name) for name in ("numpy", "numba", "gymnasium")}
        versions |= {"zooming": __version__, "python": platform.python_version()}
        versions |= versions_of(agent.kind for agent in self.configuration.agents)
        ours = {"versions": versions, "platform": platform.platform()}
        content: dict[str, Any] = {
            "format": FORMAT,
            "configuration": self.configuration.as_json(),
            "computed_with": [ours],
        }
        known = read_manifest(manifest) if manifest.exists() else None
        if known is not None and not _are_equal(known["configuration"], content["configuration"]):
            # Another configuration was started here, but no chunk was finished.
            (self.folder / OPTIMA).unlink(missing_ok=True)
        elif known is not None:
            content = known
            if ours in content["computed_with"]:
                return
            if all(self._path(chunk).exists() for chunk in self.configuration.chunks()):
                return  # nothing is left to compute
            lines = "\n".join(_differences(content["computed_with"][-1], ours))
            warnings.warn(
                f"{self.folder} was begun with other versions; runs may differ from there "
                f"on:\n{lines}",
                stacklevel=count_own_frames(),
            )
            content["computed_with"].append(ours)
        files.write_atomically(manifest, json.dumps(content, indent=1).encode())

    def missing(self) -> list[Chunk]:
        """Return the chunks that have no file. A damaged file is renamed and counts as missing."""
        absent = []
        for chunk in self.configuration.chunks():
            path = self._path(chunk)
            if not path.exists():
                absent.append(chunk)
                continue
            try:
                self._known[chunk.name] = read_chunk(path, chunk)
            except CheckpointError:
                path.rename(path.with_suffix(".damaged"))
                absent.append(chunk)
        return absent

    def write(self, chunk: Chunk, arrays: dict[str, NDArray[Any]], seconds: float) -> None:
        """Write a finished chunk, and append its time to the log."""
        files.write_container(self._path(chunk), {"chunk": chunk.name}, arrays)
        with files.writable_path(self.folder / TIMINGS).open("a") as log:
            log.write(json.dumps([chunk.name, seconds]) + "\n")

    def seconds_per_run(self) -> dict[tuple[str, str], float]:
        """Return {(problem, agent's label): mean processor seconds of learning in a run}.

        A time is NaN if that of a chunk is not known. Invalid lines of the log are skipped.
        """
        timings: dict[str, float] = {}
        try:
            lines = (self.folder / TIMINGS).read_bytes().splitlines()
        except OSError:
            lines = []
        for line in lines:
            try:
                name, seconds = json.loads(line)
                timings[str(name)] = check_float(seconds, "seconds", 0.0, math.inf)
            except (ValueError, TypeError, RecursionError):
                continue
        found = dict[tuple[str, str], float]()
        for chunk in self.configuration.chunks():
            key = chunk.problem.name, chunk.agent.label
            found[key] = found.get(key, 0.0) + timings.get(chunk.name, math.nan)
        return {key: total / self.configuration.n_seeds for key, total in found.items()}

    def read(self, chunk: Chunk) -> dict[str, NDArray[Any]]:
        """Return the arrays of a chunk.

        Raise ConfigurationError if its file is missing or damaged.
        """
        if chunk.name not in self._known:
            try:
                self._known[chunk.name] = read_chunk(self._path(chunk), chunk)
            except FileNotFoundError as error:
                raise self._unfinished_error() from error
            except OSError as error:
                raise ConfigurationError(
                    f"cannot read {self._path(chunk)} ({error.strerror}); make it readable"
                ) from error
            except CheckpointError as error:
                raise ConfigurationError(
                    f"{error}. The command that began the study sets it aside and computes it again"
                ) from error
        return self._known[chunk.name]

    def check_finished(self) -> None:
        """Raise ConfigurationError if there are fewer or more chunks than in the manifest.

        Files are counted, not looked up by name. Looking them up would take long if a damaged
        manifest names very many chunks.
        """
        found, expected = len([*(self.folder / CHUNKS).glob("*.zoom")]), self.configuration.n_chunks
        if found < expected:
            raise self._unfinished_error()
        if found > expected:  # for example n_seeds was edited, which would hide seeds
            raise ConfigurationError(
                f"{self.folder} holds {found:,} chunks, but {MANIFEST} names only {expected:,} of "
                f"them: it was edited, or files were added. Restore {MANIFEST}, or move the other "
                f"files out of {CHUNKS}"
            )

    def _unfinished_error(self) -> ConfigurationError:
        return ConfigurationError(
            f"the study in {self.folder} is not finished; run the command that began it again"
        )

    def runs(self, problem: Problem, agent: AgentChoice) -> dict[str, NDArray[Any]]:
        """Return the arrays of all runs of an agent on a problem, one row per seed.

        `curve_episode` holds the checkpoints.
        """
        found = [self.read(chunk) for chunk in self.configuration.chunks_of(problem, agent)]
        names = (*PER_RUN, *PER_CHECKPOINT, *self._optional_names())
        joined = {name: np.concatenate([arrays[name] for arrays in found]) for name in names}
        return {**joined, "curve_episode": found[0]["curve_episode"]}

    def optima(self) -> Optima | None:
        """Return {problem: stored optimum}.

        Return None if optima.json is missing, damaged, edited or for other settings.
        """
        try:
            content = read_json(self.folder / OPTIMA, "")
            if content.pop("sha256") != _digest(content) or content["format"] != FORMAT:
                return None
            entries = content["problems"]
            found = {
                name: (entry.pop("optimum"), entry.pop("error")) for name, entry in entries.items()
            }
        except (ConfigurationError, KeyError, TypeError, AttributeError):
            return None
        is_valid = all(
            pair == (None, None) or all(type(one) is float and math.isfinite(one) for one in pair)
            for pair in found.values()
        )
        if not is_valid or entries != self._optimum_settings():
            return None
        return {
            name: None if best is None else StoredOptimum(best, error)
            for name, (best, error) in found.items()
        }

    def write_optima(self, optima: Optima) -> None:
        """Write optima.json: settings and optimum of each problem, and a checksum."""
        settings = self._optimum_settings()
        entries = {
            name: {**settings[name], "optimum": best and best.return_, "error": best and best.error}
            for name, best in optima.items()
        }
        content = {"format": FORMAT, "problems": entries}
        text = json.dumps({**content, "sha256": _digest(content)}, indent=1)
        files.write_atomically(self.folder / OPTIMA, text.encode())

    def _optimum_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that each optimum depends on, as JSON values."""
        return {
            problem["name"]: {
                "env_id": problem["env_id"],
                "options": problem["options"],
                "precision": self.configuration.optimum,
            }
            for problem in self.configuration.as_json()["problems"]
        }

    def write_tables(self, optima: Optima) -> None:
        """Write results.parquet and curves.parquet from all chunks, unless they are unchanged."""
        pl = import_frames("polars", "a study")
        results, curves = [], []
        for chunk in self.configuration.chunks():
            arrays, optimum = self.read(chunk), optima[chunk.problem.name]
            best = math.nan if optimum is None else optimum.return_
            n, points, total = chunk.n_runs, arrays["curve_episode"], arrays["curve_total"]
            named = {"problem": chunk.problem.name, "agent": chunk.agent.label}
            results.append(pl.DataFrame({
                **{key: [value] * n for key, value in named.items()},
                "settings": [json.dumps(chunk.agent.settings, default=str)] * n,
                **{name: arrays[name] for name in (*_IN_RESULTS, *self._optional_names())},
                "regret": chunk.episodes * best - arrays["total_return"],
            }))  # fmt: skip
            curves.append(pl.DataFrame({
                **{key: [value] * total.size for key, value in named.items()},
                "seed": np.repeat(arrays["seed"], len(points)),
                "episode": np.tile(points, n),
                "total_return": total.ravel(),
                "n_balls": arrays["curve_n_balls"].ravel(),
                "regret": (points * best - total).ravel(),
            }))  # fmt: skip
        for name, frames in (("results", results), ("curves", curves)):
            content, path = io.BytesIO(), self.folder / f"{name}.parquet"
            pl.concat(frames).write_parquet(content)
            if not path.is_file() or path.read_bytes() != content.getvalue():
                files.write_atomically(path, content.getvalue())

    def _optional_names(self) -> tuple[str, ...]:
        """Return the names of the arrays that only some studies have."""
        return (FINAL_VALUE,) if self.configuration.value_episodes else ()

    def _path(self, chunk: Chunk) -> Path:
        return self.folder / CHUNKS / f"{chunk.name}.zoom"


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock the folder for this command in the `with` block. The lock ends if the process dies."""
    try:
        import fcntl
    except ImportError:  # on Windows, two commands in one folder are not detected
        yield
        return
    try:
        lock = files.writable_path(folder / LOCK).open("a")
    except OSError as error:
        raise _write_error(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another command is writing to {folder}; wait until it ends, or choose another "
                "--out"
            ) from error
        yield


def _write_error(folder: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot write to {folder}: {error.strerror}. Choose another --out")


def _are_equal(stored: Any, ours: Any) -> bool:
    """Return whether two configurations are equal as JSON."""
    return json.dumps(stored, sort_keys=True) == json.dumps(ours, sort_keys=True)


def _differences(stored: Any, ours: Any, where: str = "") -> Iterable[str]:
    """Yield one line of text for each entry in which two configurations differ."""
    if isinstance(stored, dict) and isinstance(ours, dict):
        for key in sorted({*stored, *ours}):
            place = f"{where}.{key}" if where else key
            yield from _differences(stored.get(key), ours.get(key), place)
    elif isinstance(stored, list) and isinstance(ours, list) and len(stored) == len(ours):
        for i, (there, here) in enumerate(zip(stored, ours, strict=True)):
            yield from _differences(there, here, f"{where}[{i}]")
    elif stored != ours:
        texts = [json.dumps(value) for value in (stored, ours)]
        there, here = (t if len(t) <= MOST_SHOWN else f"{t[:MOST_SHOWN]}..." for t in texts)
        yield f"  {where}: there {there}, here {here}"


def _digest(content: Any) -> str:
    """Return the SHA-256 of a value's JSON with sorted keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_json(path: Path, remedy: str) -> Any:
    """Return the content of a JSON file.

    If it cannot be read, raise ConfigurationError with the advice `remedy`.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path} ({error.strerror}); make it readable, or {remedy}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is damaged ({error}); {remedy}") from error


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of a manifest.

    Raise ConfigurationError if it is damaged or of a newer format.
    """
    content = read_json(path, REMEDY)
    fault = None
    if not isinstance(content, dict):
        fault = "it holds no manifest"
    elif type(content.get("format")) is not int or content["format"] < 1:
        fault = f"its format is {content.get('format')!r}, not a whole number from 1 to {FORMAT}"
    elif content["format"] > FORMAT:
        raise ConfigurationError(
            f"{path}: format {content['format']} is newer than this zooming reads ({FORMAT}); "
            "update zooming"
        )
    elif not isinstance(content.get("configuration"), dict):
        fault = "it has no configuration"
    else:
        versions = content.get("computed_with")
        if not (isinstance(versions, list) and versions) or not all(
            isinstance(one, dict) for one in versions
        ):
            fault = "it does not say what the study was computed with"
    if fault is not None:
        raise ConfigurationError(f"{path} is damaged ({fault}); {REMEDY}")
    return content  # type: ignore[no-any-return]


def read_chunk(path: Path, chunk: Chunk) -> dict[str, NDArray[Any]]:
    """Return the arrays of a chunk's file. Raise CheckpointError if it is damaged or foreign."""
    header, arrays = files.read_container(path)
    fault = "another chunk" if header.get("chunk") != chunk.name else _find_fault(chunk, arrays)
    if fault is not None:
        raise CheckpointError(f"{path}: it holds {fault}")
    return arrays


def _find_fault(chunk: Chunk, arrays: dict[str, NDArray[Any]]) -> str | None:
    """Return text on what is wrong with the arrays of a chunk, or None."""
    points = checkpoint_episodes(chunk.episodes)
    per_run = (*PER_RUN, FINAL_VALUE) if chunk.value_episodes else PER_RUN
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(per_run, (chunk.n_runs,))
    shapes |= dict.fromkeys(PER_CHECKPOINT, (chunk.n_runs, len(points)))
    shapes["curve_episode"] = points.shape
    for name, shape in shapes.items():
        if name not in arrays:
            return f"no array {name}"
        if arrays[name].shape != shape or arrays[name].dtype.kind not in "iuf":
            return (
                f"{name} of shape {arrays[name].shape} and type {arrays[name].dtype}, not "
                f"numbers of shape {shape}"
            )
        if not np.isfinite(arrays[name]).all():
            return f"a {name} that is not finite"
    if not np.array_equal(arrays["seed"], np.arange(chunk.first, chunk.last)):
        return "other seeds"
    if not np.array_equal(arrays["curve_episode"], points):
        return "other episodes"
    if not np.array_equal(arrays["curve_total"][:, -1], arrays["total_return"]):
        return "curves that end elsewhere"
    return None
