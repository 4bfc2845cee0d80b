"""Short hashes of the series a model has seen, to notice if it is calibrated on them by mistake.

A bounded sample is hashed, so that neither fitting on data larger than memory nor the saved model pays for
it: every series of sets up to `MOST_SERIES`, a share of larger ones, which still notices a calibration on the
training data as a whole. No match does not prove that the data are unseen.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Self

import numpy as np

from stopwise.data.series import SeriesSet

MOST_SERIES = 4096
MOST_NUMBERS = 2**26  # read at most: a second or two
BYTES = 6  # a chance match among millions of pairs has a probability of one in a million
# With a larger share of copies among the training series themselves, a match means nothing.
MOST_REPEATED = 0.01
BATCH_NUMBERS = 1 << 20  # read at once


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
    >>> seen = Fingerprints.of([SeriesSet(X[:50])])
    >>> seen.matches(SeriesSet(X[40:])).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(self, hashes: np.ndarray) -> None:
        self.hashes = np.unique(hashes)

    @classmethod
    def of(cls, parts: list[SeriesSet], seed: int = 0) -> Self:
        """Hash a sample of the series of all parts; none if too many of them are alike."""
        total = sum(len(series) for series in parts)
        hashes = np.concatenate([_sample(series, total, seed) for series in parts])
        repeated = 1 - len(np.unique(hashes)) / len(hashes)
        return cls(hashes[:0] if repeated > MOST_REPEATED else hashes)

    def matches(self, series: SeriesSet) -> np.ndarray:
        """Return the places (m,) of the series that are among the hashed ones."""
        if not len(self.hashes):
            return np.arange(0)
        return np.flatnonzero(np.isin(_hashes(series, np.arange(len(series))), self.hashes))

    def refuse_seen(self, series: SeriesSet) -> None:
        """Raise an error if series are among those that the model has seen."""
        seen = self.matches(series)
        if len(seen):
            raise ValueError(
                f"`X` must be series the model has not seen; {len(seen)} of {len(series)} were given to fit "
                f"(series {', '.join(map(str, seen[:3]))}{', …' if len(seen) > 3 else ''}), where errors are "
                "rarer than on new ones. Split the data before fit."
            )

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


def _sample(series: SeriesSet, total: int, seed: int) -> np.ndarray:
    """Return the hashes of this part's share of the sample."""
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
            single = np.ascontiguousarray(x, dtype=np.float32)  # a copy in another precision matches too
        for i, (own, length) in enumerate(zip(single, lengths), start):
            digest = hashlib.blake2b(own[:length].tobytes(), digest_size=BYTES).digest()
            raw[i] = np.frombuffer(digest, dtype=np.uint8)
    return _as_numbers(raw)


def _as_numbers(raw: np.ndarray) -> np.ndarray:
    """Return (m, BYTES) bytes as numbers (m,)."""
    whole = np.zeros((len(raw), 8), dtype=np.uint8)
    whole[:, :BYTES] = raw
    return whole.view("<u8")[:, 0].astype(np.uint64)
