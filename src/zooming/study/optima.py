"""Find the optima of a study's problems: read them from its folder, or solve the problems."""

from __future__ import annotations

from zooming.analysis.regret import optimum_error
from zooming.study import modules
from zooming.study.problems import Problem
from zooming.study.store import Store
from zooming.study.stored import Optima, StoredOptimum


def find_optima(store: Store) -> Optima:
    """Return {problem: optimum}. The optimum is None if the problem cannot be solved.

    New optima are written to the folder if it is open for writing.
    """
    optima = store.optima()
    if optima is None:
        problems, precision = store.configuration.problems, store.configuration.optimum
        optima = {one.name: _solve(one, precision, store.is_open) for one in problems}
        if store.is_open:
            store.write_optima(optima)
    return optima


def _solve(problem: Problem, precision: str, is_strict: bool) -> StoredOptimum | None:
    """Solve a problem. If that fails, return None, or raise the error if `is_strict`."""
    try:
        modules.find_id(problem.env_id)
        optimal = problem.optimal(precision)
    except Exception:  # a user's environment may raise anything
        if is_strict:
            raise
        return None  # a reader shows the rest
    if optimal is None:
        return None
    return StoredOptimum(float(optimal.return_), optimum_error(optimal))
