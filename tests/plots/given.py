"""A classifier with given scores, for plots of a decision."""

import numpy as np


class Given:
    """A classifier with given scores (T, K)."""

    channel_names_ = None

    def __init__(self, scores, rule, classes=("sit", "walk", "$tand"), prior=None):
        self.given, self.rule_, self.classes_ = np.asarray(scores, dtype=float), rule, np.array(classes)
        self.prior_ = np.full(len(classes), 1 / len(classes)) if prior is None else np.array(prior)

    def scores(self, X):
        return self.given[None]


SCORES = [[0, 1, -1], [2, 1, -2], [4, 0, -3], [6, 0, -3], [7, 0, -3]]
X = np.arange(10.0).reshape(5, 2)
