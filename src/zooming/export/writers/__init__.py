"""Write a form of a policy in a language: Python, JSON, C, SQL."""
