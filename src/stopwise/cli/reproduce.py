"""`stopwise reproduce`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from stopwise.cli.common import app, console

FIGURES = ("fig1", "fig2", "fig4", "fig5", "main", "precision", "guarantees")
WITH_WORLDS = ("main", "precision")


@app.command()
def reproduce(
    figure: Annotated[str, typer.Argument(help="fig1, fig2, fig4, fig5, main, precision or guarantees.")],
    preset: Annotated[
        str, typer.Option(help="quick (minutes), medium (an hour or two) or paper (the paper's sizes).")
    ] = "quick",
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder of results and pictures; what is there is not run again."),
    ] = Path("stopwise-results"),
    repeats: Annotated[int | None, typer.Option(help="Repeats, if not as the preset says.")] = None,
    workers: Annotated[int, typer.Option(help="Runs at a time; -1: one a core.")] = -1,
    world: Annotated[
        list[str] | None, typer.Option(help="main, precision: this world only; more than one may be given.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="fig4: a set in $STOPWISE_DATA, or nosaic_mnist.")] = None,
) -> None:
    """Reproduce a figure of the paper, or the table of worlds with known LLRs; a stopped run resumes."""
    from stopwise.experiments.presets import PRESETS
    from stopwise.validation import check_choice

    check_choice("figure", figure, FIGURES)
    check_choice("--preset", preset, PRESETS)
    if (figure == "fig4") != (data is not None):
        raise typer.BadParameter("fig4 needs --data NAME, the other figures take none.", param_hint="--data")
    if world and figure not in WITH_WORLDS:
        raise typer.BadParameter(f"{' and '.join(WITH_WORLDS)} alone take it.", param_hint="--world")
    experiment = import_module(f"stopwise.experiments.{figure}")
    chosen: dict[str, Any] = {} if data is None else {"data": data}
    if world:
        chosen["world_names"] = world
    pictures = experiment.reproduce(preset, out, repeats=repeats, workers=workers, progress=True, **chosen)
    console.print("Pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)
    console.print(f"Results: {out}", soft_wrap=True)
