"""The command `stopwise train`: train a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stopwise.cli.common import (
    AsJson,
    Channels,
    Drop,
    Force,
    Groups,
    Layout,
    OptionalData,
    Seed,
    app,
    check_folder_is_free,
    console,
    named_shares,
    read_labeled,
)
from stopwise.cli.settings import ModelName, Settings, merge, option_table
from stopwise.validation import check_choice, warn

SCALINGS: dict[str, bool | str] = {"each": True, "together": "together", "none": False}


@app.command()
def train(
    data: OptionalData = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the model.")] = None,
    model: ModelName = None,
    settings: Settings = None,
    show_options: Annotated[
        bool, typer.Option("--options", help="List the options of the model and exit.")
    ] = False,
    params: Annotated[
        Path | None,
        typer.Option(help="JSON file of settings from `stopwise tune`; command-line options override it."),
    ] = None,
    error_rate: Annotated[
        float | None, typer.Option(help="Target error rate of each class (default 0.05).")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Instead of --error-rate: SPRT threshold in nats.")
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            help="Class frequencies: empirical (default), uniform, or CLASS=SHARE for each class, repeated "
            "or separated by commas."
        ),
    ] = None,
    standardize: Annotated[
        str | None,
        typer.Option(help="Scale the channels: each (default), together (by the same factor) or none."),
    ] = None,
    missing: Annotated[
        str | None, typer.Option(help="Treat NaN as an error (error, default) or as a missing value (mask).")
    ] = None,
    channels: Channels = None,
    drop: Drop = None,
    groups: Groups = None,
    layout: Layout = "steps-first",
    seed: Seed = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File for the training state; an interrupted training resumes from it."),
    ] = None,
    held_out_scores: Annotated[
        bool,
        typer.Option(
            "--held-out-scores",
            help="Save the held-out scores of the training series, with their classes: `stopwise fit-rule` "
            "then needs no further series. Models that cross-fit have them, such as prefix.",
        ),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train an early classifier on labeled series and save it.

    `stopwise train --model NAME --options` lists the options of a model.
    """
    if show_options:
        console.print(option_table(merge(params, model, None)["model"]))
        return
    if data is None or out is None:
        missing_one = "argument 'DATA'" if data is None else "option '--out' / '-o'"
        raise typer.BadParameter(f"Missing {missing_one}.")
    # Before the slow import of torch and before training, so that wrong paths are reported at once.
    check_folder_is_free(out, force)
    series = read_labeled(data, channels, drop, groups, layout)
    from stopwise.estimator import EarlyClassifier
    from stopwise.rules import SPRT

    if error_rate is None and threshold is None:
        error_rate = 0.05
    chosen = merge(
        params,
        model,
        settings,
        standardize=None
        if standardize is None
        else SCALINGS[check_choice("--standardize", standardize, SCALINGS)],
        missing=missing,
        prior=named_shares("--prior", prior, np.unique(np.asarray(series.y))),
        random_state=seed,
    )
    rule = SPRT(threshold, error_rate=error_rate)
    clf = EarlyClassifier.from_settings(chosen, rule=rule, progress=not as_json)
    clf.fit(series.series, series.y, groups=series.groups, checkpoint=checkpoint)
    if held_out_scores and not clf.has_held_out_scores:
        # The training is saved: it may have taken hours.
        warn(f"--held-out-scores has no effect: {clf._why_not_held_out()} `stopwise fit-rule` needs DATA.")
    clf.save(out, held_out=held_out_scores and clf.has_held_out_scores)
    report: dict[str, Any] = clf.model_.report_
    history = report.get("history", [])
    best: dict[str, float] = min(
        history, key=lambda record: record.get("validation_loss", np.inf), default={}
    )
    order = getattr(clf.model_, "order_", None)
    if as_json:
        summary = {"model": str(out), "classes": clf.classes_.tolist(), "order": order, "best": best}
        print(json.dumps(summary, indent=2))
        return
    details = ""
    if history:  # of a network
        loss = f", validation loss {best['validation_loss']:.4g}" if "validation_loss" in best else ""
        found = "no finite order" if order is None else f"order {order}"
        details = f": {found}, {len(history)} epochs{loss}"
    console.print(f"Trained on {len(series)} series of {len(clf.classes_)} classes{details}.")
    for tried in report.get("tried", []):  # of the model "auto"
        console.print(f"  {tried['model']} ({tried['seconds']:.0f} s): {tried['outcome']}", soft_wrap=True)
    console.print(f"Model: {out}\nNext: stopwise evaluate {out} TEST_DATA", soft_wrap=True)
