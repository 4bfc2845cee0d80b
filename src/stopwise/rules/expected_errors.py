"""How likely a decision at each step is wrong: from posterior log-odds, corrected by the errors observed.

Counting errors of a few hundred series is noisy: rules that are equally good differ by several errors by
chance. The posterior says how likely each error was, but it may be overconfident. A logistic regression with
four parameters corrects it.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

LARGEST_ODDS = 40.0
MOST_STEPS = 50  # steps of a series that the regression is fitted to
PENALTY = 0.1  # of the squared distance from the posterior as it is; one series has weight 1


def expected_errors(odds: np.ndarray, wrong: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the probability (n, T) that the best class at each step is wrong.

    The log-odds of being right are ``a + b·odds + c·u + d·odds·u``, where u is the step as a share of the
    longest series. Each series has the same weight.

    Parameters
    ----------
    odds
        (n, T) posterior log-odds of the best class.
    wrong
        (n, T) whether the best class is wrong.
    lengths
        (n,) lengths of the series; later steps are not used.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.standard_normal((500, 1)) ** 2
    >>> wrong = rng.random((500, 1)) < 1 / (1 + np.exp(odds))
    >>> lengths = np.ones(500, int)
    >>> truth = 1 / (1 + np.exp(odds))
    >>> bool(abs(expected_errors(3 * odds, wrong, lengths) - truth).mean() < 0.03)  # overconfident
    True
    """
    steps = np.arange(1, odds.shape[1] + 1)
    terms = _terms(odds, steps / lengths.max())
    used = slice(None, None, -(-len(steps) // MOST_STEPS))
    inside = steps[used] <= lengths[:, None]  # (n, used)
    share = inside / inside.sum(axis=1, keepdims=True)
    weight = share[inside]
    x = np.stack([term[:, used][inside] for term in terms])  # (4, rows)
    right = ~wrong[:, used][inside]
    start = np.array([0.0, 1.0, 0.0, 0.0])  # the posterior as it is

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        z, change = flat @ x, flat - start
        loss = weight @ (np.logaddexp(0, z) - right * z)
        return loss + PENALTY / 2 * (change @ change), x @ (weight * (expit(z) - right)) + PENALTY * change

    found = minimize(objective, start, jac=True, method="L-BFGS-B").x
    return expit(-sum(one * term for one, term in zip(found, terms)))


def _terms(odds: np.ndarray, share: np.ndarray) -> list[np.ndarray]:
    """Return the four terms (n, T) of the regression."""
    odds = np.clip(np.nan_to_num(odds), -LARGEST_ODDS, LARGEST_ODDS)
    later = np.broadcast_to(share, odds.shape)
    return [np.ones_like(odds), odds, later, odds * later]
