"""Signs of the spread: parities where intervals decide, a spectral vote where noise does.

sign_i sign_j = sign of the interval, for every pair whose interval excludes 0. These are parities (the XOR case of the
paper's 2-SAT): a union-find with parity gives the signs, the groups that are tied together (G_1..G_q of the appendix
on mixing weights), and, when two paths disagree, the odd cycle that shows it. Pairs are taken strongest first, so that
a conflict is blamed on the weakest pair of its cycle (departure 25 of docs/paper.md). Signs of different groups are
free, so a pair whose interval contains 0 may end outside it (departure 13).

One wrong interval makes the parities unsatisfiable, so estimates use all pairs at once: the leading eigenvector of the
clipped z-scores, then flips of single coordinates and of whole branches of the strongest spanning tree while they
improve the agreement sum_ij z_ij sign_i sign_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.algebra import dot
from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred, kernel
from rewardmix.recovery.confidence_set import ConfidenceSet

CLIP = 4.0
"""z-scores beyond this say no more than this: one grossly wrong pair has the vote of one good pair."""


@dataclass(frozen=True, eq=False)
class Parity:
    """Signs that the confident pairs decide.

    Attributes:
        signs: (N,) +1 or -1; the first coordinate of each group is +1.
        groups: (N,) number of the group; signs of different groups are not tied to each other.
        conflicts: pairs (i, j) that contradict stronger ones.
        odd_cycle: coordinates around the first contradiction, or nothing.
    """

    signs: NDArray[np.int64]
    groups: NDArray[np.int64]
    conflicts: tuple[tuple[int, int], ...]
    odd_cycle: tuple[int, ...]


def parities(confidence: ConfidenceSet) -> Parity:
    """Signs of all pairs that the set decides, strongest first."""
    chosen = confidence.excludes_zero & (confidence.first != confidence.second)
    centre = confidence.centre[chosen]
    scale = np.where(confidence.radius[chosen] > 0, confidence.radius[chosen], 1e-12)
    return parity_of_pairs(
        confidence.first[chosen], confidence.second[chosen], centre > 0, np.abs(centre) / scale, confidence.average.size
    )


def parity_of_pairs(first: Any, second: Any, positive: Any, strength: Any, size: int) -> Parity:
    """Solve sign_i sign_j = +1 where ``positive``, else -1, strongest pairs first.

    Args:
        first: (Q,) coordinate i of each decided pair.
        second: (Q,) coordinate j.
        positive: (Q,) whether the product is positive.
        strength: (Q,) how sure it is.
        size: N.
    """
    order = np.argsort(-np.asarray(strength, dtype=np.float64), kind="stable")
    i, j = np.asarray(first)[order], np.asarray(second)[order]
    odd = (~np.asarray(positive, bool)[order]).astype(np.int64)
    root, flip, verdict = _united(i, j, odd, size)
    groups, leaders = _numbered(root)
    bad = np.flatnonzero(verdict == 2)
    cycle = _odd_cycle(i, j, verdict, int(bad[0]), size) if bad.size else ()
    signs = 1 - 2 * (flip ^ flip[leaders[groups]])
    return Parity(signs, groups, tuple((int(i[k]), int(j[k])) for k in bad), cycle)


def components(first: Any, second: Any, size: int) -> NDArray[np.int64]:
    """(N,) number of the connected component of each coordinate, in order of first appearance."""
    i, j = np.asarray(first, np.int64), np.asarray(second, np.int64)
    return _numbered(_united(i, j, np.zeros(i.size, np.int64), size)[0])[0]


def groups_of_points(groups: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """(X,) groups of x from (N,) groups of coordinates: that of its first coordinate."""
    return groups.reshape(-1, width)[:, 0]


def sides(first: Any, second: Any, size: int) -> NDArray[np.int64]:
    """(N,) 0 or 1, the side of a coordinate whose component is bipartite with an edge; -1 for others.

    There only products across the two sides can be known: multiplying one side by a factor and dividing the other
    changes no covariance. Magnitudes need an odd cycle (or the same x twice in an episode).
    """
    first, second = np.asarray(first), np.asarray(second)
    root, flip, verdict = _united(first, second, np.ones(first.size, np.int64), size)
    groups, leaders = _numbered(root)
    bipartite = np.bincount(groups) > 1
    bipartite[groups[first[verdict == 2]]] = False
    return np.where(bipartite[groups], flip ^ flip[leaders[groups]], -1)


def spectral_signs(first: Any, second: Any, scores: Any, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(N,) signs from all pairs: eigenvector of the clipped z-scores, then flips while they help."""
    other = first != second
    i, j = np.ascontiguousarray(first[other]), np.ascontiguousarray(second[other])
    votes = np.clip(scores[other], -CLIP, CLIP)
    vector = leading(i, j, votes, size, rng)
    signs = np.where(vector < 0, -1, 1).astype(np.int64)
    parent, sequence = spanning_tree(i, j, np.abs(votes), size)
    _improve(i, j, votes, signs, parent, sequence)
    return signs


def leading(first: Any, second: Any, values: Any, size: int, rng: np.random.Generator, sweeps: int = 200) -> Floats:
    """(N,) eigenvector of the symmetric matrix with these entries that has the largest (algebraic) eigenvalue."""
    degree = np.zeros(size)
    np.add.at(degree, first, np.abs(values))
    np.add.at(degree, second, np.abs(values))
    shift = float(degree.max(initial=0.0)) / 2.0  # makes the largest eigenvalue the largest in size
    vector = rng.random(size) - 0.5
    vector /= np.sqrt(dot(vector, vector))
    out = np.empty(size)
    for _ in range(sweeps):
        _multiply(first, second, values, vector, out)
        out += shift * vector
        length = np.sqrt(dot(out, out))
        if length == 0:
            break
        moved = np.abs(out / length - vector).max()
        vector[:] = out / length
        if moved < 1e-10:
            break
    return vector


def spanning_tree(first: Any, second: Any, strength: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(parent of each coordinate or -1, an order with parents first) of the strongest spanning forest."""
    order = np.argsort(-strength, kind="stable")
    i, j = first[order], second[order]
    tree = _united(i, j, np.zeros(i.size, np.int64), size)[2] == 1
    return _rooted(i[tree], j[tree], size)


def _rooted(i: Any, j: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    near: list[list[int]] = [[] for _ in range(size)]
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        near[a].append(b)
        near[b].append(a)
    parent = np.full(size, -1, np.int64)
    sequence: list[int] = []
    seen = np.zeros(size, bool)
    for start in range(size):
        if seen[start]:
            continue
        seen[start] = True
        queue = [start]
        for node in queue:  # breadth first keeps the tree flat, which the search for common ancestors likes
            for other in near[node]:
                if not seen[other]:
                    seen[other] = True
                    parent[other] = node
                    queue.append(other)
        sequence.extend(queue)
    return parent, np.asarray(sequence, np.int64)


def _united(i: Any, j: Any, odd: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(root and parity to it of each coordinate, verdict on each pair) of the union-find below."""
    root, flip, verdict = np.arange(size), np.zeros(size, np.int64), np.zeros(i.size, np.int64)
    _join(i, j, odd, root, flip, verdict)
    return root, flip, verdict


def _numbered(root: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Groups numbered by their first member, and that member of each."""
    _, first_of, inverse = np.unique(root, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first_of))
    return rank[inverse].astype(np.int64), np.sort(first_of)


def _odd_cycle(i: Any, j: Any, verdict: Any, bad: int, size: int) -> tuple[int, ...]:
    """The way from i to j of a conflicting pair through the pairs that were believed before it."""
    tree = np.flatnonzero(verdict[:bad] == 1)
    parent, _ = _rooted(i[tree], j[tree], size)

    def up(node: int) -> list[int]:
        way = [node]
        while parent[way[-1]] >= 0:
            way.append(int(parent[way[-1]]))
        return way

    left, right = up(int(i[bad])), up(int(j[bad]))
    common = next(node for node in left if node in set(right))
    return tuple(left[: left.index(common) + 1] + right[: right.index(common)][::-1])


@kernel
def _find(root: Any, flip: Any, node: Any) -> Any:
    """Root of a node; on return ``flip`` is the parity from the node to it, and the path is short."""
    top, odd = node, 0
    while root[top] != top:
        odd ^= flip[top]
        top = root[top]
    while root[node] != top and node != top:
        after, rest = root[node], odd ^ flip[node]
        root[node], flip[node] = top, odd
        node, odd = after, rest
    return top


@deferred(lambda first, second, odd, root, flip, verdict: 5 * first.size + 2 * root.size)
def _join(first: Any, second: Any, odd: Any, root: Any, flip: Any, verdict: Any) -> None:
    """Union-find with parity: verdict 1 joined two groups, 0 agreed with what was known, 2 contradicted it."""
    for k in range(first.size):
        i, j = first[k], second[k]
        a, b = _find(root, flip, i), _find(root, flip, j)
        parity = (flip[i] if i != a else 0) ^ (flip[j] if j != b else 0) ^ odd[k]
        if a == b:
            verdict[k] = 2 if parity else 0
        else:
            root[b], flip[b] = a, parity
            verdict[k] = 1
    for i in range(root.size):
        top = _find(root, flip, i)
        root[i] = top
        if top == i:
            flip[i] = 0


@deferred(lambda first, second, values, vector, out: first.size)
def _multiply(first: Any, second: Any, values: Any, vector: Any, out: Any) -> None:
    out[:] = 0.0
    for k in range(first.size):
        out[first[k]] += values[k] * vector[second[k]]
        out[second[k]] += values[k] * vector[first[k]]


@deferred(lambda first, second, votes, signs, parent, sequence: 25 * (4 * first.size + 2 * signs.size))
def _improve(first: Any, second: Any, votes: Any, signs: Any, parent: Any, sequence: Any) -> None:
    """Flip coordinates, then branches of the tree, as long as the agreement grows."""
    size = signs.size
    pull, inside, depth = np.empty(size), np.empty(size), np.zeros(size, np.int64)
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
            while i != j:  # the branch that holds both ends hangs at their lowest common ancestor
                if depth[i] < depth[j]:
                    i, j = j, i
                i = parent[i]
            inside[i] += 2.0 * agree
        worst, best = -1, -1e-9
        for i in range(size):
            if pull[i] < best:
                worst, best = i, pull[i]
        branch = False
        for k in range(size - 1, -1, -1):
            i = sequence[k]
            if pull[i] - inside[i] < best:  # what ties the branch to the rest
                worst, best, branch = i, pull[i] - inside[i], True
            if parent[i] >= 0:
                pull[parent[i]] += pull[i]
                inside[parent[i]] += inside[i]
        if worst < 0:
            return
        _flip(worst, branch, signs, parent, sequence)


@kernel
def _flip(node: Any, branch: Any, signs: Any, parent: Any, sequence: Any) -> None:
    if not branch:
        signs[node] = -signs[node]
        return
    below = np.zeros(signs.size, np.bool_)
    for i in sequence:
        if i == node or (parent[i] >= 0 and below[parent[i]]):
            below[i] = True
            signs[i] = -signs[i]
