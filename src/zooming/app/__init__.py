"""The command line: `zooming run`, `tune`, `reproduce`, `report`, `audit`, `bench`, `list`, ..."""
