"""Estimate a reward-mixing model from data (recovery, Algorithm 3 of the paper), with a confidence set and a
certificate.

Use ``recover`` with ``maximum_likelihood``, its default method; ``algorithm_3`` and ``spectral`` are the methods of the
paper. ``select_num_types`` chooses the number of types, ``confidence_set`` builds the set of models that agree with the
moments.
"""

from rewardmix.recovery.algorithm3 import algorithm_3, spectral, sweep_weights
from rewardmix.recovery.bootstrap import bootstrap_models
from rewardmix.recovery.confidence_set import (
    ConfidenceSet,
    Violation,
    confidence_set,
    exact_confidence_set,
    hoeffding_rule,
    normal_rule,
)
from rewardmix.recovery.ml_recovery import maximum_likelihood, moment_estimate, recover
from rewardmix.recovery.model_selection import TypeSelection, select_num_types
from rewardmix.recovery.recovery_result import RecoveryCertificate, RecoveryInfo, RecoveryResult, align_types

__all__ = [
    "ConfidenceSet",
    "RecoveryCertificate",
    "RecoveryInfo",
    "RecoveryResult",
    "TypeSelection",
    "Violation",
    "algorithm_3",
    "align_types",
    "bootstrap_models",
    "confidence_set",
    "exact_confidence_set",
    "hoeffding_rule",
    "maximum_likelihood",
    "moment_estimate",
    "normal_rule",
    "recover",
    "select_num_types",
    "spectral",
    "sweep_weights",
]
