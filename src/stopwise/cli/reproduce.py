"""The command `stopwise reproduce`: reproduce figures and tables."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from stopwise.cli.common import app, console

FIGURES = ("fig1", "fig2", "fig4", "fig5", "main", "precision", "guarantees", "archive")
ARCHIVE_PRESETS = ("quick", "medium", "full")
WITH_WORLDS = ("main", "precision")


@app.command()
def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            help="What to reproduce: fig1, fig2, fig4, fig5, main, precision, guarantees or archive."
        ),
    ],
    preset: Annotated[
        str,
        typer.Option(
            help="quick (minutes), medium (one to two hours) or paper (the paper's sizes); for archive: "
            "quick, medium or full (five seeds)."
        ),
    ] = "quick",
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder for results and pictures; finished runs are reused."),
    ] = Path("stopwise-results"),
    repeats: Annotated[int | None, typer.Option(help="Number of repeats (default: by preset).")] = None,
    workers: Annotated[
        int, typer.Option("--workers", "--jobs", help="Number of runs in parallel; -1: one per core.")
    ] = -1,
    world: Annotated[
        list[str] | None,
        typer.Option(help="For main and precision: only this synthetic data set; can be repeated."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="For fig4: a data set in the folder $STOPWISE_DATA, or nosaic_mnist.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(help="For archive: only these data sets, separated by commas; can be repeated."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(help="For archive: only these methods, separated by commas; can be repeated."),
    ] = None,
) -> None:
    """Reproduce a figure of the paper, or a comparison on data with known log-likelihood ratios.

    The paper is Ebihara et al., ICASSP 2023 (arXiv:2302.09810). If a run is interrupted, the same command
    resumes it. `archive` compares the default with other early classifiers on real data in $STOPWISE_DATA.
    """
    from stopwise.experiments.presets import PRESETS
    from stopwise.validation import check_choice

    check_choice("figure", figure, FIGURES)
    check_choice("--preset", preset, ARCHIVE_PRESETS if figure == "archive" else PRESETS)
    if (figure == "fig4") != (data is not None):
        raise typer.BadParameter(
            "fig4 needs --data NAME; the other figures do not accept --data.", param_hint="--data"
        )
    if world and figure not in WITH_WORLDS:
        raise typer.BadParameter(
            f"it can only be used with {' and '.join(WITH_WORLDS)}.", param_hint="--world"
        )
    if (sets or methods) and figure != "archive":
        raise typer.BadParameter(
            "they can only be used with archive.", param_hint="--sets" if sets else "--methods"
        )
    experiment = import_module(f"stopwise.experiments.{figure}")
    chosen: dict[str, Any] = {} if data is None else {"data": data}
    if world:
        chosen["world_names"] = world
    if figure == "archive":
        chosen |= {"sets": _separated(sets), "methods": _separated(methods)}
    pictures = experiment.reproduce(preset, out, repeats=repeats, workers=workers, progress=True, **chosen)
    console.print("Pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)
    console.print(f"Results: {out}", soft_wrap=True)


def _separated(values: list[str] | None) -> list[str] | None:
    """Return the names in texts that are separated by commas; None if there are none."""
    return [name.strip() for text in values or () for name in text.split(",") if name.strip()] or None
