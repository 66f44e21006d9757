"""Kernels that Python plays at first: the same bits as machine code, and machine code where there is enough to do."""

import importlib
import pkgutil
import tempfile

import numba
import numpy as np
import pytest

import rewardmix as rm
from rewardmix import bounded_mean, episode_kernels, simulation_kernels
from rewardmix._core import jit, linear_algebra, pair_count_kernels, portable_math
from rewardmix.exploration import compiled_engine, exploration_kernels, triple_kernels
from rewardmix.policy import EpsilonGreedyPolicy
from rewardmix.recovery import linear_program, moment_init, reward_patterns, signs, standard_errors


def numbers(rng, *shape):
    """Numbers of all sizes and both signs, some of them 0."""
    return rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape) * (rng.random(shape) > 0.1)


def some_bags(rng):
    lengths = rng.integers(0, 9, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    symbols = rng.integers(0, 12, offsets[-1]).astype(np.int32)
    return symbols, offsets, rng.integers(1, 5, 40).astype(np.float64)


def some_pairs(rng, size=9, count=30):
    return rng.integers(0, size, count), rng.integers(0, size, count)


def join_args(rng):
    return (
        *some_pairs(rng),
        rng.integers(0, 2, 30),
        np.arange(9),
        np.zeros(9, np.int64),
        np.zeros(30, np.int64),
    )


def improve_args(rng):
    first, second = np.triu_indices(9, 1)
    votes = numbers(rng, first.size)
    tree = signs.build_spanning_forest(first, second, np.abs(votes), 9)
    return first, second, votes, rng.choice([-1, 1], 9), *tree


def rows_args(rng):
    low = np.where(rng.random(30) < 0.5, -np.inf, -rng.random(30))
    return *some_pairs(rng), low, rng.random(30) - 0.2


def relax_args(rng):
    return *rows_args(rng), -5.0 * np.ones(9), np.zeros(9), np.zeros(18), np.full(18, -1)


def worst_args(rng):
    return *rows_args(rng), numbers(rng, 9), rng.random(30) < 0.3, np.full(9, -1), np.zeros(9)


def sweep_args(rng):
    first, second = np.triu_indices(9)
    offsets, neighbor, pair = moment_init._build_adjacency(first, second, 9)
    center = numbers(rng, first.size)
    return offsets, neighbor, pair, center, rng.random(first.size), np.full(9, 0.5), numbers(rng, 9), 30


def third_args(rng):
    symbols, offsets, counts = some_bags(rng)
    return symbols, offsets, counts, numbers(rng, 12), numbers(rng, 6), rng.integers(0, 2, 6), 2, np.zeros((2, 6))


def group_args(rng):
    lengths = rng.integers(0, 3, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    symbols, hashes = rng.integers(0, 2, offsets[-1]).astype(np.int32), np.zeros(40, np.uint64)
    reward_patterns._sort_and_hash(symbols, offsets, hashes)
    hashes %= np.uint64(5)  # bags that differ share one
    return symbols, offsets, hashes, np.argsort(hashes, kind="stable"), np.zeros(40, np.int64)


def moves_args(rng, room=0):
    lengths = rng.integers(1, 6, 20)
    symbols = rng.integers(0, 12, lengths.sum()).astype(np.int32)
    last = rng.integers(-1, 3, 20).astype(np.int32)
    state_actions, starts = np.arange(12) // 2, np.zeros(3, np.int64)
    return symbols, lengths, last, state_actions, 2, 5, 4, starts, np.zeros(24, np.int64), np.zeros(room, np.int64)


def episode_args(rng):
    lengths = rng.integers(1, 6, 20).astype(np.int32)
    arrays = [rng.integers(0, 3, (20, 6), np.int32), rng.integers(0, 2, (20, 5), np.int16)]
    arrays.append(rng.integers(0, 2, (20, 5), np.int8))
    for array in arrays:
        array.flags.writeable = False  # as episodes have them
    return *arrays, lengths, 2, 2, np.zeros(lengths.sum(), np.int32)


def limit_args(rng):
    records = np.zeros((36, 8), np.int64)
    records[:, 0] = np.where(rng.random(36) < 0.3, -1, np.arange(36))
    records[:, 1] = rng.integers(0, 50, 36)
    return records, 1.3, 45, False, 6, np.zeros(6, bool)


def alias_args(rng):
    row_offsets = np.array([0, 3, 4, 9])
    return row_offsets, rng.dirichlet(np.ones(9)), np.zeros(9), np.zeros(9, np.int32)


def elimination_args(rng):
    matrices = numbers(rng, 5, 4, 4)
    matrices[3] = 0.0  # has no solution
    return matrices, numbers(rng, 5, 4)


def outer_args(rng):
    symbols, offsets, counts = some_bags(rng)
    table, weights = rng.random((12, 2)), rng.dirichlet(np.ones(2))
    return symbols, offsets, counts, table, weights, 1.0 / table, np.zeros((26, 26))


def whitening_args(rng):
    root = numbers(rng, 6, 6)
    return (root[:, :, None] * root.T[None]).sum(axis=1), numbers(rng, 6, 4)


CASES = {
    linear_algebra.dot: lambda rng: (numbers(rng, 40), numbers(rng, 40)),
    linear_algebra.times_vector: lambda rng: (numbers(rng, 7, 40), numbers(rng, 40), np.ones(7)),
    linear_algebra.times_matrix: lambda rng: (numbers(rng, 7, 19), numbers(rng, 19, 6), np.ones((7, 6))),
    linear_algebra._eliminate: elimination_args,
    linear_algebra._apply_inverse_cholesky: whitening_args,
    portable_math.log: lambda rng: (abs(float(numbers(rng))),),
    portable_math.log1p: lambda rng: (abs(float(numbers(rng))),),
    portable_math.exp: lambda rng: (float(numbers(rng)),),
    portable_math.power: lambda rng: (float(rng.random()) + 1e-3, float(numbers(rng))),
    portable_math.atan2_positive: lambda rng: (float(rng.integers(0, 3)), float(rng.integers(0, 3))),
    portable_math.sin: lambda rng: (float(rng.random() * 1.57),),
    portable_math._exp_inplace: lambda rng: (numbers(rng, 50),),
    portable_math._sin_inplace: lambda rng: (rng.random(50) * 1.57,),
    portable_math._atan2_inplace: lambda rng: (rng.random(50), rng.random(50)),
    pair_count_kernels.fill_transitions: lambda rng: moves_args(rng, int(rng.integers(0, 2)) * 120),
    simulation_kernels.fill_aliases: alias_args,
    signs._union_pairs: join_args,
    signs._multiply: lambda rng: (*some_pairs(rng), numbers(rng, 30), numbers(rng, 9), np.ones(9)),
    signs._flip_while_improving: improve_args,
    linear_program._bellman_ford: relax_args,
    linear_program._find_most_violated: worst_args,
    reward_patterns._add_reward_counts: lambda rng: (*some_bags(rng), np.zeros(12)),
    reward_patterns._group_equal: group_args,
    standard_errors._add_outer_products: outer_args,
    moment_init._coordinate_descent: sweep_args,
    moment_init._add_third_order_sums: third_args,
    pair_count_kernels.set_limits: limit_args,
    episode_kernels.list_symbols: episode_args,
    bounded_mean.min_mean: lambda rng: (np.unique(rng.random(9)), rng.integers(1, 5, 9).astype(np.float64), 2.0),
}

PLAYING = {simulation_kernels.run_controller, exploration_kernels.play_choices, exploration_kernels.look_up_choice}
PLAYING |= {triple_kernels.play_triples, triple_kernels.triple_choice}
"""Held against each other in whole runs, below."""


def deferrals():
    """All deferred kernels of the package."""
    for module in pkgutil.walk_packages(rm.__path__, "rewardmix."):
        if not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(getattr(value, "_compile_for_args", None), jit.LazyCompiler):
                    yield value


def test_every_deferred_kernel_has_a_case():
    assert {item.py_func for item in deferrals()} == {item.py_func for item in {*CASES, *PLAYING}}


def played_by_python(kernel):
    return kernel._compile_for_args.python_impl or jit.to_python(kernel.py_func)


def copied(args):
    """The same arrays again; those that may not be written stay so."""
    return [arg if isinstance(arg, np.ndarray) and not arg.flags.writeable else np.copy(arg)[()] for arg in args]


@pytest.mark.parametrize("kernel", CASES, ids=lambda item: item.py_func.__qualname__)
def test_python_and_machine_code_give_the_same_bits(kernel):
    for seed in range(20):
        value = CASES[kernel](np.random.default_rng(seed))
        ours, theirs = copied(value), copied(value)
        kernel.compile(tuple(numba.typeof(arg) for arg in theirs))
        with np.errstate(all="ignore"):
            result = played_by_python(kernel)(*ours)
        expected = kernel(*theirs)
        for item, other in zip([result, *ours], [expected, *theirs], strict=True):
            assert np.asarray(item).tobytes() == np.asarray(other).tobytes(), seed


@pytest.mark.parametrize("counts", ["all pairs", "selected"])
def test_explorations_played_by_python_are_the_same(monkeypatch, counts):
    def explored():
        chosen = {"all pairs": rm.exploration.all_pairs, "selected": rm.exploration.selected_pairs}[counts]
        result = rm.explore(rm.problems.make_model("shop"), num_episodes=60, seed=3, counting=chosen)
        moments = result.moments
        return (
            moments.reward_counts.tolist(),
            moments.pair_tables.tolist(),
            moments.transition_counts.toarray().tolist(),
        )

    monkeypatch.setattr(compiled_engine.kernels.play_choices._compile_for_args, "remaining_steps", -1)
    expected = explored()
    plain = jit.to_python(exploration_kernels.play_choices.py_func)
    monkeypatch.setattr(compiled_engine.kernels, "play_choices", np.errstate(all="ignore")(plain))
    assert explored() == expected


@pytest.mark.system
def test_explorations_of_triples_played_by_python_are_the_same(monkeypatch):
    def explored():
        result = rm.explore(rm.problems.make_model("parity"), num_episodes=60, seed=3, moment_order=3)
        return (
            result.moments.triple_tables.tolist(),
            result.moments.transition_counts.toarray().tolist(),
            result.rng_state.tolist(),
        )

    monkeypatch.setattr(triple_kernels.play_triples._compile_for_args, "remaining_steps", -1)
    expected = explored()
    plain = jit.to_python(triple_kernels.play_triples.py_func)
    monkeypatch.setattr(compiled_engine, "play_triples", np.errstate(all="ignore")(plain))
    assert explored() == expected


@pytest.mark.parametrize("explore", [0.0, 0.4])
@pytest.mark.parametrize("name", ["shop", "random", "riverswim"])
def test_episodes_played_by_python_are_the_same(monkeypatch, name, explore):
    model = rm.problems.make_model(name)
    policy = rm.plan(model, gap=0.5).policy
    policy = EpsilonGreedyPolicy(policy, explore, model.num_actions) if explore else policy

    def played():
        result = rm.simulate(policy, model, 40, seed=2)
        return result.states.tolist(), result.actions.tolist(), result.reward_indices.tolist()

    monkeypatch.setattr(simulation_kernels.run_controller._compile_for_args, "remaining_steps", -1)
    expected = played()
    together = played_by_python(simulation_kernels.run_controller)
    plain = jit.to_python(simulation_kernels.run_controller.py_func)
    for form in (together, plain):
        monkeypatch.setattr(simulation_kernels, "run_controller", np.errstate(all="ignore")(form))
        assert played() == expected


@pytest.fixture
def fresh(monkeypatch):
    """A deferred kernel that nobody has compiled."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(numba.config, "CACHE_DIR", folder)

        def make(steps, **more):
            def halved(values):
                """Half of the sum."""
                total = 0.0
                for i in range(values.size):
                    total += values[i]
                return total / 2.0

            return jit.lazy_jit(steps, **more)(halved)

        yield make


def test_a_kernel_is_compiled_when_it_would_have_been_worth_it(fresh):
    kernel, values = fresh(lambda values: 15_000), np.arange(4.0)
    for _ in range(3):
        assert kernel(values) == 3.0
        assert type(kernel(values)) is float or kernel.overloads
    assert len(kernel.overloads) == 1


def test_a_large_call_is_compiled_at_once_and_found_on_disk_by_the_next(fresh):
    first, again = fresh(lambda values: values.size), fresh(lambda values: values.size)
    first(np.zeros(4))
    assert not first.overloads
    first(np.zeros(jit.PYTHON_STEP_BUDGET + 1))
    assert first.overloads
    again(np.zeros(4))
    assert again.overloads
    assert again.stats.cache_hits


def test_steps_that_a_call_did_not_take_are_not_charged(fresh):
    kernel = fresh(lambda values: 40_000, unused=lambda values: 39_990)
    for _ in range(30):
        kernel(np.ones(2))
    assert not kernel.overloads


def test_what_is_compiled_first_is_announced_once(fresh):
    """Not what Python plays, and not what is found on disk."""
    response = []
    jit.set_compile_hook(lambda: response.append("compiling"))
    kernel = fresh(lambda values: values.size)
    kernel(np.zeros(4))
    assert not response
    kernel(np.zeros(jit.PYTHON_STEP_BUDGET + 1))
    kernel(np.zeros((2, 2)).T[0])  # another layout
    assert response == ["compiling"]
    jit.set_compile_hook(lambda: response.append("again"))
    fresh(lambda values: values.size)(np.zeros(4))
    assert response == ["compiling"]
    jit.set_compile_hook(None)
