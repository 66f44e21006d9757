"""The loop of Algorithm 2, the same for every engine:

    while V_0 > threshold and the budget lasts:
        plan in the augmented MDP, from the counts so far
        play the plan, count

Planning after every single episode (growth = 1) is the algorithm as it is printed. With growth g > 1 everything is
planned anew (T-hat, the levels, all rows) whenever the number of episodes has grown by g, and when a state-action was
seen for the first time or twice as often. This is never skipped: a plan that is frozen while all bonuses are saturated
may collect no pair for ever. In between, the rows of those pairs that have grown by g are planned anew. Planning is
paid from an allowance that grows with the episodes, counted in multiplications, so that it cannot take more than about
half of the time however large the world is; small worlds never notice.

With order 3 the same loop plans for triples (``triples``) and counts them beside the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix import problems
from rewardmix._core.checks import as_count, as_instance, as_number, as_path, as_seed, check_callback, quoted, refuse
from rewardmix._core.errors import InputError
from rewardmix._core.limits import PLAYED_STEP, afford_exploration, afford_triples
from rewardmix._core.pair_counting import NEWS, USED
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented import blank_plan, refresh, touch_up
from rewardmix.exploration.batched_engine import BatchedEngine
from rewardmix.exploration.bonuses import Confidence, Theory, as_confidence, practical
from rewardmix.exploration.checkpoints import NUMBERS, Checkpoint, Saved, settings_of, world_digest
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.environment_engine import EnvironmentEngine
from rewardmix.exploration.exploration_result import Exploration, ExplorationError, ExplorationInfo, Update
from rewardmix.exploration.strategies import Strategy, optimistic
from rewardmix.exploration.tally import Counting, Tally, all_pairs, all_triples
from rewardmix.exploration.triples import Planned, blank_triples, refresh_triples, touch_up_triples
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments

ALLOWANCE = 800_000_000
"""Multiplications that planning may use up front: a fraction of a second. Times X / 3 for triples: so many more there
are of them than of pairs."""

RATE = 25
"""Multiplications that planning may use for every step that was played."""


OF_TRIPLES = ". With order 3 this is said of triples, for which the levels of pairs are taken over"
"""What is added to the guarantee of a setting."""


class Engine(Protocol):
    """Something that plays plans and counts."""

    stream: NDArray[np.uint64]
    exact_resume: bool

    def fresh_tally(self, ordered: bool) -> Tally:
        """An empty tally of this world."""

    def play(self, plan: Any, choices: Any, tally: Tally, until: int, patience: int, growth: float) -> None:
        """Play some episodes, at most until there are ``until`` in all, and count them."""

    def gathered(self, episodes: int) -> Episodes | None:
        """The episodes themselves, if kept."""


EngineMaker = Callable[[RewardMixingMDP, int, bool], Engine]


def compiled(model: RewardMixingMDP, seed: int, keep: bool) -> Engine:
    """The engine that plays a model episode by episode."""
    return CompiledEngine(model, seed, keep)


def batched(model: RewardMixingMDP, seed: int, keep: bool) -> Engine:
    """The engine that plays any number of episodes of a model at once, for ``selected`` counts."""
    return BatchedEngine(model, seed)


class Order(NamedTuple):
    """How plans are made: for pairs, or for triples."""

    blank: Callable[[Tally, Confidence, float], Any]
    refresh: Callable[[Any, Tally, Confidence, float], None]
    touch_up: Callable[[Any, Tally, Confidence], None]


ORDERS = {
    2: Order(blank_plan, refresh, touch_up),
    3: Order(blank_triples, refresh_triples, touch_up_triples),
}
"""Steps that are counted together -> how they are planned for."""


@dataclass(frozen=True, kw_only=True)
class ExploreSettings:
    """What ``explore`` is asked for, all but the world and where to go on; its arguments are described there."""

    episodes: int | None = None
    threshold: float | None = None
    tried: int | None = None
    least: int = 0
    failure: float = 0.05
    confidence: Confidence = practical
    counts: Counting = all_pairs
    strategy: Strategy = optimistic
    engine: EngineMaker = compiled
    growth: float = 1.05
    seed: int = 0
    keep: bool = True
    horizon: int | None = None
    reward_values: ArrayLike | None = None
    on_update: Callable[[Update], None] | None = None
    checkpoint: str | Path | None = None
    order: int = 2

    def __post_init__(self) -> None:
        if self.episodes is None and self.threshold is None:
            refuse("episodes", None, "a budget of episodes, or a threshold for V_0")
        if self.episodes is not None:
            object.__setattr__(self, "episodes", as_count("episodes", self.episodes, least=0))
        as_number("failure", self.failure, above=0.0, below=1.0)
        if self.threshold is not None:
            as_number("threshold", self.threshold, above=0.0)
        if self.tried is not None:
            as_count("tried", self.tried)
        as_count("least", self.least, least=0)
        object.__setattr__(self, "growth", as_number("growth", self.growth, below=1e9))
        if self.growth < 1.0:
            refuse("growth", self.growth, "a factor of at least 1")
        as_seed("seed", self.seed)
        check_callback("on_update", self.on_update)
        as_confidence(self.confidence)
        as_instance("counts", self.counts, Counting)
        for name in ("strategy", "engine"):
            if not callable(getattr(self, name)):
                refuse(name, quoted(getattr(self, name)), "a function of rewardmix.exploration")
        if self.checkpoint is not None:
            object.__setattr__(self, "checkpoint", as_path("checkpoint", self.checkpoint))
        if as_order(self.order) == 3:
            self._check_triples()
            object.__setattr__(self, "counts", all_triples)
        elif self.counts.order != 2:
            refuse("counts", self.counts.name, "all_pairs or selected; order=3 counts triples")

    def _check_triples(self) -> None:
        """Refuse what triples are not explored with."""
        if self.counts.ordered:
            refuse("counts", self.counts.name, "all_pairs with order 3: triples are counted beside all pairs")
        if self.engine is batched:
            refuse("engine", "batched", "compiled with order 3: the batched engine draws the paper's pairs alone")
        if isinstance(self.confidence, Theory):
            refuse("confidence", "theory", "practical or paper(c) with order 3: its radii are proved for pairs")


def as_order(order: object) -> int:
    """How many steps are counted together, 2 or 3."""
    number = as_count("order", order)
    if number not in ORDERS:
        refuse("order", number, "2 for pairs, or 3 for triples")
    return number


def explore(
    env_or_model: Any,
    *,
    episodes: int | None = None,
    threshold: float | None = None,
    tried: int | None = None,
    least: int = 0,
    failure: float = 0.05,
    confidence: Confidence = practical,
    counts: Counting = all_pairs,
    strategy: Strategy = optimistic,
    engine: EngineMaker = compiled,
    growth: float = 1.05,
    seed: int = 0,
    keep: bool = True,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    after: Exploration | None = None,
    on_update: Callable[[Update], None] | None = None,
    checkpoint: str | Path | None = None,
    order: int = 2,
) -> Exploration:
    """Explore until the budget is spent or V_0 is at most the threshold. Ctrl-C returns what was gathered.

    Args:
        env_or_model: a model, a problem's name, or a Gymnasium environment (single or vector) with Discrete spaces.
        episodes: budget, in all: what ``after`` or a checkpoint has played counts.
        threshold: stop once V_0 is at most this.
        tried: stop once every action of every state that was acted in was taken this often.
        least: episodes to play in any case before one of these counts.
        failure: what confidence levels may fail with.
        confidence: ``paper(c)``, ``theory`` or ``practical``.
        counts: ``all_pairs`` or ``selected``.
        strategy: ``optimistic``, or a baseline: ``uniformly``, ``first_order``.
        engine: ``compiled`` or ``batched``, for models.
        growth: counts grow by this factor between two plans; 1 plans after every episode, as the paper does.
        seed: the same seed gives the same exploration.
        keep: also keep the episodes themselves, as long as they fit into half a gigabyte.
        horizon: H of an environment that does not tell its own.
        reward_values: of an environment that does not declare them; 0 and 1 if left out.
        after: go on where this exploration ended.
        on_update: called now and then with an ``Update``.
        checkpoint: a folder. What is in it is gone on with, what is gathered is saved there.
        order: 2 explores pairs; 3 triples, which three and more types may need, in small worlds.

    Raises:
        ExplorationError: the environment broke its own rules; the error carries what was gathered.
    """
    asked = {name: value for name, value in locals().items() if name not in ("env_or_model", "after")}
    return explore_with(env_or_model, ExploreSettings(**asked), after)


def explore_with(env_or_model: Any, settings: ExploreSettings, after: Exploration | None = None) -> Exploration:
    """``explore`` with its settings as one object."""
    world = problems.as_world("env_or_model", env_or_model)
    if after is not None:
        as_instance("after", after, Exploration)
    engine: Any
    if isinstance(world, RewardMixingMDP):
        sizes = world.num_states, world.num_actions, world.horizon, world.num_values
        played_one_by_one = None if settings.engine is batched else settings.episodes
        afford_exploration(*sizes, played_one_by_one, settings.growth)
        engine = settings.engine(world, settings.seed, settings.keep)
    else:
        engine = EnvironmentEngine(world, settings.seed, settings.keep, settings.horizon, settings.reward_values)
        sizes = *engine.sizes, engine.reward_values.size
        afford_exploration(*sizes, settings.episodes, settings.growth, PLAYED_STEP)
    if settings.order == 3:
        afford_triples(*sizes, settings.episodes)
    return _Run(world, engine, settings).finish(after)


class _Run:
    """One exploration under way."""

    def __init__(self, world: Any, engine: Any, settings: ExploreSettings) -> None:
        self.world, self.engine, self.settings = world, engine, settings
        self.tally: Tally = engine.fresh_tally(settings.counts.ordered)
        if settings.order == 3:
            self.tally.watch_triples()
        self.order = ORDERS[settings.order]
        self.plan: Planned = self.order.blank(self.tally, settings.confidence, settings.failure)
        self.curve: list[tuple[float, float]] = []
        self.tried_all = False
        self.checkpoint = None if settings.checkpoint is None else self._checkpoint(Path(settings.checkpoint))

    def _checkpoint(self, folder: Path) -> Checkpoint:
        """The folder to save to, with what a run that goes on from it must have in common with this one."""
        settings = self.settings
        common = settings_of(
            world=world_digest(self.world),
            seed=settings.seed,
            confidence=settings.confidence,
            counts=settings.counts.name,
            growth=settings.growth,
            failure=settings.failure,
            strategy=settings.strategy.__name__,
            engine=type(self.engine).__name__,
        )
        return Checkpoint(folder, dict(common))

    def finish(self, after: Exploration | None) -> Exploration:
        """Go on after an earlier exploration or a checkpoint, and explore until there is a reason to stop."""
        self._resume(after)
        try:
            stopped = self._loop()
        except KeyboardInterrupt:
            stopped = "interrupted"
        except InputError as error:
            raise ExplorationError(str(error), self._result("error")) from error
        return self._result(stopped)

    def _loop(self) -> str:
        choices, next_refresh = None, self.tally.episodes
        while True:
            played = self.tally.episodes
            news = self.tally.progress[NEWS] and played >= self._patience()
            if played >= next_refresh or news:
                self._save()
                self._refresh()
                next_refresh = max(played + 1, math.ceil(self.settings.growth * played))
                if played < self.settings.least:
                    next_refresh = min(next_refresh, self.settings.least)  # decide on up-to-date estimates
                choices = self.settings.strategy(self.plan)
            elif self.tally.outdated and played >= self._patience():
                self.order.touch_up(self.plan, self.tally, self.settings.confidence)
                choices = self.settings.strategy(self.plan)
                if self._certain_enough:
                    next_refresh = played
                    continue
            self._tell()
            if self._certain_enough:
                return "threshold"
            if self.tried_all and played >= self.settings.least:
                return "tried"
            if self.settings.episodes is not None and played >= self.settings.episodes:
                return "budget"
            until = next_refresh if self.settings.episodes is None else min(next_refresh, self.settings.episodes)
            self.engine.play(self.plan, choices, self.tally, until, self._patience(), self.settings.growth)

    @property
    def _certain_enough(self) -> bool:
        if self.settings.threshold is None or self.tally.episodes < self.settings.least:
            return False
        return self.plan.uncertainty <= self.settings.threshold

    def _refresh(self) -> None:
        self.order.refresh(self.plan, self.tally, self.settings.confidence, self.settings.growth)
        if self.settings.tried is not None and self.tally.episodes > 0:
            visits = self.tally.visits.reshape(self.tally.num_states, -1)
            self.tried_all = bool(visits[visits.any(axis=1)].min() >= self.settings.tried)
        self.curve.append((float(self.tally.episodes), self.plan.uncertainty))

    def _patience(self) -> int:
        """The number of episodes at which the allowance has room for another plan."""
        allowance = ALLOWANCE * (max(1, self.tally.num_x // 3) if self.settings.order == 3 else 1)
        return int(self.plan.cost - allowance) // (RATE * int(self.tally.horizon))

    def _tell(self) -> None:
        if self.settings.on_update is not None:
            pairs = int(self.tally.progress[USED])
            self.settings.on_update(
                Update(
                    self.tally.episodes, self.plan.uncertainty, self.settings.episodes, self.settings.threshold, pairs
                )
            )

    def _result(self, stopped: str) -> Exploration:
        if not self.curve or self.curve[-1][0] != self.tally.episodes:
            self._refresh()
        if not self.engine.exact_resume:  # otherwise the last checkpoint leads back to this very point
            self._save(final=True)
        moments = self.tally.moments()
        info = ExplorationInfo(
            stopped,
            self.settings.confidence.name,
            self.settings.confidence.guarantee + (OF_TRIPLES if self.settings.order == 3 else ""),
            self.settings.counts.name,
            self.settings.growth,
            np.array(self.curve).reshape(-1, 2),
            self.plan.refreshes,
            self.plan.rows_planned,
            moments,
            self.world if isinstance(self.world, RewardMixingMDP) else None,
        )
        gathered = self.engine.gathered(self.tally.episodes)
        return Exploration(
            moments, self.tally.episodes, self.plan.uncertainty, gathered, self.engine.stream.copy(), info
        )

    def _resume(self, after: Exploration | None) -> None:
        saved = self.checkpoint.load() if self.checkpoint else None
        if after is not None and (saved is None or saved.moments.episodes < after.episodes):
            saved = Saved(after.moments, after.stream, np.empty((0, 2)), {}, after.gathered)
        if saved is None:
            return
        self.tally.add(saved.moments)
        self.engine.stream[:] = saved.stream
        if hasattr(self.engine, "restore"):
            self.engine.restore(saved.episodes, saved.moments.episodes)
        if isinstance(self.engine, EnvironmentEngine) and saved.moments.episodes:
            self.engine.go_on(self.settings.seed, saved.moments.episodes)
        self.curve = [(float(k), float(v)) for k, v in saved.curve]
        for name, number in saved.numbers.items():
            setattr(self.plan, name, number)

    def _save(self, final: bool = False) -> None:
        if self.checkpoint is None or not (final or self.checkpoint.due):
            return
        numbers = {name: int(getattr(self.plan, name)) for name in NUMBERS}
        moments: Moments = self.tally.moments()
        gathered = self.engine.gathered(self.tally.episodes)
        curve = np.array(self.curve).reshape(-1, 2)
        self.checkpoint.save(Saved(moments, self.engine.stream, curve, numbers, gathered))
