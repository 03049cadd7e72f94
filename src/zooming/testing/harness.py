"""Whether an agent keeps the promises that every agent here keeps: for those of this package, and for yours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zooming.errors import BrokenPromise, SpaceError
from zooming.testing.promises import PROMISES
from zooming.testing.trial import Broken, Gears, Skipped, Trial, Uneven, requests


@dataclass(frozen=True)
class Checked:
    """The promises that an agent keeps, per environment, and why some could not be checked."""

    kept: list[str]
    skipped: list[str]

    def __str__(self) -> str:
        lines = [f"kept     {promise}" for promise in self.kept] + [f"skipped  {promise}" for promise in self.skipped]
        return "\n".join(lines)


def check_agent(make_agent: Callable[..., Any], make_env: Callable[[], Any] | None = None) -> Checked:
    """The promises that the agents of `make_agent(env, seed)` keep; BrokenPromise, with what was seen, at the first broken one.

    They are checked on a compiled environment, on a plain one, whose states and actions have different dimensions and units
    and whose episodes may end early, and on one of mixed spaces with feasible actions; an agent that refuses the second or
    the third with a SpaceError is checked on the others. An agent for one problem only is checked on that: `make_env()` makes
    it, with rewards in the agent's range.

    >>> import zooming
    >>> checked = zooming.check_agent(zooming.AdaptiveQ)
    >>> print(checked.kept[3])
    a seed repeats (zooming/Ambulance-v0)
    >>> class Forgetful(zooming.AdaptiveQ):
    ...     def predict(self, *args, **options):
    ...         self.table.core["random"] += 1
    ...         return super().predict(*args, **options)
    >>> zooming.check_agent(Forgetful)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    zooming.errors.BrokenPromise: Forgetful on zooming/Ambulance-v0 breaks the promise "predict changes nothing, ...
    """
    kept: list[str] = []
    skipped: list[str] = []
    for k, environment in enumerate([make_env] if make_env is not None else [requests, Uneven.limited, Gears.limited]):
        trial = Trial(make_agent, environment)
        try:
            trial.agent()
        except SpaceError as error:
            if k == 0:
                raise
            skipped.append(f"everything ({trial.env_name}): {error}")
            continue
        for check in PROMISES:
            promise = (check.__doc__ or "").rstrip(".")
            try:
                check(trial)
            except Skipped as reason:
                skipped.append(f"{promise} ({trial.env_name}): {reason}")
            except Exception as error:
                seen = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
                cause = None if isinstance(error, Broken) else error
                raise BrokenPromise(f'{trial.name} on {trial.env_name} breaks the promise "{promise}": {seen}') from cause
            else:
                kept.append(f"{promise} ({trial.env_name})")
    return Checked(kept, skipped)
