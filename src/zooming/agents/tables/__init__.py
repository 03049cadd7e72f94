"""Q-learning over tables of balls: AdaptiveQ, NetQ, MetricQ, TreeQ."""
