"""Environments: the problems of the paper and of the gallery, and `compiled_env` for your own."""
