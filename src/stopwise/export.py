"""A classifier's step as an ONNX graph: state and sample in, state out, for any runtime."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stopwise.atomic import atomic_write
from stopwise.estimator import EarlyClassifier

NEXT = "next_"  # before the names of what comes out
TRIED_STEPS = 20
TOLERANCE = 1e-5


def export_onnx(clf: EarlyClassifier, path: str | Path) -> float:
    """Write one step of a fitted classifier as an ONNX graph, and try it in onnxruntime.

    Inputs are ``x`` (S, D), a sample of each of S streams in double precision, and the state, each (S, ...):
    zeros at the start, but for ``held``, of a model with missing="mask", which starts as `fill` in the
    metadata. Outputs are the next state, named ``next_…``; its scores are ``next_scores`` (S, K). The
    metadata ``stopwise`` is JSON: classes, prior, the stopping rule, missing and fill.

    Parameters
    ----------
    clf
        The classifier.
    path
        The file, .onnx.

    Returns
    -------
    difference
        The largest relative difference between torch and onnxruntime over some random steps.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - what torch writes ONNX with
    except ImportError as error:
        raise ImportError("export needs ONNX: pip install 'stopwise[export]'.") from error
    path = Path(path)
    graph = _Graph(clf)
    about = {
        "classes": clf.classes_.tolist(),
        "prior": clf.prior_.tolist(),
        "rule": clf.rule_.to_dict(),
        "missing": clf.missing,
        "fill": clf.inputs_.fill.tolist(),
    }
    with atomic_write(path) as [temporary]:
        model = _exported(graph)
        onnx.helper.set_model_props(model, {"stopwise": json.dumps(about)})
        onnx.checker.check_model(model)
        onnx.save(model, str(temporary))
        difference = _difference(graph, onnxruntime.InferenceSession(str(temporary)))
        if not difference <= TOLERANCE:
            raise RuntimeError(
                f"onnxruntime gives other scores than torch (relative difference {difference:.2g}); "
                f"{path} was not written."
            )
    return difference


class _Graph(nn.Module):
    """The step with the state as separate arguments, as a graph must have it."""

    def __init__(self, clf: EarlyClassifier) -> None:
        super().__init__()
        self.step: Any = clf.model_.step(torch)
        self.inputs: Any = clf.inputs_.step(torch)
        self.names = list(self.start(1))

    @property
    def channels(self) -> int:
        """D, the numbers in a sample."""
        return self.inputs.channels

    def start(self, streams: int) -> dict[str, Tensor]:
        """Return the state of streams that have seen nothing."""
        return self.step.start(streams) | self.inputs.start(streams)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return the next state, in the order of `names`."""
        given = dict(zip(self.names, state))
        seen, kept = self.inputs(x, given)
        after = self.step(given, seen) | kept
        return tuple(after[name] for name in self.names)


def _exported(graph: _Graph) -> Any:
    """Return the ONNX model of a graph, for any number of streams."""
    streams = torch.export.Dim("streams", min=1)
    state = graph.start(2)
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it reports packages that are not needed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                graph,
                (torch.zeros(2, graph.channels, dtype=torch.float64), *state.values()),
                dynamo=True,
                verbose=False,
                input_names=["x", *state],
                output_names=[NEXT + name for name in state],
                dynamic_shapes={"x": {0: streams}, "state": tuple({0: streams} for _ in state)},
            )
    finally:
        log.setLevel(level)
    return program.model_proto  # type: ignore[union-attr]


def _difference(graph: _Graph, session: Any) -> float:
    """Return the largest difference of scores between torch and a session, relative to the largest."""
    rng = np.random.default_rng(0)
    ours = graph.start(3)
    theirs = {name: value.numpy() for name, value in ours.items()}
    largest = worst = 0.0
    for _ in range(TRIED_STEPS):
        x = rng.normal(size=(3, graph.channels))
        with torch.no_grad():
            ours = dict(zip(graph.names, graph(torch.from_numpy(x), *ours.values())))
        theirs = dict(zip(graph.names, session.run(None, {"x": x} | theirs)))
        expected = ours["scores"].numpy()
        largest = max(largest, float(np.abs(expected).max()))
        worst = max(worst, float(np.abs(theirs["scores"] - expected).max()))
    return worst / max(largest, 1e-12)
