"""placeholder"""
from __future__ import annotations
from rewardmix.recovery.result import Evidence, Question, Recovery


def many(evidence: Evidence, question: Question) -> Recovery:
    """x."""
    raise NotImplementedError
