"""Provide Node, Chromium and axe as fixtures; without them a test is skipped, or fails where CI is set."""

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
    """Return the path of Node: of the system, or of Playwright."""
    result = shutil.which("node")
    if result is None:
        try:
            import playwright
        except ImportError:
            _missing("no node on the path and no playwright (it brings one): pip install 'rewardmix[dev]'")
        result = str(Path(playwright.__file__).parent / "driver" / "node")
        if not os.access(result, os.X_OK):
            _missing("no node on the path: apt-get install nodejs")
    return result


@pytest.fixture(scope="session")
def browser():
    """Start Chromium without a window, driven by Playwright."""
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
    """Return a function that lists the accessibility problems axe finds in a tab, one text per place.

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
