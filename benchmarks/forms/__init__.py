"""The form of the world: do types move differently, do rewards depend on the next state?"""
