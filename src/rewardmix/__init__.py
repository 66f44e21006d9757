"""Learn to act when every episode secretly has one of several reward functions."""

from rewardmix._version import __version__

__all__ = ["__version__"]
