"""Checks of the calibration series: which of them are independent draws, and which classes occur."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise.rules.calibration.trials import Trials

SHOWN_NAMES = 10
# Scores with fewer distinct values may agree by chance.
ENOUGH_VALUES = 4


def check_counted(counted: Any, trials: Trials) -> np.ndarray:
    """Return which series (n,) count as independent draws; if `counted` is None, all of them.

    In this case, a warning is given if some series have exactly the same scores.
    """
    n = len(trials.y)
    if counted is None:
        _warn_of_copies(trials)
        return np.ones(n, dtype=bool)
    array = np.asarray(counted)
    if array.shape != (n,) or array.dtype != bool or not array.any():
        raise ValueError(
            f"`counted` must hold {n} booleans, one per series, not all of them False; got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    return array


def _warn_of_copies(trials: Trials) -> None:
    found: dict[bytes, int] = {}
    for lead, wrong, label in zip(trials.leads, trials.wrong, trials.y):
        text = lead.tobytes() + wrong.tobytes() + label.tobytes()
        found[text] = found.get(text, 0) + 1
    if len(found) == len(trials.y):
        return
    steps = trials.leads.shape[1]
    repeated = sum(
        count - 1
        for text, count in found.items()
        if len(np.unique(np.frombuffer(text, trials.leads.dtype, steps))) >= ENOUGH_VALUES
    )
    if repeated:
        warnings.warn(
            f"`scores` has {repeated} of {len(trials.y)} series with the same scores as others. If they are "
            "copies, the guarantee does not hold: pass `counted`, which is False for copies. If they are "
            "independent draws, pass `counted` with all values True.",
            UserWarning,
            stacklevel=4,
        )


def check_several_classes(y: np.ndarray, names: Sequence[str]) -> None:
    """Raise an error if all series are of one class; warn if some classes have no series."""
    missing = [name for k, name in enumerate(names) if k not in y]
    if len(missing) == len(names) - 1:
        raise ValueError(
            f"`y` must contain several classes; all series are of class {names[int(y[0])]!r}. Missing: "
            f"{listed(missing)}. Give series of these classes too."
        )
    if missing:
        warnings.warn(
            f"`y` has no series of class {listed(missing)}. The rule is not tested on these classes: it "
            "keeps its rate only if new series of them are as rare.",
            UserWarning,
            stacklevel=4,
        )


def listed(names: Sequence[str]) -> str:
    """Return names as text, at most the first ten.

    Examples
    --------
    >>> listed(["ash", "elm"])
    "'ash', 'elm'"
    """
    text = ", ".join(map(repr, names[:SHOWN_NAMES]))
    return text + (f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else "")
