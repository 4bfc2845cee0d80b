"""Conversion of samples to model inputs: standardization and missing values.

`Inputs.read` converts complete series. `InputStep` converts one sample at a time, with numpy for streams and
with torch for the ONNX export. The mean is subtracted in double precision, before the conversion to single
precision, so that a large offset does not reduce the precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from stopwise.data.series import SeriesSet
from stopwise.validation import check_choice, inside

MISSING = ("error", "mask")
TOGETHER = "together"
# Number of series for the estimate of mean and standard deviation: enough for two digits, and fast.
MOMENT_SERIES = 2000
MOMENT_NUMBERS = 1 << 17  # number of values to read at once, which fit into the cache
LARGE = 1 << 15  # number of values from which on the compiled kernel is faster than numpy

Array = Any  # numpy.ndarray or torch.Tensor


@dataclass(frozen=True, eq=False)
class Inputs:
    """Conversion of samples (D channels) to model inputs (C channels, single precision).

    Parameters
    ----------
    center
        (D,) value to subtract from each channel.
    scale
        (D,) value by which the difference is divided.
    fill
        (D,) input of each channel before its first observation, centered and scaled.
    mask
        True: NaN marks a missing value, which is replaced by the last observed value. D more input channels
        are 1 where the value was observed and 0 where it is missing. False: NaN is an error.

    Examples
    --------
    >>> X = np.array([[[1.0], [3.0], [np.nan]]])
    >>> inputs = Inputs.learn(SeriesSet(X), missing="mask")
    >>> inputs.read(SeriesSet(X), np.array([0]))[0][0].tolist()
    [[-1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    """

    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray
    mask: bool

    @classmethod
    def learn(
        cls,
        series: SeriesSet,
        *,
        standardize: bool | str = True,
        missing: str = "error",
        random_state: int = 0,
    ) -> Self:
        """Estimate the conversion from training series.

        Parameters
        ----------
        series
            Training series. Of a large set, a random sample is read.
        standardize
            True: center and scale each channel by its own mean and standard deviation. "together": center
            each channel by its own mean, and scale all by the square root of their mean variance. False: use
            the channels unchanged.
        missing
            "error": NaN is an error. "mask": NaN marks a missing value.
        random_state
            Seed of the random sample.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(0, [3.0, 0.1], size=(500, 20, 2))
        >>> Inputs.learn(SeriesSet(X)).scale.round(1).tolist()
        [3.0, 0.1]
        >>> Inputs.learn(SeriesSet(X), standardize="together").scale.round(1).tolist()
        [2.1, 2.1]
        """
        check_standardize(standardize)
        mask = check_choice("missing", missing, MISSING) == "mask"
        zeros, ones = np.zeros(series.channels), np.ones(series.channels)
        if not standardize and not mask:
            return cls(zeros, ones, zeros.astype(np.float32), mask)
        mean, deviation = _moments(series, mask, random_state)
        if not standardize:
            return cls(zeros, ones, mean.astype(np.float32), mask)
        if standardize == TOGETHER:
            deviation = np.full_like(deviation, np.sqrt((deviation**2).mean()))
        scale = np.where(deviation > 0, deviation, 1.0)  # a constant channel becomes 0
        return cls(mean, scale, zeros.astype(np.float32), mask)

    @property
    def channels(self) -> int:
        """D, the number of channels of a sample."""
        return len(self.center)

    @property
    def model_channels(self) -> int:
        """C, the number of input channels of the model."""
        return self.channels * (2 if self.mask else 1)

    @property
    def sizes(self) -> np.ndarray:
        """(C,) sizes of the channels relative to each other before they were scaled, 1 on the average."""
        relative = self.scale / self.scale.max()
        relative /= np.sqrt((relative**2).mean())
        return np.concatenate([relative, np.ones(self.model_channels - self.channels)])

    def check_channels(self, series: SeriesSet) -> None:
        """Raise a ValueError if the number of channels differs from training."""
        if series.channels != self.channels:
            raise ValueError(
                f"`X` must have {self.channels} channel(s), as in training; got {series.channels} "
                f"(shape {series.shape}: series, steps, channels)."
            )

    def read(self, series: SeriesSet, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read some series and convert them to model inputs.

        Parameters
        ----------
        series
            The series.
        rows
            (B,) indices of the series to read.

        Returns
        -------
        x
            (B, T, C) model inputs, zero after the end of each series.
        lengths
            (B,) lengths of the series.
        """
        x, lengths = series.batch(rows)
        # Time is the first axis in memory, because recurrent networks read the batch step by step.
        by_time = np.empty((x.shape[1], len(x), self.model_channels), np.float32)
        seen = by_time.transpose(1, 0, 2)  # (B, T, C)
        values = seen[..., : self.channels]
        if not self._standardize(x, by_time[..., : self.channels]):
            _check_values(values, series, rows, self.mask)
        if self.mask:
            observed = ~np.isnan(values)
            values[...] = _forward_fill(values, observed, self.fill)
            seen[..., self.channels :] = observed
        if (lengths < x.shape[1]).any():
            seen[~inside(lengths, x.shape[1])] = 0
        return seen, lengths

    def _standardize(self, x: np.ndarray, out: np.ndarray) -> bool:
        """Write x (B, T, D), centered and scaled, to `out` (T, B, D); return whether all of it is finite."""
        factor = 1 / self.scale
        if x.size >= LARGE:
            from stopwise.data.standardizing import standardize

            return standardize(x, self.center, factor, out)
        with np.errstate(over="ignore"):  # the caller reports values that are too large
            np.multiply(
                x.transpose(1, 0, 2) - self.center, factor, out=out, dtype=np.float64, casting="same_kind"
            )
        return bool(np.isfinite(out).all())

    def step(self, xp: Any = np) -> InputStep:
        """Return the conversion for one sample at a time; `xp` is numpy or torch."""
        return InputStep(self, xp)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `from_dict` reads them back."""
        arrays = {name: getattr(self, name).tolist() for name in ("center", "scale", "fill")}
        return arrays | {"mask": self.mask}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the inputs that `to_dict` described."""
        center, scale = (np.array(values[name], dtype=np.float64) for name in ("center", "scale"))
        fill, mask = np.array(values["fill"], dtype=np.float32), values["mask"]
        if not (center.ndim == 1 and len(center) and center.shape == scale.shape == fill.shape):
            raise ValueError("`center`, `scale` and `fill` must have one number per channel each.")
        with np.errstate(divide="ignore", over="ignore"):
            finite = all(np.isfinite(array).all() for array in (center, 1 / scale, scale, fill))
        if not finite or not (scale > 0).all() or not isinstance(mask, bool):
            raise ValueError("`center`, `scale` (> 0) and `fill` must be finite, and `mask` true or false.")
        return cls(center, scale, fill, mask)


class InputStep:
    """Conversion of one sample at a time of S streams.

    Parameters
    ----------
    inputs
        The conversion.
    xp
        The array library: numpy or torch.

    Examples
    --------
    >>> step = Inputs(np.array([2.0]), np.array([0.5]), np.zeros(1, np.float32), mask=True).step()
    >>> seen, state = step(np.array([[3.0], [np.nan]]), step.start(2))
    >>> seen.tolist()
    [[2.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, inputs: Inputs, xp: Any = np) -> None:
        self.xp, self.mask, self.channels = xp, inputs.mask, inputs.channels
        self.center, self.factor = xp.asarray(inputs.center), xp.asarray(1 / inputs.scale)
        self.fill = xp.asarray(inputs.fill)

    def start(self, streams: int) -> dict[str, Array]:
        """Return the state of S streams before their first sample."""
        return {"held": self.xp.tile(self.fill, (streams, 1))} if self.mask else {}

    def values(self, x: Array) -> Array:
        """Return samples x (S, D) centered and scaled, in single precision; missing values stay NaN."""
        return self._single((x - self.center) * self.factor)

    def __call__(self, x: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Convert samples x (S, D); return model inputs (S, C) and the next state."""
        return self.observe(self.values(x), state)

    def observe(self, values: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Do the same for the result (S, D) of `values`: replace missing values, and add the mask."""
        if not self.mask:
            return values, {}
        observed = ~self.xp.isnan(values)
        held = self.xp.where(observed, values, state["held"])
        return self.xp.concatenate([held, self._single(observed)], 1), {"held": held}

    def _single(self, values: Array) -> Array:
        return values.astype(np.float32) if self.xp is np else values.to(self.xp.float32)


@dataclass(frozen=True)
class InputReader:
    """Reader of series as model inputs; picklable, for use in several processes."""

    series: SeriesSet
    inputs: Inputs

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return model inputs x (B, T, C) and lengths (B,) of the series with indices rows (B,)."""
        return self.inputs.read(self.series, rows)


def check_standardize(standardize: Any) -> None:
    """Raise a ValueError if `standardize` is not True, False or "together"."""
    if not (standardize is True or standardize is False or standardize == TOGETHER):
        raise ValueError(
            f"`standardize` must be True (scale each channel separately), {TOGETHER!r} (scale all channels "
            f"by the same factor) or False; got {standardize!r}."
        )


def _moments(series: SeriesSet, mask: bool, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (D,) of each channel; the latter is 0 if it is constant or empty."""
    rows = np.arange(len(series))
    if len(rows) > MOMENT_SERIES:
        chosen = np.random.default_rng(random_state).choice(len(rows), MOMENT_SERIES, replace=False)
        rows = np.sort(chosen)
    reference = np.zeros(series.channels)
    count, mean, squares = np.zeros((3, series.channels))
    size = series.rows_of(MOMENT_NUMBERS)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        x, lengths = series.batch(part)
        _check_values(x, series, part, mask)
        full = (lengths == x.shape[1]).all()
        samples = x.reshape(-1, series.channels) if full else x[inside(lengths, x.shape[1])]  # (samples, D)
        if not start:
            reference = _first_observed(samples)
        own_count, own_mean, own_squares = _part_moments(samples - reference)
        before, count = count, count + own_count
        change, share = own_mean - mean, own_count / np.maximum(count, 1)
        mean = mean + share * change
        squares = squares + own_squares + change**2 * before * share
    variance = squares / np.maximum(count, 1)
    constant = variance <= (count * np.finfo(np.float64).eps * mean) ** 2  # no more than rounding errors
    return reference + mean, np.where(constant, 0.0, np.sqrt(variance))


def _part_moments(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return number, mean and sum of squared deviations (D,) of the observed samples (n, D), float64.

    The samples are overwritten.

    Examples
    --------
    >>> _part_moments(np.array([[1.0, np.nan], [3.0, 5.0]]))
    (array([2., 1.]), array([2., 5.]), array([2., 0.]))
    """
    count = np.full(samples.shape[1], float(len(samples)))
    mean = samples.mean(axis=0)
    if not np.isfinite(mean).all():  # there are missing values
        observed = ~np.isnan(samples)
        count = observed.sum(axis=0, dtype=np.float64)
        mean = samples.sum(axis=0, where=observed) / np.maximum(count, 1)
        np.copyto(samples, mean, where=~observed)
    samples -= mean
    return count, mean, np.einsum("nd,nd->d", samples, samples)


def _first_observed(samples: np.ndarray) -> np.ndarray:
    """Return the first observed value (D,) of each channel of samples (n, D); 0 if there is none.

    It is subtracted before the sums are computed. This keeps the precision of a small deviation from a large
    offset.
    """
    first = (~np.isnan(samples)).argmax(axis=0)  # (D,)
    return np.nan_to_num(samples[first, np.arange(samples.shape[1])].astype(np.float64))


def _forward_fill(values: np.ndarray, observed: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """Return values (B, T, D) with NaN replaced by the last observed value, or `fill` (D,) before the first.

    Examples
    --------
    >>> x = np.array([[[np.nan], [2.0], [np.nan]]])
    >>> _forward_fill(x, ~np.isnan(x), np.zeros(1)).ravel().tolist()
    [0.0, 2.0, 2.0]
    """
    steps = np.arange(1, values.shape[1] + 1)[:, None]  # (T, 1)
    last = np.maximum.accumulate(np.where(observed, steps, 0), axis=1)  # (B, T, D), 0: not yet
    before = np.broadcast_to(fill, (len(values), 1, values.shape[2])).astype(values.dtype)
    return np.take_along_axis(np.concatenate([before, values], axis=1), last, axis=1)


def _check_values(x: np.ndarray, series: SeriesSet, rows: np.ndarray, mask: bool) -> None:
    """Raise a ValueError if x has a value that the model cannot process."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = x.astype(np.float32, copy=False)
        if np.isfinite(x.sum(dtype=np.float64)):  # a finite sum implies finite terms
            return
    bad = np.isinf(x) if mask else ~np.isfinite(x)
    bad &= inside(series.lengths[rows], x.shape[1])[..., None]
    if not bad.any():
        return
    row, step, channel = (int(i) for i in np.argwhere(bad)[0])
    what = "NaN" if np.isnan(x[row, step, channel]) else "infinity (or a value too large for float32)"
    remedy = (
        "If values are missing, set missing='mask'."
        if what == "NaN"
        else "Clip or rescale the data, or replace it by NaN with missing='mask'."
    )
    raise ValueError(
        f"`X` must be finite; series {int(series.places[rows[row]])} has {what} at step {step + 1}, "
        f"channel {channel}. {remedy}"
    )
