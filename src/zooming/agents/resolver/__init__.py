"""An agent that knows the dynamics, sees the noise, and plans on the law of what it has seen."""
