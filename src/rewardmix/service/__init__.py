"""The service: a policy that decides for sessions over HTTP, and remembers them."""

from rewardmix.service.deciding import ServeSettings
from rewardmix.service.desk import Desk, DeskLimits
from rewardmix.service.exporting import Exported, export_log
from rewardmix.service.learner import BackgroundLearner
from rewardmix.service.refitting import RefitSettings, Replayed, replay
from rewardmix.service.serving import Address, serve
from rewardmix.service.store import Store

__all__ = [
    "Address",
    "BackgroundLearner",
    "Desk",
    "DeskLimits",
    "Exported",
    "RefitSettings",
    "Replayed",
    "ServeSettings",
    "Store",
    "export_log",
    "replay",
    "serve",
]
