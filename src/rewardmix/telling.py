"""What a result says of itself: in words, as cards in a notebook, as a page, as a folder.

All that is made by the room ``report``, which comes after the results that it is about. So it is looked up when
somebody asks, as the package's own names are.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rewardmix._core.checks import Floats, refuse
from rewardmix.evaluation import node_chances
from rewardmix.model import RewardMixingMDP, with_type_names
from rewardmix.profiles import Recognition, TypeProfile, recognition, type_profiles

_Result = TypeVar("_Result", bound="Telling")


def looked_up(room: str, name: str) -> Any:
    """What a room that comes later calls ``name``."""
    return getattr(importlib.import_module(f"rewardmix.{room}"), name)


class Telling:
    """A result with a model and a plan, which can speak of itself."""

    if TYPE_CHECKING:

        @property
        def model(self) -> RewardMixingMDP:
            """The world as the result has it."""

    @property
    def _own_plan(self) -> Any:
        """The plan of the result, or the plan itself."""
        return getattr(self, "plan", self)

    @cached_property
    def result(self) -> Mapping[str, Any]:
        """All that the page shows, as plain data, which is what ``result.json`` holds."""
        found: Mapping[str, Any] = looked_up("report.saved_runs", "result_of")(self)
        return found

    @property
    def types(self) -> tuple[TypeProfile, ...]:
        """The types in words, how frequent each is, and what it likes and dislikes."""
        return type_profiles(self.model)

    @cached_property
    def recognition(self) -> Recognition:
        """How fast the policy recognises the type of an episode."""
        return recognition(self._own_plan.policy, self.model)

    @cached_property
    def _node_chances(self) -> list[Floats]:
        return list(node_chances(self._own_plan.policy, self.model))

    def posterior(self, memory: tuple[int, int, int]) -> Floats:
        """(M,): how likely each type is, given what the memory of ``plan.policy`` holds.

        A node stands for all histories that lead to it, so this is what the policy still knows, which is less than
        the episode told where nothing depends on it any more. What the model calls impossible tells nothing: the
        shares.
        """
        step, state, node = memory
        if step >= len(self._node_chances):
            refuse("memory", f"step {step}", f"a step before the horizon {len(self._node_chances)}")
        law = self._node_chances[step][:, state, node]
        total = law.sum()
        return law / total if total > 0 else self.model.weights

    def named(self: _Result, names: Sequence[str]) -> _Result:
        """The same with names for its types, which go everywhere; none takes them away."""
        model = with_type_names(self.model, names)
        parts: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # every result is a dataclass
            part = getattr(self, field.name)
            if isinstance(part, RewardMixingMDP):
                parts[field.name] = model
            elif dataclasses.is_dataclass(part) and isinstance(getattr(part, "model", None), RewardMixingMDP):
                parts[field.name] = dataclasses.replace(part, model=model)  # type: ignore[type-var]
        return dataclasses.replace(self, **parts)  # type: ignore[type-var]

    def summary(self) -> str:
        """Verdict, what to do next, numbers and types, as a few lines of text."""
        lines: list[str] = looked_up("report.speech", "spoken")(self.result)
        return "\n".join(lines)

    def save(self, folder: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write the folder of a run, as the command line does; ``rewardmix.load(folder)`` reads it."""
        place: Path = looked_up("report.saved_runs", "save_run")(self, folder, title)
        return place

    def report(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write the page, one HTML file with the certificate and the policy to play with."""
        place: Path = looked_up("report.saved_runs", "write_page")(self, path, title)
        return place

    def _repr_html_(self) -> str:
        """Cards, for notebooks."""
        cards: str = looked_up("report.speech", "cards_html")(self.result)
        return cards
