"""Save and load agents."""
