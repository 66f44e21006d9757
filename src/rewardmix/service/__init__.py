"""Serve a policy over HTTP: decide actions of sessions, store them, and refit from them."""

from rewardmix.service.background_refit import BackgroundRefitter
from rewardmix.service.log_export import ExportReport, export_log
from rewardmix.service.policy_server import ServeSettings
from rewardmix.service.refit import RefitSettings, ReplayResult, replay
from rewardmix.service.server import ServerAddress, serve
from rewardmix.service.session_service import SessionLimits, SessionService
from rewardmix.service.store import Store

__all__ = [
    "BackgroundRefitter",
    "ExportReport",
    "RefitSettings",
    "ReplayResult",
    "ServeSettings",
    "ServerAddress",
    "SessionLimits",
    "SessionService",
    "Store",
    "export_log",
    "replay",
    "serve",
]
