import io
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

import stopwise as sw
from plots.given import Given
from stopwise import plots
from stopwise.metrics import sat_curve
from stopwise.plots import style

RUN = {"llr_error": [50, 20, 30], "slope": [0.5, 0.9, 1.3], "validation_loss": [0.1, 0.05, 0.04]}
PANELS = {"p": {"c": {"m": [1, 2]}}, "q": {"c": {"m": [1, 2]}}}
RATES = {"textbook": [0.1, 0.2], "calibrated": [[0.04, 0.08], [0.05, 0.09]]}
# function: a figure of it, and its number of panels
FIGURES = {
    "llr_trajectories": (lambda e, t, y, **o: plots.llr_trajectories(e, t, y, thresholds=3.0, **o), 3),
    "llr_scatter": (lambda e, t, _, **o: plots.llr_scatter(e, t, **o), 3),
    "sat_curves": (
        lambda e, t, y, **o: plots.sat_curves({"half": sat_curve(e["half"], y)}, sat_curve(t, y), **o),
        1,
    ),
    "sat_bands": (lambda *_, **o: plots.sat_bands([1, 2], {"a": np.array([[0.4, 0.2], [0.5, 0.1]])}, **o), 1),
    "decision": (lambda e, t, y, **o: plots.decision(Given(t[0], sw.SPRT(3.0)), t[0], **o), 2),
    "cost_scatter": (
        lambda *_, **o: plots.cost_scatter({"A": 0.1, "B": 0.2}, {"p": {"A": 0.2}, "q": {"B": 0.1}}, **o),
        2,
    ),
    "critical_difference": (lambda *_, **o: plots.critical_difference({"a": 1.2, "b": 1.8}, **o), 1),
    "llr_drift": (lambda *_, **o: plots.llr_drift({"p": {"c": [RUN]}, "q": {"c": [RUN]}}, steps=10, **o), 4),
    "llr_error_bars": (
        lambda *_, **o: plots.llr_error_bars({"a": 3.0, "b": [1.0, 2.0]}, limit=0.5, trivial=4.0, **o),
        1,
    ),
    "llr_errors_by_condition": (
        lambda *_, **o: plots.llr_errors_by_condition({"a": PANELS, "b": PANELS}, **o),
        4,
    ),
    "guarantees": (lambda *_, **o: plots.guarantees([0.05, 0.1], {"one": RATES, "two": RATES}, **o), 2),
    "loss_slope": (lambda *_, **o: plots.loss_slope({"a": 4.0}, **o), 1),
    "stopping_boundaries": (lambda *_, **o: plots.stopping_boundaries({"a": sw.SPRT(2.0)}, steps=5, **o), 1),
}
NOT_PLOTS = {"save", "stopping_thresholds", "DecisionVideo", "decision_video"}


def test_every_plot_is_in_the_tests():
    assert set(FIGURES) | NOT_PLOTS == set(plots.__all__)


@pytest.mark.parametrize(("draw", "count"), FIGURES.values(), ids=FIGURES)
def test_plots_draw_on_given_axes_and_change_nothing_else(draw, count, estimates, truth, y):
    figure = Figure(figsize=(16, 5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots(1, count, squeeze=False).ravel()
    other = right.subplots()
    before = len(other.get_children())
    returned = draw(estimates, truth, y, ax=axes[0] if count == 1 else axes)
    assert returned is figure
    assert len(figure.axes) == count + 1
    assert all(panel.has_data() for panel in axes)
    assert len(other.get_children()) == before
    assert not figure.legends
    assert not left.legends
    own = draw(estimates, truth, y)
    assert type(own) is style.NotebookFigure
    for drawn, expected in zip(axes, own.axes):
        assert drawn.get_xlabel() == expected.get_xlabel()
        assert len(drawn.lines) == len(expected.lines)
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize(("draw", "count"), FIGURES.values(), ids=FIGURES)
def test_wrong_axes_raise(draw, count, estimates, truth, y):
    axes = Figure().subplots(1, count + 1)
    with pytest.raises(ValueError, match=f"`ax` must be .*; got {count + 1} values"):
        draw(estimates, truth, y, ax=axes)
    with pytest.raises(ValueError, match=r"`ax` must be .*; got other objects"):
        draw(estimates, truth, y, ax=["panel"] * count)


def test_a_title_is_that_of_a_single_axes():
    figure = Figure()
    panel = figure.subplots()
    plots.loss_slope({"a": 4.0}, ax=panel, title="A title")
    assert panel.get_title() == "A title"
    assert plots.loss_slope({"a": 4.0}, title="A title").get_suptitle() == "A title"


def test_neighboring_lines_differ_in_color_and_dashes():
    styles = [style.line_style(i) for i in range(30)]
    assert len({(one["color"], one["ls"]) for one in styles}) == 30
    assert all(a["color"] != b["color"] and a["ls"] != b["ls"] for a, b in pairwise(styles))


def test_dollar_signs_in_names_are_not_mathematics(truth, y):
    names = np.array(["$a_$", "b$", r"\frac"])
    figure = plots.llr_trajectories({"a": truth}, y=names[y], classes=names)
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize("draw", [draw for draw, _ in FIGURES.values()], ids=FIGURES)
def test_saved_figures_are_valid_and_reproducible(tmp_path, draw, estimates, truth, y):
    png, svg = plots.save(draw(estimates, truth, y, title="A title"), tmp_path / "figure_a=2.0")
    assert (png.name, svg.name) == ("figure_a=2.0.png", "figure_a=2.0.svg")
    pixels = matplotlib.image.imread(png)
    assert min(pixels.shape[:2]) > 200
    ink = (pixels[..., :3].min(axis=2) < 0.9).mean()
    assert 0.01 < ink < 0.6
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "A title" in svg.read_text()
    again = plots.save(draw(estimates, truth, y, title="A title"), tmp_path / "again.png")
    assert [path.name for path in again] == ["again.png", "again.svg"]
    assert again[1].read_bytes() == svg.read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_saving_into_a_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        plots.save(plots.llr_error_bars({"a": 1.0}), tmp_path / "missing" / "a")


def test_notebooks_show_a_figure_as_a_picture():
    figure = plots.llr_error_bars({"lstm": 88.0})
    assert figure._repr_png_().startswith(b"\x89PNG")
