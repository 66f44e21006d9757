"""Earning while learning: an agent that is fed one event at a time, and never stops to explore for its own sake."""

from rewardmix.online.agent import Agent, Visit
from rewardmix.online.earning import Earned, earn

__all__ = ["Agent", "Earned", "Visit", "earn"]
