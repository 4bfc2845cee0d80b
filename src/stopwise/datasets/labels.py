"""Class labels of the synthetic worlds: balanced and shuffled."""

from __future__ import annotations

import numpy as np


def balanced_labels(n: int, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Return (n,) int64 labels in random order; the class counts differ by at most one.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(balanced_labels(7, 3, np.random.default_rng(0))).tolist()
    [3, 2, 2]
    """
    return rng.permutation(np.arange(n, dtype=np.int64) % classes)
