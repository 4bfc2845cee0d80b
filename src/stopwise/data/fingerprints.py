"""Hashes of the training series, to detect a calibration on training data.

In data sets of up to `MOST_SERIES` series, every series is hashed; in larger ones, a random sample. This
limits the time to fit and the size of the saved model, and still detects a calibration on the training data
as a whole. If nothing matches, that does not prove that the data were not used in training.
"""

from __future__ import annotations

import base64
from typing import Self

import numpy as np

from stopwise.data.inputs import Inputs
from stopwise.data.series import SeriesSet
from stopwise.data.signatures import BYTES, distinct, signatures

MOST_SERIES = 4096
MOST_NUMBERS = 2**26  # maximum number of values to read, which takes less than a second
SCALE_SERIES = 200  # number of series from which the scale is estimated, of which one digit is enough
# If more of the new series are expected to equal a training series by chance, a match is no sign of reuse.
MOST_EXPECTED = 0.5
SEPARATOR = ":"  # not in the alphabet of base 85


class Fingerprints:
    """Hashes of the series that a model was fitted to, or of a sample of them.

    Parameters
    ----------
    hashes
        (m,) hashes, uint64.
    scale
        (D,) standard deviation of each channel, which defines how much two equal series may differ.
    sampled
        Share of the training series that was hashed.
    expected
        Share of new series that equals a training series by chance: 0 for measurements, more for short series
        of few distinct values.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 20))
    >>> seen = Fingerprints.of([SeriesSet(X[:50])])
    >>> np.flatnonzero(seen.matches(SeriesSet(X[40:] + 1e-7))).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self, hashes: np.ndarray, scale: np.ndarray, sampled: float = 1.0, expected: float = 0.0
    ) -> None:
        self.hashes, self.scale = np.unique(hashes), scale
        self.sampled, self.expected = sampled, expected

    @classmethod
    def of(cls, parts: list[SeriesSet], seed: int = 0) -> Self:
        """Hash a sample of the series of all parts; no hashes if most series are expected to repeat."""
        total = sum(len(series) for series in parts)
        scale = _rough_scale(parts[0], seed)
        rows = [_sample(series, total, seed) for series in parts]
        hashes = np.concatenate([signatures(series, own, scale) for series, own in zip(parts, rows)])
        # Good and Turing: the share of series that occur once estimates how many new ones are unlike all.
        expected = 1 - float((np.bincount(distinct(hashes)) == 1).sum()) / len(hashes)
        return cls(hashes[:0] if expected > MOST_EXPECTED else hashes, scale, len(hashes) / total, expected)

    @classmethod
    def none(cls, like: SeriesSet) -> Self:
        """Return fingerprints of no series, for series on the scale of `like`."""
        return cls(np.empty(0, dtype=np.uint64), Inputs.learn(like, missing="mask").scale)

    def matches(self, series: SeriesSet) -> np.ndarray:
        """Return whether each series (n,) equals a hashed training series."""
        if not len(self.hashes):
            return np.zeros(len(series), dtype=bool)
        found: np.ndarray = np.isin(self._signatures(series), self.hashes)  # (n, 2)
        return np.asarray(found.any(1))

    def repeats(self, series: SeriesSet) -> np.ndarray:
        """Return whether each series (n,) equals an earlier one of the same set."""
        first = np.ones(len(series), dtype=bool)
        first[np.unique(distinct(self._signatures(series)), return_index=True)[1]] = False
        return first

    def _signatures(self, series: SeriesSet) -> np.ndarray:
        return signatures(series, np.arange(len(series)), self.scale)

    def to_text(self) -> str:
        """Return the fingerprints as text; `from_text` reads it."""
        numbers = np.array([self.sampled, self.expected, *self.scale], dtype="<f8")
        hashes = self.hashes.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :BYTES]
        return SEPARATOR.join(base64.b85encode(part.tobytes()).decode() for part in (numbers, hashes))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the fingerprints that `to_text` described."""
        try:
            numbers, hashes = (base64.b85decode(part) for part in text.split(SEPARATOR))
            sampled, expected, *scale = np.frombuffer(numbers, dtype="<f8").tolist()
            raw = np.frombuffer(hashes, dtype=np.uint8).reshape(-1, BYTES)
        except ValueError:
            raise ValueError("the fingerprints of the training series are damaged.") from None
        if not (0 < sampled <= 1 and 0 <= expected <= 1 and all(0 < s < np.inf for s in scale) and scale):
            raise ValueError("the fingerprints of the training series are damaged.")
        whole = np.zeros((len(raw), 8), dtype=np.uint8)
        whole[:, :BYTES] = raw
        return cls(whole.view("<u8")[:, 0].astype(np.uint64), np.array(scale), sampled, expected)


def _rough_scale(series: SeriesSet, seed: int) -> np.ndarray:
    """Return the standard deviation (D,) of each channel, from a few series if it is positive in these."""
    few = series[np.unique(np.linspace(0, len(series) - 1, SCALE_SERIES).astype(int))]
    found = Inputs.learn(few, missing="mask", random_state=seed)
    # A channel that is constant in these series gets the scale 1, which may be far from its deviation.
    return (
        found if (found.scale != 1).all() else Inputs.learn(series, missing="mask", random_state=seed)
    ).scale


def _sample(series: SeriesSet, total: int, seed: int) -> np.ndarray:
    """Return the indices of a random sample of one part, in proportion to its size."""
    most = max(1, min(MOST_SERIES, MOST_NUMBERS // (series.steps * series.channels)))
    share = len(series) if total <= most else max(1, most * len(series) // total)
    return np.sort(np.random.default_rng(seed).permutation(len(series))[:share])
