"""Agents that learn together: Portfolio and Auto."""
