"""Estimate signs of the loadings: exactly, by parities of the pairs with known sign, or robustly, by a spectral
estimate.

sign_i sign_j = sign of the interval, for every pair whose interval excludes 0. These are parities (the XOR case of the
paper's 2-SAT). A union-find with parity solves them: it gives the signs, the groups of coordinates that are connected
(G_1..G_q of the appendix on mixing weights), and, when two paths disagree, the odd cycle that proves the conflict.
Pairs are added strongest first, so a conflict is attributed to the weakest pair of its cycle (departure 25 of
docs/concepts/paper-and-code.md). Signs of different groups are free, so a pair whose interval contains 0 may end
outside it (departure 13).

One wrong interval makes the parities unsatisfiable. Estimates therefore use all pairs at once: the leading eigenvector
of the clipped z-scores, then flips of single coordinates and of whole branches of the strongest spanning tree while
they increase the agreement sum_ij z_ij sign_i sign_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.linear_algebra import dot
from rewardmix.recovery.confidence_set import ConfidenceSet

MAX_Z_SCORE = 4.0
"""Larger z-scores count as this: one grossly wrong pair then weighs no more than one good pair."""


@dataclass(frozen=True, eq=False)
class ParitySolution:
    """Signs that the pairs with known sign determine.

    Attributes:
        signs: (N,) +1 or -1; the first coordinate of each group is +1.
        groups: (N,) index of the group; signs of different groups are independent.
        conflicts: Pairs (i, j) that contradict stronger ones.
        odd_cycle: Coordinates around the first contradiction, or empty.
    """

    signs: NDArray[np.int64]
    groups: NDArray[np.int64]
    conflicts: tuple[tuple[int, int], ...]
    odd_cycle: tuple[int, ...]


def solve_signs(confidence_set: ConfidenceSet) -> ParitySolution:
    """Solve the signs of all pairs whose interval excludes 0, strongest first."""
    is_known = confidence_set.excludes_zero & (confidence_set.pair_first != confidence_set.pair_second)
    center = confidence_set.center[is_known]
    # An exact set has radius 0; the small constant keeps the ratio finite and the order by covariance.
    scale = np.where(confidence_set.radius[is_known] > 0, confidence_set.radius[is_known], 1e-12)
    return solve_parity(
        confidence_set.pair_first[is_known],
        confidence_set.pair_second[is_known],
        center > 0,
        np.abs(center) / scale,
        confidence_set.marginals.size,
    )


def solve_parity(first: Any, second: Any, positive: Any, strength: Any, size: int) -> ParitySolution:
    """Solve sign_i sign_j = +1 where ``positive``, else -1, strongest pairs first.

    Args:
        first: (Q,) coordinate i of each pair with known sign.
        second: (Q,) coordinate j.
        positive: (Q,) whether the product of the signs is positive.
        strength: (Q,) how certain the sign is; ties keep their order.
        size: N, the number of coordinates.

    Returns:
        Signs, groups and conflicts.
    """
    order = np.argsort(-np.asarray(strength, dtype=np.float64), kind="stable")
    i, j = np.asarray(first)[order], np.asarray(second)[order]
    odd = (~np.asarray(positive, bool)[order]).astype(np.int64)
    root, flip, verdict = _union_find(i, j, odd, size)
    groups, leaders = _number_groups(root)
    conflicts = np.flatnonzero(verdict == 2)
    cycle = _odd_cycle(i, j, verdict, int(conflicts[0]), size) if conflicts.size else ()
    signs = 1 - 2 * (flip ^ flip[leaders[groups]])
    return ParitySolution(signs, groups, tuple((int(i[k]), int(j[k])) for k in conflicts), cycle)


def connected_components(first: Any, second: Any, size: int) -> NDArray[np.int64]:
    """Compute the (N,) connected component of each coordinate, numbered in order of first appearance."""
    i, j = np.asarray(first, np.int64), np.asarray(second, np.int64)
    return _number_groups(_union_find(i, j, np.zeros(i.size, np.int64), size)[0])[0]


def groups_of_points(groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Compute (X,) groups of state-actions from (N,) groups of coordinates: the group of the first coordinate."""
    return groups.reshape(-1, width)[:, 0]


def bipartite_sides(first: Any, second: Any, size: int) -> NDArray[np.int64]:
    """Compute the (N,) side, 0 or 1, of coordinates in a bipartite component with an edge; -1 for others.

    Only products across the two sides are identified there: multiplying one side by a factor and dividing the other
    changes no covariance. Magnitudes need an odd cycle (or one x twice in an episode).
    """
    first, second = np.asarray(first), np.asarray(second)
    # All edges odd: a contradiction is an odd cycle, and a component without one is bipartite.
    root, flip, verdict = _union_find(first, second, np.ones(first.size, np.int64), size)
    groups, leaders = _number_groups(root)
    bipartite = np.bincount(groups) > 1
    bipartite[groups[first[verdict == 2]]] = False
    return np.where(bipartite[groups], flip ^ flip[leaders[groups]], -1)


def spectral_signs(first: Any, second: Any, scores: Any, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Estimate (N,) signs from all pairs: eigenvector of the clipped z-scores, then flips that raise agreement."""
    other = first != second
    i, j = np.ascontiguousarray(first[other]), np.ascontiguousarray(second[other])
    votes = np.clip(scores[other], -MAX_Z_SCORE, MAX_Z_SCORE)
    vector = leading_eigenvector(i, j, votes, size, rng)
    signs = np.where(vector < 0, -1, 1).astype(np.int64)
    parent, sequence = build_spanning_forest(i, j, np.abs(votes), size)
    _flip_while_improving(i, j, votes, signs, parent, sequence)
    return signs


def leading_eigenvector(
    first: Any, second: Any, values: Any, size: int, rng: np.random.Generator, sweeps: int = 200
) -> Floats:
    """Compute the (N,) eigenvector of the largest (algebraic) eigenvalue of a sparse symmetric matrix."""
    degree = np.zeros(size)
    np.add.at(degree, first, np.abs(values))
    np.add.at(degree, second, np.abs(values))
    # Power iteration finds the eigenvalue of largest size. By Gershgorin all lie between plus and minus the largest
    # degree, so after this shift that is the largest (algebraic) one.
    shift = float(degree.max(initial=0.0)) / 2.0
    vector = rng.random(size) - 0.5
    vector /= np.sqrt(dot(vector, vector))
    out = np.empty(size)
    for _ in range(sweeps):
        _multiply(first, second, values, vector, out)
        out += shift * vector
        length = np.sqrt(dot(out, out))
        if length == 0:
            break
        change = np.abs(out / length - vector).max()
        vector[:] = out / length
        if change < 1e-10:
            break
    return vector


def build_spanning_forest(
    first: Any, second: Any, strength: Any, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Build the strongest spanning forest: (parent of each coordinate or -1, an order with parents first)."""
    order = np.argsort(-strength, kind="stable")
    i, j = first[order], second[order]
    tree = _union_find(i, j, np.zeros(i.size, np.int64), size)[2] == 1
    return _root_forest(i[tree], j[tree], size)


def _root_forest(i: Any, j: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Root a forest of edges (i, j): (parent of each node or -1, an order with parents first)."""
    neighbors: list[list[int]] = [[] for _ in range(size)]
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        neighbors[a].append(b)
        neighbors[b].append(a)
    parent = np.full(size, -1, np.int64)
    sequence: list[int] = []
    is_visited = np.zeros(size, bool)
    for start in range(size):
        if is_visited[start]:
            continue
        is_visited[start] = True
        queue = [start]
        for node in queue:  # breadth first keeps the tree flat: common ancestors are close
            for other in neighbors[node]:
                if not is_visited[other]:
                    is_visited[other] = True
                    parent[other] = node
                    queue.append(other)
        sequence.extend(queue)
    return parent, np.asarray(sequence, np.int64)


def _union_find(i: Any, j: Any, odd: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Run the union-find: (root of each coordinate, parity to the root, verdict on each pair)."""
    root, flip, verdict = np.arange(size), np.zeros(size, np.int64), np.zeros(i.size, np.int64)
    _union_pairs(i, j, odd, root, flip, verdict)
    return root, flip, verdict


def _number_groups(root: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number groups by their first member; return (group of each node, first member of each group)."""
    _, first_of, inverse = np.unique(root, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first_of))
    return rank[inverse].astype(np.int64), np.sort(first_of)


def _odd_cycle(i: Any, j: Any, verdict: Any, conflict: int, size: int) -> tuple[int, ...]:
    """Trace the path from i to j of a conflicting pair through the pairs that were added before it."""
    tree = np.flatnonzero(verdict[:conflict] == 1)
    parent, _ = _root_forest(i[tree], j[tree], size)

    def path_to_root(node: int) -> list[int]:
        """List the nodes from ``node`` to its root."""
        path = [node]
        while parent[path[-1]] >= 0:
            path.append(int(parent[path[-1]]))
        return path

    left, right = path_to_root(int(i[conflict])), path_to_root(int(j[conflict]))
    common = next(node for node in left if node in set(right))
    return tuple(left[: left.index(common) + 1] + right[: right.index(common)][::-1])


@kernel
def _find_root(root: Any, flip: Any, node: Any) -> Any:
    """Find the root of a node; on return ``flip`` is the parity from the node to it, and the path is compressed."""
    top, odd = node, 0
    while root[top] != top:
        odd ^= flip[top]
        top = root[top]
    while root[node] != top and node != top:
        # Path compression has to carry parities: each node on the path gets the parity of its own path to the root.
        parent, parity = root[node], odd ^ flip[node]
        root[node], flip[node] = top, odd
        node, odd = parent, parity
    return top


@lazy_jit(lambda first, second, odd, root, flip, verdict: 5 * first.size + 2 * root.size)
def _union_pairs(first: Any, second: Any, odd: Any, root: Any, flip: Any, verdict: Any) -> None:
    """Run union-find with parity in place: verdict 1 joined two groups, 0 agreed, 2 contradicted earlier pairs."""
    for k in range(first.size):
        i, j = first[k], second[k]
        a, b = _find_root(root, flip, i), _find_root(root, flip, j)
        parity = (flip[i] if i != a else 0) ^ (flip[j] if j != b else 0) ^ odd[k]
        if a == b:
            verdict[k] = 2 if parity else 0
        else:
            root[b], flip[b] = a, parity
            verdict[k] = 1
    for i in range(root.size):
        top = _find_root(root, flip, i)
        root[i] = top
        # A root's own parity may be stale from before it was a root.
        if top == i:
            flip[i] = 0


@lazy_jit(lambda first, second, values, vector, out: first.size)
def _multiply(first: Any, second: Any, values: Any, vector: Any, out: Any) -> None:
    """Multiply a sparse symmetric matrix by a vector; each pair is stored once."""
    out[:] = 0.0
    for k in range(first.size):
        out[first[k]] += values[k] * vector[second[k]]
        out[second[k]] += values[k] * vector[first[k]]


@lazy_jit(lambda first, second, votes, signs, parent, sequence: 25 * (4 * first.size + 2 * signs.size))
def _flip_while_improving(first: Any, second: Any, votes: Any, signs: Any, parent: Any, sequence: Any) -> None:
    """Flip coordinates, then branches of the tree, as long as the agreement grows."""
    size = signs.size
    pull, inside, depth = np.empty(size), np.empty(size), np.zeros(size, np.int64)
    # Flipping a branch changes only the pairs between it and the other nodes. Their sum is the pull of its nodes less
    # the agreement of the pairs inside, which are collected at the lowest common ancestor of each pair.
    for node in sequence:
        if parent[node] >= 0:
            depth[node] = depth[parent[node]] + 1
    for _ in range(100):
        pull[:] = 0.0
        inside[:] = 0.0
        for k in range(first.size):
            i, j = first[k], second[k]
            agree = votes[k] * signs[i] * signs[j]
            pull[i] += agree
            pull[j] += agree
            while i != j:  # both ends are inside a branch from their lowest common ancestor up
                if depth[i] < depth[j]:
                    i, j = j, i
                i = parent[i]
            inside[i] += 2.0 * agree
        # A flip must gain more than rounding, otherwise two flips could alternate without end.
        worst, best = -1, -1e-9
        for i in range(size):
            if pull[i] < best:
                worst, best = i, pull[i]
        branch = False
        # Children precede parents in the reversed order, so sums over branches are complete when they are read.
        for k in range(size - 1, -1, -1):
            i = sequence[k]
            if pull[i] - inside[i] < best:  # agreement across the border of the branch
                worst, best, branch = i, pull[i] - inside[i], True
            if parent[i] >= 0:
                pull[parent[i]] += pull[i]
                inside[parent[i]] += inside[i]
        if worst < 0:
            return
        _flip_branch(worst, branch, signs, parent, sequence)


@kernel
def _flip_branch(node: Any, branch: Any, signs: Any, parent: Any, sequence: Any) -> None:
    """Flip the sign of one node, or of its whole branch."""
    if not branch:
        signs[node] = -signs[node]
        return
    below = np.zeros(signs.size, np.bool_)
    for i in sequence:
        if i == node or (parent[i] >= 0 and below[parent[i]]):
            below[i] = True
            signs[i] = -signs[i]
