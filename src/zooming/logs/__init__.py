"""Read, check and write logs of transitions, learn from them, and evaluate policies on them."""
