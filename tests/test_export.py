"""Scores of exported ONNX graphs equal those of the classifier."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import stopwise as sw
from helpers import early

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'stopwise[export]'")
pytest.importorskip("onnxscript", reason="pip install 'stopwise[export]'")

from stopwise.export import export_onnx  # noqa: E402 - after the check for the packages

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "onnx_stream.py"
MODELS = [
    {"model": "accumulator", "order": 2},
    {"model": "accumulator", "order": 0, "missing": "mask", "standardize": "together"},
    {"model": "accumulator", "order": None},
    {"model": "accumulator", "order": None, "body": "filter", "missing": "mask"},
    {"model": "b2bsqrt", "order": 2},
    {"model": "b2bsqrt", "order": 2, "activation": "b2blog"},
    {"model": "tanh", "order": None, "formula": "oblivion"},
    {"model": "tandemformer", "order": 2, "positions": "learned"},
    {"model": "tandemformer", "order": 1, "positions": "learned", "width": 5},
    {"model": "prefix"},
]


OFFSET = 1e6  # must not reduce the precision


def world(n, length, seed):
    X, y, _ = sw.datasets.gaussian(n, channels=3, length=length, seed=seed)
    return X.astype(np.float64) + OFFSET, y


def fitted(**settings):
    return early(max_epochs=1, rule=sw.SPRT(3.0), polish=False, **settings).fit(*world(40, 6, seed=0))


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_the_graph_gives_the_scores_of_complete_series(settings, tmp_path):
    clf = fitted(**settings)
    X = world(4, 9, seed=1)[0]
    if clf.missing == "mask":
        X[np.random.default_rng(0).random(X.shape) < 0.4] = np.nan
    assert export_onnx(clf, tmp_path / "m.onnx") < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    state = {
        name: np.zeros((4, *value.shape[1:]), value.dtype) for name, value in clf.stream()._state.items()
    }
    if clf.missing == "mask":
        state["held"][:] = clf.inputs_.fill
    names = [output.name.removeprefix("next_") for output in session.get_outputs()]
    expected = clf.scores(X)
    for t in range(X.shape[1]):
        state = dict(zip(names, session.run(None, {"x": X[:, t]} | state)))
        np.testing.assert_allclose(
            state["scores"], expected[:, t], rtol=1e-5, atol=1e-5 * np.abs(expected).max()
        )


@pytest.mark.docs
def test_the_example_script_decides_like_the_classifier(tmp_path):
    clf = fitted(order=1)
    clf.save(tmp_path / "model")
    command = [sys.executable, "-m", "stopwise", "export", tmp_path / "model", tmp_path / "m.onnx"]
    reported = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=True)
    assert "Wrote" in reported.stdout
    X = world(1, 9, seed=2)[0]
    np.savetxt(tmp_path / "x.csv", X[0], delimiter=",")
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "m.onnx"), str(tmp_path / "x.csv"), "3.0"]
    reported = subprocess.run(command, capture_output=True, text=True, check=True)
    decision = clf.decide(X)[0]
    assert reported.stdout.split() == [str(decision.label), str(decision.time)]


def test_export_to_a_missing_folder_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        export_onnx(fitted(order=0), tmp_path / "missing" / "m.onnx")


def test_exporting_a_model_without_a_step_raises(tmp_path):
    model = sw.models.Network(Linear, order=0, llre_ratio=1.0, polish=False)
    X, y, _ = sw.datasets.gaussian(40, channels=3, length=6, seed=0)
    clf = early(model, max_epochs=1).fit(X, y)
    with pytest.raises(TypeError, match="Network does not implement a streaming step, so it cannot"):
        export_onnx(clf, tmp_path / "m.onnx")


class Linear(sw.models.Integrator):
    """A linear network."""

    def __init__(self, channels, classes, order):
        super().__init__(channels, classes, order)
        self.head = torch.nn.Linear(channels, classes)

    def evidence(self, x, multiplets):
        return sw.models.Evidence(self.head(x).cumsum(1), None)
