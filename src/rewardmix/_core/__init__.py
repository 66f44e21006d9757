"""Provide what all packages use: argument checks, budgets, portable arithmetic, random streams, count tables, files."""
