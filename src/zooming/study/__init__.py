"""Studies: grids of independent runs that can be stopped at any moment and continued by the same command."""
