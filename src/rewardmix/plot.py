"""Pictures of results, as matplotlib axes: every function takes ``ax=`` and returns the axes it drew on.

matplotlib is imported when something is drawn; the extra ``plot`` has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewardmix import belief as bayes
from rewardmix._core.checks import as_instance, refuse
from rewardmix._core.streams import Role, seed_for
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.moments import Moments
from rewardmix.online import Earned
from rewardmix.profiles import SURE
from rewardmix.simulation import simulate

MOST_PLACES = 12
"""State-actions that ``types`` draws: those where types differ most."""


def types(result: Any, *, ax: Any = None) -> Any:
    """What each type pays where types differ most, a row for each state-action and a dot for each type.

    Args:
        result: a model, or a result that has one.
        ax: where to draw; left out, on axes of their own.
    """
    model = _model_of(result)
    spread = np.sqrt(mixed(model.weights, (model.means - model.mean) ** 2))
    order = np.argsort(-spread, axis=None, kind="stable")[:MOST_PLACES]
    states, actions = np.divmod(order, model.num_actions)
    rows = np.arange(order.size)[::-1]
    axes = _axes(ax)
    for m, name in enumerate(model.type_labels):
        label = f"{name} ({100 * model.weights[m]:.0f} %)"
        axes.plot(model.means[m, states, actions], rows, "o", label=label)
    several = model.num_states > 1
    labels = [
        model.action_labels[a] + (f" in {model.state_labels[s]}" if several else "")
        for s, a in zip(states, actions, strict=True)
    ]
    axes.set_yticks(rows, labels)
    axes.set_xlabel("expected reward")
    axes.legend()
    return axes


def beliefs(result: Any, episodes: Episodes | None = None, *, episode: int = 0, seed: int = 0, ax: Any = None) -> Any:
    """How the belief in each type moves over a session.

    Args:
        result: what ``plan``, ``learn``, ``fit`` or ``earn`` returned, or a run that was loaded.
        episodes: sessions that happened; left out, one is played by the policy in the model.
        episode: which of them.
        seed: of the one that is played.
        ax: where to draw; left out, on axes of their own.
    """
    model = _model_of(result)
    if episodes is None:
        plan = getattr(result, "plan", result)
        if not hasattr(plan, "policy"):
            refuse("result", type(result).__name__, "a result with a plan, or episodes to look at")
        episodes, episode = simulate(plan.policy, model, 1, seed_for(seed, Role.DRAWN_SESSION)), 0
    one = as_instance("episodes", episodes, Episodes)[episode : episode + 1]
    if len(one) != 1:
        refuse("episode", episode, f"one of {len(episodes)}, from 0")
    steps = int(one.lengths[0])
    values = np.searchsorted(model.reward_values, one.reward_values)[one.outcomes[0, :steps]]
    likelihood = model.laws[:, one.states[0, :steps], one.actions[0, :steps].astype(np.int64), values].T
    believed = bayes.posterior(model.weights, likelihood)
    axes = _axes(ax)
    for m, name in enumerate(model.type_labels):
        axes.plot(np.arange(steps + 1), believed[:, m], marker=".", label=name)
    axes.set(xlabel="steps", ylabel="belief", ylim=(-0.02, 1.02))
    axes.legend()
    return axes


def certainty(result: Any, *, ax: Any = None) -> Any:
    """How sure the policy is of the type after each step, on average; the line is where it is recognised."""
    known = result.recognition
    axes = _axes(ax)
    axes.plot(range(len(known.certainty)), known.certainty, marker=".")
    axes.axhline(SURE, linestyle=":", color="grey")
    axes.set(xlabel="steps", ylabel="certainty of the type", ylim=(0.0, 1.02))
    return axes


def values(result: Any, *, ax: Any = None) -> Any:
    """What policies earn: this one, the best that does not adapt, and the bounds."""
    compared = result.result["comparison"]
    rows = compared["rows"][::-1]
    axes = _axes(ax)
    axes.barh([row["name"] for row in rows], [row["value"] for row in rows])
    for place, row in enumerate(rows):
        axes.annotate(f" {row['value']:.2f}", (row["value"], place), va="center")
    axes.margins(x=0.15)
    axes.set_xlabel(f"reward an episode, {compared['measured']}")
    return axes


def learning_curve(result: Any, *, ax: Any = None) -> Any:
    """How it went over the episodes: the reward an episode of ``earn``, the uncertainty V_0 of ``learn``."""
    axes = _axes(ax)
    if isinstance(result, Earned) or result.result.get("earned"):
        told = result.result["earned"]
        points = np.array(told["points"], float)
        axes.plot(points[:, 0], points[:, 1], marker=".", label="earned")
        if told["best"] is not None:
            axes.axhline(told["best"], linestyle=":", color="grey", label="best policy")
            axes.legend()
        axes.set_ylabel("reward an episode")
    else:
        told = result.result["uncertainty"]
        if not told:
            refuse(
                "result", f"a {type(result).__name__} that was not learned episode by episode", "one of learn or earn"
            )
        points = np.array(told, float)
        axes.plot(points[:, 0], points[:, 1], marker=".")
        axes.set_ylabel("uncertainty V\N{SUBSCRIPT ZERO}")
    axes.set(xlabel="episodes", xscale="log")
    return axes


def coverage_curve(result: Any, *, ax: Any = None) -> Any:
    """How many pairs of state-actions were seen together in at least so many episodes.

    Args:
        result: moments, or a result that has them.
        ax: where to draw; left out, on axes of their own.
    """
    moments = _moments_of(result)
    counts = moments.pair_counts()
    seen = np.sort(counts[np.tril_indices(counts.shape[0])])[::-1]
    seen = seen[seen > 0]
    axes = _axes(ax)
    axes.step(seen, np.arange(1, seen.size + 1), where="post")
    axes.set(xlabel="episodes with both", ylabel="pairs seen so often", xscale="log")
    return axes


def _axes(ax: Any) -> Any:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'rewardmix[plot]'") from error
    return pyplot.subplots(layout="constrained")[1]


def _model_of(result: Any) -> RewardMixingMDP:
    found = result if isinstance(result, RewardMixingMDP) else getattr(result, "model", None)
    return as_instance("result", found, RewardMixingMDP)


def _moments_of(result: Any) -> Moments:
    """The counts of a result, wherever it keeps them."""
    places = (result, getattr(result, "moments", None), getattr(getattr(result, "exploration", None), "moments", None),
              getattr(getattr(result, "info", None), "moments", None))  # fmt: skip
    found = next((place for place in places if isinstance(place, Moments)), None)
    if found is None and isinstance(result, Earned):
        found = result.agent.moments()
    if found is None:
        refuse("result", type(result).__name__, "moments, or a result of learn, fit or earn")
    return found
