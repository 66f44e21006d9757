"""What a planner answers: a policy, a certified bracket of the optimal value, and how it was found.

A plan's policy has two forms: a controller, and alpha vectors (what each node of the controller earns in each context)
which are followed with a belief.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rewardmix._core.algebra import product
from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats, Ints, as_count, as_floats, as_instance, as_number, refuse, shut
from rewardmix.evaluation import controller_value, node_chances, node_values
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.policy import BeliefPolicy, Controller, as_tables
from rewardmix.reward_scale import same_cuts
from rewardmix.telling import Telling


@short
@dataclass(frozen=True, eq=False)
class AlphaVectors:
    """Decides by the best vector at the belief: a function (step, state, belief) -> action.

    Attributes:
        values: H arrays of shape (S, K_t, M), value of a node in each context.
        actions: H arrays of shape (S, K_t), its action.
    """

    values: tuple[Floats, ...]
    actions: tuple[Ints, ...]

    def __post_init__(self) -> None:
        actions = as_tables("actions", self.actions)
        given = as_instance("values", self.values, tuple)
        if len(given) != len(actions):
            refuse("values", f"{len(given)} steps", f"{len(actions)} steps, as many as actions")
        values = [as_floats(f"values[{t}]", part, (*actions[t].shape, None)) for t, part in enumerate(given)]
        for t, part in enumerate(values):
            if part.shape[2] != values[0].shape[2] or part.shape[2] < 1:
                refuse(f"values[{t}]", f"{part.shape[2]} contexts", "as many at each step, at least 1")
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "values", tuple(values))

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Refuse a model whose beliefs these vectors do not belong to."""
        mine = len(self.actions), self.values[0].shape[0], self.values[0].shape[2]
        wanted = model.horizon, model.num_states, model.num_contexts
        if mine != wanted:
            refuse("decide", f"vectors of (horizon, states, contexts) = {mine}", f"{wanted} for this model")
        most = max(int(actions.max()) for actions in self.actions)
        if most >= model.num_actions:
            refuse("decide", f"vectors that play action {most}", f"actions below {model.num_actions}")

    def __call__(self, step: int, state: int, belief: Floats) -> int:
        """The action to play."""
        return int(self.actions[step][state, self.node(step, state, belief)])

    def node(self, step: int, state: int, belief: Floats) -> int:
        """The node of the best vector."""
        return int(np.argmax(mixed(belief, self.values[step][state].T)))

    def nodes(self, step: int, beliefs: Floats) -> Ints:
        """(S, K): that node in every state at each of the ``beliefs`` (K, M)."""
        return np.asarray(np.argmax(product(self.values[step], beliefs.T), axis=1))

    def everywhere(self, step: int, beliefs: Floats) -> Ints:
        """(S, K): the action in every state at each of the ``beliefs`` (K, M)."""
        return np.take_along_axis(self.actions[step], self.nodes(step, beliefs), axis=1)

    def value(self, step: int, state: int, belief: Floats) -> float:
        """What the best node earns from here on."""
        return float(np.max(mixed(belief, self.values[step][state].T)))

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return sum(part.nbytes for part in (*self.values, *self.actions))


def alpha_vectors(policy: Controller, model: RewardMixingMDP) -> AlphaVectors:
    """The vectors of every node of ``policy`` in ``model``."""
    values = [shut(part) for part in node_values(policy, model)]
    return AlphaVectors(tuple(reversed(values)), policy.actions)


@dataclass(frozen=True, eq=False)
class NodeBeliefs:
    """Decides as the node with the nearest belief does: a function (step, state, belief) -> action.

    What a policy that may not do everything does at a belief is what it does itself where it believes so; the best of
    its vectors there may be of a node that belongs to another history. In states that it never comes to at a step, the
    best vector has to do.

    Attributes:
        beliefs: H arrays of shape (S, K_t, M), over contexts, given that the policy is there; NaN where it never is.
        vectors: of the same nodes.
    """

    beliefs: tuple[Floats, ...]
    vectors: AlphaVectors

    def check_fits(self, model: RewardMixingMDP) -> None:
        """Refuse a model whose beliefs these nodes do not belong to."""
        self.vectors.check_fits(model)

    def __call__(self, step: int, state: int, belief: Floats) -> int:
        """The action to play."""
        return int(self.vectors.actions[step][state, self.node(step, state, belief)])

    def node(self, step: int, state: int, belief: Floats) -> int:
        """The node with the nearest belief."""
        return int(self._nearest(step, state, belief[None])[0])

    def nodes(self, step: int, beliefs: Floats) -> Ints:
        """(S, K): that node in every state at each of the ``beliefs`` (K, M)."""
        return np.stack([self._nearest(step, state, beliefs) for state in range(self.beliefs[step].shape[0])])

    def _nearest(self, step: int, state: int, beliefs: Floats) -> Ints:
        """(K,)."""
        known = self.beliefs[step][state]
        if np.isnan(known).all():
            return np.array([self.vectors.node(step, state, belief) for belief in beliefs])
        return np.asarray(np.nanargmin(((known - beliefs[:, None]) ** 2).sum(axis=-1), axis=-1))


def node_beliefs(policy: Controller, model: RewardMixingMDP, vectors: AlphaVectors) -> NodeBeliefs:
    """The beliefs of every node of ``policy`` in ``model``."""
    beliefs = []
    for law in node_chances(policy, model):
        total = law.sum(axis=0)
        beliefs.append(shut(np.moveaxis(np.where(total > 0, law / np.where(total > 0, total, 1.0), np.nan), 0, -1)))
    return NodeBeliefs(tuple(beliefs), vectors)


@dataclass(frozen=True)
class Round:
    """One sweep of the planner; also what ``on_update`` receives.

    Attributes:
        number: 1 for the first.
        points: most belief points at one step.
        lower: best certified lower bound so far.
        upper: best certified upper bound so far.
        seconds: since planning began.
    """

    number: int
    points: int
    lower: float
    upper: float
    seconds: float

    def __post_init__(self) -> None:
        as_count("number", self.number)
        as_count("points", self.points)
        _check_bracket(self.lower, self.upper)
        as_number("seconds", self.seconds)

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


@short
@dataclass(frozen=True)
class PlanInfo:
    """How a plan was found.

    Attributes:
        converged: whether the gap that was asked for is met.
        asked: that gap.
        reason: why planning stopped.
        rounds: every sweep.
    """

    converged: bool
    asked: float
    reason: str
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        as_instance("converged", self.converged, bool)
        as_number("asked", self.asked, above=0.0)
        as_instance("reason", self.reason, str)
        for number, done in enumerate(as_instance("rounds", self.rounds, tuple)):
            as_instance(f"rounds[{number}]", done, Round)


@dataclass(frozen=True, eq=False)
class Plan(Telling):
    """A policy for ``model`` with ``lower <= value of the policy <= optimal value <= upper``.

    A plan that was loaded from a file has a lower end that was computed again, and an upper end as the file claims it:
    to verify that takes planning again.

    Attributes:
        policy: finite-state controller; its value in any model is exact.
        lower: certified lower bound, the value of ``policy`` less a bound of the rounding errors.
        upper: certified upper bound of the value of every policy that may use the whole history.
        info: whether the gap is met, and how.
        model: what was planned for.
        kept: whether the policy is the best of those that keep to what a log does, not of all.
    """

    policy: Controller
    lower: float
    upper: float
    info: PlanInfo
    model: RewardMixingMDP
    kept: bool = False

    def __post_init__(self) -> None:
        as_instance("model", self.model, RewardMixingMDP)
        as_instance("policy", self.policy, Controller).check_fits(self.model)
        names, cuts = self.model.state_names, self.model.reward_scale.cuts
        if self.policy.state_names != names or not same_cuts(self.policy.reward_scale.cuts, cuts):
            known = dataclasses.replace(self.policy, state_names=names, reward_cuts=cuts)
            object.__setattr__(self, "policy", known)
        as_instance("info", self.info, PlanInfo)
        as_instance("kept", self.kept, bool)
        _check_bracket(self.lower, self.upper)

    def __repr__(self) -> str:
        met = "" if self.info.converged else f", wider than {self.info.asked:.2g}"
        return f"Plan({self.lower:.5f} .. {self.upper:.5f}{met}, {self.policy!r}, for {self.model!r})"

    def check_lower(self) -> None:
        """Refuse a lower end that is not what the policy earns in the model, up to rounding."""
        value = controller_value(self.policy, self.model)
        if abs(value - self.lower) > 4 * rounding_bound(self.model, self.model.num_states):
            refuse("lower", f"{self.lower!r}", f"{value!r}, the value of the policy in the model")

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def nbytes(self) -> int:
        """Memory that the policy takes."""
        return self.policy.nbytes

    @cached_property
    def belief_policy(self) -> BeliefPolicy:
        """The same policy in its other form, which follows the posterior and plays the action of the best vector there.

        Built on first use. It earns at least what the controller earns (in ``model``), up to rounding. If the policy is
        ``kept`` to what a log does, it plays what the policy plays at the nearest belief, and may earn less.
        """
        return BeliefPolicy(self.model, self.decide)

    @cached_property
    def decide(self) -> AlphaVectors | NodeBeliefs:
        """What to do at a step, in a state, at a belief."""
        return node_beliefs(self.policy, self.model, self.alpha_vectors) if self.kept else self.alpha_vectors

    @cached_property
    def alpha_vectors(self) -> AlphaVectors:
        """The value of every node of ``policy`` in every context."""
        return alpha_vectors(self.policy, self.model)


def _check_bracket(lower: float, upper: float) -> None:
    """Refuse ends that are not finite or not in order."""
    if as_number("lower", lower) > as_number("upper", upper):
        refuse("lower", lower, f"at most upper, which is {upper}")


def rounding_bound(model: RewardMixingMDP, width: int) -> float:
    """Most by which a bound of the value may be off after H backward steps with sums of ``width`` terms.

    Brackets are widened by it, so they hold in exact arithmetic. One backward step sums at most ``width`` products over
    next states and a few for each outcome; each operation errs by at most one unit of rounding relative to the sum of
    magnitudes, which H * max|reward| bounds. H steps add up.
    """
    scale = model.horizon * float(np.abs(model.reward_values).max())
    operations = width + 4 * model.num_contexts * model.num_values + 8
    return float(np.finfo(np.float64).eps) * model.horizon * operations * scale
