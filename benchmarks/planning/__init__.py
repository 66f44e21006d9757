"""How fast a certified gap is reached."""
