"""The hidden-Markov world: its scores are compared with a sum over all hidden paths."""

from itertools import pairwise, product

import numpy as np
import pytest

import stopwise as sw
from stopwise.datasets.hidden_markov import transitions


def log_likelihood_over_all_paths(x, means, matrix):
    """Return log p(x) by brute force: a sum over all paths of hidden states."""
    total = 0.0
    for path in product(range(len(means)), repeat=len(x)):
        probability = 1 / len(means)
        for before, after in pairwise(path):
            probability *= matrix[before, after]
        total += probability * np.exp(-0.5 * sum(((x[t] - means[s]) ** 2).sum() for t, s in enumerate(path)))
    return np.log(total)


@pytest.mark.parametrize(("classes", "states"), [(2, 3), (3, 4)])
def test_scores_equal_sums_over_all_hidden_paths(classes, states):
    arguments = {"classes": classes, "states": states, "channels": 2, "separation": 1.5, "stay": 0.4}
    X, _, scores = sw.datasets.hidden_markov(6, length=5, seed=3, world=1, **arguments)
    directions = np.random.default_rng([1, 1]).standard_normal((states, 2))
    means = 1.5 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    matrices = transitions(classes, states, 0.4)
    for x, own in zip(X.astype(np.float64), scores):
        for t in range(1, 6):
            exact = [log_likelihood_over_all_paths(x[:t], means, matrix) for matrix in matrices]
            np.testing.assert_allclose(own[t - 1] - own[t - 1, 0], np.array(exact) - exact[0], atol=1e-9)


def test_posteriors_of_the_exact_scores_are_calibrated():
    _, y, scores = sw.datasets.hidden_markov(20_000, length=8, seed=0)
    posterior = 1 / (1 + np.exp(scores[:, -1, 0] - scores[:, -1, 1]))
    for low in np.arange(0, 1, 0.2):
        inside = (posterior >= low) & (posterior < low + 0.2)
        tolerance = 4 * 0.5 / np.sqrt(inside.sum())
        assert abs(y[inside].mean() - posterior[inside].mean()) < tolerance


def test_first_sample_has_no_evidence_and_whole_series_identifies_the_class():
    _, y, scores = sw.datasets.hidden_markov(2000, seed=1)
    assert np.ptp(scores[:, 0], axis=1).max() < 1e-12
    assert (scores[:, -1].argmax(1) == y).mean() > 0.99


def test_series_depend_on_seed_and_world():
    first, again = (sw.datasets.hidden_markov(5, seed=4)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, sw.datasets.hidden_markov(5, seed=4, world=1)[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": 2}, "Raise `states` to 3"),
        ({"stay": 1.0}, "`stay`"),
        ({"separation": -1.0}, "`separation`"),
        ({"length": 0}, "`length`"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        sw.datasets.hidden_markov(5, **arguments)
