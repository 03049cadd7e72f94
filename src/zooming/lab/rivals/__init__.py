"""Adapters that run methods and libraries people use today as agents. See docs/lab/rivals.md."""
