"""Define policies for tests."""


class ConstantPolicy:
    """Play one action at every step."""

    def __init__(self, action):
        self.action = action

    def start(self, state):
        return None

    def act(self, memory, rng):
        return self.action

    def observe(self, memory, action, reward, next_state):
        return None
