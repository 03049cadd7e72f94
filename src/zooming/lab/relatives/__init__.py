"""Agents of other papers that also discretize the state-action space. See docs/lab/relatives.md."""
