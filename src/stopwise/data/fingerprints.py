"""Hashes of the training series, to detect a calibration on training data.

In data sets of up to `MOST_SERIES` series, every series is hashed; in larger ones, a random sample. This
limits the time to fit and the size of the saved model, and still detects a calibration on the training data
as a whole. If nothing matches, that does not prove that the data were not used in training.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Self

import numpy as np

from stopwise.data.series import SeriesSet

MOST_SERIES = 4096
MOST_NUMBERS = 2**26  # maximum number of values to read, which takes one or two seconds
BYTES = 6  # length of a hash; a random match among millions of pairs has a probability of about 1e-6
# If more of the training series are copies of each other, a match is not a sign of reuse.
MOST_REPEATED = 0.01
BATCH_NUMBERS = 1 << 20  # number of values to read at once


class Fingerprints:
    """Hashes of the series that a model was fitted to, or of a sample of them.

    Parameters
    ----------
    hashes
        (m,) hashes, uint64.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 20))
    >>> seen = Fingerprints.of([SeriesSet(X[:50])])
    >>> seen.matches(SeriesSet(X[40:])).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self.hashes = np.unique(hashes)

    @classmethod
    def of(cls, parts: list[SeriesSet], seed: int = 0) -> Self:
        """Hash a sample of the series of all parts; no hashes if too many series are identical."""
        total = sum(len(series) for series in parts)
        hashes = np.concatenate([_sample(series, total, seed) for series in parts])
        repeated = 1 - len(np.unique(hashes)) / len(hashes)
        return cls(hashes[:0] if repeated > MOST_REPEATED else hashes)

    def matches(self, series: SeriesSet) -> np.ndarray:
        """Return the indices (m,) of the series whose hashes are known."""
        if not len(self.hashes):
            return np.arange(0)
        return np.flatnonzero(np.isin(_hashes(series, np.arange(len(series))), self.hashes))

    def check_unseen(self, series: SeriesSet) -> None:
        """Raise a ValueError if some of the series were used in training."""
        seen = self.matches(series)
        if len(seen):
            raise ValueError(
                f"`X` must not contain series that were used in fit; {len(seen)} of {len(series)} were given "
                f"to fit (series {', '.join(map(str, seen[:3]))}{', …' if len(seen) > 3 else ''}). Errors "
                "are rarer on training series than on new ones. Split the data before fit."
            )

    def to_text(self) -> str:
        """Return the hashes as text; `from_text` reads it."""
        return base64.b85encode(
            self.hashes.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :BYTES].tobytes()
        ).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the fingerprints that `to_text` described."""
        raw = np.frombuffer(base64.b85decode(text), dtype=np.uint8).reshape(-1, BYTES)
        return cls(_as_numbers(raw))


def _sample(series: SeriesSet, total: int, seed: int) -> np.ndarray:
    """Return the hashes of a random sample of one part, in proportion to its size."""
    most = max(1, min(MOST_SERIES, MOST_NUMBERS // (series.steps * series.channels)))
    share = len(series) if total <= most else max(1, most * len(series) // total)
    rows = np.sort(np.random.default_rng(seed).permutation(len(series))[:share])
    return _hashes(series, rows)


def _hashes(series: SeriesSet, rows: np.ndarray) -> np.ndarray:
    raw = np.zeros((len(rows), BYTES), dtype=np.uint8)
    size = series.rows_of(BATCH_NUMBERS)
    for start in range(0, len(rows), size):
        x, lengths = series.batch(rows[start : start + size])
        with np.errstate(over="ignore"):
            single = np.ascontiguousarray(x, dtype=np.float32)  # so that a copy in another precision matches
        for i, (own, length) in enumerate(zip(single, lengths), start):
            digest = hashlib.sha256(own[:length]).digest()  # with processor support, twice as fast as BLAKE2
            raw[i] = np.frombuffer(digest, dtype=np.uint8)[:BYTES]
    return _as_numbers(raw)


def _as_numbers(raw: np.ndarray) -> np.ndarray:
    """Convert bytes (m, BYTES) to integers (m,)."""
    whole = np.zeros((len(raw), 8), dtype=np.uint8)
    whole[:, :BYTES] = raw
    return whole.view("<u8")[:, 0].astype(np.uint64)
