"""Logs: episodes that already happened, from files and tables, on one machine or on a cluster."""

from rewardmix.logs.checking import Problem
from rewardmix.logs.cluster import Cluster
from rewardmix.logs.crew import Crew, Here, Processes
from rewardmix.logs.fitted import Fitted, FitInfo
from rewardmix.logs.fitting import Progress, fit
from rewardmix.logs.log import Log, Notes
from rewardmix.logs.minari import read_minari, write_minari
from rewardmix.logs.reading import read
from rewardmix.logs.world import World
from rewardmix.logs.writing import write

__all__ = [
    "Cluster",
    "Crew",
    "FitInfo",
    "Fitted",
    "Here",
    "Log",
    "Notes",
    "Problem",
    "Processes",
    "Progress",
    "World",
    "fit",
    "read",
    "read_minari",
    "write",
    "write_minari",
]
