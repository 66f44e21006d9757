"""Real households: the learned adaptive policy against the best fixed brand."""
