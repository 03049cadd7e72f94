"""The file that a command writes: `zooming export FILE OUT`, or an option of older scripts."""

from __future__ import annotations

from typing import Annotated

import tyro

from zooming.errors import ConfigurationError

Target = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[OUT]")]


def one_target(positional: str | None, option: str | None) -> str | None:
    """Return the file to write. Raise ConfigurationError if two are named."""
    if positional is not None and option is not None:
        raise ConfigurationError(
            f"two files to write are named: {positional} and {option}; leave one of them out"
        )
    return positional if option is None else option
