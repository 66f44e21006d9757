"""Learn online with posterior sampling: an agent that gets events and maximizes reward from the first episode on."""

from rewardmix.online.agent import OpenEpisode, PosteriorSamplingAgent
from rewardmix.online.online_loop import learn_online
from rewardmix.online.online_result import OnlineResult

__all__ = ["OnlineResult", "OpenEpisode", "PosteriorSamplingAgent", "learn_online"]
