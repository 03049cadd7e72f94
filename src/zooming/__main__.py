"""`python -m zooming` is the command `zooming`."""

from zooming.app.cli import main

if __name__ == "__main__":
    main()
