"""Add text, reports and files to results: type profiles, identification, summary, save and report.

The text is made by the package ``report``, which imports the results. It is therefore imported on first use.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rewardmix._core.checks import Floats, raise_input_error
from rewardmix.evaluation import node_occupancy
from rewardmix.model import RewardMixingMDP, set_type_names
from rewardmix.type_profiles import TypeIdentification, TypeProfile, describe_types, measure_identification

_Result = TypeVar("_Result", bound="ResultMixin")


def import_attribute(module: str, name: str) -> Any:
    """Import an attribute of a module when it is needed."""
    return getattr(importlib.import_module(f"rewardmix.{module}"), name)


class ResultMixin:
    """Base class of results with a model and a plan: adds type profiles, summary, save and report."""

    if TYPE_CHECKING:

        @property
        def model(self) -> RewardMixingMDP:
            """Return the model of the result."""

    @property
    def _plan(self) -> Any:
        """Return the plan of the result, or the result itself if it is a plan."""
        return getattr(self, "plan", self)

    @cached_property
    def _summary_data(self) -> Mapping[str, Any]:
        """Build the content of ``result.json``."""
        summary: Mapping[str, Any] = import_attribute("report.saved_runs", "make_summary")(self)
        return summary

    def to_dict(self) -> Mapping[str, Any]:
        """Return all data of the report as plain data, which is the content of ``result.json``."""
        return self._summary_data

    @property
    def type_profiles(self) -> tuple[TypeProfile, ...]:
        """Return a description of each type with its probability and its preferred and avoided state-actions."""
        return describe_types(self.model)

    @cached_property
    def identification(self) -> TypeIdentification:
        """Return how fast the policy identifies the type of an episode."""
        return measure_identification(self._plan.policy, self.model)

    @cached_property
    def _node_occupancy(self) -> list[Floats]:
        """Compute the joint probabilities of type, state and node at each step."""
        return list(node_occupancy(self._plan.policy, self.model))

    def posterior(self, memory: tuple[int, int, int]) -> Floats:
        """Compute the belief over types given the memory of ``plan.policy``, shape (M,).

        A node stands for all histories that lead to it. The belief may therefore contain less than the full history,
        where no later decision depends on the difference. A memory of probability 0 in the model gives the weights.
        """
        step, state, node = memory
        if step >= len(self._node_occupancy):
            raise_input_error("memory", f"step {step}", f"a step before the horizon {len(self._node_occupancy)}")
        joint = self._node_occupancy[step][:, state, node]
        total = joint.sum()
        return joint / total if total > 0 else self.model.weights

    def with_type_names(self: _Result, names: Sequence[str]) -> _Result:
        """Return the result with names for its types, which all outputs use; an empty sequence removes them."""
        model = set_type_names(self.model, names)
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # all results are dataclasses
            # The model is stored in the result and in its parts (plan, recovery); all of them have to get the
            # names.
            value = getattr(self, field.name)
            if isinstance(value, RewardMixingMDP):
                changes[field.name] = model
            elif dataclasses.is_dataclass(value) and isinstance(getattr(value, "model", None), RewardMixingMDP):
                changes[field.name] = dataclasses.replace(value, model=model)  # type: ignore[type-var]
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def summary(self) -> str:
        """Return verdict, advice, numbers and types as a few lines of text."""
        lines: list[str] = import_attribute("report.text_summary", "summary_lines")(self.to_dict())
        return "\n".join(lines)

    def save(self, folder: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write the run folder, as the command line does; ``rewardmix.load(folder)`` reads it."""
        path: Path = import_attribute("report.saved_runs", "save_run")(self, folder, title)
        return path

    def report(self, path: str | os.PathLike[str], *, title: str = "") -> Path:
        """Write the report: one HTML file with the certificate and the policy as an interactive player."""
        page: Path = import_attribute("report.saved_runs", "write_page")(self, path, title)
        return page

    def _repr_html_(self) -> str:
        """Render the summary as HTML for notebooks."""
        cards: str = import_attribute("report.text_summary", "render_cards_html")(self.to_dict())
        return cards
