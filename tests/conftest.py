"""Settings for all tests."""

from hypothesis import HealthCheck, Phase, settings

from browsing import axe, browser, node

__all__ = ["axe", "browser", "node"]  # one of each for all folders

settings.register_profile(
    "rewardmix",
    deadline=None,
    derandomize=True,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(  # for tests/mutants.py: whether a test fails, not the smallest example of it
    "unshrunk", settings.get_profile("rewardmix"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("rewardmix")
