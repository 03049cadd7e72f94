"""Problems of computer systems, whose randomness is a trace of requests."""
