from dataclasses import replace

import numpy as np

import stopwise as sw
from stopwise.data.examples import Examples
from stopwise.models.prefix import search
from stopwise.models.prefix.draft import Draft, chosen_draft
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


def test_wider_kernels_are_judged_on_all_samples(monkeypatch):
    judged = []
    monkeypatch.setattr(search, "clearly_better", lambda tried, present, classes: judged.append(present))
    y, lengths = np.arange(60) % 3, np.full(60, 20)
    x = np.random.default_rng(0).standard_normal((60, 20, 1)).astype(np.float32)
    series = Series(x, y, lengths, make_folds(y, None), 3)
    samples = [np.arange(0, 30), np.arange(30, 60)]
    _, points = chosen_draft(series, np.ones(1), 16, head_steps(20), samples, seed=0)
    assert [len(own) for own in judged[-1]] == [3, 3]
    assert [one.y.tolist() for one in points] == [y[rows].tolist() for rows in samples for _ in range(3)]


def test_search_points_with_the_same_pools_equal_those_computed_again():
    y, lengths = np.arange(60) % 3, np.full(60, 20)
    x = np.random.default_rng(0).standard_normal((60, 20, 2)).astype(np.float32)
    series = Series(x, y, lengths, make_folds(y, None), 3)
    draft = Draft.make(series, np.ones(2, np.float32), 16, head_steps(20), together=False, seed=0)
    wider, rows = replace(draft, widening=4.0), np.arange(40)
    for one, other in zip(wider.points(rows, same_pools=draft.points(rows)), wider.points(rows), strict=True):
        for gram, again in zip(one.grams, other.grams, strict=True):
            np.testing.assert_array_equal(gram, again)
