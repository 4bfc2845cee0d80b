"""Hyperparameter search with Optuna: minimizes the area under the validation speed-accuracy curve.

`tune` runs the search, `space_for` returns the default search space of a model. Requires the extra `tune`
(``pip install 'stopwise[tune]'``).
"""

from stopwise.extras import extra

with extra("tune", "tuning"):
    import optuna  # noqa: F401 - before the modules that use it, so that the error names the extra

from stopwise.tuning.record import Trial, TuningResult
from stopwise.tuning.search import tune
from stopwise.tuning.spaces import space_for

__all__ = ["Trial", "TuningResult", "space_for", "tune"]
