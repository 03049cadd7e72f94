"""Train agents: drivers of `learn`, pauses, history, many seeds, recorded transitions."""
