"""Test the limits of memory and operations: errors name the estimate, which does not depend on the machine."""

import tracemalloc

import pytest

import rewardmix
from rewardmix import InputError, problems
from rewardmix._core import budget


def test_what_fits_is_let_through():
    budget.check_budget(
        "rows", memory=budget.MAX_MEMORY_GIB * budget.GIB, operations=budget.MAX_OPERATIONS, remedy="fewer rows"
    )


@pytest.mark.parametrize(
    ("memory", "operations", "figure"),
    [
        (17 * budget.GIB, 0, "about 17 GiB of memory, expected at most 16 GiB: fewer rows, or set REWARDMIX_MEMORY"),
        (10**400, 0, "about 1e390 GiB"),
        (float("inf"), 0, "about inf GiB"),
        (0, 3e14, "about 3e.14 operations, expected at most 1e.14: fewer rows, or set REWARDMIX_OPERATIONS"),
        (0, 10**400, "about 1e400 operations"),
    ],
)
def test_what_does_not_is_refused_with_the_estimate(memory, operations, figure):
    with pytest.raises(InputError, match=f"^rows: got a need of {figure}"):
        budget.check_budget("rows", memory=memory, operations=operations, remedy="fewer rows")


def test_the_limits_are_set_by_the_environment(monkeypatch):
    monkeypatch.setenv("REWARDMIX_MEMORY", "32")
    budget.check_budget("rows", memory=17 * budget.GIB, remedy="fewer rows")
    monkeypatch.setenv("REWARDMIX_OPERATIONS", "10")
    with pytest.raises(InputError, match="expected at most 10:"):
        budget.check_budget("rows", operations=11, remedy="fewer rows")


@pytest.mark.parametrize("text", ["much", "nan", "0", "-1"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("REWARDMIX_MEMORY", text)
    with pytest.raises(InputError, match=f"^REWARDMIX_MEMORY: got '{text}', expected a number above 0"):
        budget.check_budget("rows", memory=1, remedy="fewer rows")


def peak(call):
    """Bytes at the peak of a call, beyond what was there before."""
    call()  # compiled, and imported
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.system
def test_estimates_are_within_a_factor_of_what_is_used(monkeypatch):
    memory_estimates = []
    monkeypatch.setattr(
        budget, "check_budget", lambda what, *, memory=0.0, operations=0.0, remedy: memory_estimates.append(memory)
    )
    model = problems.make_model("random", states=60, actions=4, horizon=6)
    policy = rewardmix.uniform_policy(model)
    calls = {
        "model": lambda: problems.make_model("random", states=300, actions=4, horizon=3),
        "episodes": lambda: rewardmix.simulate(policy, model, 200_000),
        "exploration": lambda: rewardmix.explore(model, num_episodes=3_000, keep_episodes=False),
        "table": lambda: rewardmix.uniform_policy(problems.make_model("shop", horizon=20_000)),
    }
    for name, call in calls.items():
        used = peak(call)
        memory_estimates.clear()
        call()
        assert used / 4 < max(memory_estimates) < 8 * used, (
            f"{name}: estimated {max(memory_estimates):.3g} bytes, used {used:.3g}"
        )


def test_large_studies_are_let_through():
    budget.check_budget_exploration(1000, 4, 10, 2, 1_000_000, 1.05)
    budget.check_budget_planning(1000, 4, 10, 2, 2, 4_000_000)
    budget.check_budget_planning(200, 10, 50, 2, 2, 400_000)
    budget.check_budget_episodes(8_000_000, 10)
    budget.check_budget_exploration(10, 4, 8, 2, None, 1.05)  # in batches, to any number of episodes
    budget.check_budget_recovery(4000, 2, 2, 8_000_000, 10_000_000)
    budget.check_budget_recovery(100, 2, 4, 5_000, 100_000_000)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: budget.check_budget_model(10**6, 4), "^states: got a need of about .* GiB of memory"),
        (lambda: budget.check_budget_episodes(10**18, 10), "^episodes: got a need of about .* GiB of memory"),
        (
            lambda: budget.check_budget_exploration(10**5, 4, 10, 2, None, 1.05),
            "^env_or_model: got a need of about .* GiB",
        ),
        (
            lambda: budget.check_budget_exploration(4, 4, 10, 2, 10**15, 1.05),
            "^episodes: got a need of about .* operations",
        ),
        (lambda: budget.check_budget_planning(4, 4, 10**13, 2, 2, 64), "^model: got a need of about .* GiB"),
        (lambda: budget.check_budget_recovery(16, 2, 10**12, 136, 1000), "^num_types: got a need of about .* GiB"),
    ],
)
def test_what_no_machine_has_is_refused(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
