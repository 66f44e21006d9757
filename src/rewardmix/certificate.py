"""What a run of ``learn`` may say about its result, and in which words.

The words are chosen once, here: proved is only what a theorem covers under the setting that was used, measured is what
was computed or played, and everything else is an estimate and is called one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rewardmix.bootstrap import BootstrapRegret
from rewardmix.evaluation import Evaluation
from rewardmix.exploration import Exploration
from rewardmix.exploration.coverage import Coverage
from rewardmix.planning import Plan
from rewardmix.recovery import Recovery


@dataclass(frozen=True, eq=False)
class Truth:
    """How the policy stands in the true model, where that is known.

    Attributes:
        value: exact value of the policy.
        best_lower: lower bound of the best history-dependent policy.
        best_upper: upper bound of it.
        markov: value of the best policy that does not adapt.
        told: value if the context were told.
    """

    value: float
    best_lower: float
    best_upper: float
    markov: float
    told: float

    @property
    def regret(self) -> float:
        """What the policy loses against the best, at most."""
        return max(self.best_upper - self.value, 0.0)

    @property
    def share(self) -> float:
        """Share of the gain of adapting that the policy captures; NaN where adapting gains nothing."""
        gain = self.best_lower - self.markov
        return (self.value - self.markov) / gain if gain > 1e-9 else float("nan")


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is known about a learned policy.

    Attributes:
        setting: name of the confidence setting.
        stopped: what ended the run: "budget", "rule", "threshold" or "interrupted".
        proved: sentences that hold with probability 1 - failure.
        not_proved: sentences on what is an estimate.
        uncertainty: V_0.
        target: V_0 at which exploration was to stop (None with a budget).
        coverage: pairs seen, never seen, impossible.
        kappa: factor by which all radii must grow for the paper's program to have a solution (1: as they are).
        kappa_weights: whether the weights it was computed at are "known", "estimated" or "assumed equal"; unless they
            are known, a kappa above 1 may only mean that they are off.
        agreement: whether the program has a solution, the parities agree with each other and with the model, and the
            likelihood's model is in the confidence set; None where the data decide nothing.
        planned: bracket of the best value in the recovered model. Optimistic: it was chosen on the same data.
        bootstrap: estimated regret, or None where episodes were not kept.
        validation: value in the environment by fresh episodes, or None.
        truth: standing in the true model, or None.
    """

    setting: str
    stopped: str
    proved: tuple[str, ...]
    not_proved: tuple[str, ...]
    uncertainty: float
    target: float | None
    coverage: Coverage
    kappa: float
    kappa_weights: str
    agreement: dict[str, bool | None]
    planned: tuple[float, float]
    bootstrap: BootstrapRegret | None
    validation: Evaluation | None
    truth: Truth | None


def certify(
    exploration: Exploration,
    recovery: Recovery,
    plan: Plan,
    *,
    stopped: str,
    target: float | None,
    failure: float,
    bootstrap: BootstrapRegret | None,
    validation: Evaluation | None,
    truth: Truth | None,
) -> Certificate:
    """Put together what the stages found."""
    found = recovery.info.certificate
    decided = not math.isnan(found.signs_agree)
    agreement: dict[str, bool | None] = {
        "program": None if found.program == "not asked" else found.program == "feasible",
        "parities": not found.conflicts and found.signs_agree >= 1.0 if decided else None,
        "likelihood": found.contained,
    }
    return Certificate(
        exploration.info.confidence,
        stopped,
        tuple(_proved(exploration, plan, target, failure)),
        tuple(_not_proved(exploration, recovery, bootstrap, validation, stopped)),
        exploration.uncertainty,
        target,
        exploration.info.coverage,
        found.kappa,
        found.kappa_weights,
        agreement,
        (plan.lower, plan.upper),
        bootstrap,
        validation,
        truth,
    )


def _proved(exploration: Exploration, plan: Plan, target: float | None, failure: float) -> list[str]:
    gap = plan.upper - plan.lower
    sentences = [f"In the recovered model no policy earns more than {gap:.2g} above this one."]
    if exploration.info.confidence == "theory":
        sentences.append(
            f"With probability {1 - failure:g} every average, pair, move and start of the true world lies within the "
            f"radius that belongs to its count."
        )
        if target is not None and exploration.uncertainty <= target:
            sentences.append("V_0 is at most the threshold of the paper's theorem, which bounds the policy's regret.")
    return sentences


def _not_proved(
    exploration: Exploration,
    recovery: Recovery,
    bootstrap: BootstrapRegret | None,
    validation: Evaluation | None,
    stopped: str,
) -> list[str]:
    sentences = ["The planned value is optimistic: model and policy were fitted to the same episodes."]
    if exploration.info.confidence != "theory":
        setting, guarantee = exploration.info.confidence, exploration.info.guarantee
        sentences.append(f"The {setting} setting proves nothing about the true world: {guarantee}.")
    if bootstrap is None:
        sentences.append("The regret was not estimated: the episodes themselves were not kept.")
    else:
        sentences.append("The bootstrap regret is an estimate, and blind for states that no episode entered.")
    if validation is None:
        sentences.append("The policy was not tried in the world on fresh episodes.")
    if stopped == "interrupted":
        sentences.append("The run was interrupted: this is what the episodes gathered so far say.")
    found = recovery.info.certificate
    if found.kappa > 1.0:
        off = "" if found.kappa_weights == "known" else f" (with weights {found.kappa_weights}, which may be off)"
        sentences.append(f"The radii had to grow by {found.kappa:.3g} for one model to explain all pairs{off}.")
    return sentences
