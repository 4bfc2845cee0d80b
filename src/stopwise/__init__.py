"""Decide early, decide right: early classification of time series.

The walk of the data, one room each: series → nets (windows of order N) → llr (scores) → rules → decision →
metrics and plots. `EarlyClassifier` is the face of it all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stopwise import datasets, features, metrics, plots, rules
    from stopwise.data.series import Series
    from stopwise.decision import Decision, Decisions
    from stopwise.estimator import PAPER, EarlyClassifier, load
    from stopwise.models.networks import modules as nets
    from stopwise.rules import SPRT, FiniteHorizon, FixedTime, MaxProbability, Tapering

__all__ = [
    "PAPER",
    "SPRT",
    "Decision",
    "Decisions",
    "EarlyClassifier",
    "FiniteHorizon",
    "FixedTime",
    "MaxProbability",
    "Series",
    "Tapering",
    "datasets",
    "features",
    "load",
    "metrics",
    "nets",
    "plots",
    "rules",
]

# Names are fetched on first use, so that `import stopwise` and `stopwise --help` do not wait for torch.
_HOMES = {
    "Decision": "decision",
    "Decisions": "decision",
    "EarlyClassifier": "estimator",
    "FiniteHorizon": "rules",
    "FixedTime": "rules",
    "MaxProbability": "rules",
    "PAPER": "estimator",
    "SPRT": "rules",
    "Series": "data.series",
    "Tapering": "rules",
    "load": "estimator",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"stopwise.{_HOMES[name]}"), name)
    if name == "nets":
        return import_module("stopwise.models.networks.modules")
    if name in __all__:
        return import_module(f"stopwise.{name}")
    raise AttributeError(f"module 'stopwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
