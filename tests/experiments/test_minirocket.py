"""MiniRocket compared with a plain version that follows the definition."""

import numpy as np
import pytest

from stopwise.experiments.minirocket import PATTERNS, MiniRocket


def plain_output(x, weights, dilation):
    """Convolve one series (T,) by the definition, with zeros outside."""
    out = np.zeros(len(x))
    for t in range(len(x)):
        for tap in range(9):
            place = t + (tap - 4) * dilation
            if 0 <= place < len(x):
                out[t] += weights[tap] * x[place]
    return out


def plain_outputs(rocket, x):
    """Yield the valid outputs of each combination on one series (T, d), with its biases."""
    start = 0
    for q, dilation in enumerate(rocket.dilations):
        for k, taps in enumerate(PATTERNS):
            weights = np.full(9, -1.0)
            weights[taps] = 2.0
            own = rocket.channels[q, k, : rocket.sizes[q, k]]
            output = sum(plain_output(x[:, c], weights, dilation) for c in own)
            if (q + k) % 2:
                output = output[4 * dilation : len(x) - 4 * dilation]
            stop = start + rocket.counts[q]
            yield output, rocket.biases[start:stop]
            start = stop


@pytest.mark.parametrize(("length", "d"), [(9, 1), (40, 3)])
def test_features_equal_the_definition(length, d):
    X = np.random.default_rng(0).normal(size=(6, length, d)).astype(np.float32)
    rocket = MiniRocket.fit(X[:5], seed=1, features=400)
    expected = [(out[None, :] > biases[:, None]).mean(1) for out, biases in plain_outputs(rocket, X[5])]
    found = rocket.transform(X[5:])[0]
    # Biases are quantiles of other series, so no output is within rounding of one.
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-6)


def test_biases_are_quantiles_of_training_outputs():
    X = np.random.default_rng(0).normal(size=(1, 30, 2)).astype(np.float32)
    rocket = MiniRocket.fit(X, seed=0, features=840)
    number = 0
    for output, biases in plain_outputs(rocket, X[0]):
        shares = (np.arange(number + 1, number + 1 + len(biases)) * (np.sqrt(5) + 1) / 2) % 1
        np.testing.assert_allclose(biases, np.quantile(output, shares), atol=1e-4)
        number += len(biases)


def test_kernels_have_84_patterns_whose_weights_sum_to_0():
    assert len({tuple(taps) for taps in PATTERNS}) == 84
    X = np.ones((1, 60, 1), np.float32)
    rocket = MiniRocket.fit(X, seed=0)
    assert rocket.biases.shape == (9996,)
    for output, _ in plain_outputs(rocket, X[0]):
        assert output[len(output) // 2] == 0  # the middle is far from the padding
    assert (4 * rocket.dilations < 30).all()


def test_multivariate_kernels_use_distinct_channels_up_to_nine():
    X = np.random.default_rng(0).normal(size=(3, 20, 12)).astype(np.float32)
    rocket = MiniRocket.fit(X, seed=0)
    assert rocket.sizes.min() == 1
    assert rocket.sizes.max() == 9
    for index, size in np.ndenumerate(rocket.sizes):
        assert len(set(rocket.channels[*index, :size])) == size


def test_short_series_are_refused():
    with pytest.raises(ValueError, match="at least 9 steps"):
        MiniRocket.fit(np.zeros((2, 8, 1), np.float32), seed=0)
