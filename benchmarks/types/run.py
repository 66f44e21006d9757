"""What does it cost not to know how many types there are?

python -m benchmarks.types.run [--quick] [--parts worlds,coupons]

worlds: the same uniform episodes, fitted with the number that ``choose_contexts`` says and with the true one, and exact
values of both plans in the true world.
coupons: hits a held-out household of policies that were learned with a number and with "auto".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.coupons.run import hits
from benchmarks.record import run
from benchmarks.types import analysis, settings
from rewardmix import choose_contexts, learn, plan, problems, recover, simulate, uniform
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value, evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan_markov, usual_work
from rewardmix.problems.coupons import coupons


def world_of(name: str, types: int, seed: int) -> RewardMixingMDP:
    """A world with so many types; one type is two that are the same."""
    if name == "shop":
        return shop_of(types)
    model = problems.make("random", contexts=max(2, types), seed=seed, **settings.RANDOM)
    return model if types > 1 else replace(model, rewards=np.repeat(model.rewards[:1], 2, axis=0))


def shop_of(types: int) -> RewardMixingMDP:
    """The shop, with a type for each of its things."""
    model = problems.make("shop")
    likes = np.array([settings.OTHERS] * max(2, types))
    for one in range(types):
        likes[one, one] = settings.LIKED[one]
    likes = likes if types > 1 else np.repeat(likes[:1], 2, axis=0)
    rewards = np.repeat(likes[:, None, :], model.num_states, axis=1)
    return replace(model, rewards=rewards, weights=np.array(settings.SHARES[types]))


def earned(episodes: Episodes, types: int, seed: int, world: RewardMixingMDP) -> float:
    """What the plan of a fit with so many types earns in the world; with one, the best policy that does not adapt."""
    model = recover(episodes, num_contexts=max(2, types), seed=seed).model
    if types == 1:
        return evaluate(plan_markov(model).policy, world).value
    return controller_value(plan(model, gap=settings.GAP, work_limit=usual_work(model)).policy, world)


def worlds(quick: bool) -> Iterator[dict[str, Any]]:
    """Every world, number of types, size and seed."""
    for seed in range(1 if quick else settings.SEEDS):
        for size in settings.SIZES[: 1 if quick else None]:
            for types in settings.TRUE_TYPES:
                for name in ("shop", "random"):
                    yield {
                        "world": name,
                        "types": types,
                        "episodes": size,
                        "seed": seed,
                        **lost(name, types, size, seed),
                    }


def lost(name: str, types: int, size: int, seed: int) -> dict[str, Any]:
    """One log."""
    world = world_of(name, types, seed)
    episodes = simulate(uniform(world), world, size, seed=1000 * types + seed)
    found = choose_contexts(episodes, settings.MOST_TYPES, seed=seed).num_contexts
    least = uniform(world) if types == 1 else plan_markov(world).policy
    best = plan(world, gap=settings.GAP, work_limit=usual_work(world)).lower
    known = earned(episodes, types, seed, world)
    auto = known if found == types > 1 else earned(episodes, max(2, found), seed, world)
    return {"found": found, "auto": auto, "known": known, "best": best, "least": evaluate(least, world).value}


def panels(quick: bool) -> Iterator[dict[str, Any]]:
    """Every product and split of its households, with every number."""
    for split in range(1 if quick else settings.SPLITS):
        for product in settings.PRODUCTS:
            train, test = (coupons(product, settings.HORIZON, part, seed=split) for part in ("train", "test"))
            ask = {"episodes": settings.EPISODES, "seed": split, "resamples": 0}
            rows = {str(number): learn(train, num_contexts=number, **ask) for number in (*settings.FIXED, "auto")}
            yield {
                "product": product,
                "split": split,
                "found": rows["auto"].model.num_contexts,
                **{number: hits(one.policy, test) for number, one in rows.items()},
            }


if __name__ == "__main__":
    run(__doc__, "types", {"worlds": worlds, "coupons": panels}, analysis.told)
