"""The errors that zooming raises on purpose; each message says what was wrong, where, and what to do instead."""

from __future__ import annotations


class ZoomingError(ValueError):
    """Base of all errors of this package; a ValueError, so that existing handlers catch it."""


class SpaceError(ZoomingError):
    """A space, horizon or option that an agent cannot work with."""


class OptionError(SpaceError, TypeError):
    """An option that a function or class does not have; a TypeError, as Python's own is and Gymnasium's clients expect."""


class TransitionError(ZoomingError):
    """A state, action or reward that must not be learned from; the agent is as it was before."""


class CheckpointError(ZoomingError):
    """A file that is damaged, foreign, newer than this version, or of another problem."""


class BrokenPromise(ZoomingError, AssertionError):
    """A promise of `zooming.check_agent` that an agent does not keep."""
