"""How good it is: `solve`, `evaluate`, `regret`, `intervals`, `pac`, `pilot` (reward ranges), `audit`."""
