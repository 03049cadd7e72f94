"""Balls of an agent: `boxes` (the table), `view` (what a user sees), `splits` (rules), `cuts` (where pictures cut)."""
