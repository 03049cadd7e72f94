"""Ready-made callbacks for `learn(callback=...)`: checkpoints, evaluation, logs, stopping rules.

A callback is any function `callback(agent, history)`, where `history` has the episodes of this call
of learn() so far. Returning False ends the run. With an attribute `every` it is called after every
so many episodes of the agent and after the last of the run. A method `check_agent(agent)`, if it
has one, is called when learn() starts and may raise an error. A callback may use the agent's
environment and save the agent without changing the run.
"""

from zooming.callbacks.control import Checkpoint, Evaluate, StopAfter, StopOnReturn
from zooming.callbacks.logs import MonitorCSV, TensorBoard

__all__ = ["Checkpoint", "Evaluate", "MonitorCSV", "StopAfter", "StopOnReturn", "TensorBoard"]
