"""How much of the gain of adapting learn captures, against other ways to learn."""
