"""Logged sessions: read, check, fit and compare episodes from files and tables, on one machine or on a cluster.

``read_log`` checks every row and returns a ``Log`` in partitions; ``fit`` learns a policy from it offline; ``diagnose``
tests the model's assumptions; ``infer_types`` estimates the type of each session; ``compare_runs`` tests what changed
between two fits.
"""

from rewardmix.logs.diagnose_log import diagnose
from rewardmix.logs.executors import process_pool
from rewardmix.logs.fit_result import FitInfo, FitResult
from rewardmix.logs.fitting import FitProgress, fit
from rewardmix.logs.log import Log, ReadReport, Repair, RowProblem
from rewardmix.logs.log_reader import read_log
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.log_writer import write_log
from rewardmix.logs.minari_io import read_minari, write_minari
from rewardmix.logs.run_comparison import Change, RunComparison, RunSummary, compare_runs
from rewardmix.logs.type_posteriors import infer_types

__all__ = [
    "Change",
    "FitInfo",
    "FitProgress",
    "FitResult",
    "Log",
    "LogSchema",
    "ReadReport",
    "Repair",
    "RowProblem",
    "RunComparison",
    "RunSummary",
    "compare_runs",
    "diagnose",
    "fit",
    "infer_types",
    "process_pool",
    "read_log",
    "read_minari",
    "write_log",
    "write_minari",
]
