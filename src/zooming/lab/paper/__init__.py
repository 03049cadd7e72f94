"""Reproduction of the paper's experiments: runs, claims, verdicts and figures."""
