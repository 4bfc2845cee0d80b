"""Compare bodies of the accumulator on a prepared real dataset, by the LSEL of held-out and test series.

Usage: python tools/compare_bodies.py uci_hapt --most 2000
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np

import stopwise as sw
from stopwise.experiments.real import Part, plan, ready
from stopwise.metrics import ausat, sat_curve
from stopwise.models.networks.training.trials import series_lsel

BODIES: dict[str, dict[str, Any]] = {
    "window, order 0": {"order": 0},
    "window, order 2": {"order": 2},
    "LSTM": {"order": None, "body": "lstm"},
    "filter, 8 states": {"order": None, "body": "filter"},
    "filter, 16 states": {"order": None, "body": "filter", "states": 16},
}


def lsel(scores: np.ndarray, part: Part) -> float:
    """Return the LSEL, averaged by class."""
    losses = series_lsel(scores, part.y, part.lengths)
    return float(np.mean([losses[part.y == k].mean() for k in np.unique(part.y)]))


def main() -> None:
    """Fit each body and print one line for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--most", type=int, help="largest number of series in each part")
    parser.add_argument("--rate", type=float, default=3e-3, help="learning rate")
    given = parser.parse_args()
    how = plan(given.dataset)
    data = ready(given.dataset, given.most, how.stride, how.prepare)
    missing = "mask" if any(np.isnan(x).any() for x in data.train.X) else "error"
    print("body | validation LSEL | test LSEL | test AUSAT | seconds of CPU")
    for name, body in BODIES.items():
        start = process_time()
        training = sw.models.Training(
            max_epochs=how.epochs, batch_size=how.batch_size, learning_rate=given.rate
        )
        clf = sw.EarlyClassifier(
            sw.models.Accumulator(**body, training=training),
            standardize=how.standardize,
            missing=missing,
            progress=False,
        ).fit(data.train.X, data.train.y, validation_data=(data.validation.X, data.validation.y))
        seconds = process_time() - start
        held, test = (clf.scores(part.X) for part in (data.validation, data.test))
        area = ausat(sat_curve(test, data.test.y, data.test.lengths))
        kept = clf.model_.report_.get("filter", {}).get("kept", "")
        losses = f"{lsel(held, data.validation):.3f} | {lsel(test, data.test):.3f}"
        print(f"{name} {kept} | {losses} | {area:.3f} | {seconds:.0f}", flush=True)


if __name__ == "__main__":
    main()
