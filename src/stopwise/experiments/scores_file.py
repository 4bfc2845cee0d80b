"""Files with the scores of one run, for analyses outside of stopwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stopwise.atomic import atomic_write
from stopwise.metrics import sat_curve
from stopwise.rules import SPRT

THRESHOLDS = 20  # largest number of thresholds of the sequential test


def write_scores(
    path: str | Path,
    scores: np.ndarray,
    y: np.ndarray,
    *,
    truth: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
) -> None:
    """Write scores, labels and stopping times of test series as ``.npz``, atomically.

    Parameters
    ----------
    path
        The file.
    scores
        (n, T, K) estimated scores; the LLR of classes k and l is their difference.
    y
        (n,) class indices.
    truth
        (n, T, K) exact scores, where they are known.
    lengths
        (n,) numbers of steps. None means that all series have T steps.

    Examples
    --------
    >>> import tempfile
    >>> scores = np.cumsum(np.ones((2, 3, 2)) * [0.0, 1.0], axis=1)
    >>> path = Path(tempfile.mkdtemp()) / "run.npz"
    >>> write_scores(path, scores, np.array([1, 1]))
    >>> sorted(np.load(path))
    ['decided', 'labels', 'lengths', 'scores', 'stopping_times', 'thresholds']
    """
    path = Path(path)
    lengths = np.full(len(y), scores.shape[1]) if lengths is None else lengths
    thresholds = np.asarray(sat_curve(scores, y, lengths).thin(THRESHOLDS).thresholds, dtype=float)
    decisions = [SPRT(float(threshold)).decide(scores, lengths) for threshold in thresholds]
    arrays = {
        "scores": scores.astype(np.float32),
        "labels": y,
        "lengths": lengths,
        "thresholds": thresholds,
        "stopping_times": np.stack([one.times for one in decisions]),  # (thresholds, n)
        "decided": np.stack([one.labels for one in decisions]),  # (thresholds, n)
    }
    if truth is not None:
        arrays["true_scores"] = truth
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as [temporary], temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
