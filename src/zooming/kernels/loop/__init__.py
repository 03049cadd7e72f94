"""Compile kernels, pass arrays and environments into them, and play episodes."""
