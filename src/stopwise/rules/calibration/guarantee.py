"""What a calibrated rule promises, as a record that says it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from stopwise.validation import check_choice, check_integer, check_real

TARGETS = ("error_rate", "accuracy_gap", "mean_time")
ASSUMPTION = "Holds if new series come from the same source as the calibration series."


@dataclass(frozen=True, repr=False)
class Guarantee:
    """What is promised, at what level, and on what it rests; `print` says it in words.

    Parameters
    ----------
    target
        "error_rate": the share of series decided wrongly. "accuracy_gap": the share decided wrongly that
        would have been decided rightly at their end. "mean_time": the mean stopping time, in samples.
    level
        What the target may be at most: one number, or one per class, None for a class not controlled.
    confidence
        The probability, over draws of the calibration series, that the promise holds; None with
        "mean_time", which promises nothing.
    series
        How many calibration series there were.
    observed
        What the target was on them, as `level`; with "mean_time" the share decided wrongly.
    mean_time, mean_length
        The mean stopping time, and the mean length, of the calibration series.
    conditional
        True if the promise holds for the series decided by step t, whatever t.
    classes
        Names of the classes, where `level` is one per class.

    Examples
    --------
    >>> print(Guarantee("error_rate", 0.05, 0.95, series=2000, observed=0.041, mean_time=7.3, mean_length=50))
    With confidence 95 %, at most 5 % of new series are decided wrongly (calibrated on 2000 series; mean
    stopping time 7.3 of 50 samples). Holds if new series come from the same source as the calibration series.
    """

    target: str
    level: float | tuple[float | None, ...]
    confidence: float | None
    series: int
    observed: float | tuple[float | None, ...]
    mean_time: float
    mean_length: float
    conditional: bool = False
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("target", self.target, TARGETS)
        check_integer("series", self.series, 1)
        for name in ("mean_time", "mean_length"):
            check_real(name, getattr(self, name), 1, open_high=True)
        for name in ("level", "observed", "classes"):  # JSON has lists only
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        if isinstance(self.level, tuple) and len(self.level) != len(self.classes or ()):
            raise ValueError(
                f"`classes` must name each of the {len(self.level)} levels; got {self.classes!r}."
            )

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return a guarantee as it is, or the one that `to_dict` described."""
        if isinstance(value, cls):
            return value
        known = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or not value.keys() <= known:
            raise TypeError(f"`guarantee` must be a Guarantee, as calibrate makes; got {value!r:.80}.")
        return cls(**value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def __str__(self) -> str:
        if self.target == "mean_time":
            return (
                f"The {self.series} calibration series were decided after {self.mean_time:.3g} of "
                f"{self.mean_length:.4g} samples on average (allowed: {self.level:g}). Nothing is promised "
                f"about errors: {percent(self.observed)} of these series were decided wrongly."
            )
        based = f"calibrated on {self.series} series" + (
            ", half of them to choose the thresholds" if self.conditional else ""
        )
        return (
            f"With confidence {percent(self.confidence)}, {self._promise()} ({based}; mean stopping time "
            f"{self.mean_time:.3g} of {self.mean_length:.4g} samples). {ASSUMPTION}"
        )

    def __repr__(self) -> str:
        shown = [(field, getattr(self, field.name)) for field in fields(self)]
        told = ", ".join(f"{field.name}={value!r}" for field, value in shown if value != field.default)
        return f"Guarantee({told})"

    def _promise(self) -> str:
        wrong = "are decided wrongly"
        if self.target == "accuracy_gap":
            wrong += " that would have been decided rightly at their end"
        if self.conditional:
            return f"of the new series decided by any one step, at most {percent(self.level)} {wrong}"
        if not isinstance(self.level, tuple):
            return f"at most {percent(self.level)} of new series {wrong}"
        named = list(zip(self.classes or (), self.level))
        if len(set(self.level)) == 1:
            return f"at most {percent(self.level[0])} of the new series of each class {wrong}"
        told = [f"{percent(level)} of class {name!r}" for name, level in named if level is not None]
        free = [repr(name) for name, level in named if level is None]
        rest = f"; nothing is promised for class {', '.join(free)}" if free else ""
        return f"of the new series at most {' and '.join(told)} {wrong}{rest}"


def percent(share: Any) -> str:
    """Return a share as people write it.

    Examples
    --------
    >>> percent(0.05), percent(0.0712), percent(0.999)
    ('5 %', '7.12 %', '99.9 %')
    """
    return f"{100 * share:.3g} %"
