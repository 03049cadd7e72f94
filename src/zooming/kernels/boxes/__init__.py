"""Balls that are boxes: layout, selection, splits, the update rule, and trees."""
