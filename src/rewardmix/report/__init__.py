"""Write reports: a run as plain data, as one HTML page, and a policy as JSON for other programs."""

from rewardmix.report.html_page import render_page
from rewardmix.report.policy_json import policy_to_dict
from rewardmix.report.report_data import ReportData
from rewardmix.report.run_folder import read_result, write_report, write_result
from rewardmix.report.saved_runs import SavedRun, load_run, load_run_summary
from rewardmix.report.summary import build_summary

__all__ = [
    "ReportData",
    "SavedRun",
    "build_summary",
    "load_run",
    "load_run_summary",
    "policy_to_dict",
    "read_result",
    "render_page",
    "write_report",
    "write_result",
]
