"""What is computed on every machine."""

from __future__ import annotations

PROBLEMS = (
    "shop",
    "probe",
    "lock:steps=4",
    "riverswim:states=5,horizon=10",
    "branches",
    "hard",
    "random",
    "random:states=8,actions=2",
)
SEEDS = 12
EPISODES = 1000
"""Runs of ``learn``: every problem with every seed."""

THREE = ("random:num_types=3", "random:num_types=3,states=3,actions=2,horizon=8")
"""Learned with three types, with ``THREE_SEEDS`` seeds each."""

THREE_SEEDS = 2

PLANNED = ("shop", "random:states=40", "random:num_types=3", "random:num_types=4,states=3,actions=2,horizon=4")
PLANNING_GAP = 1e-2
PLANNING_WORK = 1e8

LOGS = ("shop", "random:states=4")
LOG_EPISODES = 2000
"""Fitted logs, simulated with uniform actions."""

KILLED = ["learn", "random:states=6", "--num-episodes", "300000", "--seed", "1"]
"""A run that is killed on one machine and goes on on another."""
