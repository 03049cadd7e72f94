"""Analysis of agents and problems: optima, policy values, regret, intervals, PAC, audits."""
