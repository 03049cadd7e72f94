"""What compares and publishes: studies, rivals, relatives, leaderboard, the paper, reports."""
