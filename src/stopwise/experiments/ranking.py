"""Comparison of several methods over several datasets: Friedman's test, and Wilcoxon tests after Holm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, wilcoxon

LEVEL = 0.05


@dataclass(frozen=True)
class Ranking:
    """Methods from best to worst, and which of them differ.

    Parameters
    ----------
    ranks
        Mean rank of each method over the datasets, 1 is best; sorted.
    friedman
        p-value of Friedman's test that all methods are alike; 1 for fewer than three methods.
    p
        p-values of the pairs of methods, Wilcoxon's signed-rank test, not corrected.
    differ
        Pairs that differ at `LEVEL` after Holm's correction for the number of pairs.
    cliques
        Largest sets of methods, neighbors by rank, of which no two differ.
    datasets
        Number of datasets.
    """

    ranks: dict[str, float]
    friedman: float
    p: dict[tuple[str, str], float]
    differ: set[tuple[str, str]]
    cliques: list[tuple[str, ...]]
    datasets: int


def rank(costs: Mapping[str, Sequence[float]], level: float = LEVEL) -> Ranking:
    """Compare methods by their costs, lower is better.

    Parameters
    ----------
    costs
        By method, its cost on each dataset, in the same order; at least two methods and two datasets.
    level
        Level of the tests.

    Examples
    --------
    >>> costs = {"a": [1, 2, 1, 3, 2, 1, 1, 2], "b": [5, 6, 7, 8, 6, 5, 7, 9], "c": [6, 5, 8, 7, 5, 6, 8, 8]}
    >>> ranking = rank(costs)
    >>> ranking.ranks, ranking.cliques
    ({'a': 1.0, 'b': 2.5, 'c': 2.5}, [('b', 'c')])
    """
    table = np.array([list(map(float, values)) for values in costs.values()])  # (M, sets)
    if table.ndim != 2 or min(table.shape) < 2 or not np.isfinite(table).all():
        raise ValueError(
            "`costs` must have the same number of finite costs, at least 2, for at least 2 methods; got "
            f"shape {table.shape}."
        )
    names = list(costs)
    means = rankdata(table, axis=0).mean(axis=1)
    order = np.argsort(means, kind="stable")
    friedman = float(friedmanchisquare(*table).pvalue) if len(names) > 2 else 1.0
    p = {(names[i], names[j]): _wilcoxon(table[i], table[j]) for i, j in combinations(order, 2)}
    differ = holm(p, level)
    ranked = [names[i] for i in order]
    return Ranking(
        {names[i]: float(means[i]) for i in order},
        friedman,
        p,
        differ,
        _cliques(ranked, differ),
        table.shape[1],
    )


def holm(p: Mapping[tuple[str, str], float], level: float = LEVEL) -> set[tuple[str, str]]:
    """Return the hypotheses that Holm's procedure rejects: the smallest p first, each at level ÷ those left.

    Examples
    --------
    >>> sorted(holm({("a", "b"): 0.01, ("a", "c"): 0.02, ("b", "c"): 0.04, ("c", "d"): 0.2}))
    [('a', 'b')]
    """
    rejected = set()
    for i, (pair, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        if value > level / (len(p) - i):
            break
        rejected.add(pair)
    return rejected


def _wilcoxon(a: np.ndarray, b: np.ndarray) -> float:
    """Return the two-sided p-value; equal costs count half for each side, and 1 if all are equal."""
    if (a == b).all():
        return 1.0
    return float(wilcoxon(a, b, zero_method="zsplit").pvalue)


def _cliques(ranked: Sequence[str], differ: set[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the largest runs of neighbors by rank without a pair that differs."""
    runs: list[tuple[int, int]] = []
    for start in range(len(ranked)):
        stop = start + 1
        while stop < len(ranked) and not any((ranked[i], ranked[stop]) in differ for i in range(start, stop)):
            stop += 1
        if stop - start > 1 and not any(low <= start and stop <= high for low, high in runs):
            runs.append((start, stop))
    return [tuple(ranked[start:stop]) for start, stop in runs]
