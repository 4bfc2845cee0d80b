"""What a fresh notebook shows, in a real kernel and without magic commands. Needs the extra `docs`."""

import os

import pytest

SETUP = """
import stopwise as sw
X, y, scores = sw.datasets.gaussian(n=60, offset=1.0, channels=2, length=8, seed=0)
clf = sw.EarlyClassifier(sw.models.Accumulator(order=0), progress=False).fit(X, y)
"""
IMAGE, HTML = "image/png", "text/html"
# the last line of a cell → the pictures and tables that it shows
CELLS = {
    "sw.plots.llr_trajectories({'a': scores}, y=y)": [IMAGE],
    "sw.plots.llr_errors_by_condition({'a': {'b': {'c': {'m': [1, 2]}}}})": [IMAGE],
    "sw.plots.decision(clf, X[0])": [IMAGE],
    "sw.plots.decision_video(clf, X[0])": [HTML],
    "clf": [HTML],
    "clf.decide(X)": [HTML],
    "sw.metrics.sat_curve(scores, y)": [HTML],
    "sw.plots.loss_slope({'a': 1.0});": [],
    "import matplotlib.pyplot as plt; ax = plt.subplots()[1]; sw.plots.loss_slope({'a': 1.0}, ax=ax);": [
        IMAGE
    ],
    "sw.plots.sat_curves({'a': sw.metrics.sat_curve(scores, y)})": [IMAGE],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_figures_and_tables_are_shown_once(monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *CELLS)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env=os.environ)
    for (source, expected), cell in zip(CELLS.items(), notebook.cells[1:]):
        shown = [kind for output in cell.outputs for kind in output.get("data", {}) if kind in (IMAGE, HTML)]
        assert shown == expected, source
        assert not [output for output in cell.outputs if output.output_type in ("stream", "error")], source
