"""POMDPX, the factored XML of SARSOP: state, time and last outcome fully observed, only the context hidden.

In this form a solver keeps beliefs over M contexts and nothing else, which is how it is fastest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import numpy as np

from rewardmix._core import storage
from rewardmix._core.checks import Floats
from rewardmix.interop.naming import DISCOUNT, numbered, row, scales
from rewardmix.model import RewardMixingMDP, dense_transition

OPENING = "opening"
"""State before the first state is shown."""


def export_pomdpx(model: RewardMixingMDP, path: str | os.PathLike[str], *, discount: float = DISCOUNT) -> None:
    """Write ``model`` as a POMDPX file."""
    storage.replace(path, "\n".join(pomdpx_lines(model, discount=discount)).encode())


def pomdpx_lines(model: RewardMixingMDP, *, discount: float = DISCOUNT) -> Iterator[str]:
    """The lines of the POMDPX file of ``model``."""
    scale = scales(model, discount)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<pomdpx version="1.0" id="rewardmix">'
    yield f"<Description>Reward-mixing MDP with horizon {model.horizon}; value = undiscounted sum</Description>"
    yield f"<Discount>{discount!r}</Discount>"
    yield from _variables(model)
    yield from _start(model)
    yield from _transitions(model)
    yield "<ObsFunction>"
    yield from _table("CondProb", "nothing", "action state_1", [("* * -", [1.0])])
    yield "</ObsFunction>"
    yield "<RewardFunction>"
    yield from _table("Func", "reward", "action time_0 state_0 context_0", _rewards(model, scale))
    yield "</RewardFunction>"
    yield "</pomdpx>"


def _variables(model: RewardMixingMDP) -> Iterator[str]:
    yield "<Variable>"
    parts = {
        "time": (numbered("t", model.horizon + 2), True),
        "state": ([*numbered("s", model.num_states), OPENING], True),
        "outcome": (numbered("z", model.num_values), True),
        "context": (numbered("m", model.num_contexts), False),
    }
    for name, (values, seen) in parts.items():
        yield f'<StateVar vnamePrev="{name}_0" vnameCurr="{name}_1" fullyObs="{str(seen).lower()}">'
        yield f"<ValueEnum>{' '.join(values)}</ValueEnum></StateVar>"
    yield '<ObsVar vname="nothing"><ValueEnum>o0</ValueEnum></ObsVar>'
    yield f'<ActionVar vname="action"><ValueEnum>{" ".join(numbered("a", model.num_actions))}</ValueEnum></ActionVar>'
    yield '<RewardVar vname="reward"/>'
    yield "</Variable>"


def _start(model: RewardMixingMDP) -> Iterator[str]:
    yield "<InitialStateBelief>"
    yield from _table("CondProb", "time_0", "null", [("-", _one(model.horizon + 2, 0))])
    yield from _table("CondProb", "state_0", "null", [("-", _one(model.num_states + 1, model.num_states))])
    yield from _table("CondProb", "outcome_0", "null", [("-", _one(model.num_values, 0))])
    yield from _table("CondProb", "context_0", "null", [("-", model.weights)])
    yield "</InitialStateBelief>"


def _transitions(model: RewardMixingMDP) -> Iterator[str]:
    times, contexts = numbered("t", model.horizon + 2), numbered("m", model.num_contexts)
    last = model.horizon + 1
    yield "<StateTransitionFunction>"
    clock = [(f"{time} -", _one(last + 1, min(i + 1, last))) for i, time in enumerate(times)]
    yield from _table("CondProb", "time_1", "time_0", clock)
    yield from _table("CondProb", "state_1", "action state_0", _moves(model))
    yield from _table("CondProb", "outcome_1", "action state_0 context_0", _outcomes(model))
    kept = [(f"{context} -", _one(len(contexts), m)) for m, context in enumerate(contexts)]
    yield from _table("CondProb", "context_1", "context_0", kept)
    yield "</StateTransitionFunction>"


def _moves(model: RewardMixingMDP) -> Iterator[tuple[str, Floats]]:
    yield f"* {OPENING} -", np.append(model.initial, 0.0)
    transition = dense_transition(model)
    for a in range(model.num_actions):
        for s in range(model.num_states):
            yield f"a{a} s{s} -", np.append(transition[s, a], 0.0)


def _outcomes(model: RewardMixingMDP) -> Iterator[tuple[str, Floats]]:
    yield f"* {OPENING} * -", _one(model.num_values, 0)
    for a in range(model.num_actions):
        for s in range(model.num_states):
            for m in range(model.num_contexts):
                yield f"a{a} s{s} m{m} -", model.laws[m, s, a]


def _rewards(model: RewardMixingMDP, scale: list[float]) -> Iterator[tuple[str, Floats]]:
    """Expected rewards; nothing at the opening and after the horizon."""
    opening = np.zeros((1, model.num_contexts))
    for a in range(model.num_actions):
        for t, factor in enumerate(scale):
            table = np.concatenate([model.means[:, :, a].T * factor, opening])
            yield f"a{a} t{t + 1} - -", table.ravel()


def _table(kind: str, variable: str, parents: str, entries: Iterable[tuple[str, Iterable[float]]]) -> Iterator[str]:
    leaf = "ProbTable" if kind == "CondProb" else "ValueTable"
    yield f'<{kind}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter type="TBL">'
    for instance, values in entries:
        yield f"<Entry><Instance>{instance}</Instance><{leaf}>{row(values)}</{leaf}></Entry>"
    yield f"</Parameter></{kind}>"


def _one(size: int, index: int) -> Floats:
    """All probability at ``index``."""
    return np.asarray(np.eye(size)[index])
