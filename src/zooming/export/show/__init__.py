"""The command `zooming show`: a page on which a person plays with a policy."""
