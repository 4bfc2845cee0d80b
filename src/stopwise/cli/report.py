"""The command `stopwise report`: a report on a trained model as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stopwise.cli.common import (
    Channels,
    Data,
    Drop,
    Layout,
    app,
    class_indices,
    console,
    named_losses,
    read_labeled,
)


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the page.")] = Path("report.html"),
    cost: Annotated[
        float | None,
        typer.Option(help="Cost of a sample (default: that of the rule, or 1 for the longest series)."),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            help="Loss of a wrong decision, one number (default 1) or TRUE:DECIDED=NUMBER, repeated for each "
            "pair of classes."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    channels: Channels = None,
    drop: Drop = None,
    layout: Layout = "steps-first",
) -> None:
    """Write a report on a trained model and labeled series: one HTML page that works offline.

    Use series that were not used to train the model or to set its rule.
    """
    if not out.parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: there is no folder {out.parent}. Create it first.")
    if out.is_dir():
        raise IsADirectoryError(f"cannot write {out}: it is a folder. Choose another --out.")
    series = read_labeled(data, channels, drop, layout=layout)
    from stopwise.loading import load
    from stopwise.reporting import report as make_report
    from stopwise.reporting.create import TITLE

    clf = load(model)
    made = make_report(
        clf,
        series.series,
        clf.classes_[class_indices(clf, series)],
        cost=cost,
        loss=named_losses(loss, clf.classes_),
        title=title or TITLE,
    )
    path = made.save(out)
    size = path.stat().st_size / 1e6
    console.print(f"Report: {path} ({size:.1f} MB). Open it in a browser.", soft_wrap=True, highlight=False)
