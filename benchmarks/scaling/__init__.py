"""How many episodes it takes, against theorem:upper_bound: Algorithm 2 to its threshold, and what learning needs."""
