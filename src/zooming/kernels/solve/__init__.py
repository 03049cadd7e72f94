"""Backward induction on a known law, for `zooming.solve` and exact evaluation."""
