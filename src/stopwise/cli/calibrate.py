"""The command `stopwise calibrate`: set a stopping rule with a guaranteed error rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwise.cli.common import (
    AsJson,
    Channels,
    Data,
    Drop,
    Layout,
    app,
    as_number,
    class_indices,
    console,
    named_numbers,
    plain,
    read_labeled,
)

if TYPE_CHECKING:
    from stopwise.estimator import EarlyClassifier


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    error_rate: Annotated[
        list[str] | None,
        typer.Option(
            help="Maximum share of wrong decisions on new series: 0.05, or CLASS=0.05 (can be repeated)."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that the guarantee holds.")] = 0.95,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="The guarantee holds for each class separately.")
    ] = False,
    accuracy_gap: Annotated[
        float | None,
        typer.Option(
            help="Instead of --error-rate: maximum share of series that are decided wrongly but would have "
            "been decided correctly at their end."
        ),
    ] = None,
    conditional: Annotated[
        bool,
        typer.Option(
            "--conditional",
            help="With --accuracy-gap: for every step t, the guarantee holds among the series decided by t.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the calibrated model (default: replace MODEL)."),
    ] = None,
    channels: Channels = None,
    drop: Drop = None,
    layout: Layout = "steps-first",
    as_json: AsJson = False,
) -> None:
    """Set a stopping rule with a guaranteed error rate, from labeled series not used in training."""
    series = read_labeled(data, channels, drop, layout=layout)
    from stopwise.estimator import load

    clf = load(model)
    clf.calibrate(
        series.series,
        clf.classes_[class_indices(clf, series)],
        error_rate=_rates(clf, error_rate),
        confidence=confidence,
        per_class=per_class,
        accuracy_gap=accuracy_gap,
        conditional=conditional,
    )
    clf.save(out or model)
    words = str(clf.rule_.guarantee)  # type: ignore[attr-defined]
    if as_json:
        summary = {"model": str(out or model), "rule": clf.rule_.to_dict(), "words": words}
        print(json.dumps(plain(summary), indent=2, allow_nan=False))
        return
    console.print(words, highlight=False)
    console.print(f"Model: {out or model}\nNext: stopwise evaluate {out or model} TEST_DATA", soft_wrap=True)


def _rates(clf: EarlyClassifier, given: list[str] | None) -> Any:
    """Return one rate, or a dict {label: rate} from strings CLASS=RATE."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return as_number("--error-rate", given[0])
    return named_numbers("--error-rate", given, clf.classes_)
