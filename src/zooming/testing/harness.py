"""Conformance test for agents, of this package or your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zooming.errors import BrokenPromise, ConfigurationError
from zooming.testing.promises import PROMISES
from zooming.testing.tools import Broken, Gears, Skipped, Trial, Uneven, make_ambulance


@dataclass(frozen=True)
class Checked:
    """The result of `zooming.check_agent`. Print it for a list.

    Attributes
    ----------
    kept
        The promises that the agent keeps, with the environment.
    skipped
        The promises that could not be checked, with the environment and the reason.
    """

    kept: list[str]
    skipped: list[str]

    def __str__(self) -> str:
        lines = [f"kept     {promise}" for promise in self.kept] + [
            f"skipped  {promise}" for promise in self.skipped
        ]
        return "\n".join(lines)


def check_agent(
    make_agent: Callable[..., Any], make_env: Callable[[], Any] | None = None
) -> Checked:
    """Check that agents of one kind keep the promises of every agent: seeding, saving, batches, ...

    By default, three environments are used: a compiled one; one in Python whose states and actions
    have different dimensions and units; and one in Python with mixed spaces and feasible actions.
    In the last two, episodes may end early. An agent may refuse these two environments with
    ConfigurationError.

    Parameters
    ----------
    make_agent
        An agent class, or a function that makes an agent: `make_agent(env, seed)`.
    make_env
        Function that makes the environment to check on, for an agent that fits one problem only.
        The rewards must lie in the agent's range.

    Returns
    -------
    Checked
        The promises that were kept, and those that could not be checked.

    Raises
    ------
    BrokenPromise
        At the first broken promise, with what was observed.
    ConfigurationError
        If the agent refuses the first environment, or the one of `make_env`.

    Examples
    --------
    >>> import zooming
    >>> checked = zooming.check_agent(zooming.AdaptiveQ)
    >>> print(checked.kept[3])
    two agents with the same seed do the same (zooming/Ambulance-v0)
    >>> class Forgetful(zooming.AdaptiveQ):
    ...     def predict(self, *args, **options):
    ...         self.table.core["random"] += 1
    ...         return super().predict(*args, **options)
    >>> zooming.check_agent(Forgetful)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    zooming.errors.BrokenPromise: Forgetful on zooming/Ambulance-v0 breaks the promise "predict ...
    """
    kept: list[str] = []
    skipped: list[str] = []
    for k, environment in enumerate(
        [make_env] if make_env is not None else [make_ambulance, Uneven.limited, Gears.limited]
    ):
        trial = Trial(make_agent, environment)
        try:
            trial.agent()
        except ConfigurationError as error:
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
                seen = (
                    str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
                )
                cause = None if isinstance(error, Broken) else error
                raise BrokenPromise(
                    f'{trial.name} on {trial.env_name} breaks the promise "{promise}": {seen}'
                ) from cause
            else:
                kept.append(f"{promise} ({trial.env_name})")
    return Checked(kept, skipped)
