"""Other ways to plan, for scale: SARSOP if it is installed, a general point-based solver, and the same sweep in NumPy.

``general`` is heuristic search value iteration on the flat POMDP, as in textbooks: belief over all (state, type)
pairs, observation (next state, outcome), alpha vectors below, sawtooth above, a deepening path where the bracket is
widest. It is plain NumPy and knows nothing of what is observed and what is not; that, not the language, is its cost.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from rewardmix import RewardMixingMDP
from rewardmix.interop import export_pomdpx
from rewardmix.model import dense_transition
from rewardmix.planning.belief_grid import inverse_widths


class General:
    """Finite-horizon HSVI on the flat model."""

    def __init__(self, model: RewardMixingMDP) -> None:
        transition, probs = dense_transition(model), model.reward_probs
        states, num_types = model.num_states, model.num_types
        self.horizon, self.actions = model.horizon, model.num_actions
        # (A, Z, S', S*M, S*M): chance of moving and of observing (s', z), flat index s * M + m
        move = np.einsum("san,msaz,mk,nj->azjsmnk", transition, probs, np.eye(num_types), np.eye(states))
        self.move = move.reshape(self.actions, -1, states * num_types, states * num_types)
        self.reward = np.moveaxis(model.mean_rewards_by_type, 0, 1).reshape(states * num_types, self.actions)
        self.start = [(float(p), np.eye(states)[s]) for s, p in enumerate(model.initial) if p > 0]
        self.start = [(p, np.outer(row, model.weights).ravel()) for p, row in self.start]
        self.lower = [np.full((1, states * num_types), self.reward.min() * (self.horizon - t))
                      for t in range(self.horizon + 1)]  # fmt: skip
        self.corner = [np.zeros(states * num_types) for _ in range(self.horizon + 1)]
        for t in reversed(range(self.horizon)):
            onward = self.move.sum(axis=1) @ self.corner[t + 1]
            self.corner[t] = (self.reward.T + onward).max(axis=0)
        self.teeth: list[list[tuple[np.ndarray, float]]] = [[] for _ in range(self.horizon + 1)]

    def low(self, t: int, belief: np.ndarray) -> float:
        return float((self.lower[t] @ belief).max()) if t < self.horizon else 0.0

    def high(self, t: int, belief: np.ndarray) -> float:
        """Sawtooth at an unnormalised belief."""
        if t == self.horizon:
            return 0.0
        best = belief @ self.corner[t]
        deepest = 0.0
        for point, value in self.teeth[t]:
            inside = point > 0
            share = (belief[inside] / point[inside]).min()
            deepest = min(deepest, share * (value - point @ self.corner[t]))
        return float(best + deepest)

    def explore(self, t: int, belief: np.ndarray) -> None:
        """One path where the bracket is widest, improving both bounds on the way back."""
        if t == self.horizon:
            return
        after = belief @ self.move  # (A, O, S*M)
        uppers = [belief @ self.reward[:, a] + sum(self.high(t + 1, row) for row in after[a] if row.any())
                for a in range(self.actions)]  # fmt: skip
        rows = after[int(np.argmax(uppers))]
        widths = [self.high(t + 1, row) - self.low(t + 1, row) for row in rows]
        if max(widths) > 0:
            self.explore(t + 1, rows[int(np.argmax(widths))])
        self.improve(t, belief, after)

    def improve(self, t: int, belief: np.ndarray, after: np.ndarray) -> None:
        values, vectors = [], []
        for a in range(self.actions):
            values.append(belief @ self.reward[:, a] + sum(self.high(t + 1, row) for row in after[a] if row.any()))
            picks = (self.lower[t + 1] @ after[a].T).argmax(axis=0) if t + 1 < self.horizon else None
            onward = 0.0 if picks is None else np.einsum("oij,oj->i", self.move[a], self.lower[t + 1][picks])
            vectors.append(self.reward[:, a] + onward)
        best = max(vectors, key=lambda vector: vector @ belief)
        if best @ belief > self.low(t, belief) + 1e-12:
            self.lower[t] = np.vstack([self.lower[t], best])
        if max(values) < self.high(t, belief) - 1e-12:
            self.teeth[t].append((belief, max(values)))

    def bracket(self) -> tuple[float, float]:
        return (sum(p * self.low(0, belief) for p, belief in self.start),
                sum(p * self.high(0, belief) for p, belief in self.start))  # fmt: skip


def general(model: RewardMixingMDP, gap: float, seconds: float) -> tuple[float, float, float]:
    """(lower, upper, CPU seconds) of the general solver, stopped at ``gap`` or after ``seconds``."""
    began = time.process_time()
    solver = General(model)
    lower, upper = solver.bracket()
    while upper - lower > gap and time.process_time() - began < seconds:
        widths = [p * (solver.high(0, belief) - solver.low(0, belief)) for p, belief in solver.start]
        solver.explore(0, solver.start[int(np.argmax(widths))][1])
        lower, upper = solver.bracket()
    return lower, upper, time.process_time() - began


def sarsop(model: RewardMixingMDP, gap: float, seconds: float) -> tuple[float, float, float] | None:
    """(lower, upper, seconds) of SARSOP on the exported model, or None where it is not installed."""
    program = shutil.which("pomdpsol")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        export_pomdpx(model, Path(folder) / "model.pomdpx")
        began = time.perf_counter()
        done = subprocess.run(
            [program, "--precision", str(gap), "--timeout", str(seconds), "-o", f"{folder}/out.policy",
             f"{folder}/model.pomdpx"], capture_output=True, text=True, check=True)  # fmt: skip
        spent = time.perf_counter() - began
    numbers = [re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", line) for line in done.stdout.splitlines()]
    lines = [row for row in numbers if len(row) >= 6]  # time, trials, backups, lower, upper, precision
    return float(lines[-1][3]), float(lines[-1][4]), spent


def numpy_sweep(model: RewardMixingMDP, grid: np.ndarray) -> tuple[float, float]:
    """One pass of the two-type recursion on one grid for all steps, vectorised over states, actions and beliefs."""
    rows = dense_transition(model).reshape(-1, model.num_states)
    states, actions = model.num_states, model.num_actions
    belief = np.stack([grid, 1 - grid], axis=1)
    means = np.moveaxis(model.mean_rewards_by_type, 0, -1).reshape(-1, 2)
    probs = np.moveaxis(model.reward_probs, 0, -1).reshape(states * actions, -1, 2)
    width = inverse_widths(grid)
    value = np.zeros((states, 3, grid.size))
    for _ in range(model.horizon):
        ahead = np.tensordot(rows, value, axes=1)
        high = means @ belief.T
        pair = np.repeat(means[:, :, None], grid.size, axis=2)
        for z in range(probs.shape[1]):
            joint = probs[:, z, None, :] * belief
            total = joint.sum(axis=2)
            position = np.divide(joint[:, :, 0], total, out=np.zeros_like(total), where=total > 0)
            j = np.clip(np.searchsorted(grid, position, "right") - 1, 0, grid.size - 2)
            share = np.clip((position - grid[j]) * width[j], 0, 1)
            at = np.arange(rows.shape[0])[:, None]
            high += total * ((1 - share) * ahead[at, 0, j] + share * ahead[at, 0, j + 1])
            near, far = (sum(joint[:, :, m] * ahead[at, 1 + m, j + up] for m in range(2)) for up in (0, 1))
            pick = np.where(near >= far, j, j + 1)
            for m in range(2):
                pair[:, m] += probs[:, z, m, None] * ahead[at, 1 + m, pick]
        low = np.einsum("xmk,km->xk", pair, belief).reshape(states, actions, -1)
        best = low.argmax(axis=1)[:, None, :]
        value[:, 0] = high.reshape(states, actions, -1).max(axis=1)
        for m in range(2):
            value[:, 1 + m] = np.take_along_axis(pair[:, m].reshape(states, actions, -1), best, axis=1)[:, 0]
    upper = np.interp(model.weights[0], grid, model.initial @ value[:, 0])
    lower = model.initial @ np.max(np.einsum("smk,m->sk", value[:, 1:], model.weights), axis=1)
    return float(lower), float(upper)
