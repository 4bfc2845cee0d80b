"""Data whose axes mean something else: channels before steps, or a data frame with one row per sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from stopwise.validation import warn

LOOKED_AT = 1 << 18  # numbers that are examined
# Column names that a table with one row per series does not have.
LONG_NAMES = {"series", "time", "timestamp", "date", "datetime", "id", "label", "step", "patient", "subject"}


def check_not_long(X: Any) -> None:
    """Raise an error if X is a data frame with one row per sample."""
    if not hasattr(X, "columns") or len(X.shape) != 2:
        return
    names = [str(name) for name in X.columns]
    telling = [name for name in names if name.strip().lower() in LONG_NAMES]
    if telling or _has_runs(X):
        raise ValueError(
            "`X` is a data frame that seems to have one row per sample"
            + (f" (it has the column {telling[0]!r})" if telling else "")
            + ". Use data = sw.from_frame(df, series=..., time=..., label=...) and pass data.X and data.y. "
            "If each row is a whole series, pass X.to_numpy()."
        )


def _has_runs(X: Any) -> bool:
    """Return whether one column names series by repeated values, and another one rises within them."""
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return False  # texts or dates: the conversion to numbers reports them
    if len(table) < 4 or not np.isfinite(table).all():
        return False
    change = np.diff(table, axis=0)  # (n-1, columns)
    for column in range(table.shape[1]):
        same = change[:, column] == 0
        runs = 1 + int((~same).sum())
        if runs == len(np.unique(table[:, column])) and runs <= len(table) / 2:
            rising = (change[same] > 0).all(axis=0) if same.any() else np.zeros(table.shape[1], bool)
            if rising.any():
                return True
    return False


def warn_if_swapped(series: Any) -> None:
    """Warn if a `SeriesSet` (n, T, D) looks as if it were (n, D, T), as other libraries store series."""
    shape = series.shape
    if shape[2] < 2 or shape[1] >= shape[2] or (series.lengths < shape[1]).any():
        return
    rows = np.arange(min(len(series), series.rows_of(LOOKED_AT)))
    if shape[1] > 1 and not _smoother_along_channels(series.batch(rows)[0].astype(np.float64)):
        return
    warn(
        f"`X` has shape {shape}, that is {shape[1]} step(s) and {shape[2]} channels. If these are "
        f"{shape[1]} channel(s) and {shape[2]} steps (channels first), pass X.transpose(0, 2, 1), or "
        "--layout channels-first on the command line.",
    )


def _smoother_along_channels(x: np.ndarray) -> bool:
    """Return whether neighboring channels differ much less than neighboring steps, as if they were steps."""

    def roughness(axis: int) -> float:
        return float(np.nanmean(np.diff(x, axis=axis) ** 2))

    spread = float(np.nanvar(x))
    return spread > 0 and roughness(2) < 0.3 * 2 * spread and roughness(2) < 0.3 * roughness(1)
