"""A table of answers, one row a person: which types are there, and who is of which? In the way of scikit-learn.

A row is an episode that visits every column once; the types are the hidden contexts. Needs scikit-learn, which the
extra ``sklearn`` has.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, as_count, as_number
from rewardmix.episodes import Episodes
from rewardmix.profiles import TypeProfile, type_profiles
from rewardmix.recovery import recover
from rewardmix.recovery.bags import Bags, bags_of
from rewardmix.recovery.bootstrap import mixture_of_model
from rewardmix.recovery.likelihood import Mixture, logliks, posteriors

try:
    from sklearn.base import BaseEstimator, DensityMixin
except ImportError:  # said when it is used: names of the package can be looked at without
    BaseEstimator, DensityMixin = type("BaseEstimator", (), {}), type("DensityMixin", (), {})


class MixtureOfTypes(DensityMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Hidden types of people behind a table of answers (a latent class model), by the recovery of this package.

    Args:
        n_types: how many.
        bins: levels of a column; one with more different values is cut at its quantiles.
        prior: pseudo-count at the average, for each column and type.
        random_state: a seed or a ``RandomState``.

    Attributes:
        weights_: (M,) share of each type.
        laws_: (M, d, Z) how likely each type is to give each level of each column.
        cuts_: for each column the limits between its levels.
        model_: the same as a ``RewardMixingMDP``, an action for each column.
        types_: the types in words.
        n_features_in_: columns.
    """

    def __init__(self, n_types: int = 2, *, bins: int = 5, prior: float = 1.0, random_state: Any = 0) -> None:
        self.n_types = n_types
        self.bins = bins
        self.prior = prior
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> MixtureOfTypes:
        """Find the types of a table (n, d) of numbers; ``y`` is ignored."""
        sklearn = _library()
        table = sklearn.validation.validate_data(self, X, dtype=np.float64, ensure_min_samples=2, ensure_min_features=2)
        most = as_count("bins", self.bins, least=2)
        as_number("prior", self.prior, above=-1e-300)
        self.cuts_ = [_cuts(column, most) for column in table.T]
        levels = max(2, *(cuts.size + 1 for cuts in self.cuts_))
        episodes = self._episodes(table, levels)
        seed = int(sklearn.check_random_state(self.random_state).randint(2**31 - 1))
        types = as_count("n_types", self.n_types, least=2)
        found = recover(episodes, num_contexts=types, prior=float(self.prior), seed=seed).model
        names = getattr(self, "feature_names_in_", [f"column {j + 1}" for j in range(table.shape[1])])
        self.model_ = dataclasses.replace(found, action_names=tuple(str(name) for name in names))
        self.weights_, self.laws_ = found.weights, found.laws[:, 0]
        return self

    @property
    def types_(self) -> tuple[TypeProfile, ...]:
        """The types in words."""
        _library().validation.check_is_fitted(self)
        return type_profiles(self.model_)

    def predict_proba(self, X: Any) -> Floats:
        """(n, M): how likely each person is of each type."""
        return posteriors(*self._asked(X))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """(n,): the likeliest type of each person, from 0."""
        likeliest: NDArray[np.int64] = np.argmax(self.predict_proba(X), axis=1)
        return likeliest

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """``fit(X).predict(X)``."""
        found: NDArray[np.int64] = self.fit(X).predict(X)
        return found

    def score_samples(self, X: Any) -> Floats:
        """(n,): log-likelihood of each person's answers."""
        return logliks(*self._asked(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Average log-likelihood of a person's answers."""
        return float(self.score_samples(X).mean())

    def _asked(self, X: Any) -> tuple[Bags, Mixture]:
        """A bag for each person, and the types."""
        validation = _library().validation
        validation.check_is_fitted(self)
        table = validation.validate_data(self, X, dtype=np.float64, reset=False)
        episodes = self._episodes(table, self.model_.num_values)
        return bags_of(episodes), mixture_of_model(self.model_, episodes)

    def _episodes(self, table: Floats, levels: int) -> Episodes:
        """Answers as episodes: column t is action t."""
        columns = zip(self.cuts_, table.T, strict=True)
        codes = np.stack([np.searchsorted(cuts, column, side="right") for cuts, column in columns], axis=1)
        return Episodes.from_arrays(
            np.zeros(codes.shape, np.int64),
            np.broadcast_to(np.arange(codes.shape[1]), codes.shape),
            codes.astype(np.float64),
            num_states=1,
            num_actions=codes.shape[1],
            reward_values=np.arange(levels, dtype=np.float64),
        )


def _library() -> Any:
    """scikit-learn's own checks."""
    try:
        import sklearn.utils.validation
    except ImportError as error:
        raise ImportError("MixtureOfTypes needs scikit-learn: pip install 'rewardmix[sklearn]'") from error
    return sklearn.utils


def _cuts(column: Floats, most: int) -> Floats:
    """Limits between the levels of a column: between its values, or at quantiles where there are many."""
    values = np.unique(column)
    if values.size <= most:
        return (values[1:] + values[:-1]) / 2
    return np.unique(np.quantile(column, np.arange(1, most) / most, method="nearest"))
