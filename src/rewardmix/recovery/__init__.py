"""Recovery (Algorithm 3): from uncertain, partial correlations to a model, with certificates."""

from rewardmix.recovery.algorithm3 import algorithm_3, spectral, sweep_weights
from rewardmix.recovery.bootstrap import bootstrap
from rewardmix.recovery.confidence_set import ConfidenceSet, Violation, confidence_set, exact, hoeffding, normal
from rewardmix.recovery.number_of_contexts import Choice, choose_contexts
from rewardmix.recovery.recover import best, recover, start_only
from rewardmix.recovery.recovery_result import Recovery, RecoveryCertificate, RecoveryInfo, aligned

__all__ = [
    "Choice",
    "ConfidenceSet",
    "Recovery",
    "RecoveryCertificate",
    "RecoveryInfo",
    "Violation",
    "algorithm_3",
    "aligned",
    "best",
    "bootstrap",
    "choose_contexts",
    "confidence_set",
    "exact",
    "hoeffding",
    "normal",
    "recover",
    "spectral",
    "start_only",
    "sweep_weights",
]
