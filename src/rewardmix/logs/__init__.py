"""Logs: episodes that already happened, from files and tables, on one machine or on a cluster."""

from rewardmix.logs.fit_result import FitInfo, Fitted
from rewardmix.logs.fitting import Progress, fit
from rewardmix.logs.inspection import check
from rewardmix.logs.log import Log, Notes, Problem, Repair
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.membership import posterior_types
from rewardmix.logs.minari import read_minari, write_minari
from rewardmix.logs.reading import read
from rewardmix.logs.weeks import Run, RunComparison, Shift, compare_runs
from rewardmix.logs.workers import process_pool
from rewardmix.logs.writing import write

__all__ = [
    "FitInfo",
    "Fitted",
    "Log",
    "LogSchema",
    "Notes",
    "Problem",
    "Progress",
    "Repair",
    "Run",
    "RunComparison",
    "Shift",
    "check",
    "compare_runs",
    "fit",
    "posterior_types",
    "process_pool",
    "read",
    "read_minari",
    "write",
    "write_minari",
]
