"""The planner: grid, regression, backward induction, actions."""
