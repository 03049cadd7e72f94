"""`zooming report`: one HTML page of a study, self-contained, to show to a colleague."""
