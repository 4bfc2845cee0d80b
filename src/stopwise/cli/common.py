"""What the commands share: the application, arguments, reading data, failing politely."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console

if TYPE_CHECKING:  # torch takes seconds to import: each command fetches what it needs
    from stopwise.datasets import LabelledSeries
    from stopwise.estimator import EarlyClassifier

app = typer.Typer(
    help="Decide early, decide right: early classification of time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()

Data = Annotated[
    Path,
    typer.Argument(
        help="Series: .npz with X, y; _X.npy beside _y.npy; or .csv with series, time, label, features…"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def read_labelled(path: Path) -> LabelledSeries:
    """Read series that must have labels."""
    from stopwise.datasets import read

    series = read(path)
    if series.y is None:
        raise ValueError(f"{path} has no labels: add `y` (or a label column).")
    return series


def class_indices(clf: EarlyClassifier, series: LabelledSeries) -> np.ndarray:
    """Return the class index (n,) of each label."""
    y = np.asarray(series.y)
    unknown = np.setdiff1d(y.astype(str), clf.classes_.astype(str))
    if len(unknown):
        raise ValueError(
            f"the data has labels the model does not know: {', '.join(unknown[:5])}. It knows "
            f"{', '.join(clf.classes_.astype(str)[:10])}."
        )
    names = {str(name): k for k, name in enumerate(clf.classes_)}
    return np.array([names[str(label)] for label in y], dtype=np.int64)


def plain(value: Any) -> Any:
    """Return plain JSON values; a class that is not there has no error: null."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def fail(message: str, code: int) -> NoReturn:
    """Say what went wrong in one line and end with an exit code."""
    print(f"stopwise: {message}", file=sys.stderr)
    sys.exit(code)
