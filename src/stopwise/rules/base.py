"""What every stopping rule is: a function from scores and time to acceptance margins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from stopwise.decision import Decision, Decisions
from stopwise.validation import check_integer, check_scores

# Rows decided at once: bounds the memory of a decision on millions of series.
CHUNK_NUMBERS = 4_000_000


class Rule(ABC):
    """A stopping rule.

    A rule says by how much each class is past its threshold. Class k is accepted at the first step
    where its margin is >= 0; if several are, the largest margin wins. A series that ends before that
    is decided by force: the class of the highest score.

    A rule holds no state, so it decides whole arrays (`decide`), many streams at one moment (`accept`)
    and one stream sample by sample (`step`) with the same answer.
    """

    @abstractmethod
    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return by how much each class is past its threshold.

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps counted from 1, broadcastable against the leading dimensions of `scores`.

        Returns
        -------
        margins
            (..., K); class k is accepted where its margin is >= 0.
        """

    def decide(self, scores: Any, lengths: Any = None) -> Decisions:
        """Decide on n series at once.

        Parameters
        ----------
        scores
            (n, T, K) scores of every prefix.
        lengths
            (n,) lengths of the series; None means all have T steps.
        """
        scores, lengths = check_scores(scores, lengths)
        n, steps, classes = scores.shape
        labels = np.empty(n, dtype=np.int64)
        times = np.empty(n, dtype=np.int64)
        forced = np.empty(n, dtype=bool)
        rows = max(1, CHUNK_NUMBERS // (steps * classes))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            labels[part], times[part], forced[part] = self._decide_rows(scores[part], lengths[part])
        return Decisions(labels, times, forced, scores[np.arange(n), times - 1], lengths)

    def accept(self, scores: np.ndarray, times: np.ndarray | int) -> np.ndarray:
        """Return the class each stream accepts at this moment, or -1.

        Parameters
        ----------
        scores
            (n, K) scores of n streams.
        times
            (n,) or one number: how many samples each stream has seen.
        """
        margins = self.margins(scores, np.asarray(times))  # (n, K)
        return np.where(margins.max(-1) >= 0, margins.argmax(-1), -1)

    def step(self, scores: Any, time: int, *, last: bool = False) -> Decision | None:
        """Decide on one stream at one moment: a `Decision`, or None to wait for the next sample.

        Parameters
        ----------
        scores
            (K,) scores after `time` samples.
        time
            How many samples the stream has seen.
        last
            True when no further sample will come: a decision is forced.
        """
        time = check_integer("time", time, 1)
        scores = check_scores(np.asarray(scores)[None, None])[0][0]  # (1, K)
        label = int(self.accept(scores, time)[0])
        if label < 0 and not last:
            return None
        forced = label < 0
        return Decision(int(scores[0].argmax()) if forced else label, time, forced, scores[0])

    def _decide_rows(self, scores: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        n, steps, _ = scores.shape
        inside = np.arange(steps) < lengths[:, None]  # (n, T)
        margins = self.margins(np.where(inside[..., None], scores, 0), np.arange(1, steps + 1))  # (n, T, K)
        accepted = (margins.max(-1) >= 0) & inside
        forced = ~accepted.any(1)
        first = np.where(forced, lengths - 1, accepted.argmax(1))
        rows = np.arange(n)
        labels = np.where(forced, scores[rows, first].argmax(-1), margins[rows, first].argmax(-1))
        return labels, first + 1, forced
