"""A check-up of what the product takes for granted, from the episodes themselves."""

from rewardmix.checkup.assumptions import ASSUMPTIONS, Checkup, Finding, check_assumptions

__all__ = ["ASSUMPTIONS", "Checkup", "Finding", "check_assumptions"]
