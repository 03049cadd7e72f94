"""Write a learned policy as a self-contained file: Python, JSON, C or SQL."""
