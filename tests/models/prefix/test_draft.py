from dataclasses import replace

import numpy as np

import stopwise as sw
from stopwise.data.examples import Examples
from stopwise.models.prefix.draft import Draft
from stopwise.models.prefix.folds import make_folds
from stopwise.models.prefix.grid import head_steps
from stopwise.models.prefix.series import Series


def test_wider_kernels_are_used_where_all_series_are_far_apart():
    rng = np.random.default_rng(0)

    def widening(level, y):
        x = (level[:, None] + 0.1 * rng.standard_normal((len(y), 4, level.shape[1]))).astype(np.float32)
        lengths = np.full(len(y), 4)
        data = Examples(lambda rows: (x[rows], lengths[rows]), y, 2, x.shape[2], lengths)
        return sw.models.Prefix(kernels=16).fit(data).report_["widening"]

    many = rng.standard_normal((200, 100))
    assert widening(many, (many @ rng.standard_normal(100) > 0).astype(int)) == 4
    ring = rng.standard_normal((200, 2))
    assert widening(ring, (np.hypot(*ring.T) > 1.2).astype(int)) == 1


def test_search_points_with_the_same_pools_equal_those_computed_again():
    y, lengths = np.arange(60) % 3, np.full(60, 20)
    x = np.random.default_rng(0).standard_normal((60, 20, 2)).astype(np.float32)
    series = Series(x, y, lengths, make_folds(y, None), 3)
    draft = Draft.make(series, np.ones(2, np.float32), 16, head_steps(20), together=False, seed=0)
    wider, rows = replace(draft, widening=4.0), np.arange(40)
    for one, other in zip(wider.points(rows, same_pools=draft.points(rows)), wider.points(rows), strict=True):
        for gram, again in zip(one.grams, other.grams, strict=True):
            np.testing.assert_array_equal(gram, again)
