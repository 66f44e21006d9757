"""Exploring pairs or triples: the gain in a world that pairs do not show, and types from tables of triples."""
