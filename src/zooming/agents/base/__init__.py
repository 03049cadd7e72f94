"""What all agents share: the base class, the policy, validation, seeds."""
