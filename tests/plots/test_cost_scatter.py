import numpy as np
import pytest

from stopwise import plots


def test_points_are_split_by_the_diagonal_and_the_worst_are_labeled(texts):
    costs = {"A": 0.1, "B": 0.5, "C": 0.3, "only ours": 0.2, "D": 0.2, "E": 0.1}
    peer = {"A": 0.2, "B": 0.4, "C": 0.3, "only theirs": 0.9, "D": 0.3, "E": 0.9}
    figure = plots.cost_scatter(costs, {"peer": peer}, title="costs")
    panel = figure.axes[0]
    better, other = (group.get_offsets() for group in panel.collections[1:])
    np.testing.assert_allclose(sorted(better.tolist()), [[0.2, 0.1], [0.3, 0.2], [0.9, 0.1]])
    np.testing.assert_allclose(sorted(other.tolist()), [[0.3, 0.3], [0.4, 0.5]])
    found = texts(panel)
    assert {"B", "C", "D"} <= set(found)
    assert not {"A", "E", "only ours"} & set(found)
    assert panel.get_title() == "lower on 3 of 5"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("cost of peer", "cost of default")


def test_methods_without_shared_datasets_have_no_panel():
    figure = plots.cost_scatter({"A": 0.1}, {"peer": {"A": 0.2}, "other": {"B": 0.2}})
    assert len(figure.axes) == 1
    with pytest.raises(ValueError, match="`others` must have at least one method"):
        plots.cost_scatter({"A": 0.1}, {"other": {"B": 0.2}})
