"""The command `stopwise fit-rule`: set the best stopping rule for a goal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from stopwise.cli.common import (
    AsJson,
    Channels,
    Data,
    Drop,
    Layout,
    app,
    class_indices,
    console,
    plain,
    read_labeled,
)


@app.command("fit-rule")
def fit_rule(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    cost: Annotated[
        float | None,
        typer.Option(help="Minimize the expected cost: this cost per sample, and 1 per wrong decision."),
    ] = None,
    mean_time: Annotated[
        float | None,
        typer.Option(help="Instead of --cost: maximum mean number of samples before a decision."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Instead of --cost: harmonic_mean, that of accuracy and 1 − earliness."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the model (default: replace MODEL).")
    ] = None,
    channels: Channels = None,
    drop: Drop = None,
    layout: Layout = "steps-first",
    as_json: AsJson = False,
) -> None:
    """Set the best stopping rule for a goal, from labeled series not used in training.

    The rule has no guaranteed error rate; see `stopwise calibrate`.
    """
    series = read_labeled(data, channels, drop, layout=layout)
    from stopwise.estimator import load
    from stopwise.metrics import summarize

    clf = load(model)
    indices = class_indices(clf, series)
    X = series.series
    clf.fit_rule(X, clf.classes_[indices], cost=cost, mean_time=mean_time, objective=objective)
    clf.save(out or model)
    decisions = clf.rule_.with_prior(clf.prior_).decide(clf.scores(X), X.lengths)
    seen = summarize(decisions, indices, len(clf.classes_))
    if as_json:
        summary = {"model": str(out or model), "rule": clf.rule_.to_dict(), "observed": seen}
        print(json.dumps(plain(summary), indent=2, allow_nan=False))
        return
    console.print(
        f"{clf.rule_!r}: on these {len(X)} series accuracy {seen['accuracy']:.1%}, mean time "
        f"{seen['mean_time']:.2f} samples, earliness {seen['earliness']:.3f}. No error rate is guaranteed; "
        "use `stopwise calibrate` for that.",
        highlight=False,
    )
    console.print(f"Model: {out or model}\nNext: stopwise evaluate {out or model} TEST_DATA", soft_wrap=True)
