"""Whether what is said to hold with a probability does: radii, intervals of rewards, validation, the bootstrap."""
