"""Ready-made callbacks for `learn(callback=...)`: checkpoints, evaluation, curves, stopping rules.

A callback is any function `callback(agent, history)`. `history` holds the episodes of this call of
learn() so far. Returning False ends the run. A callback with an attribute `every` is called after
every so many episodes of the agent, and after the last episode of the run. If a callback has a
method `check_agent(agent)`, learn() calls it first, and it may raise an error. A callback may use
the agent's environment and save the agent without changing the run.
"""

from zooming.callbacks.control import Checkpoint, Evaluate, StopAfter, StopOnReturn
from zooming.callbacks.tensorboard import TensorBoard

__all__ = ["Checkpoint", "Evaluate", "StopAfter", "StopOnReturn", "TensorBoard"]
