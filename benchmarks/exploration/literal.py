"""Algorithm 2 with everything planned after every episode, vectorised in NumPy: the baseline of throughput."""

from __future__ import annotations

import numpy as np


def run(model, episodes: int, seed: int, pair_level: float = 2.0, move_level: float = 0.25) -> float:
    """Explore with selected counts and the practical, scaled bonuses; returns V_0."""
    rng = np.random.default_rng(seed)
    s_, a_, h_ = model.num_states, model.num_actions, model.horizon
    x_ = s_ * a_
    true = model.transition_rows.cumsum(axis=1)
    probs = model.reward_probs[..., 1].reshape(model.num_types, x_)
    pairs, transitions, starts = np.zeros((x_, x_)), np.zeros((x_, s_)), np.zeros(s_)
    singles, tables = np.zeros((x_, 2)), np.zeros((x_, x_, 2, 2))
    plans, v0 = plan(pairs, transitions, s_, a_, h_, pair_level, move_level), 1.0
    for k in range(1, episodes + 1):
        first, second, third, _ = plans
        s, m = rng.choice(s_, p=model.initial), rng.choice(model.num_types, p=model.weights)
        starts[s] += 1
        slot, picked = 0, []
        for t in range(h_):
            code = first[t, s] if slot == 0 else second[t, picked[0][0], s] if slot == 1 else third[t, s]
            x = s * a_ + code // 2
            reward = int(rng.random() < probs[m, x])
            if code % 2 == 0 and slot < 2:
                picked.append((x, reward))
                slot += 1
            s = min(int(np.searchsorted(true[x], rng.random())), s_ - 1)
            transitions[x, s] += 1
        if slot == 2:
            (x1, r1), (x2, r2) = picked
            pairs[x1, x2] += 1
            tables[x1, x2, r1, r2] += 1
        for x, reward in dict(reversed(picked)).items():
            singles[x, reward] += 1
        plans = plan(pairs, transitions, s_, a_, h_, pair_level, move_level)
        top = plans[3].max()
        v0 = min(top, starts @ plans[3] / k + min(1.0, np.sqrt(move_level * s_ / k)) * top)
    return v0


def plan(pairs, transitions, s_, a_, h_, pair_level, move_level):
    """Backward induction on slots 1, 2 (all first picks at once) and 3."""
    x_ = s_ * a_
    n = transitions.sum(axis=1)
    hat = transitions / np.maximum(n, 1)[:, None]
    b_move = np.sqrt(move_level * s_ / np.maximum(n, move_level * s_))
    b_pair = np.sqrt(pair_level / np.maximum(pairs, pair_level))
    v1, v2, v3 = np.zeros(s_), np.zeros((s_, x_)), np.zeros(s_)
    first, third = np.zeros((h_, s_), int), np.zeros((h_, s_), int)
    second = np.zeros((h_, x_, s_), int)
    few = np.repeat(n.reshape(s_, a_), 2, axis=1) * 1e-13  # fewest visits among equals
    for t in reversed(range(h_)):
        f3 = np.minimum(v3.max(), hat @ v3 + b_move * v3.max())
        top = v2.max(axis=0)
        f2 = np.minimum(top, hat @ v2 + b_move[:, None] * top)
        f1 = np.minimum(v1.max(), hat @ v1 + b_move * v1.max())
        q1 = np.minimum(1, np.stack([np.diag(f2), f1], axis=1)).reshape(s_, 2 * a_)
        q2 = np.minimum(1, np.stack([b_pair.T + f3[:, None], f2], axis=1)).reshape(s_, 2 * a_, x_)
        q3 = np.minimum(1, f3).reshape(s_, a_)
        first[t] = (q1 - few).argmax(axis=1)
        second[t] = (q2 - few[:, :, None]).argmax(axis=1).T
        third[t] = 2 * (q3 - few[:, ::2]).argmax(axis=1) + 1
        v1, v2, v3 = q1.max(axis=1), q2.max(axis=1), q3.max(axis=1)
    return first, second, third, v1
