"""The number of types: what leaving it open costs."""
