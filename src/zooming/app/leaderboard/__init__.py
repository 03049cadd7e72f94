"""`zooming leaderboard`: problems x agents x episodes as one table and one page."""
