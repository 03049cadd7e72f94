"""The command `zooming`: `cli`, `run` and `tune`, the paper's figures, the report, the benchmark."""
