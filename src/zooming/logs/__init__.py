"""Logs of transitions: read, check and learn from them, and write them."""
