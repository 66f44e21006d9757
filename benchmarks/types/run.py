"""What does it cost not to know how many types there are?

python -m benchmarks.types.run [--quick] [--parts worlds,coupons]

torn: logs of several kinds whose rows were dealt out at random among sessions, so that there are no types: how many
``select_num_types`` says.
worlds: the same uniform episodes, fitted with the number that ``select_num_types`` says and with the true one, and
exact values of both plans in the true model.
coupons: hits a held-out household of policies that were learned with a number and with "auto".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from examples.purchases import make_purchase_env
from scipy.special import ndtr

from benchmarks.coupons.run import hits
from benchmarks.record import run
from benchmarks.types import analysis, settings
from rewardmix import learn, plan, problems, recover, select_num_types, simulate, uniform_policy
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value, evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import default_max_operations, plan_markov


def world_of(name: str, types: int, seed: int) -> RewardMixingMDP:
    """A model with so many types; one type is two that are the same."""
    if name == "shop":
        return shop_of(types)
    model = problems.make_model("random", num_types=max(2, types), seed=seed, **settings.RANDOM)
    return model if types > 1 else replace(model, rewards=np.repeat(model.rewards[:1], 2, axis=0))


def shop_of(types: int) -> RewardMixingMDP:
    """The shop, with a type for each of its things."""
    model = problems.make_model("shop")
    likes = np.array([settings.OTHERS] * max(2, types))
    for m in range(types):
        likes[m, m] = settings.LIKED[m]
    likes = likes if types > 1 else np.repeat(likes[:1], 2, axis=0)
    rewards = np.repeat(likes[:, None, :], model.num_states, axis=1)
    return replace(model, rewards=rewards, weights=np.array(settings.SHARES[types]))


def earned(episodes: Episodes, types: int, seed: int, env: RewardMixingMDP) -> float:
    """What the plan of a fit with so many types earns in the model."""
    model = recover(episodes, num_types=types, seed=seed).model
    return controller_value(plan(model, gap=settings.GAP, max_operations=default_max_operations(model)).policy, env)


def worlds(quick: bool) -> Iterator[dict[str, Any]]:
    """Every model, number of types, size and seed."""
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
    env = world_of(name, types, seed)
    episodes = simulate(uniform_policy(env), env, size, seed=1000 * types + seed)
    found = select_num_types(episodes, settings.MOST_TYPES, seed=seed).num_types
    baseline = uniform_policy(env) if types == 1 else plan_markov(env).policy
    best = plan(env, gap=settings.GAP, max_operations=default_max_operations(env)).lower
    known = earned(episodes, types, seed, env)
    auto = known if found == types else earned(episodes, found, seed, env)
    return {"found": found, "auto": auto, "known": known, "best": best, "least": evaluate(baseline, env).value}


def typed(kind: str, seed: int) -> RewardMixingMDP:
    """A model with two types, before its log is torn."""
    model = problems.make_model("random", num_types=2, seed=seed, **settings.TORN_WORLD)
    rng = np.random.default_rng(seed)
    shape = model.mean_rewards_by_type.shape
    if kind in settings.RARE:
        return replace(model, rewards=model.rewards * settings.RARE[kind] / model.rewards.mean())
    if kind == "three levels":
        return replace(model, rewards=rng.dirichlet(np.ones(3), size=shape), reward_values=[0.0, 0.5, 1.0])
    if kind == "revenue in bins":
        buys = np.minimum(model.rewards * settings.BUYS / model.rewards.mean(), 0.9)
        middles = np.log(30.0) + 0.5 * rng.standard_normal(shape)
        cuts = [-np.inf, *(np.log(30.0) + np.array([-0.5, 0.0, 0.5])), np.inf]
        below = ndtr((np.array(cuts) - middles[..., None]) / settings.MONEY)
        probs = np.concatenate([1.0 - buys[..., None], buys[..., None] * np.diff(below, axis=-1)], axis=-1)
        return replace(model, rewards=probs, reward_values=[0.0, 15.0, 24.0, 38.0, 65.0])
    return model


def torn_log(env: RewardMixingMDP, sessions: int, seed: int) -> Episodes:
    """A uniform log whose rows, each with its state, action and reward, are dealt out at random among sessions."""
    episodes = simulate(uniform_policy(env), env, sessions, seed=seed)
    order = np.random.default_rng(seed).permutation(episodes.actions.size)
    dealt = (rows.ravel()[order].reshape(rows.shape) for rows in (episodes.actions, episodes.reward_indices))
    states = episodes.states.copy()
    states[:, :-1] = states[:, :-1].ravel()[order].reshape(episodes.actions.shape)
    actions, reward_indices = dealt
    return replace(episodes, states=states, actions=actions, reward_indices=reward_indices)


def torn(quick: bool) -> Iterator[dict[str, Any]]:
    """Every kind and seed."""
    for seed in range(2 if quick else settings.TORN):
        for kind in settings.KINDS:
            episodes = torn_log(typed(kind, seed), settings.TORN_SESSIONS, 5000 + seed)
            choice = select_num_types(episodes, seed=seed)
            second = choice.scores[2]
            yield {
                "kind": kind,
                "seed": seed,
                "found": choice.num_types,
                "gain": second.loglik_gain,
                "error": second.gain_error,
                "sessions": len(episodes),
            }


def panels(quick: bool) -> Iterator[dict[str, Any]]:
    """Every product and split of its households, with every number."""
    for split in range(1 if quick else settings.SPLITS):
        for product in settings.PRODUCTS:
            train, test = (
                make_purchase_env(product, settings.HORIZON, piece, seed=split) for piece in ("train", "test")
            )
            ask = {"num_episodes": settings.EPISODES, "seed": split, "num_resamples": 0}
            rows = {str(number): learn(train, num_types=number, **ask) for number in (*settings.FIXED, "auto")}
            yield {
                "product": product,
                "split": split,
                "found": rows["auto"].model.num_types,
                **{number: hits(result.policy, test) for number, result in rows.items()},
            }


if __name__ == "__main__":
    run(__doc__, "types", {"torn": torn, "worlds": worlds, "coupons": panels}, analysis.print_rows)
