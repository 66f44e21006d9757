"""How much of the adaptivity gain learn captures, against other ways to learn."""
