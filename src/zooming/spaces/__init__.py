"""Convert Gymnasium spaces to axes of the unit cube.

The modules are `axes`, `flatten` (nested spaces), `masks` (feasible actions) and `names`.
"""
