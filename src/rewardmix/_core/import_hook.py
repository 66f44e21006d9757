"""Do something as soon as another package is imported, without importing it now.

Gymnasium takes a quarter of a second to import and offers no way to announce environments from outside, so
``import rewardmix`` leaves word: when Gymnasium is there, or arrives later, the environments are registered.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(package: str, module: str, function: str) -> None:
    """Call ``module.function()`` now if ``package`` is imported already, otherwise right after it is."""
    if package in sys.modules:
        getattr(importlib.import_module(module), function)()
    else:
        sys.meta_path.insert(0, _Watcher(package, module, function))


class _Watcher(MetaPathFinder):
    """Finds ``package`` as everyone else would, and has its loader call back."""

    def __init__(self, package: str, module: str, function: str) -> None:
        self.package, self.module, self.function = package, module, function

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.package:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingBack(spec.loader, self.module, self.function)
        return spec


class _CallingBack(Loader):
    """The real loader, and a call once the package is complete."""

    def __init__(self, loader: Loader, module: str, function: str) -> None:
        self.loader, self.module, self.function = loader, module, function

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        getattr(importlib.import_module(self.module), self.function)()
