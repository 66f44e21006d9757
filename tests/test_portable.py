"""Arithmetic with the same bits everywhere."""

import numpy as np

from rewardmix import portable


def test_a_dot_product_is_summed_from_left_to_right():
    rng = np.random.default_rng(0)
    for size in range(40):
        left, right = rng.normal(size=size), rng.normal(size=size)
        total = 0.0
        for one, two in zip(left.tolist(), right.tolist(), strict=True):
            total += one * two
        assert portable.dot(left, right) == total
