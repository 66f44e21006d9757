"""The same bits on every machine: digests of what is computed, against committed ones.

    python tests/system/test_machines.py --write      record this machine's digests after an intended change

``make machines`` runs this on emulated machines; ``benchmarks.machines.run`` compares whole folders of results.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

if __name__ == "__main__":  # run by its path: the folders of helpers and of benchmarks
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import numpy as np
import pytest
from benchmarks.machines.emulated import machines

from helpers.killed_runs import kill_once_stored
from rewardmix import evaluate, explore, learn, plan, problems, recover, simulate, uniform_policy
from rewardmix.environments import RewardMixingEnv, RewardMixingVectorEnv
from rewardmix.exploration import (
    all_pairs,
    make_batched_engine,
    paper_bonus,
    practical_bonus,
    selected_pairs,
    theory_bonus,
)
from rewardmix.logs import fit
from rewardmix.planning import plan_exact, plan_greedy, plan_markov, plan_oracle, plan_qmdp
from rewardmix.recovery import (
    algorithm_3,
    confidence_set,
    maximum_likelihood,
    moment_estimate,
    select_num_types,
    spectral,
)

pytestmark = pytest.mark.machines

COMMITTED = Path(__file__).parents[1] / "machines" / "digests.json"

UNLIKE = ("seconds", "command", "version")
"""Names of fields that say when and how something was run."""


def random(num_types=2, states=4, actions=3, horizon=5, **options):
    return problems.make_model(
        "random", states=states, actions=actions, horizon=horizon, num_types=num_types, seed=num_types, **options
    )


def learned():
    yield learn("shop", num_episodes=1000, seed=1, num_resamples=2)
    yield learn("probe", num_episodes=600, seed=2, num_resamples=0, num_validation_episodes=50)
    yield learn(random(), num_episodes=2500, seed=3, num_resamples=1)
    yield learn(
        random(weights=[0.2, 0.8], reward_values=(0.0, 0.3, 1.0)), num_episodes=800, num_resamples=0, bonus=theory_bonus
    )


def learned_with_three_contexts():
    yield learn(random(3), num_episodes=1500, num_types=3, seed=1, num_resamples=1)


def learned_in_an_environment():
    yield learn(
        RewardMixingEnv(problems.make_model("shop")),
        num_episodes=300,
        seed=1,
        num_resamples=0,
        num_validation_episodes=20,
    )


def planned():
    for model in (
        random(),
        random(states=30, next_states=3, horizon=8),
        random(states=40),
        problems.make_model("riverswim"),
    ):
        yield plan(model, gap=1e-3)
    yield plan(random(3), gap=1e-2)
    yield plan(random(4, states=3, actions=2, horizon=4), gap=5e-2, max_operations=3e7)
    yield plan(random(5, states=3, actions=2, horizon=3), gap=5e-2, max_operations=3e7)


def planned_otherwise():
    yield plan_exact(random(states=3, actions=2, horizon=4))
    for model in (random(), random(3)):
        yield from (baseline(model) for baseline in (plan_markov, plan_qmdp, plan_greedy, plan_oracle))


def explored():
    model = random()
    for bonus in (practical_bonus, paper_bonus(0.05), theory_bonus):
        for counts in (all_pairs, selected_pairs):
            yield explore(model, num_episodes=300, bonus=bonus, counting=counts, seed=5)
    for bonus in (practical_bonus, paper_bonus(0.05), theory_bonus):
        yield explore(
            model, num_episodes=10**6, bonus=bonus, counting=selected_pairs, engine=make_batched_engine, seed=6
        )
    yield explore(model, num_episodes=300, moment_order=3, seed=5)
    yield explore(RewardMixingEnv(model), num_episodes=60, seed=7)
    yield explore(RewardMixingVectorEnv(model, 4), num_episodes=60, seed=8)


def recovered():
    model = random()
    episodes = simulate(uniform_policy(model), model, 3000, 9)
    for method in (maximum_likelihood, algorithm_3, moment_estimate):
        yield recover(episodes, method=method)
        yield recover(episodes, method=method, weights=[0.4, 0.6])
    small = random(states=2, actions=2)
    yield recover(simulate(uniform_policy(small), small, 4000, 10), method=spectral)
    yield recover(confidence_set(explore(model, num_episodes=2000).moments), method=maximum_likelihood)
    three = random(3, states=3, actions=2, horizon=8)
    simulated = simulate(uniform_policy(three), three, 1500, 11)
    yield recover(simulated, num_types=3)
    yield select_num_types(simulated, 3)


def fitted():
    model = problems.make_model("shop")
    yield fit(simulate(uniform_policy(model), model, 1500, 12), num_resamples=2)


def simulated():
    model = random(states=30, next_states=4)
    yield simulate(uniform_policy(model), model, 500, 13)
    yield simulate(plan(model, gap=1e-2).policy, model, 500, 14)
    yield simulate(uniform_policy(model), RewardMixingEnv(model), 50, 15)
    yield evaluate(uniform_policy(model), RewardMixingEnv(model), num_episodes=50)
    yield evaluate(plan(model, gap=1e-2).policy, model)


WORK = (
    learned,
    learned_with_three_contexts,
    learned_in_an_environment,
    planned,
    planned_otherwise,
    explored,
    recovered,
    fitted,
    simulated,
)


def feed(digest, value):
    """Add all bits of a value: arrays, numbers and texts, in whatever nouns they are."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "indptr"):
        feed(digest, (value.indptr.astype(np.int64), value.indices.astype(np.int64), value.data))
    elif isinstance(value, Mapping):
        feed(digest, sorted((str(key), held) for key, held in value.items() if key not in UNLIKE))
    elif isinstance(value, list | tuple | set | frozenset):
        digest.update(f"{len(value)}".encode())
        for element in sorted(value) if isinstance(value, set | frozenset) else value:
            feed(digest, element)
    elif dataclasses.is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in dataclasses.fields(value):
            if not any(name in field.name for name in UNLIKE):
                feed(digest, getattr(value, field.name))
    elif isinstance(value, float | np.floating):
        digest.update(float(value).hex().encode())
    elif isinstance(value, int | str | bool | np.generic) or value is None:
        digest.update(repr(value).encode())


def digest_of(value):
    digest = hashlib.sha256()
    feed(digest, value)
    return digest.hexdigest()[:16]


def digests(work):
    return [digest_of(value) for value in work()]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_the_bits_are_those_that_were_committed(work):
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    assert digests(work) == committed[work.__name__]


def test_digests_look_at_every_bit():
    model = random()
    first, second = plan(model, gap=1e-2), plan(model, gap=1e-2)
    assert digest_of(first) == digest_of(second)
    nearly = dataclasses.replace(first, lower=np.nextafter(first.lower, 0.0))
    assert digest_of(nearly) != digest_of(first)
    rewards = model.rewards.copy()
    rewards[0, 0, 0] = np.nextafter(rewards[0, 0, 0], 0.0)
    assert digest_of(dataclasses.replace(model, rewards=rewards)) != digest_of(model)


def test_a_run_killed_on_one_machine_goes_on_on_another(tmp_path):
    """Other vector instructions and another BLAS; kernels are those of this machine, so that none is compiled again."""
    arguments = ["-m", "rewardmix", "learn", "random:states=6", "--num-episodes", "200000", "--seed", "1", "--out"]
    other = {**os.environ, **machines()["haswell"]}

    def run(folder, env, *options):
        command = [sys.executable, *arguments, str(tmp_path / folder), *options]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run("here", os.environ)
    run("there", other)
    kill_once_stored([sys.executable, *arguments, str(tmp_path / "killed")], tmp_path / "killed")
    run("killed", other, "--resume")
    for name in ("model.safetensors", "policy.safetensors", "moments.safetensors"):
        here, there, killed = ((tmp_path / run / name).read_bytes() for run in ("here", "there", "killed"))
        assert here == there == killed


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        COMMITTED.parent.mkdir(exist_ok=True)
        result = {work.__name__: digests(work) for work in WORK}
        COMMITTED.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    else:
        print(json.dumps({work.__name__: digests(work) for work in WORK}, indent=2))
