"""Real purchase histories as episodes: each is a household, each action a guess at its next purchase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import as_count, refuse
from rewardmix.environments.single import FiniteEnv


class HouseholdEnv(FiniteEnv):
    """Print one brand's coupon before each purchase; 1 if the household then buys that brand.

    There is one state: what a household did before is seen through the rewards alone. In random order an episode
    starts at a random point of a random household's history; in order, episode after episode plays the first
    ``horizon`` purchases of one household after the other, from the first one at every seeded reset.

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
        super().__init__(
            1,
            len(brands),
            as_count("horizon", horizon),
            np.array([0.0, 1.0]),
            state_names=("shop",),
            action_names=brands,
            render_mode=render_mode,
        )
        short = [i for i, history in enumerate(histories) if len(history) < horizon]
        if short or not histories:
            found = f"a history of {len(histories[short[0]])} purchases" if short else "no household"
            refuse(f"histories[{short[0]}]" if short else "histories", found, f"at least {horizon} purchases in each")
        self._histories, self._in_order = list(histories), in_order
        self._next, self._chosen, self._begin_at = 0, 0, 0

    @property
    def num_households(self) -> int:
        """How many households this environment plays."""
        return len(self._histories)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode."""
        if seed is not None:
            self._next = 0
        return super().reset(seed=seed, options=options)

    def _begin(self, options: dict[str, Any]) -> int:
        if "household" in options:
            self._chosen = as_count('options["household"]', options["household"], least=0)
            if self._chosen >= self.num_households:
                refuse('options["household"]', self._chosen, f"a whole number below {self.num_households}")
            self._begin_at = 0
        elif self._in_order:
            self._chosen, self._begin_at = self._next, 0
            self._next = (self._next + 1) % self.num_households
        else:
            self._chosen = int(self.np_random.integers(self.num_households))
            last = len(self._histories[self._chosen]) - self.horizon
            self._begin_at = int(self.np_random.integers(last + 1))
        return 0

    def _advance(self, action: int) -> tuple[float, int]:
        bought = self._histories[self._chosen][self._begin_at + len(self._played or [])]
        return float(bought == action), 0
