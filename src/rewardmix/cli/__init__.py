"""Implement the command line: each command parses its arguments, calls one public function and prints the result.

Nothing heavy is imported before a command runs.
"""

from rewardmix.cli.app import main

__all__ = ["main"]
