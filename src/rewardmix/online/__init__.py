"""Earning while learning: an agent that is fed one event at a time, and never stops to explore for its own sake."""
