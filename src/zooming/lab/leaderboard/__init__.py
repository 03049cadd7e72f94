"""`zooming leaderboard`: compare problems x agents x episodes in one table and one page."""
