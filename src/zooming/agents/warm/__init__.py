"""Warm start: begin with a rule that people use."""
