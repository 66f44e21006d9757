"""Plot results with matplotlib. Every function takes ``ax=`` and returns the axes.

matplotlib is imported at the first plot; the extra ``plot`` installs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import as_instance, raise_input_error
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.moments import Moments
from rewardmix.online import OnlineResult
from rewardmix.simulation import simulate
from rewardmix.statements import EVIDENCE
from rewardmix.type_profiles import IDENTIFIED_PROB

MAX_ROWS = 12
"""Maximum number of state-actions that ``plot_types`` shows: those with the largest differences between types."""


def plot_types(result: Any, *, ax: Any = None) -> Any:
    """Plot the expected reward of each type where types differ most: one row per state-action, one dot per type.

    Args:
        result: Model, or a result that contains one.
        ax: Axes to draw on; None makes new ones.

    Returns:
        The axes.
    """
    model = _model_of(result)
    # Standard deviation over types, weighted by their probabilities: rare types do not dominate the selection.
    type_std = np.sqrt(weighted_sum(model.weights, (model.mean_rewards_by_type - model.mean_rewards) ** 2))
    order = np.argsort(-type_std, axis=None, kind="stable")[:MAX_ROWS]
    states, actions = np.divmod(order, model.num_actions)
    rows = np.arange(order.size)[::-1]
    axes = _axes(ax)
    for m, name in enumerate(model.type_labels):
        label = f"{name} ({100 * model.weights[m]:.0f} %)"
        axes.plot(model.mean_rewards_by_type[m, states, actions], rows, "o", label=label)
    several = model.num_states > 1
    labels = [
        model.action_labels[a] + (f" in {model.state_labels[s]}" if several else "")
        for s, a in zip(states, actions, strict=True)
    ]
    axes.set_yticks(rows, labels)
    axes.set_xlabel("expected reward")
    axes.legend()
    return axes


def plot_beliefs(
    result: Any, episodes: Episodes | None = None, *, episode: int = 0, seed: int = 0, ax: Any = None
) -> Any:
    """Plot the belief in each type over the steps of an episode.

    Args:
        result: Result of ``plan``, ``learn``, ``fit`` or ``learn_online``, or a loaded run.
        episodes: Observed episodes; None simulates one with the policy in the model.
        episode: Index of the episode.
        seed: Seed of the simulated episode.
        ax: Axes to draw on; None makes new ones.

    Returns:
        The axes.
    """
    model = _model_of(result)
    if episodes is None:
        plan = getattr(result, "plan", result)
        if not hasattr(plan, "policy"):
            raise_input_error("result", type(result).__name__, "a result with a plan, or episodes")
        episodes, episode = simulate(plan.policy, model, 1, derive_seed(seed, Role.PLOT_EPISODE)), 0
    selected = as_instance("episodes", episodes, Episodes)[episode : episode + 1]
    if len(selected) != 1:
        raise_input_error("episode", episode, f"an index below {len(episodes)}")
    steps = int(selected.lengths[0])
    # Episodes may have fewer reward values than the model, so their indices are translated.
    values = np.searchsorted(model.reward_values, selected.reward_values)[selected.reward_indices[0, :steps]]
    likelihood = model.reward_probs[
        :, selected.states[0, :steps], selected.actions[0, :steps].astype(np.int64), values
    ].T
    beliefs = bayes.filter_beliefs(model.weights, likelihood)
    axes = _axes(ax)
    for m, name in enumerate(model.type_labels):
        axes.plot(np.arange(steps + 1), beliefs[:, m], marker=".", label=name)
    axes.set(xlabel="steps", ylabel="belief", ylim=(-0.02, 1.02))
    axes.legend()
    return axes


def plot_certainty(result: Any, *, ax: Any = None) -> Any:
    """Plot the mean certainty about the type after each step; the line is where a type counts as identified."""
    identification = result.identification
    axes = _axes(ax)
    axes.plot(range(len(identification.certainty)), identification.certainty, marker=".")
    axes.axhline(IDENTIFIED_PROB, linestyle=":", color="grey")
    axes.set(xlabel="steps", ylabel="certainty of the type", ylim=(0.0, 1.02))
    return axes


def plot_values(result: Any, *, ax: Any = None) -> Any:
    """Plot the value of the policy beside those of the baselines and bounds."""
    comparison = result.to_dict()["comparison"]
    rows = comparison["rows"][::-1]
    axes = _axes(ax)
    axes.barh([row["name"] for row in rows], [row["value"] for row in rows])
    for y, row in enumerate(rows):
        axes.annotate(f" {row['value']:.2f}", (row["value"], y), va="center")
    axes.margins(x=0.15)
    axes.set_xlabel(f"value per episode, {EVIDENCE[comparison['evidence_key']]}")
    return axes


def plot_learning_curve(result: Any, *, ax: Any = None) -> Any:
    """Plot the mean return over episodes of ``learn_online``, or the uncertainty V_0 over episodes of ``learn``."""
    axes = _axes(ax)
    if isinstance(result, OnlineResult) or result.to_dict().get("online"):
        curve = result.to_dict()["online"]
        points = np.array(curve["returns"], float)
        axes.plot(points[:, 0], points[:, 1], marker=".", label="agent")
        if curve["optimal_value"] is not None:
            axes.axhline(curve["optimal_value"], linestyle=":", color="grey", label="optimal value")
            axes.legend()
        axes.set_ylabel("reward per episode")
    else:
        curve = result.to_dict()["uncertainty"]
        if not curve:
            raise_input_error(
                "result", f"a {type(result).__name__} without a learning curve", "a result of learn or learn_online"
            )
        points = np.array(curve, float)
        axes.plot(points[:, 0], points[:, 1], marker=".")
        axes.set_ylabel("uncertainty V\N{SUBSCRIPT ZERO}")
    axes.set(xlabel="episodes", xscale="log")
    return axes


def plot_coverage(result: Any, *, ax: Any = None) -> Any:
    """Plot the number of state-action pairs that were observed together in at least n episodes, over n.

    Args:
        result: Moments, or a result that contains them.
        ax: Axes to draw on; None makes new ones.

    Returns:
        The axes.
    """
    moments = _moments_of(result)
    counts = moments.pair_counts()
    # The matrix is symmetric; the lower triangle contains each unordered pair once.
    observed = np.sort(counts[np.tril_indices(counts.shape[0])])[::-1]
    observed = observed[observed > 0]
    axes = _axes(ax)
    axes.step(observed, np.arange(1, observed.size + 1), where="post")
    axes.set(xlabel="episodes that contain both", ylabel="pairs in at least so many episodes", xscale="log")
    return axes


def _axes(ax: Any) -> Any:
    """Return the given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'rewardmix[plot]'") from error
    return pyplot.subplots(layout="constrained")[1]


def _model_of(result: Any) -> RewardMixingMDP:
    """Return the model of a result."""
    candidate = result if isinstance(result, RewardMixingMDP) else getattr(result, "model", None)
    return as_instance("result", candidate, RewardMixingMDP)


def _moments_of(result: Any) -> Moments:
    """Return the moments of a result, wherever it stores them."""
    candidates = (result, getattr(result, "moments", None),
                  getattr(getattr(result, "exploration", None), "moments", None),
              getattr(getattr(result, "info", None), "moments", None))  # fmt: skip
    moments = next((candidate for candidate in candidates if isinstance(candidate, Moments)), None)
    if moments is None and isinstance(result, OnlineResult):
        moments = result.agent.moments()
    if moments is None:
        raise_input_error("result", type(result).__name__, "moments, or a result of learn, fit or learn_online")
    return moments
