"""Pictures of numbers that the library computes: pairs, beliefs, the confidence set and its program, learning."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
from docs.pictures.style import BLUE, FAINT, GREEN, GREY, HERE, INK, ORANGE, VIOLET, page, save

import rewardmix as rm
from rewardmix import recovery
from rewardmix.planning import plan_markov, plan_told
from rewardmix.recovery.linear_program import magnitudes

COMMAND = "python -m docs.pictures.make"


def pairs():
    """Two thumbnails of one shop: what averages say of two things shown, and what pairs say."""
    shop = rm.problems.make("shop", weights=(0.5, 0.5))
    both = shop.rewards[:, 0, :2]  # (context, thing)
    average = both.mean(axis=0)
    alike = np.outer([1 - average[0], average[0]], [1 - average[1], average[1]])
    mixed = sum(np.outer([1 - p, p], [1 - q, q]) for p, q in both) / 2
    figure, places = page(8.2, 3.2, columns=3, width_ratios=[1, 1.1, 1.1])
    places[0].bar([0, 1], average, color=[BLUE, ORANGE], width=0.55)
    for thing, value in enumerate(average):
        places[0].text(thing, value + 0.02, f"{value:.2f}", ha="center")
    places[0].set(xticks=[0, 1], ylim=(0, 1), title="Averages: both worlds")
    places[0].set_xticklabels(["outdoor\nclicked", "reading\nclicked"])
    titles = ("Pairs: everybody alike", "Pairs: two tastes")
    for axes, table, title in zip(places[1:], (alike, mixed), titles, strict=True):
        axes.imshow(table, cmap="Blues", vmin=0, vmax=0.6)
        for i in range(2):
            for j in range(2):
                colour = "white" if table[i, j] > 0.38 else INK
                axes.text(j, i, f"{table[i, j]:.2f}", ha="center", va="center", fontsize=12, color=colour)
        axes.set(xticks=[0, 1], yticks=[0, 1], title=title, xlabel="reading", ylabel="outdoor")
        axes.set_xticklabels(["not", "clicked"])
        axes.set_yticklabels(["not", "clicked"], rotation=90, va="center")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    save(figure, "pairs")


def belief():
    """probe: the best value over the belief, between not adapting and being told; and the first action."""
    probe = rm.problems.make("probe")
    beliefs = np.linspace(0.004, 0.996, 125)
    worlds = [replace(probe, weights=np.array([b, 1 - b])) for b in beliefs]
    plans = [rm.plan(world, gap=1e-5) for world in worlds]
    actions = np.array([found.policy.actions[0][0, found.policy.first[0]] for found in plans])
    figure, axes = page(8.2, 3.9)
    axes.plot(beliefs, [plan_told(world).value for world in worlds], color=GREY, ls=":", label="told the type")
    axes.plot(beliefs, [found.lower for found in plans], color=BLUE, lw=2.6, label="best policy")
    axes.plot(
        beliefs, [plan_markov(world).value for world in worlds], color=ORANGE, ls="--", label="best that does not adapt"
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
    axes.set(xlim=(0, 1), ylim=(bottom, 7.6), xlabel="belief that the left room pays", ylabel="rewards an episode")
    axes.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.13))
    save(figure, "belief")


def two_points():
    """One state, two actions, two steps: the model, and the confidence set of 20,000 episodes."""
    model = rm.RewardMixingMDP(np.ones((1, 2, 1)), [1.0], [0.5, 0.5], [[[0.75, 0.65]], [[0.25, 0.15]]], 2)
    episodes = rm.simulate(rm.uniform(model), model, 20_000, seed=0)
    return model, recovery.confidence_set(rm.Moments.of(episodes), radius=recovery.normal(3.0))


def confidence():
    """The confidence set of two state-actions: in spreads, and in logarithms, where it is a linear program."""
    model, found = two_points()
    interval = {
        (int(i), int(j)): (low, high)
        for i, j, low, high in zip(found.first, found.second, found.lower, found.upper, strict=True)
    }
    figure, (plain, logs) = page(8.2, 4.0, columns=2)
    truth = model.spread.ravel()
    for sign in (1, -1):
        for key, colour, span in (((0, 0), BLUE, plain.axvspan), ((1, 1), ORANGE, plain.axhspan)):
            span(*(sign * np.sqrt(interval[key])), color=colour, alpha=0.22, lw=0)
        along = np.geomspace(0.05, 0.5, 80)
        low, high = interval[0, 1]
        plain.fill_between(sign * along, sign * low / along, sign * high / along, color=GREEN, alpha=0.22, lw=0)
        near = [sign * np.linspace(-0.06, 0.06, 120) + sign * centre for centre in truth]
        one, other = np.meshgrid(*near)
        products = {(0, 0): one * one, (0, 1): one * other, (1, 1): other * other}
        _darken(plain, one, other, [(products[key], ends) for key, ends in interval.items()])
    plain.plot(*truth, "o", color="white", mec=INK, ms=6)
    plain.plot(*-truth, "o", color="white", mec=INK, ms=6)
    plain.axhline(0, color=FAINT, lw=1, zorder=0)
    plain.axvline(0, color=FAINT, lw=1, zorder=0)
    plain.set(xlim=(-0.42, 0.42), ylim=(-0.42, 0.42), xlabel="spread of x", ylabel="spread of y")
    plain.set_title("Three intervals, one set (dark)")
    plain.text(0.3, 0.345, "x twice", color=BLUE, fontsize=9, ha="center")
    plain.text(-0.41, 0.27, "y twice", color=ORANGE, fontsize=9)
    plain.text(0.3, 0.08, "x and y", color=GREEN, fontsize=9)
    _program(logs, found, interval, np.log(np.abs(truth)))
    save(figure, "confidence")


def _darken(axes, one, other, intervals):
    """Shade where every value is inside its interval; the contour runs along the largest excess."""
    excess = np.max([np.maximum(low - value, value - high) for value, (low, high) in intervals], axis=0)
    axes.contourf(one, other, excess, levels=[-1.0, 0.0], colors=[INK], alpha=0.75)


def _program(axes, found, interval, truth):
    """The feasible set in l = log |spread|: a strip across, one along each axis, and where the sum is smallest."""
    low, high = -1.9, -1.05
    line = np.array([low, high])
    for x, colour in ((0, BLUE), (1, ORANGE)):
        ends = [0.5 * np.log(end) for end in interval[x, x]]
        (axes.axvspan if x == 0 else axes.axhspan)(*ends, color=colour, alpha=0.22, lw=0)
    ends = [np.log(end) for end in interval[0, 1]]
    axes.fill_between(line, ends[0] - line, ends[1] - line, color=GREEN, alpha=0.22, lw=0)
    one, other = np.meshgrid(*(np.linspace(centre - 0.2, centre + 0.2, 200) for centre in truth))
    sums = {(0, 0): 2 * one, (0, 1): one + other, (1, 1): 2 * other}
    _darken(axes, one, other, [(np.exp(sums[key]), ends) for key, ends in interval.items()])
    answer = magnitudes(found).log
    axes.plot(*truth, "o", color="white", mec=INK, ms=6, label="the truth")
    axes.plot(*answer, "s", color=VIOLET, mec="white", ms=8, label="the program's answer")
    axes.set(xlim=(low, high), ylim=(low, high), xlabel="log |spread of x|", ylabel="log |spread of y|")
    axes.set_title("The same in logarithms: linear")
    axes.legend(loc="upper right", fontsize=9)


BUDGETS, SEEDS = (50, 100, 200, 500, 1000, 2000, 5000), 10


def measure_shop():
    """Exact values of what is learned in the shop from so many sessions, written to shop.json."""
    shop = rm.problems.make("shop")
    values = {
        str(budget): [
            rm.learn(shop, episodes=budget, seed=seed, resamples=0).certificate.truth.value for seed in range(SEEDS)
        ]
        for budget in BUDGETS
    }
    best = rm.compare(shop, gap=1e-4)
    bounds = {"fixed": best.markov, "best": best.adaptive_lower, "told": best.told}
    content = {
        "command": f"{COMMAND} --measure",
        "rewardmix": rm.__version__,
        "seeds": SEEDS,
        **bounds,
        "learned": values,
    }
    (HERE / "shop.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def shop():
    """What is learned in the shop over the number of sessions."""
    found = json.loads((HERE / "shop.json").read_text(encoding="utf-8"))
    budgets = np.array([int(budget) for budget in found["learned"]])
    values = np.array(list(found["learned"].values()))
    figure, axes = page(8.2, 3.5)
    lines = (
        ("told", "if every visitor's taste were told", GREY, ":"),
        ("best", "best policy there is", GREEN, "-"),
        ("fixed", "best policy that does not adapt", ORANGE, "--"),
    )
    for key, words, colour, dash in lines:
        axes.axhline(found[key], color=colour, ls=dash, lw=1.8)
        above = -0.08 if key == "best" else 0.06
        axes.text(
            5200,
            found[key] + above,
            f"{words}: {found[key]:.2f}",
            ha="right",
            color=colour,
            fontsize=9.5,
            va="top" if key == "best" else "bottom",
        )
    axes.fill_between(budgets, values.min(axis=1), values.max(axis=1), color=BLUE, alpha=0.18, lw=0)
    axes.plot(budgets, values.mean(axis=1), "o-", color=BLUE, ms=5)
    axes.text(
        105,
        values.mean(axis=1)[1] - 0.12,
        "learned: mean, least and most\nof ten runs",
        color=BLUE,
        fontsize=9.5,
        va="top",
    )
    axes.set(xscale="log", xlabel="sessions seen", ylabel="clicks a session", ylim=(min(3.9, values.min() - 0.2), 7.7))
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    axes.minorticks_off()
    save(figure, "shop", HERE)
