"""Read and validate the files of a study's folder, which may be damaged, edited or foreign.

A chunk has a checksum, and its name has a digest of its settings. The optima have a checksum and
the settings that they were solved for. Tables are made from chunks and never read.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zooming.agents.files import container as files
from zooming.errors import CheckpointError, ConfigurationError
from zooming.lab.study.chunks import FINAL_VALUE, N_VALUES, Chunk, checkpoint_episodes
from zooming.lab.study.configuration import Configuration

FORMAT = 1  # of manifest.json and optima.json
REMEDY = (
    "restore or delete it, and the command that began the study writes it again"  # for a manifest
)
PER_RUN = ("seed", "final_return", "total_return", "n_balls", "nbytes", "horizon", "n_clipped")
PER_CHECKPOINT = ("curve_total", "curve_n_balls")


class StoredOptimum(NamedTuple):
    """The optimal return of a problem, and its error (see `analysis.regret.optimum_error`)."""

    return_: float
    error: float


Optima = dict[str, StoredOptimum | None]  # by the problem's name; None: it cannot be solved


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


def optima_as_json(configuration: Configuration, optima: Optima) -> bytes:
    """Return the content of optima.json: settings and optimum of each problem, and a checksum."""
    entries = {
        name: {**settings, "optimum": best and best.return_, "error": best and best.error}
        for name, best in optima.items()
        for settings in [_optimum_settings(configuration)[name]]
    }
    content = {"format": FORMAT, "problems": entries}
    return json.dumps({**content, "sha256": _digest(content)}, indent=1).encode()


def read_optima(path: Path, configuration: Configuration) -> Optima | None:
    """Return {problem: optimum} from optima.json.

    Return None if the file is missing, damaged, edited or for other settings.
    """
    try:
        content = read_json(path, "")
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
    if not is_valid or entries != _optimum_settings(configuration):
        return None
    return {
        name: None if best is None else StoredOptimum(best, error)
        for name, (best, error) in found.items()
    }


def _optimum_settings(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """Return the settings that each optimum depends on, as JSON values."""
    found: dict[str, dict[str, Any]] = {
        problem["name"]: {
            "env_id": problem["env_id"],
            "options": problem["options"],
            "precision": configuration.optimum,
        }
        for problem in configuration.as_json()["problems"]
    }
    return found


def _digest(content: Any) -> str:
    """Return the SHA-256 of a value's JSON with sorted keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_chunk(path: Path, chunk: Chunk) -> dict[str, NDArray[Any]]:
    """Return the arrays of a chunk's file. Raise CheckpointError if it is damaged or foreign."""
    header, arrays = files.read_container(path)
    # Files of versions without clipping have no n_clipped.
    arrays.setdefault("n_clipped", np.zeros(chunk.n_runs, np.int64))
    fault = "another chunk" if header.get("chunk") != chunk.name else _find_fault(chunk, arrays)
    if fault is not None:
        raise CheckpointError(f"{path}: it holds {fault}")
    return arrays


def _find_fault(chunk: Chunk, arrays: dict[str, NDArray[Any]]) -> str | None:
    """Return text on what is wrong with the arrays of a chunk, or None."""
    points = checkpoint_episodes(chunk.episodes)
    per_run = (*PER_RUN, FINAL_VALUE) if chunk.value_episodes else PER_RUN
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(per_run, (chunk.n_runs,))
    shapes |= {name: (chunk.n_runs, len(points)) for name in PER_CHECKPOINT} | {
        "curve_episode": points.shape
    }
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
    if chunk.n_valued:
        values = arrays.get("policy_values", np.empty(0))
        n_points = len(checkpoint_episodes(chunk.episodes, N_VALUES))
        if (
            values.shape not in ((chunk.n_valued, n_points), (0, n_points))
            or values.dtype.kind != "f"
            or not np.isfinite(values).all()
        ):
            return "policy values that are not those of its first runs"
    if not np.array_equal(arrays["seed"], np.arange(chunk.first, chunk.last)):
        return "other seeds"
    if not np.array_equal(arrays["curve_episode"], points):
        return "other episodes"
    return (
        None
        if np.array_equal(arrays["curve_total"][:, -1], arrays["total_return"])
        else "curves that end elsewhere"
    )
