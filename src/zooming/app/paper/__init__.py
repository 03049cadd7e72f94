"""The paper's experiments: its figures as data, the sweep behind them, its claims checked, the pictures."""
