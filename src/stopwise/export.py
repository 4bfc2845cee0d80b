"""Export of one streaming step of a classifier as an ONNX graph."""

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
from stopwise.extras import extra

__all__ = ["export_onnx"]

NEXT = "next_"  # prefix of the output names
TRIED_STEPS = 20
TOLERANCE = 1e-5


def export_onnx(clf: EarlyClassifier, path: str | Path) -> float:
    """Export one step of a fitted classifier as an ONNX graph, and test it with onnxruntime.

    The graph takes one sample and the state of each of S streams, and returns the next state:

    - Input ``x`` (S, D): one sample per stream, in double precision.
    - One input (S, ...) per state array. Start with zeros, except for ``held`` of a classifier with
      missing="mask": start with the value ``fill`` of the metadata.
    - One output per state array, with the prefix ``next_``. The scores are ``next_scores`` (S, K).
    - Metadata ``stopwise``: a JSON object with ``classes``, ``prior``, ``rule``, ``missing`` and ``fill``.

    Parameters
    ----------
    clf
        The fitted classifier.
    path
        The file to write, with the suffix ``.onnx``.

    Returns
    -------
    difference
        The largest relative difference between the scores of torch and onnxruntime over some random steps.

    Raises
    ------
    ImportError
        If the packages of the extra ``stopwise[export]`` are not installed.
    RuntimeError
        If the difference is too large. The file is not written.

    Examples
    --------
    >>> import stopwise as sw
    >>> export_onnx(sw.load("model"), "model.onnx")  # doctest: +SKIP
    1.2e-07
    """
    with extra("export", "the export to ONNX"):
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - used by torch.onnx.export
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
                "the scores of onnxruntime differ from those of torch: relative difference "
                f"{difference:.2g}, allowed {TOLERANCE:g}. {path} was not written."
            )
    return difference


class _Graph(nn.Module):
    """One step with each state array as a separate argument, as `torch.onnx.export` requires."""

    def __init__(self, clf: EarlyClassifier) -> None:
        super().__init__()
        self.step: Any = clf.model_.step(torch)
        self.inputs: Any = clf.inputs_.step(torch)
        self.names = list(self.start(1))

    @property
    def channels(self) -> int:
        """D, the number of channels."""
        return self.inputs.channels

    def start(self, streams: int) -> dict[str, Tensor]:
        """Return the state of streams before their first sample."""
        return self.step.start(streams) | self.inputs.start(streams)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return the next state, in the order of `names`."""
        given = dict(zip(self.names, state))
        seen, kept = self.inputs(x, given)
        after = self.step(given, seen) | kept
        return tuple(after[name] for name in self.names)


def _exported(graph: _Graph) -> Any:
    """Return the ONNX model of a graph, with a variable number of streams."""
    streams = torch.export.Dim("streams", min=1)
    state = graph.start(2)
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # hides warnings about optional packages
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
    """Return the largest difference between torch and onnxruntime, relative to the largest score."""
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
