"""Fit a latent class model (a finite mixture) to a table of answers, with the interface of scikit-learn.

A row of the table is a person, a column is a question. Each row becomes an episode in which every column is one action;
the latent classes are the hidden types. Needs scikit-learn (``pip install scikit-learn``).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

import rewardmix as rm
from rewardmix.recovery.bootstrap import model_to_mixture
from rewardmix.recovery.likelihood import Mixture, log_likelihoods, type_posteriors
from rewardmix.recovery.reward_patterns import RewardPatterns, patterns_from_episodes
from rewardmix.type_profiles import TypeProfile, describe_types


class LatentClassMixture(DensityMixin, BaseEstimator):
    """A mixture of latent classes behind a table of answers, fitted by ``rewardmix.recover``.

    Args:
        n_components: M, the number of classes.
        bins: levels of a column; a column with more different values is cut at its quantiles.
        pseudocount: number of answers with the average distribution, added to each column and class.
        random_state: a seed or a ``RandomState``.

    Attributes:
        weights_: (M,) the weight (probability) of each class.
        probs_: (M, d, Z) the probability of each level of each column.
        bin_edges_: the limits between the levels of each column.
        model_: the fitted ``RewardMixingMDP``, with one action for each column.
        profiles_: a description of each class.
        n_features_in_: d, the number of columns.
    """

    def __init__(
        self, n_components: int = 2, *, bins: int = 5, pseudocount: float = 1.0, random_state: Any = 0
    ) -> None:
        self.n_components = n_components
        self.bins = bins
        self.pseudocount = pseudocount
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> LatentClassMixture:
        """Fit the classes to a table (n, d) of numbers; ``y`` is ignored."""
        table = validate_data(self, X, dtype=np.float64, ensure_min_samples=2, ensure_min_features=2)
        for name, min_value in (("n_components", 1), ("bins", 2)):
            if getattr(self, name) < min_value:
                raise rm.InputError(f"{name}: got {getattr(self, name)}, expected at least {min_value}")
        self.bin_edges_ = [_bin_edges(column, self.bins) for column in table.T]
        levels = max(2, *(edges.size + 1 for edges in self.bin_edges_))
        episodes = self._make_episodes(table, levels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model = rm.recover(episodes, num_types=self.n_components, pseudocount=float(self.pseudocount), seed=seed).model
        names = getattr(self, "feature_names_in_", [f"column {j + 1}" for j in range(table.shape[1])])
        self.model_ = dataclasses.replace(model, action_names=tuple(str(name) for name in names))
        self.weights_, self.probs_ = model.weights, model.reward_probs[:, 0]
        return self

    @property
    def profiles_(self) -> tuple[TypeProfile, ...]:
        """A description of each class."""
        check_is_fitted(self)
        return describe_types(self.model_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each person, (n, M)."""
        return type_posteriors(*self._encode(X))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the most probable class of each person, (n,)."""
        return np.argmax(self.predict_proba(X), axis=1)

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit the classes, and return the most probable class of each person."""
        return self.fit(X).predict(X)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-likelihood of each person's answers, (n,)."""
        return log_likelihoods(*self._encode(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the average log-likelihood of a person's answers."""
        return float(self.score_samples(X).mean())

    def _encode(self, X: Any) -> tuple[RewardPatterns, Mixture]:
        """Return the reward counts of each person, and the fitted mixture."""
        check_is_fitted(self)
        table = validate_data(self, X, dtype=np.float64, reset=False)
        episodes = self._make_episodes(table, self.model_.num_values)
        return patterns_from_episodes(episodes), model_to_mixture(self.model_, episodes)

    def _make_episodes(self, table: NDArray[np.float64], levels: int) -> rm.Episodes:
        """Make an episode of each row: the action of step t is column t."""
        columns = zip(self.bin_edges_, table.T, strict=True)
        codes = np.stack([np.searchsorted(edges, column, side="right") for edges, column in columns], axis=1)
        return rm.Episodes.from_arrays(
            np.zeros(codes.shape, np.int64),
            np.broadcast_to(np.arange(codes.shape[1]), codes.shape),
            codes.astype(np.float64),
            num_states=1,
            num_actions=codes.shape[1],
            reward_values=np.arange(levels, dtype=np.float64),
        )


def _bin_edges(column: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the limits between the levels of a column: between its values, or at quantiles where there are many."""
    values = np.unique(column)
    if values.size <= bins:
        return (values[1:] + values[:-1]) / 2
    return np.unique(np.quantile(column, np.arange(1, bins) / bins, method="nearest"))


def main() -> None:
    """Fit two classes to simulated answers, and compare with the true classes."""
    rng = np.random.default_rng(0)
    probs = np.array([[0.9, 0.8, 0.2, 0.1, 0.6], [0.2, 0.1, 0.7, 0.9, 0.5]])
    classes = rng.integers(2, size=800)
    answers = (rng.random((800, 5)) < probs[classes]).astype(float)

    mixture = LatentClassMixture(n_components=2).fit(answers)
    agreement = (mixture.predict(answers) == classes).mean()
    print(f"weights of the classes: {mixture.weights_.round(2)}")
    for profile in mixture.profiles_:
        print(profile.text)
    print(f"predicted class is correct for {max(agreement, 1 - agreement):.0%} of 800 people")


if __name__ == "__main__":
    main()
