"""Node, Chromium, axe for the tests: where CI is set they must be there, elsewhere a test without them is skipped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{what}; CI must run this test")
    pytest.skip(what)


@pytest.fixture(scope="session")
def node() -> str:
    """Node: the one on the path, or the one that comes with Playwright."""
    found = shutil.which("node")
    if found is None:
        try:
            import playwright
        except ImportError:
            _missing("no node on the path and no playwright (it brings one): pip install 'rewardmix[dev]'")
        found = str(Path(playwright.__file__).parent / "driver" / "node")
        if not os.access(found, os.X_OK):
            _missing("no node on the path: apt-get install nodejs")
    return found


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, headless, driven by Playwright."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        _missing("no browser on the path: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("no playwright: pip install 'rewardmix[dev]'")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        yield browser
        browser.close()


RUN_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.flatMap(
  (one) => one.nodes.map((node) => `${one.id}: ${one.help}: ${node.target}`))"""


@pytest.fixture(scope="session")
def axe():
    """What axe finds wrong in a tab for people who see, hear or point otherwise: one text for each place.

    It comes with axe-playwright-python. Playwright runs it beside the page, whose own policy stays as it is.
    """
    try:
        import axe_playwright_python
    except ImportError:
        _missing("no axe: pip install 'rewardmix[dev]'")
    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")

    def wrong(tab) -> list[str]:
        tab.evaluate(script)
        return tab.evaluate(RUN_AXE)

    return wrong
