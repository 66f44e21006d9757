"""Set up Hypothesis and shared fixtures, and give every test its marker.

Every test has exactly one marker of ``MARKERS``. A mark at the test or module counts (``@pytest.mark.statistical``,
``pytestmark``); without one it is that of its file in ``FILES``, else of its folder in ``FOLDERS``, else ``unit``.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from helpers.browser_fixtures import axe, browser, node

__all__ = ["axe", "browser", "node"]  # one of each for all folders

MARKERS = ("unit", "statistical", "fuzz", "system", "documents", "machines")

FOLDERS = {"cli": "system", "documents": "documents", "fuzz": "fuzz", "service": "system", "system": "system"}

FILES = {
    "_core/test_jit_cache.py": "system",
    "_core/test_numba_parts.py": "system",
    "exploration/test_algorithm2_statistics.py": "statistical",
    "recovery/test_model_selection_shuffled.py": "statistical",
    "report/test_html_page.py": "system",
    "report/test_policy_json.py": "system",
    "service/test_ab_test.py": "unit",
    "service/test_policy_server.py": "unit",
    "system/test_paper.py": "statistical",
}
"""Path below tests -> marker, where it is not that of the folder."""


def default_marker(file: Path) -> str:
    """Return the marker of tests of a file that have no mark of their own."""
    path = file.relative_to(Path(__file__).parent)
    return FILES.get(path.as_posix(), FOLDERS.get(path.parts[0], "unit"))


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(items):
    for item in items:
        if not any(mark.name in MARKERS for mark in item.iter_markers()):
            item.add_marker(default_marker(item.path))


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
