"""Gymnasium spaces as axes of the unit cube: `axes`, `axis`, `flatten` (nested spaces), `masks`."""
