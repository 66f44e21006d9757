"""The command line: parse, call one public function, show. Nothing heavy is imported before a command runs."""

from rewardmix.cli.app import main

__all__ = ["main"]
