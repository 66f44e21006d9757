"""How often learn is as good as it says, over many small models."""
