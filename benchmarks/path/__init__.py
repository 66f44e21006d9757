"""The path of somebody new, timed."""
