"""What the first and the second run of a fresh install cost."""
