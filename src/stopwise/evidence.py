"""The methods of `EarlyClassifier` that return evidence: scores, log-likelihood ratios and probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import softmax

from stopwise.data.inputs import Inputs
from stopwise.data.series import SeriesSet
from stopwise.models import Model
from stopwise.streaming.scoring import all_scores


class EvidenceMixin:
    """Evidence for the classes after every sample, of a fitted classifier."""

    classes_: np.ndarray
    prior_: np.ndarray
    model_: Model
    inputs_: Inputs

    @abstractmethod
    def _checked_series(self, X: Any) -> SeriesSet:
        """Return X as a `SeriesSet`; raise an error if its channels differ from training."""

    def scores(self, X: Any) -> np.ndarray:
        """Return the scores of all classes after every sample.

        The log-likelihood ratio of classes k and l is ``scores[..., k] - scores[..., l]``.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        scores
            (n, T, K) scores; NaN after the end of a series that is shorter than T.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> clf.scores(X[:5]).shape
        (5, 10, 2)
        """
        series = self._checked_series(X)
        return all_scores(self.model_, self.inputs_, series, len(self.classes_))

    def llr(self, X: Any) -> np.ndarray:
        """Return the log-likelihood ratios of all pairs of classes after every sample.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        llr
            (n, T, K, K) log-likelihood ratios; ``llr[..., k, l]`` is that of class k against class l.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> llr = clf.llr(X[:5])
        >>> llr.shape
        (5, 10, 2, 2)
        >>> bool((llr[..., 0, 1] == -llr[..., 1, 0]).all())
        True
        """
        scores = self.scores(X)
        return scores[..., :, None] - scores[..., None, :]

    def posteriors(self, X: Any) -> np.ndarray:
        """Return the class probabilities after every sample.

        Parameters
        ----------
        X
            Series, in any form that `fit` accepts.

        Returns
        -------
        probabilities
            (n, T, K) posterior probabilities of the classes under the prior ``prior_``; NaN after the end of
            a series that is shorter than T.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
        >>> clf.posteriors(X[:5])[:, -1].sum(axis=-1).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0]
        """
        return softmax(self.scores(X).astype(np.float64) + np.log(self.prior_), axis=-1)
