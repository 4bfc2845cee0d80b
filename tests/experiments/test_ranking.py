"""Ranks and tests compared with a published example and with exact p-values."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from stopwise.experiments.ranking import holm, rank

# Ranks of four variants of C4.5 on 14 datasets: Demšar, Statistical comparisons of classifiers over multiple
# data sets, JMLR 7, 2006. The paper gives the mean ranks and the statistic of Friedman's test.
RANKS = np.array(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ]
)
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")


def test_published_example():
    ranking = rank(dict(zip(NAMES, RANKS.T)))
    published = {"C4.5+m+cf": 1.964, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert list(ranking.ranks) == list(published)
    assert ranking.ranks == pytest.approx(published, abs=5e-4)
    # The published statistic is 9.28, without the correction for ties, which makes it a little larger.
    squares = sum(value**2 for value in ranking.ranks.values())
    assert 12 * 14 / (4 * 5) * (squares - 4 * 25 / 4) == pytest.approx(9.28, abs=0.01)
    assert ranking.friedman == pytest.approx(friedmanchisquare(*RANKS.T).pvalue)
    assert ranking.friedman < 0.05


def test_wilcoxon_is_exact_without_ties():
    costs = {"a": np.arange(10.0), "b": np.arange(10.0) + np.arange(1, 11) / 100}  # b is always worse
    assert rank(costs).p[("a", "b")] == pytest.approx(2 / 2**10)


def test_holm_stops_at_the_first_hypothesis_that_it_keeps():
    p = {("a", "b"): 0.001, ("a", "c"): 0.03, ("b", "c"): 0.02}
    assert holm(p) == {("a", "b"), ("b", "c"), ("a", "c")}  # 0.05/3, 0.05/2, 0.05/1
    assert holm(p | {("a", "b"): 0.017}) == set()  # 0.017 > 0.05/3: the others are not tried


def test_cliques_overlap_and_methods_that_differ_from_all_have_none():
    rng = np.random.default_rng(1)
    base = rng.normal(size=30)
    costs = {
        "best": base - 5,
        "left": base,
        "middle": base + 0.4 * rng.normal(size=30) + 0.05,
        "right": base + 0.1,
    }
    ranking = rank(costs)
    assert ("left", "right") in ranking.differ
    assert all("best" not in clique for clique in ranking.cliques)
    assert ranking.cliques == [("left", "middle"), ("middle", "right")]


def test_equal_methods_do_not_differ():
    ranking = rank({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 3.0]})
    assert ranking.p == {("a", "b"): 1.0}
    assert ranking.cliques == [("a", "b")]


@pytest.mark.parametrize(
    "costs", [{"a": [1.0, 2.0]}, {"a": [1.0], "b": [2.0]}, {"a": [1, np.nan], "b": [1, 2]}]
)
def test_invalid_costs_raise(costs):
    with pytest.raises(ValueError, match="`costs` must have"):
        rank(costs)
