"""Exploring pairs or triples: the gain in a model that pairs do not show, and types from tables of triples."""
