"""Bounds on work: estimates are refused with their figure, on every machine alike."""

import tracemalloc

import pytest

import rewardmix
from rewardmix import InputError, problems
from rewardmix._core import limits


def test_what_fits_is_let_through():
    limits.afford("rows", memory=limits.MEMORY * limits.GIB, operations=limits.OPERATIONS, change="fewer rows")


@pytest.mark.parametrize(
    ("memory", "operations", "figure"),
    [
        (17 * limits.GIB, 0, "about 17 GiB of memory, expected at most 16 GiB: fewer rows, or set REWARDMIX_MEMORY"),
        (10**400, 0, "about 1e390 GiB"),
        (float("inf"), 0, "about inf GiB"),
        (0, 3e14, "about 3e.14 operations, expected at most 1e.14: fewer rows, or set REWARDMIX_OPERATIONS"),
        (0, 10**400, "about 1e400 operations"),
    ],
)
def test_what_does_not_is_refused_with_the_estimate(memory, operations, figure):
    with pytest.raises(InputError, match=f"^rows: found a need of {figure}"):
        limits.afford("rows", memory=memory, operations=operations, change="fewer rows")


def test_the_limits_are_set_by_the_environment(monkeypatch):
    monkeypatch.setenv("REWARDMIX_MEMORY", "32")
    limits.afford("rows", memory=17 * limits.GIB, change="fewer rows")
    monkeypatch.setenv("REWARDMIX_OPERATIONS", "10")
    with pytest.raises(InputError, match="expected at most 10:"):
        limits.afford("rows", operations=11, change="fewer rows")


@pytest.mark.parametrize("text", ["much", "nan", "0", "-1"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("REWARDMIX_MEMORY", text)
    with pytest.raises(InputError, match=f"^REWARDMIX_MEMORY: found '{text}', expected a number above 0"):
        limits.afford("rows", memory=1, change="fewer rows")


def peak(call):
    """Bytes at the peak of a call, beyond what was there before."""
    call()  # compiled, and imported
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_estimates_are_within_a_factor_of_what_is_used(monkeypatch):
    asked = []
    monkeypatch.setattr(limits, "afford", lambda what, *, memory=0.0, operations=0.0, change: asked.append(memory))
    model = problems.make("random", states=60, actions=4, horizon=6)
    policy = rewardmix.uniform(model)
    calls = {
        "model": lambda: problems.make("random", states=300, actions=4, horizon=3),
        "episodes": lambda: rewardmix.simulate(policy, model, 200_000),
        "exploration": lambda: rewardmix.explore(model, episodes=3_000, keep=False),
        "table": lambda: rewardmix.uniform(problems.make("shop", horizon=20_000)),
    }
    for name, call in calls.items():
        used = peak(call)
        asked.clear()
        call()
        assert used / 4 < max(asked) < 8 * used, f"{name}: estimated {max(asked):.3g} bytes, used {used:.3g}"


def test_large_studies_are_let_through():
    limits.afford_exploration(1000, 4, 10, 2, 1_000_000, 1.05)
    limits.afford_planning(1000, 4, 10, 2, 2, 4_000_000)
    limits.afford_planning(200, 10, 50, 2, 2, 400_000)
    limits.afford_episodes(8_000_000, 10)
    limits.afford_exploration(10, 4, 8, 2, None, 1.05)  # in batches, to any number of episodes
    limits.afford_recovery(4000, 2, 2, 8_000_000, 10_000_000)
    limits.afford_recovery(100, 2, 4, 5_000, 100_000_000)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: limits.afford_model(10**6, 4), "^states: found a need of about .* GiB of memory"),
        (lambda: limits.afford_episodes(10**18, 10), "^episodes: found a need of about .* GiB of memory"),
        (lambda: limits.afford_exploration(10**5, 4, 10, 2, None, 1.05), "^env_or_model: found a need of about .* GiB"),
        (
            lambda: limits.afford_exploration(4, 4, 10, 2, 10**15, 1.05),
            "^episodes: found a need of about .* operations",
        ),
        (lambda: limits.afford_planning(4, 4, 10**13, 2, 2, 64), "^model: found a need of about .* GiB"),
        (lambda: limits.afford_recovery(16, 2, 10**12, 136, 1000), "^num_contexts: found a need of about .* GiB"),
    ],
)
def test_what_no_machine_has_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
