"""The conformance test of agents: `zooming.check_agent`."""
