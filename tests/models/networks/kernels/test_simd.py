"""Vectors in numba kernels, compared with numpy."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from stopwise.models.networks.kernels import simd  # noqa: E402
from stopwise.models.networks.kernels.simd import LANES  # noqa: E402

DTYPES = [np.float32, np.float64]


@numba.njit
def _arithmetic(a, b, out):
    x, y = simd.load(a, 1), simd.load(b, 0)
    simd.store(out, 0, x + y)
    simd.store(out, LANES, x - y)
    simd.store(out, 2 * LANES, x * y)
    simd.store(out, 3 * LANES, x * b[1])
    simd.store(out, 4 * LANES, simd.fill(b[2]))
    simd.store(out, 5 * LANES, simd.rectified(x))
    simd.store(out, 6 * LANES, simd.where_positive(x, y))


@numba.njit
def _totals(numbers, out):
    a, b = simd.load(numbers, 0), simd.load(numbers, LANES)
    simd.add_totals(out, 1, a, b, simd.load(numbers, 2 * LANES), simd.load(numbers, 3 * LANES))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, LANES + 1)).astype(dtype)
    a[3], a[4] = np.nan, 0
    out = np.empty((7, LANES), dtype)
    _arithmetic(a, b, out.ravel())
    x, y = a[1:], b[:LANES]
    expected = [
        x + y,
        x - y,
        x * y,
        x * b[1],
        np.full(LANES, b[2]),
        np.maximum(x, 0),
        np.where(x > 0, y, 0),
    ]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_totals_are_added(dtype):
    numbers = np.random.default_rng(0).integers(-99, 99, (4, LANES)).astype(dtype)
    out = np.arange(6).astype(dtype)
    _totals(numbers.ravel(), out)
    np.testing.assert_array_equal(out[1:5], np.arange(1, 5) + numbers.sum(1))
    assert out[[0, 5]].tolist() == [0, 5]
