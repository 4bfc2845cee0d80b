import xml.etree.ElementTree as ElementTree

import matplotlib.image
import numpy as np
import pytest

import stopwise as sw
from stopwise import plots
from stopwise.metrics import sat_curve

TITLE = {"title": "A title"}
RATES = {"textbook": [0.1, 0.2], "calibrated": [[0.04, 0.08], [0.05, 0.09]]}
FIGURES = {
    "trajectories": lambda e, t, y: plots.llr_trajectories(e, t, y, thresholds=3.0, **TITLE),
    "scatter": lambda e, t, _: plots.llr_scatter(e, t, **TITLE),
    "sat curves": lambda e, t, y: plots.sat_curves(
        {"half": sat_curve(e["half"], y)}, sat_curve(t, y), **TITLE
    ),
    "sat bands": lambda *_: plots.sat_bands([1, 2], {"a": np.array([[0.4, 0.2], [0.5, 0.1]])}, **TITLE),
    "bars": lambda *_: plots.llr_error_bars({"a": 3.0, "b": [1.0, 2.0]}, limit=0.5, trivial=4.0, **TITLE),
    "conditions": lambda *_: plots.llr_errors_by_condition({"a": {"b": {"c": {"m": [1, 2]}}}}, **TITLE),
    "guarantees": lambda *_: plots.guarantees([0.05, 0.1], {"one": RATES, "two": RATES}, **TITLE),
    "loss slope": lambda *_: plots.loss_slope({"a": 4.0}, **TITLE),
    "boundaries": lambda *_: plots.stopping_boundaries({"a": sw.SPRT(2.0)}, steps=5, **TITLE),
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_saved_figures_are_valid_and_reproducible(tmp_path, draw, estimates, truth, y):
    png, svg = plots.save(draw(estimates, truth, y), tmp_path / "figure_a=2.0")
    assert (png.name, svg.name) == ("figure_a=2.0.png", "figure_a=2.0.svg")
    pixels = matplotlib.image.imread(png)
    assert min(pixels.shape[:2]) > 200
    ink = (pixels[..., :3].min(axis=2) < 0.9).mean()
    assert 0.01 < ink < 0.6
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "A title" in svg.read_text()
    again = plots.save(draw(estimates, truth, y), tmp_path / "again.png")
    assert [path.name for path in again] == ["again.png", "again.svg"]
    assert again[1].read_bytes() == svg.read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_saving_into_a_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        plots.save(plots.llr_error_bars({"a": 1.0}), tmp_path / "missing" / "a")


def test_notebooks_show_a_figure_as_a_picture():
    figure = plots.llr_error_bars({"lstm": 88.0})
    assert figure._repr_png_().startswith(b"\x89PNG")
