import numpy as np
import pytest

from stopwise import plots

ERRORS = {
    "0": {"lstm": [80.0, 82.0], "ours": [1.9, 2.1]},
    "0.01": {"lstm": [95.0], "ours": []},
}
ROWS = {
    "a = 1": {"weight decay": ERRORS, "dropout": ERRORS},
    "a = 2": {"weight decay": ERRORS, "dropout": {}},
}


def test_each_row_has_a_panel_per_group_of_conditions():
    figure = plots.llr_errors_by_condition(ROWS)
    assert [panel.get_title() for panel in figure.axes] == ["weight decay", "dropout", "", ""]
    assert [panel.get_ylabel().split("\n")[0] for panel in figure.axes] == ["a = 1", "", "a = 2", ""]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["0", "0.01"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["lstm", "ours"]


def test_means_and_standard_errors_are_drawn_and_missing_models_omitted():
    panel = plots.llr_errors_by_condition(ROWS).axes[0]
    means = [float(container.lines[0].get_ydata()[0]) for container in panel.containers]
    assert means == pytest.approx([81.0, 2.0, 95.0])
    bars = [container.lines[2][0].get_segments()[0][:, 1] for container in panel.containers]
    np.testing.assert_allclose(bars, [[80, 82], [1.9, 2.1], [95, 95]])


def test_limits_are_lines_and_starred_conditions_are_shaded():
    figure = plots.llr_errors_by_condition(
        ROWS, starred={"a = 1": {"dropout": ["0"]}}, limits={"a = 1": 1.6}, trivial={"a = 2": 102.0}
    )
    stars = [[text.get_text() for text in panel.texts] for panel in figure.axes]
    assert stars == [[], ["*"], [], []]
    assert [len(panel.patches) for panel in figure.axes] == [0, 1, 0, 0]
    levels = [{float(line.get_ydata()[0]) for line in panel.lines} & {1.6, 102.0} for panel in figure.axes]
    assert levels == [{1.6}, {1.6}, {102.0}, {102.0}]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["lstm", "ours", "statistical limit", "predicting 0"]


def test_stars_do_not_cover_errors():
    figure = plots.llr_errors_by_condition(ROWS, starred={"a = 1": {"dropout": ["0", "0.01"]}})
    figure.draw_without_rendering()
    panel = figure.axes[1]
    lowest = min(star.get_window_extent().y0 for star in panel.texts)
    highest = panel.transData.transform((0, 95.0))[1]
    assert lowest > highest
