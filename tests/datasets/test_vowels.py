import numpy as np

import stopwise as sw


def test_the_official_parts():
    train, test = sw.datasets.japanese_vowels()
    assert np.unique(train.y, return_counts=True)[1].tolist() == [30] * 9
    assert np.unique(test.y, return_counts=True)[1].tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    assert train.lengths.min() == 7
    assert test.lengths.max() == 29
    assert all(one.shape == (length, 12) for one, length in zip(train.X, train.lengths))


def test_the_first_sample_is_that_of_the_source():
    train, _ = sw.datasets.japanese_vowels()
    assert np.allclose(train.X[0][0, :3], [1.860936, -0.207383, 0.261557], atol=1e-6)


def test_channels_have_names():
    train, _ = sw.datasets.japanese_vowels()
    assert train.series.channel_names[0] == "cepstrum1"
