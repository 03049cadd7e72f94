"""Agents (AdaptiveQ, NetQ, MetricQ, TreeQ, Planner, Auto, ...) and heuristics.

Training, histories and saved files are here, too.
"""
