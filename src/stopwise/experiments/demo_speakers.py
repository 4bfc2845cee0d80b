"""The first part of the demonstration: a real dataset, from training to a report.

Japanese Vowels ships with the package: who of nine speakers says two vowels? The official test part is cut in
two: one half calibrates the guarantee, the other half judges the decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stopwise import rules
from stopwise.datasets import japanese_vowels
from stopwise.estimator import EarlyClassifier
from stopwise.reporting import report

ERROR_RATE = 0.1
AT_THE_END = "the whole series"


@dataclass(frozen=True)
class Decided:
    """How the test series are decided by one rule."""

    rule: str
    error: float
    mean_time: float

    def figures(self) -> dict[str, Any]:
        """Return the values as JSON values."""
        return {"rule": self.rule, "error": self.error, "mean_time": self.mean_time}


@dataclass(frozen=True)
class Speakers:
    """Outcome of the first part of the demonstration."""

    mean_length: float  # of the test series, in samples
    tried: list[dict[str, Any]]  # models that the default compared
    decided: list[Decided]
    guarantee: str
    report: Path


def run(folder: Path, *, seed: int = 0, progress: bool | str = True) -> Speakers:
    """Train the default classifier, fit and calibrate rules, and write a report.

    Parameters
    ----------
    folder
        Folder for the report.
    seed
        Random seed.
    progress
        As for `EarlyClassifier`.
    """
    train, test = japanese_vowels()
    series, labels = list(test.X), np.asarray(test.y)  # type: ignore[arg-type]
    mixed = np.random.default_rng(seed).permutation(len(series))
    (X_cal, y_cal), (X, y) = (([series[i] for i in part], labels[part]) for part in np.array_split(mixed, 2))
    clf = EarlyClassifier(progress=progress, random_state=seed).fit(train.X, train.y)
    longest = int(train.lengths.max())

    def decided(name: str) -> Decided:
        decisions = clf.decide(X)
        return Decided(name, float((decisions.labels != y).mean()), float(decisions.times.mean()))

    clf.rule_ = rules.FixedTime(longest)
    found = [decided(AT_THE_END)]
    clf.fit_rule(cost=1 / longest)
    found.append(decided(f"least cost, if {longest} samples cost one error"))
    guarantee = clf.calibrate(X_cal, y_cal, error_rate=ERROR_RATE).rule_.guarantee  # type: ignore[attr-defined]
    found.append(decided(f"guaranteed: at most {100 * ERROR_RATE:g} % wrong"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    report(clf, X, y, cost=1 / longest, title="Who is speaking?").save(path)
    tried = clf.model_.report_["tried"]
    lengths = float(np.mean([len(x) for x in X]))
    return Speakers(lengths, tried, found, str(guarantee), path)
