"""What the tests of the report need to be there."""

from browsing import browser, node

__all__ = ["browser", "node"]
