"""Define the result of planning: a policy and a certified bracket of the optimal value.

A plan's policy has two forms: a finite-state controller, and alpha vectors (the value of each node of the controller
for each type), which are followed with a belief.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rewardmix._core.checks import (
    Floats,
    Ints,
    as_count,
    as_floats,
    as_instance,
    as_number,
    mark_readonly,
    raise_input_error,
)
from rewardmix._core.linear_algebra import product
from rewardmix._core.short_repr import use_short_repr
from rewardmix.evaluation import controller_value, node_occupancy, node_values
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.policy import BeliefPolicy, Controller, check_tables
from rewardmix.results import ResultMixin
from rewardmix.reward_scale import have_equal_cuts


@use_short_repr
@dataclass(frozen=True, eq=False)
class AlphaVectors:
    """Decision rule by the best alpha vector at the belief: a function (step, state, belief) -> action.

    Attributes:
        values: H arrays of shape (S, K_t, M), value of a node for each type.
        actions: H arrays of shape (S, K_t), action of a node.
    """

    values: tuple[Floats, ...]
    actions: tuple[Ints, ...]

    def __post_init__(self) -> None:
        actions = check_tables("actions", self.actions)
        tables = as_instance("values", self.values, tuple)
        if len(tables) != len(actions):
            raise_input_error("values", f"{len(tables)} steps", f"{len(actions)} steps, as many as actions")
        values = [as_floats(f"values[{t}]", table, (*actions[t].shape, None)) for t, table in enumerate(tables)]
        for t, table in enumerate(values):
            if table.shape[2] != values[0].shape[2] or table.shape[2] < 1:
                raise_input_error(
                    f"values[{t}]", f"{table.shape[2]} types", "the number of types of step 0, at least 1"
                )
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "values", tuple(values))

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Raise ``InputError`` unless the vectors have the horizon, states, types and actions of ``model``."""
        own_shape = len(self.actions), self.values[0].shape[0], self.values[0].shape[2]
        model_shape = model.horizon, model.num_states, model.num_types
        if own_shape != model_shape:
            raise_input_error(
                "decision_rule", f"vectors of (horizon, states, types) = {own_shape}", f"{model_shape} for this model"
            )
        max_action = max(int(actions.max()) for actions in self.actions)
        if max_action >= model.num_actions:
            raise_input_error(
                "decision_rule", f"vectors that play action {max_action}", f"actions below {model.num_actions}"
            )

    def __call__(self, step: int, state: int, belief: Floats) -> int:
        """Return the action to play."""
        return int(self.actions[step][state, self.find_node(step, state, belief)])

    def find_node(self, step: int, state: int, belief: Floats) -> int:
        """Return the node with the largest value at the belief."""
        return int(np.argmax(weighted_sum(belief, self.values[step][state].T)))

    def find_nodes(self, step: int, beliefs: Floats) -> Ints:
        """Compute the (S, K) node with the largest value in every state at each of the ``beliefs`` (K, M)."""
        return np.asarray(np.argmax(product(self.values[step], beliefs.T), axis=1))

    def actions_at(self, step: int, beliefs: Floats) -> Ints:
        """Compute the (S, K) action in every state at each of the ``beliefs`` (K, M)."""
        return np.take_along_axis(self.actions[step], self.find_nodes(step, beliefs), axis=1)

    def value(self, step: int, state: int, belief: Floats) -> float:
        """Compute the value of the best node from this step on."""
        return float(np.max(weighted_sum(belief, self.values[step][state].T)))

    @property
    def nbytes(self) -> int:
        """Memory of the arrays in bytes."""
        return sum(array.nbytes for array in (*self.values, *self.actions))


def compute_alpha_vectors(policy: Controller, model: RewardMixingMDP) -> AlphaVectors:
    """Compute the alpha vectors of every node of ``policy`` in ``model``."""
    values = [mark_readonly(step_values) for step_values in node_values(policy, model)]
    return AlphaVectors(tuple(reversed(values)), policy.actions)


@dataclass(frozen=True, eq=False)
class NearestBeliefPolicy:
    """Decision rule by the node with the nearest belief: a function (step, state, belief) -> action.

    For policies that are restricted to some actions: the node with the best vector at a belief may belong to another
    history with other allowed actions, while the node with the nearest belief does what the policy does in that
    situation. States that the policy does not reach at a step use the best vector.

    Attributes:
        beliefs: H arrays of shape (S, K_t, M), beliefs given that the policy is at the node; NaN where it cannot be.
        vectors: Alpha vectors of these nodes.
    """

    beliefs: tuple[Floats, ...]
    vectors: AlphaVectors

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Raise ``InputError`` unless the nodes have the horizon, states, types and actions of ``model``."""
        self.vectors.check_fits(model)

    def __call__(self, step: int, state: int, belief: Floats) -> int:
        """Return the action to play."""
        return int(self.vectors.actions[step][state, self.find_node(step, state, belief)])

    def find_node(self, step: int, state: int, belief: Floats) -> int:
        """Return the node with the nearest belief."""
        return int(self._nearest(step, state, belief[None])[0])

    def find_nodes(self, step: int, beliefs: Floats) -> Ints:
        """Compute the (S, K) node with the nearest belief in every state at each of the ``beliefs`` (K, M)."""
        return np.stack([self._nearest(step, state, beliefs) for state in range(self.beliefs[step].shape[0])])

    def _nearest(self, step: int, state: int, beliefs: Floats) -> Ints:
        """Compute the (K,) nearest node of each belief in one state."""
        node_beliefs = self.beliefs[step][state]
        if np.isnan(node_beliefs).all():
            return np.array([self.vectors.find_node(step, state, belief) for belief in beliefs])
        return np.asarray(np.nanargmin(((node_beliefs - beliefs[:, None]) ** 2).sum(axis=-1), axis=-1))


def compute_node_beliefs(policy: Controller, model: RewardMixingMDP, vectors: AlphaVectors) -> NearestBeliefPolicy:
    """Compute the belief at every node of ``policy`` in ``model``."""
    beliefs = []
    for occupancy in node_occupancy(policy, model):
        # A node that cannot be reached has no belief; NaN keeps it out of the search for the nearest one.
        total = occupancy.sum(axis=0)
        beliefs.append(
            mark_readonly(np.moveaxis(np.where(total > 0, occupancy / np.where(total > 0, total, 1.0), np.nan), 0, -1))
        )
    return NearestBeliefPolicy(tuple(beliefs), vectors)


@dataclass(frozen=True)
class PlanProgress:
    """One pass of the planner; the argument of ``callback``.

    Attributes:
        index: Number of the pass, 1 for the first.
        num_points: Largest number of belief points at one step.
        lower: Best certified lower bound so far.
        upper: Best certified upper bound so far.
        seconds: Seconds since planning began.
    """

    index: int
    num_points: int
    lower: float
    upper: float
    seconds: float

    def __post_init__(self) -> None:
        as_count("index", self.index)
        as_count("num_points", self.num_points)
        _check_bracket(self.lower, self.upper)
        as_number("seconds", self.seconds)

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


@use_short_repr
@dataclass(frozen=True)
class PlanInfo:
    """How a plan was computed.

    Attributes:
        converged: Whether the requested gap is met.
        requested_gap: Requested gap.
        stop_reason: Why planning stopped.
        rounds: Progress of every pass.
    """

    converged: bool
    requested_gap: float
    stop_reason: str
    rounds: tuple[PlanProgress, ...]

    def __post_init__(self) -> None:
        as_instance("converged", self.converged, bool)
        as_number("requested_gap", self.requested_gap, above=0.0)
        as_instance("stop_reason", self.stop_reason, str)
        for number, progress in enumerate(as_instance("rounds", self.rounds, tuple)):
            as_instance(f"rounds[{number}]", progress, PlanProgress)


@dataclass(frozen=True, eq=False)
class Plan(ResultMixin):
    """Policy for ``model`` with ``lower <= value of the policy <= optimal value <= upper``.

    Loading a plan from a file recomputes the lower bound. The upper bound is taken from the file; verifying it requires
    planning again.

    Attributes:
        policy: Finite-state controller; its value in any model is exact.
        lower: Certified lower bound, the value of ``policy`` less a bound of the rounding errors.
        upper: Certified upper bound of the value of every history-dependent policy.
        info: Whether the gap is met, and the passes.
        model: Model that was planned for.
        restricted_to_support: Whether the policy is optimal only among those that stay in the support of a log.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> plan = rm.plan(model)
        >>> plan.gap <= 1e-3, round(rm.evaluate(plan.policy, model).value, 2)
        (True, 4.58)
    """

    policy: Controller
    lower: float
    upper: float
    info: PlanInfo
    model: RewardMixingMDP
    restricted_to_support: bool = False

    def __post_init__(self) -> None:
        as_instance("model", self.model, RewardMixingMDP)
        as_instance("policy", self.policy, Controller).check_fits(self.model)
        names, cuts = self.model.state_names, self.model.reward_scale.cuts
        # The model's names and reward bins win: a policy that is served must map raw states and rewards as its model
        # does.
        if self.policy.state_names != names or not have_equal_cuts(self.policy.reward_scale.cuts, cuts):
            renamed = dataclasses.replace(self.policy, state_names=names, reward_cuts=cuts)
            object.__setattr__(self, "policy", renamed)
        as_instance("info", self.info, PlanInfo)
        as_instance("restricted_to_support", self.restricted_to_support, bool)
        _check_bracket(self.lower, self.upper)

    def __repr__(self) -> str:
        met = "" if self.info.converged else f", wider than {self.info.requested_gap:.2g}"
        return f"Plan({self.lower:.5f} .. {self.upper:.5f}{met}, {self.policy!r}, for {self.model!r})"

    def check_lower(self) -> None:
        """Raise ``InputError`` if the lower bound is not the value of the policy in the model, up to rounding."""
        value = controller_value(self.policy, self.model)
        if abs(value - self.lower) > 4 * max_rounding_error(self.model, self.model.num_states):
            raise_input_error("lower", f"{self.lower!r}", f"{value!r}, the value of the policy in the model")

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def nbytes(self) -> int:
        """Memory of the policy in bytes."""
        return self.policy.nbytes

    @cached_property
    def belief_policy(self) -> BeliefPolicy:
        """Policy that follows the belief and plays the action of the best alpha vector; built on first use.

        Its value in ``model`` is at least that of the controller, up to rounding. If the plan is
        ``restricted_to_support``, it plays the action of the node with the nearest belief, and its value may be
        smaller.
        """
        return BeliefPolicy(self.model, self.belief_decision_rule)

    @cached_property
    def belief_decision_rule(self) -> AlphaVectors | NearestBeliefPolicy:
        """Decision rule, a function (step, state, belief) -> action."""
        return (
            compute_node_beliefs(self.policy, self.model, self.alpha_vectors)
            if self.restricted_to_support
            else self.alpha_vectors
        )

    @cached_property
    def alpha_vectors(self) -> AlphaVectors:
        """Value of every node of ``policy`` for every type."""
        return compute_alpha_vectors(self.policy, self.model)


def _check_bracket(lower: float, upper: float) -> None:
    """Raise ``InputError`` unless both ends are finite and in order."""
    if as_number("lower", lower) > as_number("upper", upper):
        raise_input_error("lower", lower, f"at most upper, which is {upper}")


def max_rounding_error(model: RewardMixingMDP, width: int) -> float:
    """Compute a bound of the rounding error of a value after H backward steps with sums of ``width`` terms.

    Brackets are widened by it, so they hold in exact arithmetic. One backward step sums at most ``width`` products over
    next states and a few for each reward; each operation errs by at most one unit of rounding relative to the sum of
    magnitudes, which H * max|reward| bounds. The errors of H steps add up.
    """
    scale = model.horizon * float(np.abs(model.reward_values).max())
    operations = width + 4 * model.num_types * model.num_values + 8
    return float(np.finfo(np.float64).eps) * model.horizon * operations * scale
