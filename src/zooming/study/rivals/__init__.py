"""Adapters for what people use today, as agents of studies. See docs/rivals.md."""
