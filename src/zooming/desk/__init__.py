"""The desk: decisions and rewards in a database, and an agent that learns from them."""
