"""Statistics of repeated runs: means with standard errors, and Tukey–Kramer tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import tukey_hsd

SIGNIFICANT = 1e-3


def mean_and_sem(values: Sequence[float], digits: int | None = None) -> dict[str, float | None]:
    """Return the mean and the standard error of the mean, as plain JSON values.

    Parameters
    ----------
    values
        One or more numbers. The standard error of a single one is None.
    digits
        Number of decimal places to round to; None: no rounding.

    Examples
    --------
    >>> mean_and_sem([1.0, 3.0])
    {'mean': 2.0, 'sem': 1.0}
    >>> mean_and_sem([1.0])
    {'mean': 1.0, 'sem': None}
    """
    runs = np.asarray(values, dtype=float)
    found = {"mean": float(runs.mean())}
    if len(runs) > 1:
        found["sem"] = float(runs.std(ddof=1)) / math.sqrt(len(runs))
    if digits is not None:
        found = {name: round(value, digits) for name, value in found.items()}
    return {"mean": found["mean"], "sem": found.get("sem")}


def p_of_beating(
    errors: Mapping[str, Sequence[float]], proposed: Sequence[str], baselines: Sequence[str]
) -> dict[str, float]:
    """Test whether each proposed model has a lower mean error than every baseline (Tukey–Kramer).

    Parameters
    ----------
    errors
        Errors of the runs, by model; the numbers of runs may differ. The test compares all models in
        `proposed` and `baselines`.
    proposed, baselines
        Names of models; those with fewer than two runs are excluded.

    Returns
    -------
    p
        By proposed model, its largest p-value against the baselines; 1 if its mean is not below that of
        every baseline.

    Examples
    --------
    >>> errors = {"ours": [1.0, 1.1, 0.9], "theirs": [5.0, 5.2, 4.9], "old": [7.0, 6.9, 7.2]}
    >>> p_of_beating(errors, ["ours"], ["theirs", "old"])["ours"] < 0.001
    True
    >>> p_of_beating(errors, ["old"], ["theirs"])
    {'old': 1.0}
    """
    names = [name for name in [*proposed, *baselines] if len(errors.get(name, ())) > 1]
    rivals = [name for name in baselines if name in names]
    tested = [name for name in proposed if name in names]
    if not rivals or not tested:
        return {}
    test = tukey_hsd(*(errors[name] for name in names))
    index = {name: i for i, name in enumerate(names)}
    means = {name: float(np.mean(errors[name])) for name in names}
    return {
        name: max(float(test.pvalue[index[name], index[rival]]) for rival in rivals)
        if all(means[name] < means[rival] for rival in rivals)
        else 1.0
        for name in tested
    }
