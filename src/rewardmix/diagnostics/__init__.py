"""Test the model's assumptions on data: diagnostics of episodes and logs."""

from rewardmix.diagnostics.assumption_tests import ASSUMPTIONS, AssumptionTest, Diagnostics, run_assumption_tests

__all__ = ["ASSUMPTIONS", "AssumptionTest", "Diagnostics", "run_assumption_tests"]
