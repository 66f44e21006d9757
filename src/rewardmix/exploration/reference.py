"""Run Algorithm 2 line by line in plain Python: the slow reference to which tests compare the engines.

The augmented MDP is written as in the paper, with states (i, v, s), i the slot and v = (v1, v2) the picks, actions
(a, z), and the rule (eq:augment_rule). Departures from the printed algorithm, each on purpose, by their numbers in
docs/concepts/paper-and-code.md:

2. mu-hat is stored as a table of reward counts; the printed update of the mean lacks a factor 1/n.
3. K in the confidence levels is the number of episodes so far; the paper uses it before it is known.
4. T-hat of an x that was never left is undefined; its bonus is 1, and its sum over next states is taken as 0.
5. V_0 is clipped at 1, as Q is.
6. Of equal Q the x with the fewest visits is played, then the lowest action, z = 1 before z = 0.
7. p_+ is estimated from at most one visit of x in an episode: repeated visits share the type.
8. With ``all_pairs`` every unordered pair of first visits is a sample, not only the picked one.
9. Bonuses that scale with the value multiply b_T by the largest value that may follow; see ``bonuses``.
32. ``practical_bonus`` counts an unobserved pair more than a pair with few samples; see ``bonuses``.
33. With ``all_triples`` there is a third slot for picks: v = (v1, v2, v3), and the bonus is that of a triple.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix.exploration.bonuses import Bonus, ProblemSize
from rewardmix.exploration.exploration_kernels import draw_two_uniforms
from rewardmix.exploration.running_counts import CountingRule
from rewardmix.model import RewardMixingMDP
from rewardmix.simulation_kernels import SamplingTables, sample_entry

Picks = tuple[int | None, ...]


class Algorithm2Reference:
    """Hold the state of the algorithm in dictionaries.

    Attributes:
        n: Samples of each pair; key (x1, x2) in order for ``selected_pairs``, sorted for ``all_pairs``. For
            ``all_triples``, samples of each triple, key (x1, x2, x3) sorted.
        tables: Reward counts of each pair, key (x1, x2, z1, z2).
        triples: Reward counts of each triple, key (x1, x2, x3, z1, z2, z3).
        reward_counts: Reward counts of each x, key (x, z).
        transitions: Transition counts, key (x, s').
        starts: Counts of initial states.
        visits: n(x).
        curve: V_0 after each episode, 1 before the first.
    """

    def __init__(self, model: RewardMixingMDP, bonus: Bonus, counts: CountingRule, failure_prob: float) -> None:
        self.model, self.bonus, self.counts, self.failure_prob = model, bonus, counts, failure_prob
        self.no_picks: Picks = (None,) * counts.order
        self.n: dict[tuple[int, ...], int] = {}
        self.tables: dict[tuple[int, int, int, int], int] = {}
        self.triples: dict[tuple[int, ...], int] = {}
        self.reward_counts: dict[tuple[int, int], int] = {}
        self.transitions: dict[tuple[int, int], int] = {}
        self.starts: dict[int, int] = {}
        self.visits = [0] * (model.num_states * model.num_actions)
        self.episodes = 0
        self.plan()
        self.curve = [1.0]

    # -- the augmented MDP --------------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Update Q and V from the counts (eq:update_q2, eq:optimistic_value)."""
        model = self.model
        counts = self.failure_prob, self.episodes, model.num_values
        size = ProblemSize(*_sizes(model), model.num_states, *counts)  # departure 3
        n, visits = dict(self.n), list(self.visits)  # copies: Q is evaluated lazily, while an episode is being counted
        b_transition = [float(self.bonus.transition(count, size)) for count in visits]
        successors = {
            x: sorted((s, c) for (y, s), c in self.transitions.items() if y == x) for x in range(len(self.visits))
        }

        @cache
        def bonus(*picks: int) -> float:
            key = picks if self.counts.ordered else tuple(sorted(picks))
            return float(self.bonus.pair(n.get(key, 0), size))

        @cache
        def q(t: int, i: int, v: Picks, s: int, a: int, z: int) -> float:
            x = s * model.num_actions + a
            i_next, v_next = next_slot_and_picks(i, v, x, z)
            total = 0.0
            for s_next, count in successors[x]:
                total += count * value(t + 1, i_next, v_next, s_next)
            follow = total / visits[x] if visits[x] else 0.0  # departure 4
            if self.bonus.scales_with_value:  # departure 9
                top = max(value(t + 1, i_next, v_next, s_next) for s_next in range(model.num_states))
                follow = min(top, follow + b_transition[x] * top)
            else:
                follow = follow + b_transition[x]
            reward = bonus(*v_next) if i == len(v) and z == 1 else 0.0
            return min(1.0, reward + follow)

        @cache
        def value(t: int, i: int, v: Picks, s: int) -> float:
            if t == model.horizon:
                return 0.0
            return max(q(t, i, v, s, a, z) for a in range(model.num_actions) for z in _choices(i, v))

        def act(t: int, i: int, v: Picks, s: int) -> tuple[int, int]:
            def preference(action: tuple[int, int]) -> tuple[float, int, int, int]:
                a, z = action  # departure 6
                return -q(t, i, v, s, a, z), visits[s * model.num_actions + a], a, -z

            return min(((a, z) for a in range(model.num_actions) for z in _choices(i, v)), key=preference)

        self.q, self.value, self.act = q, value, act
        self.uncertainty = self._start_value(size)

    def _start_value(self, size: ProblemSize) -> float:
        """Compute V_0 from nu-hat and the value of the first slot."""
        if self.episodes == 0:
            return 1.0
        values = [self.value(0, 1, self.no_picks, s) for s in range(self.model.num_states)]
        expected = 0.0
        for s, count in sorted(self.starts.items()):
            expected += count * values[s]  # not ``sum``, which compensates since Python 3.12
        expected /= self.episodes
        bonus = float(self.bonus.initial(size))
        top = max(values)  # departure 5: at most 1
        optimistic = min(top, expected + bonus * top) if self.bonus.scales_with_value else expected + bonus
        return min(1.0, self.bonus.unseen_pair_weight * optimistic)  # departure 32

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self, episodes: int, stream: NDArray[np.uint64], threshold: float = -1.0) -> None:
        """Repeat while V_0 > threshold: play an episode, count it, plan."""
        tables = SamplingTables.from_model(self.model)
        while self.uncertainty > threshold and self.episodes < episodes:
            steps = self.play(tables, lambda: draw_two_uniforms(stream))
            self.count(steps)
            self.plan()
            self.curve.append(self.uncertainty)

    def play(self, tables: Any, draw: Callable[[], tuple[float, float]]) -> list[tuple[int, int, int, int]]:
        """Play one episode; return (s, a, reward index, z) of each step. The type m stays inside."""
        upper, lower = draw()
        s, m = _pick(tables.initial, upper), _pick(tables.type_cumulative, lower)
        self.starts[s] = self.starts.get(s, 0) + 1
        i: int = 1
        v = self.no_picks
        steps = []
        for t in range(self.model.horizon):
            a, z = self.act(t, i, v, s)
            x = s * self.model.num_actions + a
            upper, lower = draw()
            steps.append((s, a, _pick(tables.rewards[m, x], lower), z))
            s_next = int(tables.next_states[sample_entry(tables, x, upper)])
            self.transitions[x, s_next] = self.transitions.get((x, s_next), 0) + 1
            self.visits[x] += 1
            i, v = next_slot_and_picks(i, v, x, z)
            s = s_next
        self.episodes += 1
        return steps

    def count(self, steps: list[tuple[int, int, int, int]]) -> None:
        """Update the reward counts with the samples of one episode."""
        visited = [(s * self.model.num_actions + a, reward_index) for s, a, reward_index, _ in steps]
        if self.counts.ordered:
            picked = [visited[t] for t, (_, _, _, z) in enumerate(steps) if z == 1][:2]
            for k, (x, reward_index) in enumerate(picked):
                if k == 0 or x != picked[0][0]:  # departure 7
                    _add(self.reward_counts, (x, reward_index))
            if len(picked) == 2:
                self._add_pair(picked[0], picked[1])
            return
        first: dict[int, int] = {}  # departures 7 and 8: first visits, and every pair of them
        second: dict[int, int] = {}
        third: dict[int, int] = {}
        for x, reward_index in visited:
            if x not in first:
                first[x] = reward_index
            elif x not in second:
                second[x] = reward_index
            elif x not in third:
                third[x] = reward_index
        for x in first:
            _add(self.reward_counts, (x, first[x]))
            if x in second:
                self._add_pair((x, first[x]), (x, second[x]))
            for y in first:
                if x < y:
                    self._add_pair((x, first[x]), (y, first[y]))

        if self.counts.order == 3:  # departure 33
            for triple in combinations_with_replacement(sorted(first), 3):
                reward_indices = [(first, second, third)[triple[:i].count(x)].get(x) for i, x in enumerate(triple)]
                if None not in reward_indices:
                    _add(self.n, triple)
                    _add(self.triples, (*triple, *reward_indices))

    def _add_pair(self, first: tuple[int, int], second: tuple[int, int]) -> None:
        if self.counts.order == 2:
            _add(self.n, (first[0], second[0]))
        _add(self.tables, (first[0], second[0], first[1], second[1]))  # departure 2: counts, not a running mean


def next_slot_and_picks(i: int, v: Picks, x: int, z: int) -> tuple[int, Picks]:
    """Return the next slot and picks (eq:augment_rule)."""
    if z == 0 or i > len(v):
        return i, v
    return i + 1, (*v[: i - 1], x, *v[i:])


def _choices(i: int, v: Picks) -> tuple[int, ...]:
    """Return the allowed z: in the last slot picking changes nothing, and is left out so that ties ignore it."""
    return (0,) if i > len(v) else (1, 0)


def _sizes(model: RewardMixingMDP) -> tuple[int, int, int]:
    return model.num_states, model.num_actions, model.horizon


def _pick(cumulative: Any, u: float) -> int:
    return sum(1 for c in cumulative[:-1] if u >= c)


def _add(counts: dict[Any, int], key: Any) -> None:
    counts[key] = counts.get(key, 0) + 1
