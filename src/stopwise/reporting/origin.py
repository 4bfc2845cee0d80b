"""Where the numbers come from: training, what was tried, the data, the model and the versions."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from stopwise.data.series import SeriesSet
from stopwise.estimator import EarlyClassifier
from stopwise.persistence.description import scoring_digest
from stopwise.reporting.wording import percent

PACKAGES = ("stopwise", "numpy", "scipy", "scikit-learn", "torch")
BATCH_NUMBERS = 2**22


def describe_training(clf: EarlyClassifier) -> dict[str, Any]:
    """Return what fitting reported: histories of training, what was tried, and further values."""
    name = clf.model_.name or type(clf.model_).__name__
    reports = {name: clf.model_.report_ or {}}
    tried = []
    if isinstance(clf.model_.report_.get("tried"), list):
        tried.append(_tried_models(clf.model_.report_))
        weights = [one for one in clf.model_.report_["tried"] if one.get("weight")]
        reports = {
            str(one["model"]): kept for one, kept in zip(weights, clf.model_.report_.get("kept") or [])
        }
    histories, facts = [], []
    for model, report in reports.items():
        tried += _searches(model, report)
        if report.get("history"):
            histories.append({"model": model, "records": [_numbers(one) for one in report["history"]]})
        facts += [[f"{model}: {key}", value] for key, value in _facts(report)]
    return {"histories": histories, "tried": tried, "facts": facts}


def describe_origin(clf: EarlyClassifier, series: SeriesSet, y: np.ndarray) -> list[list[str]]:
    """Return rows of name and value: model, data, digests and versions."""
    lengths = series.lengths
    span = f"{lengths.min()}" if lengths.min() == lengths.max() else f"{lengths.min()} to {lengths.max()}"
    counts = np.bincount(y, minlength=len(clf.classes_))
    prior = ", ".join(f"{name} {percent(share)}" for name, share in zip(clf.classes_.tolist(), clf.prior_))
    return [
        ["Model", repr(clf.model_)],
        ["Rule", repr(clf.rule_)],
        ["Class frequencies assumed (prior)", prior],
        ["Series in this report", f"{len(series)} of {span} steps, {series.channels} channels"],
        [
            "Series by class",
            ", ".join(f"{name} {count}" for name, count in zip(clf.classes_.tolist(), counts)),
        ],
        ["Data digest (SHA-256)", data_digest(series, y)],
        ["Model digest (SHA-256)", _model_digest(clf)],
        [
            "Versions",
            ", ".join([f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in PACKAGES)]),
        ],
    ]


def data_digest(series: SeriesSet, y: np.ndarray) -> str:
    """Return the SHA-256 hash of the values, lengths and class indices of the series.

    Examples
    --------
    >>> X, y = np.zeros((2, 3)), np.array([0, 1])
    >>> data_digest(SeriesSet(X), y) == data_digest(SeriesSet(list(X)), y)
    True
    >>> data_digest(SeriesSet(X), y) == data_digest(SeriesSet(X), y[::-1])
    False
    """
    digest = hashlib.sha256(f"{len(series)} {series.channels} {np.dtype(series.dtype).name}\n".encode())
    digest.update(np.ascontiguousarray(series.lengths, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    size = series.rows_of(BATCH_NUMBERS)
    for start in range(0, len(series), size):
        x, lengths = series.batch(np.arange(start, min(start + size, len(series))))
        for own, length in zip(x, lengths):
            digest.update(np.ascontiguousarray(own[:length]).tobytes())
    return digest.hexdigest()


def _model_digest(clf: EarlyClassifier) -> str:
    """Return the hash of what determines the scores; the model folder has the same one."""
    try:
        clf.model_.tensors()
    except TypeError:
        return "none, because this model cannot be saved"
    return scoring_digest(clf)


def _tried_models(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of the models that "auto" compared."""
    rows = [[one["model"], one["loss"], one["seconds"], one["outcome"]] for one in report["tried"]]
    note = "Log loss on held-out series; lower is better."
    if report.get("combined_loss") is not None:
        note += f" The best combination has a loss of {report['combined_loss']:.4g}."
    columns = ["model", "held-out loss", "seconds", "outcome"]
    return {"title": "Models compared", "columns": columns, "rows": rows, "note": note}


def _searches(model: str, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of the searches of a network: its order and its body."""
    found = []
    for name in ("order_search", "body_search"):
        rows = report.get(name)
        if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
            columns = list(rows[0])
            title = f"{model}: search for the {name.partition('_')[0]}"
            cells = [[_cell(row.get(column)) for column in columns] for row in rows]
            labels = [column.replace("_", " ") for column in columns]
            found.append({"title": title, "columns": labels, "rows": cells, "note": ""})
    return found


def _facts(report: Mapping[str, Any]) -> list[list[str]]:
    """Return the other values of a report as text, nested ones by their path."""
    skipped = ("history", "order_search", "body_search", "tried", "kept")
    found = []
    for key, value in report.items():
        if key in skipped or value is None:
            continue
        if isinstance(value, Mapping):
            found += [[f"{key}, {inner}", text] for inner, text in _facts(value)]
        elif isinstance(value, list):
            found.append([key, ", ".join(str(_cell(one)) for one in value)])
        else:
            found.append([key, str(_cell(value))])
    return [[key.replace("_", " "), text] for key, text in found]


def _cell(value: Any) -> Any:
    """Return a value for a table: numbers with four digits, None as text."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if np.isfinite(value) else str(value)
    return value if isinstance(value, int | str) else "none" if value is None else str(value)


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a record."""
    return {k: v for k, v in record.items() if isinstance(v, int | float) and np.isfinite(v)}
