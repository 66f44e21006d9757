"""Call a function as soon as another package is imported, without importing that package now.

Importing Gymnasium takes a quarter of a second, and it has no hook for environments of other packages. ``import
rewardmix`` therefore installs a finder: the environments are registered when Gymnasium is, or later becomes, imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def call_after_import(package: str, module: str, function: str) -> None:
    """Call ``module.function()`` now if ``package`` is imported already, otherwise right after its import."""
    if package in sys.modules:
        getattr(importlib.import_module(module), function)()
    else:
        sys.meta_path.insert(0, _ImportFinder(package, module, function))


class _ImportFinder(MetaPathFinder):
    """Find ``package`` with the regular finders, and wrap its loader."""

    def __init__(self, package: str, module: str, function: str) -> None:
        self.package, self.module, self.function = package, module, function

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.package:
            return None
        # The finder removes itself first: ``find_spec`` below would otherwise call it again.
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallbackLoader(spec.loader, self.module, self.function)
        return spec


class _CallbackLoader(Loader):
    """Load the package with its own loader, then call the function."""

    def __init__(self, loader: Loader, module: str, function: str) -> None:
        self.loader, self.module, self.function = loader, module, function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        getattr(importlib.import_module(self.module), self.function)()
