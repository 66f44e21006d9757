"""Earning while learning: an agent that is fed one event at a time, and never stops to explore for its own sake."""

from rewardmix.online.agent import Agent, Visit
from rewardmix.online.earned import Earned
from rewardmix.online.earning import earn

__all__ = ["Agent", "Earned", "Visit", "earn"]
