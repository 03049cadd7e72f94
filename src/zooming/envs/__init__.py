"""Environments: the two problems of the paper, and `compiled_env` for dynamics of your own."""
