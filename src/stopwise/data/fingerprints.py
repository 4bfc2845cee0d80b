"""Short hashes of the series a model has seen, to tell whether it is calibrated on them by mistake.

A bounded sample is hashed, so that neither fitting on data larger than memory nor the saved model pays for
it: of sets up to `MOST_SERIES` every series is told, of larger ones a share, which still catches whoever
calibrates on the training data as a whole. It is a net for mistakes, not a proof of innocence.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Self

import numpy as np

from stopwise.data.series import Series

MOST_SERIES = 4096
MOST_NUMBERS = 2**26  # of which at most so many are read: a second or two
BYTES = 6  # a chance meeting among millions of pairs has odds of one in a million
# Where so large a share of the training series are copies of others, sameness tells nothing.
MOST_REPEATED = 0.01
BATCH = 256


class Fingerprints:
    """Hashes of some of the series that a model was fitted with.

    Parameters
    ----------
    hashes
        (m,) sorted hashes, uint64.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 20))
    >>> seen = Fingerprints.of([Series(X[:50])])
    >>> seen.matches(Series(X[40:])).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self.hashes = np.unique(hashes)

    @classmethod
    def of(cls, parts: list[Series], missing: str = "error", seed: int = 0) -> Self:
        """Hash a sample of the series of all parts; none if too many of them are alike."""
        total = sum(len(series) for series in parts)
        hashes = np.concatenate([_sample(series, total, missing, seed) for series in parts])
        repeated = 1 - len(np.unique(hashes)) / len(hashes)
        return cls(hashes[:0] if repeated > MOST_REPEATED else hashes)

    def matches(self, series: Series, missing: str = "error") -> np.ndarray:
        """Return the places (m,) of the series that are among the hashed ones."""
        if not len(self.hashes):
            return np.arange(0)
        return np.flatnonzero(np.isin(_hashes(series, np.arange(len(series)), missing), self.hashes))

    def to_text(self) -> str:
        """Return the hashes as text; `from_text` reads it."""
        return base64.b85encode(
            self.hashes.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :BYTES].tobytes()
        ).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return what `to_text` wrote."""
        raw = np.frombuffer(base64.b85decode(text), dtype=np.uint8).reshape(-1, BYTES)
        return cls(_as_numbers(raw))


def _sample(series: Series, total: int, missing: str, seed: int) -> np.ndarray:
    """Return the hashes of this part's share of the sample."""
    most = max(1, min(MOST_SERIES, MOST_NUMBERS // (series.steps * series.channels)))
    share = len(series) if total <= most else max(1, most * len(series) // total)
    rows = np.sort(np.random.default_rng(seed).permutation(len(series))[:share])
    return _hashes(series, rows, missing)


def _hashes(series: Series, rows: np.ndarray, missing: str) -> np.ndarray:
    raw = np.zeros((len(rows), BYTES), dtype=np.uint8)
    for start in range(0, len(rows), BATCH):
        # As the network reads them: float32, so that a copy in another precision is told too.
        x, lengths = series.batch(rows[start : start + BATCH], missing)
        for i, (own, length) in enumerate(zip(x, lengths), start):
            digest = hashlib.blake2b(own[:length].tobytes(), digest_size=BYTES).digest()
            raw[i] = np.frombuffer(digest, dtype=np.uint8)
    return _as_numbers(raw)


def _as_numbers(raw: np.ndarray) -> np.ndarray:
    """Return (m, BYTES) bytes as numbers (m,)."""
    whole = np.zeros((len(raw), 8), dtype=np.uint8)
    whole[:, :BYTES] = raw
    return whole.view("<u8")[:, 0].astype(np.uint64)
