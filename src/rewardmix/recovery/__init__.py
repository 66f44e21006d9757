"""Recovery (Algorithm 3): from uncertain, partial correlations to a model, with certificates."""

from rewardmix.recovery.best import best, start_only
from rewardmix.recovery.bootstrap import bootstrap
from rewardmix.recovery.confidence import ConfidenceSet, Violation, confidence_set, exact, hoeffding, normal
from rewardmix.recovery.contexts import Choice, choose_contexts
from rewardmix.recovery.front import recover
from rewardmix.recovery.labels import aligned
from rewardmix.recovery.paper import paper, spectral
from rewardmix.recovery.result import Certificate, Info, Recovery
from rewardmix.recovery.sweep import sweep

__all__ = [
    "Certificate",
    "Choice",
    "ConfidenceSet",
    "Info",
    "Recovery",
    "Violation",
    "aligned",
    "best",
    "bootstrap",
    "choose_contexts",
    "confidence_set",
    "exact",
    "hoeffding",
    "normal",
    "paper",
    "recover",
    "spectral",
    "start_only",
    "sweep",
]
