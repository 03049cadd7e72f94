"""Agents: AdaptiveQ, NetQ, MetricQ and heuristics, with training, histories and files."""
