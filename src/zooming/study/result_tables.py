"""The tables of a study: one row per run, and one row per run and checkpoint."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from zooming.study.stored import Optima
from zooming.validation import import_frames

if TYPE_CHECKING:
    from zooming.study.store import Store

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
