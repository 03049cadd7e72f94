"""The harness that every agent passes: `zooming.check_agent`."""
