"""Recovery: speed of the certificate, quality of the estimates, weights, and real data against StepMix.

python -m benchmarks.recovery.run [--quick] [--parts rare,weights]

CPU seconds on one thread; StepMix is in the extra "bench".
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.cells import show
from benchmarks.record import Rows, cpu_seconds, record
from benchmarks.recovery import analysis
from benchmarks.recovery.settings import (
    QUICK,
    RARE,
    RARE_EPISODES,
    SCALE,
    SEEDS,
    SHORT,
    WORLDS,
    answers,
    corrupted,
    large,
    panel,
)
from rewardmix import Episodes, RewardMixingMDP, evaluate, plan, problems, simulate, uniform_policy
from rewardmix.moments import Moments
from rewardmix.recovery import (
    algorithm_3,
    align_types,
    confidence_set,
    maximum_likelihood,
    moment_estimate,
    normal_rule,
    recover,
    sweep_weights,
)
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.likelihood import EMFit, Mixture, e_step, run_em
from rewardmix.recovery.linear_program import find_feasible_point, make_constraints, solve_magnitudes
from rewardmix.recovery.moment_init import fit_rank_one
from rewardmix.recovery.recovery_result import match_order
from rewardmix.recovery.reward_patterns import merge_patterns, patterns_from_episodes


def rmse(result: RewardMixingMDP, model: RewardMixingMDP) -> float:
    return float(np.sqrt(((align_types(result, model).rewards - model.rewards) ** 2).mean()))


def from_truth(episodes: Episodes, model: RewardMixingMDP, weights: Any, prior: float = 1.0) -> EMFit:
    """EM started at the true parameters: what no method can know."""
    patterns = merge_patterns(patterns_from_episodes(episodes))
    truth = Mixture(model.weights, model.reward_probs.reshape(model.num_types, -1, model.num_values))
    return run_em(
        lambda m: e_step(patterns, m), truth, prior_mean=patterns.marginal_probs, pseudocount=prior, weights=weights
    )


def program_scale() -> Rows:
    """The linear program on every pair of SCALE state-actions, against linprog on all rows in the same run."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    out = []
    for samples in (2000, 20_000):
        box = confidence_set(large(SCALE, samples), radius_rule=normal_rule(6.0))
        rows = make_constraints(box)
        solved = solve_magnitudes(box)
        size, count = rows.min_value.size, rows.first.size
        pick = np.repeat(np.arange(count), 2), np.stack([rows.first, rows.second], axis=1).ravel()
        matrix = coo_array((np.ones(2 * count), pick), shape=(count, size)).tocsr()
        low = np.isfinite(rows.lower)
        everything = vstack([matrix, -matrix[low]]).tocsr()
        bounds = np.stack([rows.min_value, rows.max_value], axis=1)
        begin = time.process_time()
        other = linprog(np.ones(size), everything, np.concatenate([rows.upper, -rows.lower[low]]), bounds=bounds)
        full = time.process_time() - begin
        seconds = cpu_seconds(lambda box=box: solve_magnitudes(box), 3)
        out.append({
            "case": f"{samples} samples a pair",
            "state_actions": SCALE,
            "pairs": int(box.pair_first.size),
            "rows": int(count + low.sum()),
            "status": solved.status,
            "seconds": seconds,
            "linprog_seconds": full,
            "ratio": full / seconds,
            "objective": solved.objective,
            "linprog_objective": float(other.fun),
            "rows_needed": solved.num_constraints,
            "rounds": solved.num_rounds,
            "feasibility_seconds": cpu_seconds(lambda rows=rows: find_feasible_point(rows), 3),
        })  # fmt: skip
    return out


def start_scale() -> Rows:
    """Everything in ``maximum_likelihood`` except EM, from the moments of all pairs of SCALE state-actions."""
    moments = large(SCALE, 2000)
    settings = RecoverySettings(2, np.array([0.5, 0.5]))

    def whole() -> None:
        moment_estimate(RecoveryData(confidence_set(moments), moments), settings)

    whole()
    box = confidence_set(moments)
    return [{
        "state_actions": SCALE,
        "pairs": int(moments.pair_keys.size),
        "confidence_set_seconds": cpu_seconds(lambda: confidence_set(moments), 2),
        "fit_seconds": cpu_seconds(lambda: fit_rank_one(box, np.random.default_rng(0)), 2),
        "seconds": cpu_seconds(whole, 2),
    }]  # fmt: skip


def regret(result: RewardMixingMDP, model: RewardMixingMDP, optimum: float) -> float:
    return optimum - evaluate(plan(result, gap=1e-3).policy, model).value


def quality() -> Rows:
    """RMSE of the reward probabilities over seeds, on both kinds of coverage."""
    methods = {
        "best": lambda e: recover(e, weights="uniform"),
        "best, from moments": lambda e: recover(Moments.from_episodes(e), weights="uniform"),
        "without climbing": lambda e: recover(e, weights="uniform", method=moment_estimate),
        "paper, guaranteed radii": lambda e: recover(e, weights="uniform", method=algorithm_3),
        "paper, 3 deviations": lambda e: recover(
            e, weights="uniform", method=algorithm_3, radius_rule=normal_rule(3.0)
        ),
    }
    out: Rows = []
    for env, make in WORLDS.items():
        rows: dict[str, list[float]] = {name: [] for name in [*methods, "EM from the truth"]}
        regrets: dict[str, list[float]] = {name: [] for name in rows}
        failed = 0
        for seed in SEEDS:
            model, episodes = make(seed)
            optimum = plan(model, gap=1e-5).upper if env == "complete" else float("nan")
            fit = from_truth(episodes, model, np.array([0.5, 0.5]))
            order = match_order(fit.mixture.probs, model.reward_probs.reshape(2, -1, 2))
            off = fit.mixture.probs[order][..., 1].reshape(model.rewards.shape) - model.rewards
            rows["EM from the truth"].append(float(np.sqrt((off**2).mean())))
            for name, method in methods.items():
                result = method(episodes)
                rows[name].append(rmse(result.model, model))
                if env == "complete":
                    regrets[name].append(regret(result.model, model, optimum))
                if name == "best":  # the start from moments must be no worse than the truth as a start
                    failed += result.info.em_runs[0].objective < fit.objective - 1e-2
        out.append({
            "coverage": env,
            "rmse": {name: float(np.mean(values)) for name, values in rows.items()},
            "regret": {name: float(np.mean(values)) for name, values in regrets.items() if values},
            "ratio_best_to_truth": float(np.mean(rows["best"]) / np.mean(rows["EM from the truth"])),
            "failed_starts": int(failed),
            "seeds": len(SEEDS),
        })  # fmt: skip
    return out


def gross_pairs() -> Rows:
    """Maximum likelihood from moments of which a share of the pairs is grossly wrong."""
    out: Rows = []
    for env, make in WORLDS.items():
        result: dict[str, list[float]] = {}
        for seed in SEEDS:
            model, episodes = make(seed)
            moments = Moments.from_episodes(episodes)
            for share in (0.0, 0.01, 0.02, 0.05):
                used = corrupted(moments, share, seed) if share else moments
                result.setdefault(f"{share:g}", []).append(rmse(recover(used, weights="uniform").model, model))
        clean = float(np.mean(result["0"]))
        out.append({
            "coverage": env,
            "rmse": {share: float(np.mean(values)) for share, values in result.items()},
            "ratio": {share: float(np.mean(values)) / clean for share, values in result.items()},
        })  # fmt: skip
    return out


def unknown_weights() -> Rows:
    """Estimated weights at 20,000 episodes, and the likelihood against EM from the truth."""
    out: Rows = []
    for w in (0.17, 0.32, 0.43):
        errors, short = [], []
        for seed in SEEDS:
            model = problems.make_model("random", states=6, actions=2, horizon=6, seed=seed, weights=(w, 1 - w))
            episodes = simulate(uniform_policy(model), model, 20_000, seed=seed)
            result = recover(episodes)
            errors.append(abs(float(align_types(result.model, model).weights[0]) - w))
            objective = max(start.objective for start in result.info.em_runs)
            short.append(from_truth(episodes, model, None).objective - objective)
        out.append({
            "weight": f"{w:g}",
            "mean_error": float(np.mean(errors)),
            "worst_error": float(np.max(errors)),
            "largest_shortfall_of_objective": float(np.max(short)),
        })  # fmt: skip
    return out


def rare_contexts() -> Rows:
    """The objective against EM from the truth where one type is rare, with and without the starts that look for it."""
    out: Rows = []
    for (states, actions, horizon), num_types, weight, runs in RARE:
        weights = (weight, *[(1.0 - weight) / (num_types - 1)] * (num_types - 1))
        result, without, seconds = [], [], 0.0
        for seed in range(3 if QUICK else runs):
            model = problems.make_model(
                "random",
                states=states,
                actions=actions,
                horizon=horizon,
                seed=seed,
                num_types=num_types,
                weights=weights,
            )
            episodes = simulate(uniform_policy(model), model, RARE_EPISODES, seed=seed)
            begin = time.process_time()
            starts = recover(episodes, num_types=num_types, seed=seed).info.em_runs
            seconds += time.process_time() - begin
            truth = from_truth(episodes, model, None).objective
            usual = [start for start in starts if not start.init_name.startswith("rare")]
            result.append(max(start.objective for start in starts) - truth)
            without.append(max(start.objective for start in usual) - truth)
        below = {name: [d for d in values if d < -SHORT] for name, values in (("", result), ("_without", without))}
        out.append({
            "world": f"random ({states},{actions},{horizon})",
            "contexts": num_types,
            "weight": weight,
            "runs": len(result),
            **{f"below{name}": len(values) for name, values in below.items()},
            **{f"worst{name}": float(min(values)) for name, values in (("", result), ("_without", without))},
            "above": sum(d > SHORT for d in result),
            "seconds": seconds / len(result),
        })  # fmt: skip
    return out


def swept_weights() -> Rows:
    """The paper's sweep over weights, with exact policy tests, and maximum likelihood: regret of the policy."""
    rows: dict[str, list[float]] = {"best": [], "sweep of paper": []}
    for seed in list(SEEDS)[:5]:
        model = problems.make_model("random", states=5, actions=3, horizon=6, seed=seed, weights=(0.3, 0.7))
        episodes = simulate(uniform_policy(model), model, 20_000, seed=seed)
        optimum = plan(model, gap=1e-5).upper
        for name, method in (("best", maximum_likelihood), ("sweep of paper", sweep_weights(model, step=0.05))):
            result = recover(episodes, method=method, radius_rule=normal_rule(3.0))
            rows[name].append(regret(result.model, model, optimum))
    return [{"method": name, "regret": float(np.mean(values))} for name, values in rows.items()]


def real_data() -> Rows:
    """Log-likelihood and time against StepMix with as many starts, maximum likelihood."""
    try:
        from stepmix.stepmix import StepMix
    except ImportError:
        return []
    out: Rows = []
    for num_types in (2, 3):
        for values in (2, 3):  # compile
            recover(
                panel(np.random.default_rng(0).integers(values, size=(50, 4))), num_types=num_types, pseudocount=0.0
            )
    for name, table in answers().items():
        for num_types in (2,) if QUICK else (2, 3):
            episodes = panel(table)
            result = recover(episodes, num_types=num_types, pseudocount=0.0)
            seconds = cpu_seconds(lambda e=episodes, m=num_types: recover(e, num_types=m, pseudocount=0.0), 2)
            tries = 5 if num_types == 2 else 20
            other = StepMix(
                num_types, measurement="binary" if table.max() == 1 else "categorical", n_init=tries, max_iter=5000,
                abs_tol=1e-10, rel_tol=0.0, progress_bar=0, random_state=0,
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = time.process_time()
                other.fit(table)
                full = time.process_time() - begin
                loglik = float(other.score(table) * len(table))
            out.append({
                "answers": f"{name}, M = {num_types}",
                "people": table.shape[0],
                "questions": table.shape[1],
                "loglik": result.info.loglik,
                "stepmix_loglik": loglik,
                "better_by": result.info.loglik - loglik,
                "seconds": seconds,
                "stepmix_seconds": full,
                "ratio": full / seconds,
            })  # fmt: skip
    return out


def covered() -> Rows:
    """Share of the 95 % intervals that hold the truth, 5,000 episodes."""
    inside, errors = [], []
    for seed in SEEDS:
        model = problems.make_model("random", states=6, actions=2, horizon=6, seed=3, weights=(0.3, 0.7))
        result = recover(simulate(uniform_policy(model), model, 5000, seed=seed))
        order = match_order(result.model.reward_probs, model.reward_probs)
        low, high = result.info.lower[order], result.info.upper[order]
        inside.append(((model.rewards >= low) & (model.rewards <= high)).mean())
        errors.append((result.model.rewards[order] - model.rewards) / result.info.reward_errors[order])
    return [{"coverage": float(np.mean(inside)), "deviation_of_standardised_errors": float(np.std(errors))}]


STUDIES = {
    "program": program_scale,
    "start": start_scale,
    "quality": quality,
    "gross": gross_pairs,
    "weights": unknown_weights,
    "rare": rare_contexts,
    "sweep": swept_weights,
    "intervals": covered,
    "real": real_data,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")  # read by the settings
    parser.add_argument("--parts", default=",".join(STUDIES))
    for part in parser.parse_args().parts.split(","):
        rows = STUDIES[part]()
        show(analysis.make_texts(part, rows))
        if not QUICK:
            record("recovery", part, rows)


if __name__ == "__main__":
    main()
