"""`zooming report`: a study as one self-contained HTML page."""
