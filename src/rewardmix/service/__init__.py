"""The service: a policy that decides for sessions over HTTP, and remembers them."""

from rewardmix.service.deciding import ServeSettings
from rewardmix.service.desk import Desk, DeskLimits
from rewardmix.service.exporting import Exported, export_log
from rewardmix.service.serving import Address, serve
from rewardmix.service.store import Store

__all__ = ["Address", "Desk", "DeskLimits", "Exported", "ServeSettings", "Store", "export_log", "serve"]
