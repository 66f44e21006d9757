"""Bounds on work: estimates are refused with their figure, on every machine alike."""

import pytest

from rewardmix import InputError, work


def test_what_fits_is_let_through():
    work.afford("rows", memory=work.MEMORY * work.GIB, operations=work.OPERATIONS, change="fewer rows")


@pytest.mark.parametrize(
    ("memory", "operations", "figure"),
    [
        (17 * work.GIB, 0, "about 17 GiB of memory, expected at most 16 GiB: fewer rows, or set REWARDMIX_MEMORY"),
        (10**400, 0, "about 1e390 GiB"),
        (float("inf"), 0, "about inf GiB"),
        (0, 3e14, "about 3e.14 operations, expected at most 1e.14: fewer rows, or set REWARDMIX_OPERATIONS"),
        (0, 10**400, "about 1e400 operations"),
    ],
)
def test_what_does_not_is_refused_with_the_estimate(memory, operations, figure):
    with pytest.raises(InputError, match=f"^rows: found a need of {figure}"):
        work.afford("rows", memory=memory, operations=operations, change="fewer rows")


def test_the_limits_are_set_by_the_environment(monkeypatch):
    monkeypatch.setenv("REWARDMIX_MEMORY", "32")
    work.afford("rows", memory=17 * work.GIB, change="fewer rows")
    monkeypatch.setenv("REWARDMIX_OPERATIONS", "10")
    with pytest.raises(InputError, match="expected at most 10:"):
        work.afford("rows", operations=11, change="fewer rows")


@pytest.mark.parametrize("text", ["much", "nan", "0", "-1"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("REWARDMIX_MEMORY", text)
    with pytest.raises(InputError, match=f"^REWARDMIX_MEMORY: found '{text}', expected a number above 0"):
        work.afford("rows", memory=1, change="fewer rows")
