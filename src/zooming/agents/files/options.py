"""The options of an agent in a file: those of its constructor, and those that its class sets."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from zooming.bonuses import KINDS, Bonus
from zooming.errors import ConfigurationError
from zooming.validation import short_repr

if TYPE_CHECKING:
    from zooming.agents.base.agent import Agent


Kind = TypeVar("Kind")


def options_of(agent: Agent) -> dict[str, Any]:
    """Return the keyword arguments that rebuild an agent, see `Agent.get_params`.

    The value of a subclass's argument is read from the attribute of the same name.
    """
    options = accepted_options(type(agent), agent.option_values())
    for name, parameter in list(_parameters(type(agent)).items())[1:]:  # without env
        if name in options or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if not hasattr(agent, name):
            raise ConfigurationError(
                f"{type(agent).__name__} cannot be saved: it does not keep its argument {name} "
                f"as the attribute {name}"
            )
        options[name] = getattr(agent, name)
    return options


def fixed_options_of(agent: Agent) -> dict[str, Any]:
    """Return the options that the class of an agent sets itself.

    The constructor does not accept them. A file states them for the checks before an agent is made.
    """
    known = agent.option_values()
    accepted = accepted_options(type(agent), known)
    return {name: value for name, value in known.items() if name not in accepted}


def accepted_options(kind: type[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return those of some options that the constructor of a class accepts."""
    parameters = _parameters(kind)
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return dict(options)
    return {name: value for name, value in options.items() if name in parameters}


def build_agent(kind: type[Kind], env: Any, options: dict[str, Any]) -> Kind:
    """Return a new agent of a class, with those of the options that its constructor accepts."""
    make: Any = kind
    found: Kind = make(env, **accepted_options(kind, options))
    return found


def check_accepted(kind: type[Any], options: dict[str, Any]) -> None:
    """Raise ValueError if the constructor of a class does not accept all options."""
    others = [name for name in options if name not in accepted_options(kind, options)]
    if others:
        raise ValueError(f"{kind.__name__} has no option {short_repr(others[0])}")


def _parameters(kind: type[Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(kind).parameters)


def bonus_to_json(bonus: Bonus) -> dict[str, Any]:
    """Return the kind and the options of a bonus.

    Raise ConfigurationError for a class of the user's own.
    """
    kind = type(bonus).__name__
    if KINDS.get(kind) is not type(bonus):
        raise ConfigurationError(
            f"a bonus of your own ({kind}) cannot be saved: a file that named its class would "
            "have to run its code"
        )
    own = fields(bonus)  # type: ignore[arg-type]  # KINDS are dataclasses
    options = {field.name: getattr(bonus, field.name) for field in own}
    if "bonus" in options:  # of a Doubling
        options["bonus"] = bonus_to_json(options["bonus"])
    return {"kind": kind, **options}


def bonus_from_json(stored: dict[str, Any]) -> Bonus:
    """Return the bonus that `bonus_to_json` described."""
    options = dict(stored)
    if "bonus" in options:
        options["bonus"] = bonus_from_json(options["bonus"])
    bonus: Bonus = KINDS[options.pop("kind")](**options)
    return bonus
