"""The command `stopwise fit-rule`: set the best stopping rule for a goal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from stopwise.cli.common import (
    AsJson,
    Channels,
    Copies,
    Drop,
    Force,
    Layout,
    OptionalData,
    app,
    check_folder_is_free,
    class_indices,
    console,
    named_losses,
    plain,
    read_labeled,
)


@app.command("fit-rule")
def fit_rule(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: OptionalData = None,
    cost: Annotated[
        float | None,
        typer.Option(help="Minimize the expected cost: this cost per sample, and --loss per wrong decision."),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            help="With --cost: the loss of a wrong decision, one number (default 1) or TRUE:DECIDED=NUMBER, "
            "repeated for each pair of classes, such as --loss died:survived=20 --loss survived:died=1."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="With --cost: line (a threshold linear in time; default) or finite_horizon (backward "
            "induction; default if losses differ)."
        ),
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
    copies: Copies = "once",
    channels: Channels = None,
    drop: Drop = None,
    layout: Layout = "steps-first",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Set the best stopping rule for a goal, from labeled series not used in training.

    Without DATA, the rule is fitted to the held-out scores of the training series, which
    `stopwise train --held-out-scores` saves. The rule has no guaranteed error rate; see `stopwise calibrate`.
    """
    check_folder_is_free(out or model, force or out in (None, model))
    series = None if data is None else read_labeled(data, channels, drop, layout=layout)
    from stopwise.loading import load
    from stopwise.metrics import summarize

    clf = load(model)
    losses = named_losses(loss, clf.classes_)
    goal = {
        "cost": cost,
        "mean_time": mean_time,
        "objective": objective,
        "loss": losses,
        "method": method,
    }
    if series is None:
        X, y = None, None
    else:
        X, y = series.series, clf.classes_[class_indices(clf, series)]
    scores, indices, lengths = clf._fit_rule(X, y, copies, goal)
    clf.save(out or model, held_out=clf.has_held_out_scores)
    seen = summarize(clf.rule_.with_prior(clf.prior_).decide(scores, lengths), indices, len(clf.classes_))
    if as_json:
        summary = {"model": str(out or model), "rule": clf.rule_.to_dict(), "observed": seen}
        if isinstance(losses, dict):
            summary["loss"] = {f"{true}:{decided}": value for (true, decided), value in losses.items()}
        print(json.dumps(plain(summary), indent=2, allow_nan=False))
        return
    if isinstance(losses, dict):
        console.print(_loss_table(losses, clf.classes_.tolist()))
    these = "these" if data is not None else "held-out scores of"
    console.print(
        f"{clf.rule_!r}: on {these} {len(indices)} series accuracy {seen['accuracy']:.1%}, mean time "
        f"{seen['mean_time']:.2f} samples, earliness {seen['earliness']:.3f}. No error rate is guaranteed; "
        "use `stopwise calibrate` for that.",
        highlight=False,
    )
    console.print(f"Model: {out or model}\nNext: stopwise evaluate {out or model} TEST_DATA", soft_wrap=True)


def _loss_table(losses: dict[Any, float], labels: list[Any]) -> Table:
    table = Table("true class", *(f"decided {label}" for label in labels), title="Loss of a decision")
    for true in labels:
        table.add_row(str(true), *(f"{losses.get((true, decided), 0.0):g}" for decided in labels))
    return table
