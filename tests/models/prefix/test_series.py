import numpy as np

from stopwise.models.prefix.series import Series


def series(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    zeros = np.zeros(len(y), int)
    return Series(np.zeros((len(y), 2, 1), np.float32), y, zeros + 2, zeros, len(counts))


def test_samples_have_all_classes_and_no_common_rows():
    data = series([600, 300, 100])
    samples = data.samples(200, 3, np.random.default_rng(0))
    assert [np.bincount(data.y[rows]).tolist() for rows in samples] == [[120, 60, 20]] * 3
    assert len(np.unique(np.concatenate(samples))) == 600


def test_rare_classes_are_in_every_sample():
    data = series([900, 3])
    samples = data.samples(200, 3, np.random.default_rng(0))
    assert [np.bincount(data.y[rows])[1] for rows in samples] == [2, 2, 2]


def test_few_series_give_one_sample():
    data = series([100, 80])
    samples, rng = data.samples(100, 3, np.random.default_rng(0)), np.random.default_rng(0)
    assert len(samples) == 1
    assert np.array_equal(samples[0], data.sample(100, rng))
