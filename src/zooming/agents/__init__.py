"""Agents: AdaptiveQ, NetQ, MetricQ, TreeQ and heuristics, with training, histories and files."""
