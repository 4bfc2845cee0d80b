"""Early classification of time series: decide as soon as the evidence is sufficient.

Data flow: series → model inputs (`data`) → model (`models`) → scores → stopping rule (`rules`) → decision →
`metrics` and `plots`. `EarlyClassifier` combines these steps.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stopwise import datasets, features, metrics, models, plots, rules
    from stopwise.data.series import SeriesSet
    from stopwise.datasets.frames import from_frame
    from stopwise.decision import Decision, Decisions
    from stopwise.estimator import EarlyClassifier
    from stopwise.loading import load
    from stopwise.persistence.folder import ModelFolderError
    from stopwise.reporting import Report, report
    from stopwise.rules import SPRT, FiniteHorizon, FixedTime, MaxProbability, Tapering
    from stopwise.streaming.stream import Stream
    from stopwise.streaming.streams import Streams

__version__: str

__all__ = [
    "SPRT",
    "Decision",
    "Decisions",
    "EarlyClassifier",
    "FiniteHorizon",
    "FixedTime",
    "MaxProbability",
    "ModelFolderError",
    "Report",
    "SeriesSet",
    "Stream",
    "Streams",
    "Tapering",
    "datasets",
    "features",
    "from_frame",
    "load",
    "metrics",
    "models",
    "plots",
    "report",
    "rules",
]

# Names are imported on first use: `import stopwise` and `stopwise --help` stay fast because torch is not
# imported.
_MODULES = {
    "Decision": "decision",
    "Decisions": "decision",
    "EarlyClassifier": "estimator",
    "FiniteHorizon": "rules",
    "FixedTime": "rules",
    "MaxProbability": "rules",
    "ModelFolderError": "persistence.folder",
    "Report": "reporting",
    "SPRT": "rules",
    "SeriesSet": "data.series",
    "Stream": "streaming.stream",
    "Streams": "streaming.streams",
    "Tapering": "rules",
    "from_frame": "datasets.frames",
    "load": "loading",
    "report": "reporting",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"stopwise.{_MODULES[name]}"), name)
    if name in __all__:
        return import_module(f"stopwise.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("stopwise")
    raise AttributeError(f"module 'stopwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
