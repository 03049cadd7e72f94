"""Convert Gymnasium spaces to axes of the unit cube.

The modules are `axes`, `axis`, `flatten` (nested spaces), `masks` (feasible actions) and
`stored_spaces` (files).
"""
