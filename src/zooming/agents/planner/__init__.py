"""The agent that plans on a model of its samples."""
