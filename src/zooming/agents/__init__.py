"""Agents: one surface, whatever they keep inside."""
