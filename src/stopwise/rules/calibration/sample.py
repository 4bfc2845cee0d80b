"""Checks of the calibration series: which of them are independent draws, and which classes occur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stopwise.rules.calibration.trials import Trials
from stopwise.rules.classes import absent, check_several_classes, listed
from stopwise.validation import warn

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
        warn(
            f"`scores` has {repeated} of {len(trials.y)} series with the same scores as others. If they are "
            "copies, the guarantee does not hold: pass `counted`, which is False for copies. If they are "
            "independent draws, pass `counted` with all values True.",
        )


def check_classes(y: np.ndarray, names: Sequence[str]) -> None:
    """Raise an error if all series are of one class; warn if some classes have no series."""
    check_several_classes(y, names)
    missing = absent(y, names)
    if missing:
        warn(
            f"`y` has no series of class {listed(missing)}. The rule is not tested on these classes: it "
            "keeps its rate only if new series of them are as rare.",
        )
