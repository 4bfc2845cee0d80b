"""What a model sees of a sample: centred and scaled channels, held values and mask channels.

This is the only place that knows. `Inputs.batch` serves whole series, `InputStep` one sample at a time, on
numpy for streams and on torch for the ONNX export. Differences from the mean are taken in double precision,
so that a large offset costs no digits, and only then converted to single precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.preprocessing import StandardScaler

from stopwise.data.series import SeriesSet
from stopwise.validation import check_choice, inside

MISSING = ("error", "mask")
TOGETHER = "together"
# Series that the mean and the deviation are estimated from: enough for two digits, quick on any data.
MOMENT_SERIES = 2000
MOMENT_NUMBERS = 1 << 20  # read at once
LARGE = 1 << 15  # numbers from which on a compiled kernel is worth its call

Array = Any  # numpy.ndarray or torch.Tensor


@dataclass(frozen=True, eq=False)
class Inputs:
    """From samples (D channels) to what a model sees (C channels, single precision).

    Parameters
    ----------
    center, scale
        (D,) what is subtracted from a channel, and what the difference is divided by.
    fill
        (D,) value of a channel before its first observation, centred and scaled.
    mask
        True: NaN means not observed. The last observed value is held, and D further channels are 1 where
        the channel was observed and 0 where not. False: NaN is an error.

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
        """Learn the inputs from training series.

        Parameters
        ----------
        series
            Series to learn from; a random sample of large sets is read.
        standardize
            True: each channel by its own mean and deviation. "together": each channel by its own mean, all
            by one deviation, the root of their mean variance. False: channels as they are.
        missing
            "error" or "mask".
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
        """D, the numbers in a sample."""
        return len(self.center)

    @property
    def model_channels(self) -> int:
        """C, the numbers a model sees of a sample."""
        return self.channels * (2 if self.mask else 1)

    def check_channels(self, series: SeriesSet) -> None:
        """Raise an error if series have other channels than those learned from."""
        if series.channels != self.channels:
            raise ValueError(
                f"`X` must have {self.channels} channel(s), as in training; got {series.channels} "
                f"(shape {series.shape}: series, steps, channels)."
            )

    def read(self, series: SeriesSet, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x (B, T, C) as a model sees it, zero past each series' end, and lengths (B,), of rows (B,).

        Parameters
        ----------
        series
            The series.
        rows
            (B,) which of them.
        """
        x, lengths = series.batch(rows)
        # Time leads in memory: recurrent networks read it step by step.
        by_time = np.empty((x.shape[1], len(x), self.model_channels), np.float32)
        seen = by_time.transpose(1, 0, 2)  # (B, T, C)
        values = seen[..., : self.channels]
        if not self._standardize(x, by_time[..., : self.channels]):
            _check_values(values, series, rows, self.mask)
        if self.mask:
            observed = ~np.isnan(values)
            values[...] = _held(values, observed, self.fill)
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
        with np.errstate(over="ignore"):  # what is too large is reported by the caller
            np.multiply(
                x.transpose(1, 0, 2) - self.center, factor, out=out, dtype=np.float64, casting="same_kind"
            )
        return bool(np.isfinite(out).all())

    def step(self, xp: Any = np) -> InputStep:
        """Return the form for one sample at a time, on numpy or torch."""
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
        finite = all(np.isfinite(array).all() for array in (center, scale, fill))
        if not finite or not (scale > 0).all() or not isinstance(mask, bool):
            raise ValueError("`center`, `scale` (> 0) and `fill` must be finite, and `mask` true or false.")
        return cls(center, scale, fill, mask)


class InputStep:
    """`Inputs` for one sample at a time of S streams.

    Parameters
    ----------
    inputs
        What a model sees.
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
        """Return what is kept of streams that have seen nothing."""
        return {"held": self.xp.tile(self.fill, (streams, 1))} if self.mask else {}

    def __call__(self, x: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """Return what a model sees (S, C) of samples x (S, D), and what is kept."""
        values = self._single((x - self.center) * self.factor)
        if not self.mask:
            return values, {}
        observed = ~self.xp.isnan(values)
        held = self.xp.where(observed, values, state["held"])
        return self.xp.concatenate([held, self._single(observed)], 1), {"held": held}

    def _single(self, values: Array) -> Array:
        return values.astype(np.float32) if self.xp is np else values.to(self.xp.float32)


@dataclass(frozen=True)
class InputReader:
    """Read series as a model sees them; picklable, so that processes can share it."""

    series: SeriesSet
    inputs: Inputs

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x (B, T, C) and lengths (B,) of rows (B,)."""
        return self.inputs.read(self.series, rows)


def check_standardize(standardize: Any) -> None:
    """Refuse a value of `standardize` that has no meaning."""
    if not (standardize is True or standardize is False or standardize == TOGETHER):
        raise ValueError(
            f"`standardize` must be True (each channel by its own deviation), {TOGETHER!r} (all by one) or "
            f"False; got {standardize!r}."
        )


def _moments(series: SeriesSet, mask: bool, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (D,) of each channel: 0 for a constant or never observed one."""
    rows = np.arange(len(series))
    if len(rows) > MOMENT_SERIES:
        chosen = np.random.default_rng(random_state).choice(len(rows), MOMENT_SERIES, replace=False)
        rows = np.sort(chosen)
    scaler = StandardScaler()
    reference = np.zeros(series.channels)
    size = series.rows_of(MOMENT_NUMBERS)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        x, lengths = series.batch(part)
        _check_values(x, series, part, mask)
        samples = x[inside(lengths, x.shape[1])].astype(np.float64)  # (samples, D)
        if not start:
            reference = _first_observed(samples)
        with np.errstate(invalid="ignore"):  # a channel without any observation
            scaler.partial_fit(samples - reference)
    mean, variance = reference + np.nan_to_num(scaler.mean_), np.nan_to_num(scaler.var_)
    return mean, np.where(scaler.scale_ == np.sqrt(variance), np.sqrt(variance), 0.0)


def _first_observed(samples: np.ndarray) -> np.ndarray:
    """Return the first observed value (D,) of each channel of samples (n, D), 0 where there is none.

    Subtracted before sums are taken, it keeps the digits of a small deviation beside a large offset.
    """
    first = (~np.isnan(samples)).argmax(axis=0)  # (D,)
    return np.nan_to_num(samples[first, np.arange(samples.shape[1])])


def _held(values: np.ndarray, observed: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """Return values (B, T, D) with NaN replaced by the last observed value, or `fill` (D,) before the first.

    Examples
    --------
    >>> x = np.array([[[np.nan], [2.0], [np.nan]]])
    >>> _held(x, ~np.isnan(x), np.zeros(1)).ravel().tolist()
    [0.0, 2.0, 2.0]
    """
    steps = np.arange(1, values.shape[1] + 1)[:, None]  # (T, 1)
    last = np.maximum.accumulate(np.where(observed, steps, 0), axis=1)  # (B, T, D), 0: not yet
    before = np.broadcast_to(fill, (len(values), 1, values.shape[2])).astype(values.dtype)
    return np.take_along_axis(np.concatenate([before, values], axis=1), last, axis=1)


def _check_values(x: np.ndarray, series: SeriesSet, rows: np.ndarray, mask: bool) -> None:
    """Refuse what a model cannot take. A finite sum shows at once that every number is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = x.astype(np.float32, copy=False)
        if np.isfinite(x.sum(dtype=np.float64)):
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
