"""Arithmetic with the same bits everywhere: as good as that of the machine, and in the order that is promised."""

import ast
import math
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import rewardmix
from rewardmix._core import linear_algebra, portable_math
from rewardmix.recovery.likelihood import Mixture, _anderson_step

pytestmark = pytest.mark.machines

RNG = np.random.default_rng(0)


def units(result, exact):
    """Largest error in units of the last place; ``exact`` has more digits."""
    unit = np.spacing(np.abs(exact.astype(np.float64)))
    return float(np.max(np.abs((result.astype(np.longdouble) - exact) / unit)))


def longer(values):
    return np.asarray(values).astype(np.longdouble)


needs_digits = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="nothing to compare with")


@needs_digits
def test_logarithms_are_right_to_the_last_place():
    x = np.concatenate([10.0 ** RNG.uniform(-307, 307, 20_000), RNG.uniform(0.5, 2, 20_000), [5e-324, 1e-310]])
    assert units(portable_math.log_array(x), np.log(longer(x))) < 1.0
    near = 1.0 + RNG.uniform(-1e-6, 1e-6, 10_000)
    assert units(portable_math.log_array(near), np.log(longer(near))) < 1.0
    small = np.concatenate([10.0 ** RNG.uniform(-300, 3, 3000), -RNG.uniform(0, 1, 3000)])
    assert units(np.array([portable_math.log1p(v) for v in small]), np.log1p(longer(small))) < 3.0


@needs_digits
def test_exponentials_are_right_to_the_last_place():
    x = np.concatenate([RNG.uniform(-700, 709, 20_000), RNG.uniform(-1, 1, 20_000)])
    assert units(portable_math.exp_array(x), np.exp(longer(x))) < 1.0


@needs_digits
def test_angles_and_sines_are_right_to_a_few_places():
    turn = np.linspace(0, np.pi / 2, 20_001)[1:]
    assert units(portable_math.sin_array(turn), np.sin(longer(turn))) < 2.0
    y, x = RNG.random(20_000) ** 6, RNG.random(20_000)
    assert units(portable_math.atan2_array(y, x), np.arctan2(longer(y), longer(x))) < 5.0
    assert portable_math.atan2_array([0.0, 0.0, 1.0], [0.0, 1.0, 0.0]).tolist() == [0.0, 0.0, math.pi / 2]


def test_the_ends_of_the_functions():
    assert portable_math.log_array([0.0, 1.0, np.inf]).tolist() == [-np.inf, 0.0, np.inf]
    assert np.isnan(portable_math.log_array([-1.0, np.nan])).all()
    assert portable_math.exp_array([-np.inf, -800.0, 0.0, 800.0, np.inf]).tolist() == [0.0, 0.0, 1.0, np.inf, np.inf]
    assert portable_math.exp_array([-745.0, -740.0]).tolist() == [5e-324, math.exp(-740.0)]
    assert math.isnan(portable_math.exp(math.nan))
    assert portable_math.log1p(0.0) == 0.0
    assert portable_math.log_array(np.ones((2, 3))).shape == (2, 3)


def in_order(left, right):
    total = 0.0
    for x, y in zip(left.tolist(), right.tolist(), strict=True):
        total += x * y
    return total


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 40])
def test_products_are_summed_from_left_to_right(size):
    left, right = RNG.normal(size=(5, size)), RNG.normal(size=(size, 7))
    expected = [[in_order(row, column) for column in right.T] for row in left]
    assert linear_algebra.product(left, right).tolist() == expected
    assert linear_algebra.product(left, right[:, 0]).tolist() == [row[0] for row in expected]
    assert linear_algebra.product(left[0], right).tolist() == expected[0]
    assert linear_algebra.dot(left[0], right[:, 0]) == expected[0][0]


def test_wide_products_are_no_different():
    left, right = RNG.normal(size=(3, 6)), RNG.normal(size=(6, 2 * linear_algebra.COLUMN_BLOCK + 3))
    result = linear_algebra.product(left, right)
    for j in (0, linear_algebra.COLUMN_BLOCK - 1, linear_algebra.COLUMN_BLOCK, 2 * linear_algebra.COLUMN_BLOCK + 2):
        assert result[2, j] == in_order(left[2], right[:, j])


def test_equations_are_solved():
    matrices, right = RNG.normal(size=(20, 6, 6)), RNG.normal(size=(20, 6))
    matrices[0, 0, 0] = 0.0
    np.testing.assert_allclose(
        linear_algebra.solve(matrices, right), np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-9
    )
    square = RNG.normal(size=(30, 30))
    square = square @ square.T + np.eye(30)
    vectors = RNG.normal(size=(30, 8))
    expected = (vectors * np.linalg.solve(square, vectors)).sum(axis=0)
    np.testing.assert_allclose(linear_algebra.inverse_quadratic_forms(square, vectors), expected, rtol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 9, linear_algebra.DENSE_EIGEN_SIZE, linear_algebra.DENSE_EIGEN_SIZE + 1, 120])
def test_eigenvectors_are_found(size):
    matrix = RNG.normal(size=(size, size))
    matrix = matrix + matrix.T
    values, vectors = np.linalg.eigh(matrix)
    count = min(3, size)
    result, directions = linear_algebra.top_eigenpairs(matrix, 3)
    np.testing.assert_allclose(result, values[size - count :], rtol=1e-9)
    alike = np.abs((directions * vectors[:, size - count :]).sum(axis=0))
    np.testing.assert_allclose(alike, 1.0, rtol=1e-9)
    all_values, all_vectors = linear_algebra.eigenpairs(matrix)
    np.testing.assert_allclose(all_values, values, atol=1e-11)
    np.testing.assert_allclose((all_vectors * all_values) @ all_vectors.T, matrix, atol=1e-11)


def test_equal_eigenvalues_are_all_found():
    values, vectors = linear_algebra.top_eigenpairs(np.diag(np.repeat([3.0, 3.0, 1.0], 30)), 2)
    np.testing.assert_allclose(values, 3.0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(2), atol=1e-12)
    assert linear_algebra.top_eigenpairs(np.zeros((60, 60)), 2)[0].tolist() == [0.0, 0.0]


def test_steps_of_a_linear_map_are_extrapolated_to_its_fixed_point():
    """Anderson's mixture of n + 1 steps of a linear map in n dimensions is its fixed point."""
    goal, map_ = np.array([0.3, 0.7]), np.array([[0.5, 0.1], [0.2, 0.6]])
    history, point = deque(maxlen=9), np.array([0.6, 0.4])
    for _ in range(4):
        step = goal + map_ @ (point - goal)
        probs = np.stack([1.0 - step, step], axis=-1)[None]
        now = Mixture(np.ones(1), np.stack([1.0 - point, point], axis=-1)[None])
        point = _anderson_step(history, now, Mixture(np.ones(1), probs)).probs[0, :, 1]
    np.testing.assert_allclose(point, goal, atol=1e-6)


ROOT = Path(rewardmix.__file__).parent

DIFFERENT = {
    "np": "dot vdot inner matmul tensordot einsum exp exp2 expm1 log log2 log10 log1p power float_power logaddexp sin "
    "cos tan arcsin arccos arctan arctan2 sinh cosh tanh cbrt",
    "math": "exp exp2 expm1 log log2 log10 log1p pow lgamma gamma erf sin cos tan asin acos atan atan2 sinh cosh tanh",
}
"""Functions whose last bits depend on the machine."""

ALLOWED = {
    "report/svg.py": "where ticks are, in whole powers",
    "report/curves.py": "places of points that are rounded when they are drawn",
    "_core/budget.py": "orders of magnitude that are refused",
    "interop/pomdp_names.py": "orders of magnitude that are refused",
    "evaluation.py": "products of sparse matrices go through the rows in order",
}
"""Files that may use them, and why."""


def machine_dependent(path):
    """(line, what) of everything in a file whose bits may differ between machines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield node.lineno, "@"
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if node.attr in DIFFERENT.get(owner, "").split() or owner in ("np.linalg", "scipy.linalg"):
                yield node.lineno, f"{owner}.{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg in ("fastmath", "parallel"):
            yield node.value.lineno, node.arg


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_decides_uses_arithmetic_of_the_machine(path):
    inside = path.relative_to(ROOT)
    if inside.parts[0] not in ALLOWED and inside.as_posix() not in ALLOWED:
        assert list(machine_dependent(path)) == []


def test_every_exception_is_one():
    for name in ALLOWED:
        paths = [ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("*.py"))
        assert any(list(machine_dependent(path)) for path in paths), f"{name} needs no exception"
