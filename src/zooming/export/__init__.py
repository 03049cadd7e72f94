"""A learned policy as a file that needs nothing: Python, JSON, C or SQL."""
