"""How often radii, intervals and estimates are right, where the truth is known.

python -m benchmarks.coverage.run [--quick] [--parts radii,pairs,program,rewards,validation,regret]

Learning is without refinement throughout.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.coverage import analysis, settings
from benchmarks.record import Rows, run
from rewardmix import problems, theory
from rewardmix.bounded_mean import return_bounds
from rewardmix.evaluation import confidence_interval, controller_value
from rewardmix.exploration import explore
from rewardmix.learning import learn
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.policy import uniform_policy
from rewardmix.recovery import ConfidenceSet, confidence_set, exact_confidence_set, normal_rule, recover
from rewardmix.recovery.linear_program import solve_magnitudes
from rewardmix.recovery.recovery_result import match_order
from rewardmix.simulation import simulate

WITHIN = 1.0 - 1e-6
"""How near to the end of its interval a truth is put: nearer, rounding decides on which side it is."""

EXACTLY = 1e-9
"""Accuracy of a confidence set whose tolerance adds nothing."""


def ratios(moments: Moments, env: RewardMixingMDP, failure_prob: float) -> dict[str, float]:
    """Largest error over its radius, in each family; at most 1 where all hold."""
    points, states = env.num_states * env.num_actions, env.num_states
    average, is_visited = env.marginal_rewards.ravel(), moments.num_samples > 0
    off = np.abs(moments.reward_frequencies[is_visited, 1] - average[is_visited])
    x, y = moments.pairs
    shares = moments.pair_tables / moments.pair_samples[:, None, None]
    product = shares[:, 1, 1] - average[x] * shares[:, :, 1].sum(axis=1) - average[y] * shares[:, 1].sum(axis=1)
    apart = np.abs(product + average[x] * average[y] - env.covariance()[x, y])
    rows, visited = moments.transition_estimate()
    moved = np.abs(rows.toarray() - env.transition_rows).sum(axis=1)[visited]
    start = np.abs(moments.initial_estimate() - env.initial).sum()
    return {
        "average": float((off / theory.marginal_radius(moments.num_samples[is_visited], points, failure_prob)).max()),
        "pair": float((apart / theory.pair_radius(moments.pair_samples, points, failure_prob)).max()),
        "move": float((moved / theory.transition_radius(moments.visits[visited], states, points, failure_prob)).max()),
        "start": float(start / theory.initial_radius(moments.num_episodes, states, failure_prob)),
    }


def radii(quick: bool) -> Rows:
    """All radii at once, along runs of exploration, and whether the feasible set holds the true model."""
    rows = []
    for number in range(50 if quick else settings.RUNS):
        states, actions, horizon = settings.SIZES[number % len(settings.SIZES)]
        env = problems.make_model("random", states=states, actions=actions, horizon=horizon, seed=number)
        row: dict[str, Any] = {
            f"{failure_prob:g}": dict.fromkeys(analysis.FAMILIES, 0.0) for failure_prob in settings.FAILURES
        }
        contained = dict.fromkeys(row, True)
        result = None
        for episodes in settings.CHECKPOINTS:
            result = explore(env, num_episodes=episodes, seed=number, resume_from=result, keep_episodes=False)
            for name, worst in row.items():
                now = ratios(result.moments, env, float(name))
                worst.update({family: round(max(worst[family], now[family]), 4) for family in now})
                box = confidence_set(result.moments, failure_prob=float(name), epsilon=EXACTLY)
                contained[name] &= box.contains(env)
        rows.append({"ratios": row, "contained": contained})
    return rows


def repeated_pair(w: float, first_probs: Any, second_probs: Any, samples: int, runs: int, seed: int) -> Moments:
    """Moments of a pair, observed anew ``runs`` times: run k is the pair of the state-actions 2k and 2k + 1."""
    rng = np.random.default_rng(seed)
    weights, p, q = np.array([w, 1.0 - w]), np.array(first_probs), np.array(second_probs)
    probs = (np.stack([1 - p, p])[:, None] * np.stack([1 - q, q])[None] * weights).sum(axis=2)
    tables = rng.multinomial(samples, probs.ravel(), runs).reshape(runs, 2, 2)
    rest = samples * (settings.PAIR_VISITS - 1)
    good = np.stack(
        [tables[:, 1].sum(axis=1) + rng.binomial(rest, probs[1].sum(), runs),
         tables[:, :, 1].sum(axis=1) + rng.binomial(rest, probs[:, 1].sum(), runs)], axis=1,
    ).ravel()  # fmt: skip
    visits = samples * settings.PAIR_VISITS
    first = 2 * np.arange(runs)
    return replace(
        Moments.empty(2 * runs, 1, 2),
        num_episodes=visits,
        initial_counts=np.bincount([0], [visits], 2 * runs).astype(np.int64),
        reward_counts=np.stack([visits - good, good], axis=1),
        pair_keys=first * 2 * runs + first + 1,
        pair_tables=tables,
    )


def pairs(quick: bool) -> Rows:
    """The standard error that a pair claims beside its true one, and how often three of them miss the covariance."""
    rows = []
    runs = 2000 if quick else settings.PAIR_RUNS
    for w, gap, even, turned in product(settings.PAIR_WEIGHTS, settings.PAIR_GAPS, (False, True), (False, True)):
        low = (1.0 - gap) / 2.0 if even else settings.PAIR_LOWEST
        first_probs, second_probs = (low + gap, low), ((low, low + gap) if turned else (low + gap, low))
        truth = w * (1.0 - w) * gap * gap * (-1.0 if turned else 1.0)
        for samples in settings.PAIR_SAMPLES:
            moments = repeated_pair(w, first_probs, second_probs, samples, runs, seed=len(rows))
            box = confidence_set(moments, radius_rule=normal_rule(settings.PAIR_DEVIATIONS), epsilon=EXACTLY)
            true = float(np.sqrt(np.mean((box.center - truth) ** 2)))
            rows.append(
                {
                    "w": w,
                    "gap": gap,
                    "low": round(low, 3),
                    "turned": turned,
                    "samples": samples,
                    "true": round(true, 6),
                    "ratio": round(float(np.sqrt(np.mean(box.standard_error**2))) / true, 4),
                    "independent": round(float(np.sqrt(np.mean(box.null_standard_error**2))) / true, 4),
                    "missed": int((np.abs(box.center - truth) > box.radius).sum()),
                    "runs": runs,
                }
            )
    return rows


def around(env: RewardMixingMDP, rng: np.random.Generator) -> ConfidenceSet:
    """A set that holds the model by construction: each interval of a random width, the truth in it or at its end."""
    box = exact_confidence_set(env, epsilon=EXACTLY)

    def intervals(size: int, scale: float) -> tuple[Any, Any]:
        radius = scale * rng.random(size) ** 3 * (rng.random(size) < 0.8)  # some are points, most are narrow
        return radius * np.clip(rng.uniform(-2.0, 2.0, size), -WITHIN, WITHIN), radius

    off, average_radius = intervals(box.marginals.size, 0.5)
    pair_mask = rng.random(box.pair_first.size) < rng.uniform(0.2, 1.0)
    shift, radius = intervals(int(pair_mask.sum()), 0.1)
    pairwise = {
        name: getattr(box, name)[pair_mask]
        for name in ("pair_first", "pair_second", "standard_error", "null_standard_error", "pair_samples")
    }
    average = np.clip(box.marginals + off, 0.0, 1.0)  # nearer to the truth if anything
    center = box.center[pair_mask] + shift
    return replace(box, marginals=average, marginal_radius=average_radius, center=center, radius=radius, **pairwise)


def random_world(w: float, states: int, rng: np.random.Generator) -> RewardMixingMDP:
    """Laws from dull to certain, one state-action a state, any next state as likely as any other."""
    rewards = rng.beta(*(rng.uniform(0.2, 1.5, 2)), (2, states, 1))
    flat = np.full((states, 1, states), 1.0 / states)
    return RewardMixingMDP(flat, flat[0, 0], [w, 1.0 - w], rewards, int(rng.integers(2, 7)))


def program(quick: bool) -> Rows:
    """Sets that hold the true model, weights known: the paper's program has to be feasible."""
    rng = np.random.default_rng(0)
    low, high = settings.PROGRAM_WEIGHTS
    bins = np.linspace(low, high, settings.PROGRAM_BINS + 1).round(3).tolist()
    rows = [
        {"made": origin, "from": start, "to": end, "sets": 0, "feasible": 0, "kappa": 1.0}
        for origin in ("by construction", "from episodes")
        for start, end in pairwise(bins)
    ]
    for number in range(200 if quick else settings.PROGRAM_SETS):
        row: dict[str, Any] = rows[number % len(rows)]
        box, env = _make_set(row, number, rng)
        result = solve_magnitudes(box, env.weights)
        row["sets"] += 1
        row["feasible"] += result.status == "feasible"
        row["kappa"] = max(row["kappa"], result.radius_inflation)
    return rows


def _make_set(row: dict[str, Any], number: int, rng: np.random.Generator) -> tuple[ConfidenceSet, RewardMixingMDP]:
    """A set and the model whose rewards it holds; one from episodes that does not hold them is drawn again."""
    while True:
        w = float(rng.uniform(row["from"], row["to"]))
        env = random_world(w, int(rng.integers(*settings.PROGRAM_POINTS)), rng)
        if row["made"] == "by construction":
            box = around(env, rng)
        else:
            episodes = simulate(uniform_policy(env), env, int(rng.integers(20, 400)), seed=number)
            box = confidence_set(
                Moments.from_episodes(episodes), radius_rule=normal_rule(float(rng.uniform(2.0, 4.0))), epsilon=EXACTLY
            )
        if not any(mask.any() for what, *_, mask in box.iter_checks(env) if what in ("marginals", "covariance")):
            return box, env


def rewards(quick: bool) -> Rows:
    """95 % intervals of recovered rewards, after exploration as ``learn`` does it."""
    rows = []
    states, actions, horizon = settings.REWARD_SIZE
    for kind, separation in settings.REWARDS.items():
        for number in range(5 if quick else settings.WORLDS):
            size = {"states": states, "actions": actions, "horizon": horizon}
            env = problems.make_model("random", **size, separation=separation, seed=number)
            for episodes in settings.BUDGETS[:3] if quick else settings.BUDGETS:
                result = recover(explore(env, num_episodes=episodes, seed=number).episodes, seed=number)
                order = match_order(result.model.reward_probs, env.reward_probs)
                low, high, errors = (getattr(result.info, key)[order] for key in ("lower", "upper", "reward_errors"))
                inside = ((env.rewards >= low) & (env.rewards <= high)).ravel()
                scores = ((result.model.rewards[order] - env.rewards) / errors).ravel()
                rows.append(
                    {
                        "kind": kind,
                        "world": number,
                        "episodes": episodes,
                        "inside": inside.astype(int).tolist(),
                        "width": float(np.mean(high - low)),
                        "unknown": int(np.isinf(errors).sum()),
                        "edge": ((env.rewards < 0.1) | (env.rewards > 0.9)).ravel().astype(int).tolist(),
                        "score": float(np.sqrt(np.mean(scores[np.isfinite(errors).ravel()] ** 2))),
                    }
                )
    return rows


def validation(quick: bool) -> Rows:
    """Intervals of fresh episodes against the exact value of the same controller."""
    rows = []
    envs = 4 if quick else settings.VALIDATION_WORLDS
    each = (200 if quick else settings.VALIDATIONS) // envs
    for number in range(envs):
        states, actions, horizon = settings.SIZES[number % len(settings.SIZES)]
        env = problems.make_model("random", states=states, actions=actions, horizon=horizon, seed=number)
        policy = learn(env, num_episodes=1000, seed=number, num_resamples=0).policy
        truth = controller_value(policy, env)
        bounds = return_bounds(env.reward_values, env.horizon, may_end=False)
        for played in settings.PLAYED:
            returns = simulate(policy, env, played * each, seed=number).returns.reshape(each, played)
            intervals = [confidence_interval(block, bounds=bounds) for block in returns]
            inside = sum(interval.lower <= truth <= interval.upper for interval in intervals)
            rows.append({"world": number, "played": played, "intervals": each, "inside": int(inside)})
    return rows


def regret(quick: bool) -> Rows:
    """The bootstrap's regret beside the true one."""
    rows = []
    for episodes in settings.REGRET_BUDGETS[:2] if quick else settings.REGRET_BUDGETS:
        for number in range(6 if quick else settings.REGRET_WORLDS):
            states, actions, horizon = settings.SIZES[number % len(settings.SIZES)]
            env = problems.make_model("random", states=states, actions=actions, horizon=horizon, seed=number)
            result = learn(
                env, num_episodes=episodes, seed=number, num_resamples=settings.RESAMPLES, target_regret=0.01
            ).certificate
            rows.append(
                {
                    "world": number,
                    "episodes": episodes,
                    "true": result.true_model.regret,
                    "estimated": result.bootstrap.mean,
                    "largest": result.bootstrap.upper,
                }
            )
    return rows


PARTS = {
    "radii": radii,
    "pairs": pairs,
    "program": program,
    "rewards": rewards,
    "validation": validation,
    "regret": regret,
}


if __name__ == "__main__":
    run(__doc__, "coverage", PARTS, lambda part, rows, quick: show(analysis.TABLES[part](rows)))
