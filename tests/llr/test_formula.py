import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from stopwise.datasets import autoregressive, transition_matrices
from stopwise.llr import WindowLogits, oblivion, tandem

SERIES, STEPS, CLASSES = 3, 7, 4
ORDERS = range(STEPS)


def log_ratios(logits):
    """Return the K×K matrix log p(k|window)/p(l|window) from the K logits of a window."""
    posterior = log_softmax(logits)
    return posterior[:, None] - posterior[None, :]


def tandem_by_the_theorem(window, order, t):
    """Return λ(t) as in the paper; `window(a, b)` returns the logits of the samples a..b, counted from 1."""
    if t <= order:
        return log_ratios(window(1, t))
    total = np.zeros((CLASSES, CLASSES))
    for s in range(order + 1, t + 1):
        total += log_ratios(window(s - order, s))
    for s in range(order + 2, t + 1):
        if order > 0:  # the posterior of an empty window is the uniform prior
            total -= log_ratios(window(s - order, s - 1))
    return total


def oblivion_by_definition(window, order, t):
    """Return λ(t), which is the log ratio of the last N+1 samples."""
    return log_ratios(window(max(1, t - order), t))


def random_windows(seed=0):
    """Return random logits (series, K) for every window a..b."""
    rng = np.random.default_rng(seed)
    pairs = itertools.combinations_with_replacement(range(1, STEPS + 1), 2)
    return {pair: rng.normal(size=(SERIES, CLASSES), scale=3) for pair in pairs}


def window_logits(table, order, steps=STEPS):
    """Convert a table of windows to `WindowLogits`."""
    n, classes = next(iter(table.values())).shape
    prefix = np.stack([table[1, t] for t in range(1, order + 2)], axis=1)
    ends = range(order + 2, steps + 1)
    full = np.stack([table[s - order, s] for s in ends], axis=1) if ends else np.zeros((n, 0, classes))
    short = np.zeros_like(full)
    if ends and order > 0:
        short = np.stack([table[s - order, s - 1] for s in ends], axis=1)
    return WindowLogits(*(torch.from_numpy(part) for part in (prefix, full, short)))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("formula", "definition"), [(tandem, tandem_by_the_theorem), (oblivion, oblivion_by_definition)]
)
def test_formula_equals_plain_loops_over_windows(formula, definition, order):
    table = random_windows()
    scores = formula(window_logits(table, order)).numpy()
    assert scores.shape == (SERIES, STEPS, CLASSES)
    for i in range(SERIES):
        for t in range(1, STEPS + 1):
            expected = definition(lambda a, b, i=i: table[a, b][i], order, t)
            ours = scores[i, t - 1, :, None] - scores[i, t - 1, None, :]
            np.testing.assert_allclose(ours, expected, atol=1e-12)


def autoregressive_windows(X, matrices, radius, order):
    """Return the exact log posteriors, up to a constant, of all windows with 1..N+1 samples."""
    n, steps, channels = X.shape
    powers = [[np.linalg.matrix_power(A, h) for h in range(order + 1)] for A in matrices]
    table = {}
    for a in range(1, steps + 1):
        for b in range(a, min(a + order, steps) + 1):
            size = b - a + 1
            window = X[:, a - 1 : b].reshape(n, size * channels)
            logs = []
            for power in powers:
                rows = [
                    [power[i - j] if i >= j else power[j - i].T for j in range(size)] for i in range(size)
                ]
                covariance = np.block(rows) / (1 - radius**2)
                logs.append(multivariate_normal(cov=covariance).logpdf(window))
            table[a, b] = log_softmax(np.stack(logs, axis=1), axis=1)
    return table


def autoregressive_llr_error(order):
    X, _, exact = autoregressive(n=20, classes=3, channels=3, length=6, radius=0.6, seed=3, world=1)
    matrices = transition_matrices(3, 3, 0.6, 1)
    table = autoregressive_windows(X.astype(np.float64), matrices, 0.6, order)
    scores = tandem(window_logits(table, order, steps=6)).numpy()
    llr, true = (s[..., :, None] - s[..., None, :] for s in (scores, exact))
    return np.abs(llr - true).max(), np.abs(true).max()


@pytest.mark.parametrize("order", [1, 2, 5])
def test_tandem_is_exact_if_order_is_at_least_that_of_data(order):
    error, _ = autoregressive_llr_error(order)
    assert error < 1e-9


def test_tandem_of_order_0_misses_all_evidence_of_order_1():
    error, largest = autoregressive_llr_error(0)
    assert error > 0.99 * largest > 3  # in this data set, single samples carry no evidence
