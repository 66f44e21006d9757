"""Algorithm 1: from a world that can only be played to a policy, and to what is known about it."""

from rewardmix.facts import Fact, Premise
from rewardmix.learning.algorithm1 import Learned, learn
from rewardmix.learning.certificate import Certificate, Truth
from rewardmix.learning.learn_settings import Stage

__all__ = ["Certificate", "Fact", "Learned", "Premise", "Stage", "Truth", "learn"]
