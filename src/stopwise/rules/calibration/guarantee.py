"""The guarantee of a calibrated rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self

from stopwise import markup
from stopwise.validation import check_choice, check_integer, check_real

TARGETS = ("error_rate", "accuracy_gap")
ASSUMPTION = "Holds if new series come from the same source as the calibration series."


@dataclass(frozen=True, repr=False)
class Guarantee:
    """A guaranteed error rate and its confidence; `print` shows it as a sentence.

    Parameters
    ----------
    target
        "error_rate": the fraction of series that are decided wrongly. "accuracy_gap": the fraction of series
        that are decided wrongly but would have been decided correctly at their end.
    level
        The maximum rate. One number, or one per class, with None for a class without a limit.
    confidence
        The probability, over draws of the calibration series, that the guarantee holds.
    series
        Number of calibration series.
    observed
        The rate observed on the calibration series: one number, or one per class, with None for a class
        without series.
    mean_time, mean_length
        Mean stopping time and mean length of the calibration series.
    conditional
        Whether the guarantee holds among the series decided by step t, for every t.
    classes
        Names of the classes; required if `level` has one value per class.

    Examples
    --------
    >>> print(Guarantee("error_rate", 0.05, 0.95, series=2000, observed=0.041, mean_time=7.3, mean_length=50))
    With confidence 95 %, at most 5 % of new series are decided wrongly (calibrated on 2000 series; mean
    stopping time 7.3 of 50 samples). Holds if new series come from the same source as the calibration series.
    """

    target: str
    level: float | tuple[float | None, ...]
    confidence: float
    series: int
    observed: float | tuple[float | None, ...]
    mean_time: float
    mean_length: float
    conditional: bool = False
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("target", self.target, TARGETS)
        check_real("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        check_integer("series", self.series, 1)
        for name in ("mean_time", "mean_length"):
            check_real(name, getattr(self, name), 1, open_high=True)
        for name in ("level", "observed", "classes"):  # lists, if read from JSON
            value = getattr(self, name)
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        if isinstance(self.level, tuple) and len(self.level) != len(self.classes or ()):
            raise ValueError(
                f"`classes` must hold a name for each of the {len(self.level)} levels; got {self.classes!r}."
            )

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return a guarantee unchanged, or create it from the dict that `to_dict` returned.

        Parameters
        ----------
        value
            A `Guarantee` or a dict.
        """
        if isinstance(value, cls):
            return value
        known = {field.name for field in fields(cls)}
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        if not isinstance(value, Mapping) or not needed <= value.keys() <= known:
            raise TypeError(f"`guarantee` must be a Guarantee, as created by calibrate(); got {value!r:.80}.")
        return cls(**value)

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as a dict of plain JSON values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def __str__(self) -> str:
        basis = f"calibrated on {self.series} series" + (
            ", half of them to choose the thresholds" if self.conditional else ""
        )
        return (
            f"With confidence {percent(self.confidence)}, {self._statement()} ({basis}; mean stopping time "
            f"{self.mean_time:.3g} of {self.mean_length:.4g} samples). {ASSUMPTION}"
        )

    def __repr__(self) -> str:
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        shown = ", ".join(f"{field.name}={value!r}" for field, value in values if value != field.default)
        return f"Guarantee({shown})"

    def _repr_html_(self) -> str:
        """Return the guarantee as a sentence, and what was observed on the calibration series."""
        levels = self.level if isinstance(self.level, tuple) else (self.level,)
        observed = self.observed if isinstance(self.observed, tuple) else (self.observed,) * len(levels)
        names = self.classes if isinstance(self.level, tuple) and self.classes else ("all series",)
        rows = [
            [name, *("–" if share is None else percent(share) for share in pair)]
            for name, *pair in zip(names, levels, observed)
        ]
        header = ["series of class" if len(names) > 1 else "", "guaranteed", "observed in calibration"]
        return markup.block("Guarantee", markup.paragraph(str(self)), markup.table(header, rows))

    def _statement(self) -> str:
        wrong = "are decided wrongly"
        if self.target == "accuracy_gap":
            wrong += " that would have been decided correctly at their end"
        if self.conditional:
            return f"of the new series decided by any one step, at most {percent(self.level)} {wrong}"
        if not isinstance(self.level, tuple):
            return f"at most {percent(self.level)} of new series {wrong}"
        named = list(zip(self.classes or (), self.level))
        if len(set(self.level)) == 1:
            return f"at most {percent(self.level[0])} of the new series of each class {wrong}"
        limits = [f"{percent(level)} of class {name!r}" for name, level in named if level is not None]
        free = [repr(name) for name, level in named if level is None]
        rest = f"; nothing is guaranteed for class {', '.join(free)}" if free else ""
        return f"of the new series at most {' and '.join(limits)} {wrong}{rest}"


def percent(share: Any) -> str:
    """Return a fraction as a percentage.

    Examples
    --------
    >>> percent(0.05), percent(0.0712), percent(0.999)
    ('5 %', '7.12 %', '99.9 %')
    """
    return f"{100 * share:.3g} %"
