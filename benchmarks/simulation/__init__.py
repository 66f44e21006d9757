"""How fast a model is simulated."""
