"""Whether a killed run of learn goes on to the same result."""
