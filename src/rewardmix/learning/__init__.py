"""Learn a policy from an environment that can only be played (Algorithm 1), with a certificate of what is known about
it.
"""

from rewardmix.learning.algorithm1 import LearnResult, learn
from rewardmix.learning.certificate import Certificate, TrueModelComparison
from rewardmix.learning.learn_settings import LearnProgress
from rewardmix.statements import Premise, Statement

__all__ = ["Certificate", "LearnProgress", "LearnResult", "Premise", "Statement", "TrueModelComparison", "learn"]
