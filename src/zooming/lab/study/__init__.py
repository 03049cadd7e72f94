"""Studies: grids of independent runs that can be interrupted and resumed at any time."""
