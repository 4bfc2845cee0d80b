"""The command `stopwise calibrate`: set a stopping rule with a guaranteed error rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from stopwise.cli.common import (
    AsJson,
    Channels,
    Copies,
    Data,
    Drop,
    Force,
    Layout,
    app,
    check_folder_is_free,
    class_indices,
    console,
    one_or_named,
    plain,
    read_labeled,
)


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    error_rate: Annotated[
        list[str] | None,
        typer.Option(
            help="Maximum share of wrong decisions on new series: 0.05, or CLASS=0.05 for each class, "
            "repeated or separated by commas."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that the guarantee holds.")] = 0.95,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="The guarantee holds for each class separately.")
    ] = False,
    accuracy_gap: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of --error-rate: maximum share of series that are decided wrongly but would have "
            "been decided correctly at their end; one number or CLASS=0.05."
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
    copies: Copies = "once",
    channels: Channels = None,
    drop: Drop = None,
    layout: Layout = "steps-first",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Set a stopping rule with a guaranteed error rate, from labeled series not used in training."""
    check_folder_is_free(out or model, force or out in (None, model))
    series = read_labeled(data, channels, drop, layout=layout)
    from stopwise.loading import load

    clf = load(model)
    clf.calibrate(
        series.series,
        clf.classes_[class_indices(clf, series)],
        error_rate=one_or_named("--error-rate", error_rate, clf.classes_),
        confidence=confidence,
        per_class=per_class,
        accuracy_gap=one_or_named("--accuracy-gap", accuracy_gap, clf.classes_),
        conditional=conditional,
        copies=copies,
    )
    clf.save(out or model, held_out=clf.has_held_out_scores)
    words = str(clf.rule_.guarantee)  # type: ignore[attr-defined]
    if as_json:
        summary = {"model": str(out or model), "rule": clf.rule_.to_dict(), "words": words}
        print(json.dumps(plain(summary), indent=2, allow_nan=False))
        return
    console.print(words, highlight=False)
    console.print(f"Model: {out or model}\nNext: stopwise evaluate {out or model} TEST_DATA", soft_wrap=True)
