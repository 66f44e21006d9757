"""Plays visits and stores the agent after each, until somebody kills it: python killed_agent.py FILE EPISODES."""

from __future__ import annotations

import sys
from pathlib import Path

import rewardmix as rm
from rewardmix import problems

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from online.test_agent import Walker, agent_for, play

    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=2)
    path, episodes = Path(sys.argv[1]), int(sys.argv[2])
    agent = rm.load(path) if path.is_file() else agent_for(model, seed=8)
    while agent.episodes < episodes:
        play(agent, Walker(model, 8), agent.episodes, 1)
        rm.save(path, agent)
        print(agent.episodes, flush=True)
