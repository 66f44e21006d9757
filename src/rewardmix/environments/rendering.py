"""What an episode looks like: a line of text, or a picture made of plain rectangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PAPER, INK, HERE, QUIET = (250, 248, 243), (70, 70, 80), (222, 110, 60), (222, 220, 212)
CELL, MARGIN, BAR = 36, 12, 26


def as_text(state: str, steps: Sequence[tuple[str, float]], horizon: int) -> str:
    """``step 2/10  at sports  played promote -> 1  earned 2``."""
    last = f"  played {steps[-1][0]} -> {steps[-1][1]:g}" if steps else ""
    return f"step {len(steps)}/{horizon}  at {state}{last}  earned {sum(reward for _, reward in steps):g}\n"


def as_picture(
    state: int, num_states: int, rewards: Sequence[float], horizon: int, values: Sequence[float]
) -> NDArray[np.uint8]:
    """(height, width, 3): the states as cells, the present one filled, and a strip with a bar for every reward."""
    columns = int(np.ceil(np.sqrt(num_states)))
    rows = -(-num_states // columns)
    width = max(columns * CELL, 180) + 2 * MARGIN
    picture = np.full((rows * CELL + BAR + 3 * MARGIN, width, 3), PAPER, np.uint8)
    for s in range(num_states):
        top, left = MARGIN + (s // columns) * CELL, MARGIN + (s % columns) * CELL
        picture[top : top + CELL - 4, left : left + CELL - 4] = HERE if s == state else QUIET
    _draw_rewards(picture, rewards, horizon, values)
    return picture


def _draw_rewards(picture: NDArray[np.uint8], rewards: Sequence[float], horizon: int, values: Sequence[float]) -> None:
    bottom, slot = picture.shape[0] - MARGIN, (picture.shape[1] - 2 * MARGIN) / horizon
    picture[bottom : bottom + 1, MARGIN:-MARGIN] = INK
    lowest, highest = min(values), max(values)
    for t, reward in enumerate(rewards):
        height = 2 + round((BAR - 2) * (reward - lowest) / (highest - lowest))
        left, right = MARGIN + int(t * slot), MARGIN + int((t + 1) * slot) - 1
        picture[bottom - height : bottom, left : max(right, left + 1)] = INK
