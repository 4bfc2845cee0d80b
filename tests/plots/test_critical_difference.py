import numpy as np
import pytest

from stopwise import plots


def test_methods_stand_at_their_ranks_and_cliques_are_bars(texts):
    ranks = {"worst": 3.5, "best": 1.25, "second": 2.25, "third": 3.0}
    figure = plots.critical_difference(ranks, [("second", "third")], highlight="best", title="ranks")
    panel = figure.axes[0]
    stems = [line for line in panel.lines if len(line.get_xdata()) == 3]
    assert sorted(line.get_xdata()[0] for line in stems) == sorted(ranks.values())
    [bar] = [line for line in panel.lines if line.get_linewidth() == 4]
    np.testing.assert_allclose(bar.get_xdata(), [2.21, 3.04])
    found = texts(figure)
    assert {"best  1.25", "worst  3.50", "ranks", "1", "4"} <= set(found)
    places = {text.get_text(): text.get_position() for text in panel.texts}
    assert places["best  1.25"][0] < 1 < 4 < places["worst  3.50"][0]


def test_unknown_methods_raise():
    with pytest.raises(ValueError, match=r"without \['c'\]"):
        plots.critical_difference({"a": 1.0, "b": 2.0}, [("a", "c")])
