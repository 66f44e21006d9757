"""Export models as POMDPX, the factored XML of SARSOP.

State, time and last reward are fully observed, only the type is hidden.
In this form the solver's beliefs have only M entries, which makes it much faster than the flat form.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import numpy as np

from rewardmix._core import storage
from rewardmix._core.checks import Floats
from rewardmix.interop.pomdp_names import DISCOUNT, discount_factors, format_row, index_names
from rewardmix.model import RewardMixingMDP, dense_transition

INITIAL_STATE = "opening"
"""Name of the state before the initial state is shown."""


def export_pomdpx(model: RewardMixingMDP, path: str | os.PathLike[str], *, discount: float = DISCOUNT) -> None:
    """Write a model as a POMDPX file.

    Args:
        model: Model to export.
        path: File to write; an existing file is replaced.
        discount: Discount of the file, between 0 and 1; rewards are scaled so that the value is the undiscounted one.

    Raises:
        InputError: If the path cannot be written, or the file would be too large.
    """
    storage.write_atomic(path, "\n".join(pomdpx_lines(model, discount=discount)).encode())


def pomdpx_lines(model: RewardMixingMDP, *, discount: float = DISCOUNT) -> Iterator[str]:
    """Yield the lines of the POMDPX file of a model."""
    scale = discount_factors(model, discount)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<pomdpx version="1.0" id="rewardmix">'
    yield f"<Description>Reward-mixing MDP with horizon {model.horizon}; value = undiscounted sum</Description>"
    yield f"<Discount>{discount!r}</Discount>"
    yield from _variables(model)
    yield from _initial_belief(model)
    yield from _transitions(model)
    yield "<ObsFunction>"
    # The format requires an observation. All observed variables are declared as such, so this one is constant.
    yield from _table("CondProb", "nothing", "action state_1", [("* * -", [1.0])])
    yield "</ObsFunction>"
    yield "<RewardFunction>"
    yield from _table("Func", "reward", "action time_0 state_0 type_0", _rewards(model, scale))
    yield "</RewardFunction>"
    yield "</pomdpx>"


def _variables(model: RewardMixingMDP) -> Iterator[str]:
    """Yield the declarations of variables."""
    yield "<Variable>"
    variables = {
        # One time more for the opening step and one for the end.
        "time": (index_names("t", model.horizon + 2), True),
        "state": ([*index_names("s", model.num_states), INITIAL_STATE], True),
        "outcome": (index_names("z", model.num_values), True),
        "type": (index_names("m", model.num_types), False),
    }
    for name, (values, is_observed) in variables.items():
        yield f'<StateVar vnamePrev="{name}_0" vnameCurr="{name}_1" fullyObs="{str(is_observed).lower()}">'
        yield f"<ValueEnum>{' '.join(values)}</ValueEnum></StateVar>"
    yield '<ObsVar vname="nothing"><ValueEnum>o0</ValueEnum></ObsVar>'
    actions = " ".join(index_names("a", model.num_actions))
    yield f'<ActionVar vname="action"><ValueEnum>{actions}</ValueEnum></ActionVar>'
    yield '<RewardVar vname="reward"/>'
    yield "</Variable>"


def _initial_belief(model: RewardMixingMDP) -> Iterator[str]:
    """Yield the initial belief: opening state, type by the weights."""
    yield "<InitialStateBelief>"
    yield from _table("CondProb", "time_0", "null", [("-", _one_hot(model.horizon + 2, 0))])
    yield from _table("CondProb", "state_0", "null", [("-", _one_hot(model.num_states + 1, model.num_states))])
    yield from _table("CondProb", "outcome_0", "null", [("-", _one_hot(model.num_values, 0))])
    yield from _table("CondProb", "type_0", "null", [("-", model.weights)])
    yield "</InitialStateBelief>"


def _transitions(model: RewardMixingMDP) -> Iterator[str]:
    """Yield the transition tables of time, state, last reward and type."""
    times, types = index_names("t", model.horizon + 2), index_names("m", model.num_types)
    last = model.horizon + 1
    yield "<StateTransitionFunction>"
    clock = [(f"{time} -", _one_hot(last + 1, min(i + 1, last))) for i, time in enumerate(times)]
    yield from _table("CondProb", "time_1", "time_0", clock)
    yield from _table("CondProb", "state_1", "action state_0", _transition_entries(model))
    yield from _table("CondProb", "outcome_1", "action state_0 type_0", _outcomes(model))
    identity_rows = [(f"{type_name} -", _one_hot(len(types), m)) for m, type_name in enumerate(types)]
    yield from _table("CondProb", "type_1", "type_0", identity_rows)
    yield "</StateTransitionFunction>"


def _transition_entries(model: RewardMixingMDP) -> Iterator[tuple[str, Floats]]:
    """Yield the rows of the next state."""
    yield f"* {INITIAL_STATE} -", np.append(model.initial, 0.0)
    transition = dense_transition(model)
    for a in range(model.num_actions):
        for s in range(model.num_states):
            yield f"a{a} s{s} -", np.append(transition[s, a], 0.0)


def _outcomes(model: RewardMixingMDP) -> Iterator[tuple[str, Floats]]:
    """Yield the rows of the reward, given state, action and type."""
    yield f"* {INITIAL_STATE} * -", _one_hot(model.num_values, 0)
    for a in range(model.num_actions):
        for s in range(model.num_states):
            for m in range(model.num_types):
                yield f"a{a} s{s} m{m} -", model.reward_probs[m, s, a]


def _rewards(model: RewardMixingMDP, scale: list[float]) -> Iterator[tuple[str, Floats]]:
    """Yield expected rewards; 0 at the opening and after the horizon."""
    opening = np.zeros((1, model.num_types))
    for a in range(model.num_actions):
        for t, factor in enumerate(scale):
            # The last row is the opening state, which has reward 0.
            table = np.concatenate([model.mean_rewards_by_type[:, :, a].T * factor, opening])
            yield f"a{a} t{t + 1} - -", table.ravel()


def _table(kind: str, variable: str, parents: str, entries: Iterable[tuple[str, Iterable[float]]]) -> Iterator[str]:
    """Yield one table of the file."""
    leaf = "ProbTable" if kind == "CondProb" else "ValueTable"
    yield f'<{kind}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter type="TBL">'
    for instance, values in entries:
        yield f"<Entry><Instance>{instance}</Instance><{leaf}>{format_row(values)}</{leaf}></Entry>"
    yield f"</Parameter></{kind}>"


def _one_hot(size: int, index: int) -> Floats:
    """Return a distribution with all probability at ``index``."""
    return np.asarray(np.eye(size)[index])
