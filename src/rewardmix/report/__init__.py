"""Reports: a run as plain data, as one page, and as a policy that plays anywhere."""

from rewardmix.report.findings import Findings
from rewardmix.report.folder import read_result, write_report, write_result
from rewardmix.report.page import page
from rewardmix.report.playable import playable
from rewardmix.report.saved_runs import SavedRun, load_run, read_run
from rewardmix.report.summary import summarise

__all__ = [
    "Findings",
    "SavedRun",
    "load_run",
    "page",
    "playable",
    "read_result",
    "read_run",
    "summarise",
    "write_report",
    "write_result",
]
