"""Compile the kernels of this tree, as `zooming warm` does."""

from zooming.app.cli import main

if __name__ == "__main__":
    main(["warm"])
