"""Earning while learning: what it costs, beside other ways to learn."""
