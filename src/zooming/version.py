"""The version of the package, which files and studies record."""

__version__ = "0.1.0"
