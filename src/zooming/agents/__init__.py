"""Agents: AdaptiveQ, NetQ, MetricQ, TreeQ and heuristics.

Also training, histories and saved files.
"""
