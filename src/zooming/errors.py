"""The exceptions of zooming. Each message says what is wrong, where, and what to do instead."""

from __future__ import annotations


class ZoomingError(ValueError):
    """Base class of all errors of this package. It is a ValueError."""


class ConfigurationError(ZoomingError):
    """Raised for an invalid request: a wrong option, file name, study or figure."""


class SpaceError(ConfigurationError):
    """Raised for a space, or for axes of a space, that the agent or the metric cannot use."""


class OptionError(ConfigurationError, TypeError):
    """Raised for an unknown keyword argument. It is also a TypeError, like Python's own."""


class LibraryError(ConfigurationError, ImportError):
    """Raised if an optional library is missing. It is also an ImportError."""


class TransitionError(ZoomingError):
    """Raised for an invalid state, action or reward. The agent learns nothing from it."""


class CheckpointError(ZoomingError):
    """Raised for a file that is damaged, not zooming's, too new, or of another problem."""


class BrokenPromise(ZoomingError, AssertionError):
    """Raised when an agent fails a check of `zooming.check_agent`."""
