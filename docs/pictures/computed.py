"""Draw pictures of computed numbers: pairs, beliefs, the confidence set with its linear program, learning."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
from docs.pictures.style import BLUE, FAINT, GREEN, GREY, HERE, INK, ORANGE, VIOLET, page, save

import rewardmix as rm
from rewardmix import recovery
from rewardmix.planning import plan_markov, plan_oracle
from rewardmix.recovery.linear_program import solve_magnitudes

COMMAND = "python -m docs.pictures.make"


def pairs():
    """Draw click rates of two actions, equal in both models, and tables of pairs of clicks, which differ."""
    shop = rm.problems.make_model("shop", weights=(0.5, 0.5))
    both = shop.rewards[:, 0, :2]  # (type, action)
    average = both.mean(axis=0)
    alike = np.outer([1 - average[0], average[0]], [1 - average[1], average[1]])
    mixed = sum(np.outer([1 - p, p], [1 - q, q]) for p, q in both) / 2
    figure, places = page(8.2, 3.2, columns=3, width_ratios=[1, 1.1, 1.1])
    places[0].bar([0, 1], average, color=[BLUE, ORANGE], width=0.55)
    for action, value in enumerate(average):
        places[0].text(action, value + 0.02, f"{value:.2f}", ha="center")
    places[0].set(xticks=[0, 1], ylim=(0, 1), title="Averages: both models")
    places[0].set_xticklabels(["outdoor\nclicked", "reading\nclicked"])
    titles = ("Pairs: one type", "Pairs: two types")
    for axes, table, title in zip(places[1:], (alike, mixed), titles, strict=True):
        axes.imshow(table, cmap="Blues", vmin=0, vmax=0.6)
        for i in range(2):
            for j in range(2):
                color = "white" if table[i, j] > 0.38 else INK
                axes.text(j, i, f"{table[i, j]:.2f}", ha="center", va="center", fontsize=12, color=color)
        axes.set(xticks=[0, 1], yticks=[0, 1], title=title, xlabel="reading", ylabel="outdoor")
        axes.set_xticklabels(["not", "clicked"])
        axes.set_yticklabels(["not", "clicked"], rotation=90, va="center")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    save(figure, "pairs")


def belief():
    """Draw the optimal value of probe by belief, between best Markov policy and oracle, and the first action."""
    probe = rm.problems.make_model("probe")
    beliefs = np.linspace(0.004, 0.996, 125)
    models = [replace(probe, weights=np.array([b, 1 - b])) for b in beliefs]
    plans = [rm.plan(model, gap=1e-5) for model in models]
    actions = np.array([plan.policy.actions[0][0, plan.policy.initial_nodes[0]] for plan in plans])
    figure, axes = page(8.2, 3.9)
    axes.plot(beliefs, [plan_oracle(model).value for model in models], color=GREY, ls=":", label="oracle")
    axes.plot(beliefs, [plan.lower for plan in plans], color=BLUE, lw=2.6, label="optimum")
    axes.plot(
        beliefs, [plan_markov(model).value for model in models], color=ORANGE, ls="--", label="best Markov policy"
    )
    bottom = 3.4
    shades = {0: FAINT, 1: "#cfe3f5", 2: "#f6d9c6", 3: "#d3ead9"}
    edges = [0, *(np.flatnonzero(np.diff(actions)) + 1), beliefs.size]
    for begin, end in pairwise(edges):
        left = 0.0 if begin == 0 else (beliefs[begin - 1] + beliefs[begin]) / 2
        right = 1.0 if end == beliefs.size else (beliefs[end - 1] + beliefs[end]) / 2
        axes.axvspan(left, right, ymax=0.11, color=shades[int(actions[begin])], lw=0)
        name = probe.action_names[actions[begin]]
        axes.text((left + right) / 2, bottom + 0.2, name, ha="center", va="center", fontsize=9.5)
    axes.set(xlim=(0, 1), ylim=(bottom, 7.6), xlabel="belief in the first type", ylabel="value per episode")
    axes.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.13))
    save(figure, "belief")


def make_confidence_set():
    """Make a model of one state, two actions and two steps, and the confidence set of 20,000 episodes."""
    model = rm.RewardMixingMDP(np.ones((1, 2, 1)), [1.0], [0.5, 0.5], [[[0.75, 0.65]], [[0.25, 0.15]]], 2)
    episodes = rm.simulate(rm.uniform_policy(model), model, 20_000, seed=0)
    return model, recovery.confidence_set(rm.Moments.from_episodes(episodes), radius_rule=recovery.normal_rule(3.0))


def confidence():
    """Draw the confidence set of two state-actions: for loadings, and for their logarithms (a linear program)."""
    model, confidence_set = make_confidence_set()
    interval = {
        (int(i), int(j)): (low, high)
        for i, j, low, high in zip(
            confidence_set.pair_first,
            confidence_set.pair_second,
            confidence_set.lower,
            confidence_set.upper,
            strict=True,
        )
    }
    figure, (plain, logs) = page(8.2, 4.0, columns=2)
    loadings = model.loadings.ravel()
    for sign in (1, -1):
        for key, color, span in (((0, 0), BLUE, plain.axvspan), ((1, 1), ORANGE, plain.axhspan)):
            span(*(sign * np.sqrt(interval[key])), color=color, alpha=0.22, lw=0)
        along = np.geomspace(0.05, 0.5, 80)
        low, high = interval[0, 1]
        plain.fill_between(sign * along, sign * low / along, sign * high / along, color=GREEN, alpha=0.22, lw=0)
        near = [sign * np.linspace(-0.06, 0.06, 120) + sign * center for center in loadings]
        first, second = np.meshgrid(*near)
        products = {(0, 0): first * first, (0, 1): first * second, (1, 1): second * second}
        _darken(plain, first, second, [(products[key], ends) for key, ends in interval.items()])
    plain.plot(*loadings, "o", color="white", mec=INK, ms=6)
    plain.plot(*-loadings, "o", color="white", mec=INK, ms=6)
    plain.axhline(0, color=FAINT, lw=1, zorder=0)
    plain.axvline(0, color=FAINT, lw=1, zorder=0)
    plain.set(xlim=(-0.42, 0.42), ylim=(-0.42, 0.42), xlabel="loading of x", ylabel="loading of y")
    plain.set_title("Three intervals, confidence set (dark)")
    plain.text(0.3, 0.345, "x, x", color=BLUE, fontsize=9, ha="center")
    plain.text(-0.41, 0.27, "y, y", color=ORANGE, fontsize=9)
    plain.text(0.3, 0.08, "x, y", color=GREEN, fontsize=9)
    _draw_program(logs, confidence_set, interval, np.log(np.abs(loadings)))
    save(figure, "confidence")


def _darken(axes, first, second, intervals):
    """Shade where every value is inside its interval; the contour runs along the largest excess."""
    excess = np.max([np.maximum(low - value, value - high) for value, (low, high) in intervals], axis=0)
    axes.contourf(first, second, excess, levels=[-1.0, 0.0], colors=[INK], alpha=0.75)


def _draw_program(axes, confidence_set, interval, log_magnitudes):
    """Draw the feasible set of the log magnitudes: one strip for each interval, and the solution of the program."""
    low, high = -1.9, -1.05
    line = np.array([low, high])
    for x, color in ((0, BLUE), (1, ORANGE)):
        ends = [0.5 * np.log(end) for end in interval[x, x]]
        (axes.axvspan if x == 0 else axes.axhspan)(*ends, color=color, alpha=0.22, lw=0)
    ends = [np.log(end) for end in interval[0, 1]]
    axes.fill_between(line, ends[0] - line, ends[1] - line, color=GREEN, alpha=0.22, lw=0)
    first, second = np.meshgrid(*(np.linspace(center - 0.2, center + 0.2, 200) for center in log_magnitudes))
    sums = {(0, 0): 2 * first, (0, 1): first + second, (1, 1): 2 * second}
    _darken(axes, first, second, [(np.exp(sums[key]), ends) for key, ends in interval.items()])
    solution = solve_magnitudes(confidence_set).log_magnitudes
    axes.plot(*log_magnitudes, "o", color="white", mec=INK, ms=6, label="true model")
    axes.plot(*solution, "s", color=VIOLET, mec="white", ms=8, label="solution of the program")
    axes.set(xlim=(low, high), ylim=(low, high), xlabel="log |loading of x|", ylabel="log |loading of y|")
    axes.set_title("Logarithms: linear constraints")
    axes.legend(loc="upper right", fontsize=9)


BUDGETS, SEEDS = (50, 100, 200, 500, 1000, 2000, 5000), 10


def measure_shop():
    """Learn the shop with each budget and seed, and write the exact values of the policies to shop.json."""
    shop = rm.problems.make_model("shop")
    values = {
        str(budget): [
            rm.learn(shop, num_episodes=budget, seed=seed, num_resamples=0).certificate.true_model.policy_value
            for seed in range(SEEDS)
        ]
        for budget in BUDGETS
    }
    comparison = rm.compare_planners(shop, gap=1e-4)
    bounds = {
        "markov": comparison.markov_value,
        "optimal": comparison.optimal_lower,
        "oracle": comparison.oracle,
    }
    content = {
        "command": f"{COMMAND} --measure",
        "rewardmix": rm.__version__,
        "seeds": SEEDS,
        **bounds,
        "learned": values,
    }
    (HERE / "shop.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def shop():
    """Draw the value of the learned policy by number of sessions."""
    result = json.loads((HERE / "shop.json").read_text(encoding="utf-8"))
    budgets = np.array([int(budget) for budget in result["learned"]])
    values = np.array(list(result["learned"].values()))
    figure, axes = page(8.2, 3.5)
    lines = (
        ("oracle", "oracle (knows the type)", GREY, ":"),
        ("optimal", "optimum", GREEN, "-"),
        ("markov", "best Markov policy", ORANGE, "--"),
    )
    for key, label, color, dash in lines:
        axes.axhline(result[key], color=color, ls=dash, lw=1.8)
        above = -0.08 if key == "optimal" else 0.06
        axes.text(
            5200,
            result[key] + above,
            f"{label}: {result[key]:.2f}",
            ha="right",
            color=color,
            fontsize=9.5,
            va="top" if key == "optimal" else "bottom",
        )
    axes.fill_between(budgets, values.min(axis=1), values.max(axis=1), color=BLUE, alpha=0.18, lw=0)
    axes.plot(budgets, values.mean(axis=1), "o-", color=BLUE, ms=5)
    axes.text(
        105,
        values.mean(axis=1)[1] - 0.12,
        "learned policy: mean, minimum\nand maximum of ten seeds",
        color=BLUE,
        fontsize=9.5,
        va="top",
    )
    axes.set(
        xscale="log", xlabel="training sessions", ylabel="clicks per session", ylim=(min(3.9, values.min() - 0.2), 7.7)
    )
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    axes.minorticks_off()
    save(figure, "shop", HERE)
