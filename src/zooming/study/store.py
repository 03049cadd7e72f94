"""The folder of a study: a manifest, one file per finished chunk, and tables made from them.

manifest.json            configuration; versions and platforms that computed it
.lock                    held by the command that is at work
optima.json              the optimum of each problem that can be solved
timings.jsonl            seconds of each chunk; the one file that differs from run to run
chunks/NAME.zoom         written atomically when a chunk is finished; a file that is there is complete
results.parquet          one row per run
curves.parquet           one row per run and checkpoint
"""

from __future__ import annotations

import io
import json
import os
import platform
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import zooming
from zooming import files
from zooming.errors import CheckpointError, SpaceError
from zooming.study.runs import Chunk, Configuration

MOST_SHOWN = 120  # characters of a setting that differs
MANIFEST, OPTIMA, TIMINGS, CHUNKS, LOCK = "manifest.json", "optima.json", "timings.jsonl", "chunks", ".lock"


class Store:
    """A study's folder. Nothing is read or written before it is `opened`, or one of its methods asks for it."""

    def __init__(self, folder: str | os.PathLike[str], configuration: Configuration) -> None:
        self.folder, self.configuration = Path(folder), configuration
        self._optima: dict[str, float | None] = {}
        self._known: dict[str, dict[str, NDArray[Any]]] = {}  # chunks that were read: each is read once

    @classmethod
    def existing(cls, folder: str | os.PathLike[str]) -> Store:
        """The study that a folder holds, to read."""
        manifest = Path(folder) / MANIFEST
        if not manifest.exists():
            raise SpaceError(f"{folder} holds no study; zooming run ... --out {folder} makes one")
        return cls(folder, Configuration.from_json(_manifest(manifest)["configuration"]))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The folder is this study's, and no other command's, until the end of the block."""
        try:
            self._check_folder()  # before anything is made in a folder that is somebody else's
            (self.folder / CHUNKS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        with locked(self.folder):
            try:
                self._check_folder()  # again: another command may have been faster
                for part in [*self.folder.glob(".*.part"), *(self.folder / CHUNKS).glob(".*.part")]:
                    part.unlink()  # what a killed process was writing; never complete
                self._write_manifest()
            except OSError as error:
                raise _unwritable(self.folder, error) from error
            yield

    def _check_folder(self) -> None:
        manifest = self.folder / MANIFEST
        if manifest.exists():
            stored, ours = _manifest(manifest)["configuration"], self.configuration.as_json()
            if not _same(stored, ours) and any((self.folder / CHUNKS).glob("*.zoom")):
                raise SpaceError(
                    f"{self.folder} holds another study; choose another --out.\n" + "\n".join(_differences(stored, ours))
                )
        elif self.folder.exists() and any(
            path.name not in (CHUNKS, LOCK) and not path.name.endswith(".part") for path in self.folder.iterdir()
        ):
            raise SpaceError(f"{self.folder} is not empty and holds no study; choose another --out")

    def _write_manifest(self) -> None:
        manifest = self.folder / MANIFEST
        versions = {name: version(name) for name in ("numpy", "numba", "gymnasium")}
        versions |= {"zooming": zooming.__version__, "python": platform.python_version()}
        ours = {"versions": versions, "platform": platform.platform()}
        content: dict[str, Any] = {"format": 1, "configuration": self.configuration.as_json(), "computed_with": [ours]}
        if manifest.exists() and not _same(_manifest(manifest)["configuration"], self.configuration.as_json()):
            (self.folder / OPTIMA).unlink(missing_ok=True)  # begun with another configuration, and nothing came of it
        elif manifest.exists():
            content = _manifest(manifest)
            if ours in content["computed_with"]:
                return
            if self.has_tables():
                return  # nothing is left to compute
            lines = "\n".join(_differences(content["computed_with"][-1], ours))
            warnings.warn(f"{self.folder} was begun with other versions; runs may differ from there on:\n{lines}", stacklevel=5)
            content["computed_with"].append(ours)
        files.write_atomically(manifest, json.dumps(content, indent=1).encode())

    def missing(self) -> list[Chunk]:
        """Chunks without a file; a damaged file is set aside and counts as missing."""
        absent = []
        for chunk in self.configuration.chunks():
            path = self._path(chunk)
            if not path.exists():
                absent.append(chunk)
                continue
            try:
                header, arrays = files.read_container(path)
                if header.get("chunk") != chunk.name:
                    raise CheckpointError(f"{path} holds another chunk")
                self._known[chunk.name] = arrays
            except CheckpointError:
                path.rename(path.with_suffix(".damaged"))
                absent.append(chunk)
        return absent

    def write(self, chunk: Chunk, arrays: dict[str, NDArray[Any]], seconds: float) -> None:
        files.write_container(self._path(chunk), {"chunk": chunk.name}, arrays)
        with files.writable(self.folder / TIMINGS).open("a") as log:
            log.write(json.dumps([chunk.name, seconds]) + "\n")

    def seconds(self) -> dict[str, float]:
        """Seconds of each chunk by name; a line that a crash cut short is left out."""
        path, found = self.folder / TIMINGS, {}
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                name, seconds = json.loads(line)
                found[str(name)] = float(seconds)
            except (ValueError, TypeError):
                continue
        return found

    def read(self, chunk: Chunk) -> dict[str, NDArray[Any]]:
        if chunk.name not in self._known:
            self._known[chunk.name] = files.read_container(self._path(chunk))[1]
        return self._known[chunk.name]

    def optima(self) -> dict[str, float | None]:
        """The optimum of each problem, computed once; None where it cannot be."""
        if not self._optima:
            path, names = self.folder / OPTIMA, {problem.name for problem in self.configuration.problems}
            try:
                known = json.loads(path.read_text())
            except (FileNotFoundError, ValueError):
                known = None
            if not (isinstance(known, dict) and known.keys() == names):  # not there yet, or damaged
                solved = {p.name: p.optimal(self.configuration.optimum) for p in self.configuration.problems}
                known = {name: None if optimal is None else optimal.return_ for name, optimal in solved.items()}
                files.write_atomically(path, json.dumps(known, indent=1).encode())
            self._optima = known
        return self._optima

    def write_tables(self) -> None:
        """results.parquet and curves.parquet, from all chunks."""
        pl = _polars()
        optima = self.optima()
        results, curves = [], []
        for chunk in self.configuration.chunks():
            arrays = self.read(chunk)
            best = optima[chunk.problem.name]
            named = {
                "problem": chunk.problem.name,
                "agent": chunk.agent.label,
                "settings": json.dumps(chunk.agent.settings, default=str),
            }
            n, points = chunk.n_runs, arrays["curve_episode"]
            regret = np.full(n, np.nan) if best is None else chunk.episodes * best - arrays["total_return"]
            per_run = {name: arrays[name] for name in ("seed", "final_return", "total_return", "n_balls", "nbytes")}
            results.append(pl.DataFrame({**{k: [v] * n for k, v in named.items()}, **per_run, "regret": regret}))
            total = arrays["curve_total"]
            curves.append(pl.DataFrame({
                **{k: [v] * (n * len(points)) for k, v in named.items() if k != "settings"},
                "seed": np.repeat(arrays["seed"], len(points)), "episode": np.tile(points, n), "total_return": total.ravel(),
                "n_balls": arrays["curve_n_balls"].ravel(),
                "regret": np.full(total.size, np.nan) if best is None else (points * best - total).ravel(),
            }))  # fmt: skip
        for name, frames in (("results", results), ("curves", curves)):
            content = io.BytesIO()
            pl.concat(frames).write_parquet(content)
            files.write_atomically(self.folder / f"{name}.parquet", content.getvalue())

    def has_tables(self) -> bool:
        """Whether both tables are there and whole: a Parquet file ends with its mark."""
        paths = [self.folder / f"{name}.parquet" for name in ("results", "curves")]
        return all(path.exists() and path.read_bytes()[-4:] == b"PAR1" for path in paths)

    def _path(self, chunk: Chunk) -> Path:
        return self.folder / CHUNKS / f"{chunk.name}.zoom"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder is this command's alone; the system gives the lock back when its holder dies, however it dies."""
    try:
        import fcntl
    except ImportError:  # not there on Windows: two commands on one folder are not noticed
        yield
        return
    try:
        lock = files.writable(folder / LOCK).open("a")
    except OSError as error:
        raise _unwritable(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SpaceError(f"another command is at work in {folder}; wait until it ends, or choose another --out") from error
        yield


def _unwritable(folder: Path, error: OSError) -> SpaceError:
    return SpaceError(f"cannot write to {folder}: {error.strerror}. Choose another --out")


def _same(stored: Any, ours: Any) -> bool:
    return json.dumps(stored, sort_keys=True) == json.dumps(ours, sort_keys=True)


def _manifest(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        if not (isinstance(content["configuration"], dict) and content["computed_with"]):
            raise ValueError("it has another layout")
    except (ValueError, KeyError, TypeError) as error:
        raise SpaceError(f"{path} is damaged ({error}); restore it, or choose another --out") from error
    return content


def _differences(stored: Any, ours: Any, where: str = "") -> Iterable[str]:
    """Lines that show where two configurations differ."""
    if isinstance(stored, dict) and isinstance(ours, dict):
        for key in sorted({*stored, *ours}):
            yield from _differences(stored.get(key), ours.get(key), f"{where}.{key}" if where else key)
    elif isinstance(stored, list) and isinstance(ours, list) and len(stored) == len(ours):
        for i, (there, here) in enumerate(zip(stored, ours, strict=True)):
            yield from _differences(there, here, f"{where}[{i}]")
    elif stored != ours:
        yield f"  {where}: there {_short(stored)}, here {_short(ours)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise SpaceError("tables need polars: pip install 'zooming[study]'") from error
    return polars
