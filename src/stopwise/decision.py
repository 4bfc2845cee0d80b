"""Results of a stopping rule: `Decision` for one series, `Decisions` for many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stopwise import markup


@dataclass(frozen=True)
class Decision:
    """The decision on one series.

    Parameters
    ----------
    label
        The predicted class.
    time
        The step of the decision, counted from 1: the number of samples seen.
    forced
        True if the series ended before the rule stopped.
    scores
        The K scores at that step; their differences are log-likelihood ratios.

    Examples
    --------
    >>> import numpy as np
    >>> Decision(label=1, time=3, forced=False, scores=np.array([-2.0, 2.5]))
    Decision(label=1, time=3, forced=False, scores=array([-2. ,  2.5]))
    """

    label: Any
    time: int
    forced: bool
    scores: np.ndarray


@dataclass(frozen=True)
class Decisions:
    """The decisions on n series; iterating yields one `Decision` per series.

    Parameters
    ----------
    labels
        (n,) predicted classes.
    times
        (n,) steps of the decisions, counted from 1.
    forced
        (n,) True where the series ended before the rule stopped.
    scores
        (n, K) scores at those steps.
    lengths
        (n,) lengths of the series.

    Examples
    --------
    >>> import numpy as np
    >>> d = Decisions(
    ...     labels=np.array([1, 0]), times=np.array([1, 3]), forced=np.array([False, True]),
    ...     scores=np.array([[0.0, 4.0], [1.0, 0.5]]), lengths=np.array([3, 3]),
    ... )
    >>> [decision.time for decision in d]
    [1, 3]
    >>> d
    Decisions(n=2, mean time 2.00, forced 50.0 %)
    """

    labels: np.ndarray
    times: np.ndarray
    forced: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[Decisions], classes: np.ndarray) -> Decisions:
        """Concatenate decisions, and replace class indices by the labels in `classes`.

        Parameters
        ----------
        parts
            Decisions with class indices as labels.
        classes
            (K,) label of each class.

        Examples
        --------
        >>> part = Decisions(
        ...     labels=np.array([1]), times=np.array([2]), forced=np.array([False]),
        ...     scores=np.zeros((1, 2)), lengths=np.array([3]),
        ... )
        >>> Decisions.join([part, part], np.array(["sit", "walk"])).labels.tolist()
        ['walk', 'walk']
        """
        names = ("labels", "times", "forced", "scores", "lengths")
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**joined | {"labels": classes[joined["labels"]]})

    def to_frame(self) -> Any:
        """Return the decisions as a pandas data frame: label, time, forced, length, one row per series.

        Requires pandas.

        Examples
        --------
        >>> d = Decisions(
        ...     labels=np.array(["walk"]), times=np.array([2]), forced=np.array([False]),
        ...     scores=np.zeros((1, 2)), lengths=np.array([3]),
        ... )
        >>> d.to_frame()
          label  time  forced  length
        0  walk     2   False       3
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas.") from error

        columns = {"label": self.labels, "time": self.times, "forced": self.forced, "length": self.lengths}
        return pd.DataFrame(columns)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Decision:
        label = self.labels[index]
        return Decision(
            label.item() if isinstance(label, np.generic) else label,
            int(self.times[index]),
            bool(self.forced[index]),
            self.scores[index],
        )

    def __iter__(self) -> Iterator[Decision]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if not len(self):
            return "Decisions(n=0)"
        return (
            f"Decisions(n={len(self)}, mean time {self.times.mean():.2f}, forced {self.forced.mean():.1%})"
        ).replace("%)", " %)")

    def _repr_html_(self) -> str:
        """Return a summary, and a row for each decided class."""
        if not len(self):
            return markup.block("Decisions on 0 series")
        found = [
            ("mean time", f"{self.times.mean():.2f} of {self.lengths.mean():.2f} samples"),
            ("forced by the end", f"{int(self.forced.sum())} ({100 * self.forced.mean():.1f} %)"),
        ]
        labels, where, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        times, forced = np.bincount(where, self.times), np.bincount(where, self.forced)
        rows = [
            [label, count, f"{time / count:.2f}", int(ends)]
            for label, count, time, ends in zip(labels.tolist(), counts.tolist(), times, forced)
        ]
        header = ["decided", "series", "mean time", "forced"]
        return markup.block(
            f"Decisions on {len(self)} series", markup.facts(found), markup.table(header, rows)
        )
