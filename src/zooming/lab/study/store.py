"""The folder of a study: a manifest, one file per finished chunk, and tables made from them.

manifest.json            configuration; versions and platforms that computed it
.lock                    held by the running command
optima.json              the optimum of each problem that can be solved
timings.jsonl            processor seconds of each chunk; the one file that differs from run to run
chunks/NAME.zoom         written atomically when a chunk is finished, so every file is complete
results.parquet          one row per run
curves.parquet           one row per run and checkpoint
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zooming.agents.files import container as files
from zooming.errors import CheckpointError, ConfigurationError
from zooming.lab.rivals.rival import versions_of
from zooming.lab.study.chunks import FINAL_VALUE, Chunk
from zooming.lab.study.configuration import Configuration
from zooming.lab.study.problems import AgentChoice, Problem
from zooming.lab.study.stopping import LOCK, lock, write_error
from zooming.lab.study.stored import (
    FORMAT,
    PER_CHECKPOINT,
    PER_RUN,
    REMEDY,
    Optima,
    optima_as_json,
    read_chunk,
    read_manifest,
    read_optima,
)
from zooming.validation import check_float, count_own_frames, import_frames
from zooming.version import __version__

if TYPE_CHECKING:
    pass


MOST_SHOWN = 120  # characters shown of a setting that differs


def are_equal(stored: Any, ours: Any) -> bool:
    """Return whether two configurations are equal as JSON."""
    return json.dumps(stored, sort_keys=True) == json.dumps(ours, sort_keys=True)


def list_differences(stored: Any, ours: Any, where: str = "") -> Iterable[str]:
    """Yield one line of text for each entry in which two configurations differ."""
    if isinstance(stored, dict) and isinstance(ours, dict):
        for key in sorted({*stored, *ours}):
            yield from list_differences(
                stored.get(key), ours.get(key), f"{where}.{key}" if where else key
            )
    elif isinstance(stored, list) and isinstance(ours, list) and len(stored) == len(ours):
        for i, (there, here) in enumerate(zip(stored, ours, strict=True)):
            yield from list_differences(there, here, f"{where}[{i}]")
    elif stored != ours:
        yield f"  {where}: there {_short_json(stored)}, here {_short_json(ours)}"


def _short_json(value: Any) -> str:
    """Return a value as JSON, cut to MOST_SHOWN characters."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


_IN_RESULTS = ("seed", "final_return", "total_return", "n_balls", "nbytes")


def make_tables(store: Store, optima: Optima) -> dict[str, bytes]:
    """Return the content of results.parquet and curves.parquet, made from all chunks."""
    pl = import_frames("polars", "a study")
    results, curves = [], []
    for chunk in store.configuration.chunks():
        arrays = store.read(chunk)
        optimum = optima[chunk.problem.name]
        best = None if optimum is None else optimum.return_
        named = {
            "problem": chunk.problem.name,
            "agent": chunk.agent.label,
            "settings": json.dumps(chunk.agent.settings, default=str),
        }
        n, points = chunk.n_runs, arrays["curve_episode"]
        regret = (
            np.full(n, np.nan) if best is None else chunk.episodes * best - arrays["total_return"]
        )
        per_run = {name: arrays[name] for name in (*_IN_RESULTS, *store.optional_names())}
        results.append(
            pl.DataFrame({**{k: [v] * n for k, v in named.items()}, **per_run, "regret": regret})
        )
        total = arrays["curve_total"]
        curves.append(pl.DataFrame({
            **{k: [v] * (n * len(points)) for k, v in named.items() if k != "settings"},
            "seed": np.repeat(arrays["seed"], len(points)), "episode": np.tile(points, n),
            "total_return": total.ravel(),
            "n_balls": arrays["curve_n_balls"].ravel(),
            "regret": np.full(total.size, np.nan)
            if best is None
            else (points * best - total).ravel(),
        }))  # fmt: skip
    return {"results": _parquet(pl.concat(results)), "curves": _parquet(pl.concat(curves))}


def _parquet(frame: Any) -> bytes:
    content = io.BytesIO()
    frame.write_parquet(content)
    return content.getvalue()


MANIFEST, OPTIMA, TIMINGS, CHUNKS = "manifest.json", "optima.json", "timings.jsonl", "chunks"


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
            raise write_error(self.folder, error) from error
        with lock(self.folder):
            try:
                self._check_folder()  # again: another command may have written in between
                for part in [*self.folder.glob(".*.part"), *(self.folder / CHUNKS).glob(".*.part")]:
                    part.unlink()  # incomplete file of a killed process
                self._write_manifest()
            except OSError as error:
                raise write_error(self.folder, error) from error
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
            if not are_equal(stored, ours) and any((self.folder / CHUNKS).glob("*.zoom")):
                raise ConfigurationError(
                    f"{self.folder} holds another study; choose another --out.\n"
                    + "\n".join(list_differences(stored, ours))
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
        if manifest.exists() and not are_equal(
            read_manifest(manifest)["configuration"], self.configuration.as_json()
        ):
            # Another configuration was started here, but no chunk was finished.
            (self.folder / OPTIMA).unlink(missing_ok=True)
        elif manifest.exists():
            content = read_manifest(manifest)
            if ours in content["computed_with"]:
                return
            if all(self._path(chunk).exists() for chunk in self.configuration.chunks()):
                return  # nothing is left to compute
            lines = "\n".join(list_differences(content["computed_with"][-1], ours))
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

    def seconds(self) -> dict[str, float]:
        """Return {chunk name: processor seconds}. Invalid lines are skipped."""
        found: dict[str, float] = {}
        try:
            lines = (self.folder / TIMINGS).read_bytes().splitlines()
        except OSError:
            return found
        for line in lines:
            try:
                name, seconds = json.loads(line)
                found[str(name)] = check_float(seconds, "seconds", 0.0, math.inf)
            except (ValueError, TypeError, RecursionError):
                continue
        return found

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
        names = (*PER_RUN, *PER_CHECKPOINT, *self.optional_names())
        joined = {name: np.concatenate([arrays[name] for arrays in found]) for name in names}
        return {**joined, "curve_episode": found[0]["curve_episode"]}

    def optima(self) -> Optima | None:
        """Return {problem: stored optimum}.

        Return None if optima.json is missing, invalid or for other settings.
        """
        return read_optima(self.folder / OPTIMA, self.configuration)

    def write_optima(self, optima: Optima) -> None:
        """Write optima.json."""
        content = optima_as_json(self.configuration, optima)
        files.write_atomically(self.folder / OPTIMA, content)

    def write_tables(self, optima: Optima) -> None:
        """Write results.parquet and curves.parquet from all chunks, unless they are unchanged."""
        for name, content in make_tables(self, optima).items():
            path = self.folder / f"{name}.parquet"
            if not path.is_file() or path.read_bytes() != content:
                files.write_atomically(path, content)

    def optional_names(self) -> tuple[str, ...]:
        """Return the names of the arrays that only some studies have."""
        return (FINAL_VALUE,) if self.configuration.value_episodes else ()

    def _path(self, chunk: Chunk) -> Path:
        return self.folder / CHUNKS / f"{chunk.name}.zoom"
