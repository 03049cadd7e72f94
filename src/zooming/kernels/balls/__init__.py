"""Balls of a finite metric space."""
