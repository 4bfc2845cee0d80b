"""The command `stopwise reproduce`: reproduce figures and tables."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from stopwise.cli.common import app, console

FIGURES = ("fig1", "fig2", "fig4", "fig5", "main", "drift", "alpha", "precision", "guarantees", "archive")
ARCHIVE_PRESETS = ("quick", "medium", "full")
ALL = "all"  # all but the archive benchmark, which needs its own data
SHIPPED = "japanese_vowels"  # the data of figure 4 of `all`
# Options that only some figures have, by the name of the parameter of their function `reproduce`.
OPTIONS = {
    "world_names": "--world",
    "conditions": "--condition",
    "data": "--data",
    "protocol": "--protocol",
    "export": "--export",
    "sets": "--sets",
    "methods": "--methods",
    "peers": "--no-peers",
}


@app.command()
def reproduce(
    figure: Annotated[
        str, typer.Argument(help=f"What to reproduce: {', '.join(FIGURES)}; or all (but archive).")
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
        typer.Option(help="Only this synthetic data set; can be repeated. drift has only a2 by default."),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(help="For fig2 and drift: only this condition; can be repeated."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="For fig4: a data set in the folder $STOPWISE_DATA, nosaic_mnist or japanese_vowels."
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(help="For fig4: own (default), or paper for the paper's search space and order 10."),
    ] = None,
    peers: Annotated[
        bool, typer.Option(help="For fig4: also run the early classifiers of aeon, in their own environment.")
    ] = True,
    add: Annotated[
        Path | None, typer.Option(help="Python file with models of your own, which join the comparison.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Folder for the scores, labels and stopping times of every run, as .npz files."),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Draw the runs that are stored in the folder; run nothing.")
    ] = False,
    sets: Annotated[
        list[str] | None,
        typer.Option(help="For archive: only these data sets, separated by commas; can be repeated."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="For archive and precision: only these methods, separated by commas; can be repeated."
        ),
    ] = None,
) -> None:
    """Reproduce a figure of the paper, or a comparison on data with known log-likelihood ratios.

    The paper is Ebihara et al., ICASSP 2023 (arXiv:2302.09810). If a run is interrupted, the same command
    resumes it. `archive` compares the default with other early classifiers on real data in $STOPWISE_DATA.
    """
    from stopwise.experiments import fig4, models, own
    from stopwise.experiments.presets import PRESETS
    from stopwise.experiments.sweep import stored_only
    from stopwise.validation import check_choice

    check_choice("figure", figure, (*FIGURES, ALL))
    check_choice("--preset", preset, ARCHIVE_PRESETS if figure == "archive" else PRESETS)
    if figure == ALL:
        data = data or SHIPPED
    elif (figure == "fig4") != (data is not None):
        raise typer.BadParameter(
            "fig4 needs --data NAME; the other figures do not accept --data.", param_hint="--data"
        )
    given: dict[str, Any] = {
        "world_names": world,
        "conditions": condition,
        "data": data,
        "protocol": protocol,
        "export": export,
        "sets": _separated(sets),
        "methods": _separated(methods),
        "peers": None if peers else False,
    }
    chosen = {name: value for name, value in given.items() if value not in (None, [])}
    for name in chosen:
        if figure not in (ALL, *_figures_with(name)):
            raise typer.BadParameter(
                f"it can only be used with {', '.join(_figures_with(name))}.", param_hint=OPTIONS[name]
            )
    pictures = []
    with ExitStack() as stack:
        if stored:
            stack.enter_context(stored_only())
        for pair in ((fig4.MODELS, fig4.PROPOSED), (models.MODELS, models.PROPOSED)):
            stack.enter_context(own.added(add, *pair))
        every = [one for one in FIGURES if one != "archive"]
        for one in every if figure == ALL else (figure,):
            options = {name: value for name, value in chosen.items() if one in _figures_with(name)}
            pictures += import_module(f"stopwise.experiments.{one}").reproduce(
                preset, out, repeats=repeats, workers=workers, progress=True, **options
            )
    if pictures:
        console.print("Pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)
    console.print(f"Results: {out}", soft_wrap=True)


def _figures_with(option: str) -> list[str]:
    """Return the figures that have an option."""
    modules = {figure: import_module(f"stopwise.experiments.{figure}") for figure in FIGURES}
    return [name for name, module in modules.items() if _takes(module.reproduce, option)]


def _takes(function: Any, name: str) -> bool:
    """Whether a function has a keyword argument of this name, or accepts any."""
    known = signature(function).parameters
    return name in known or any(one.kind is one.VAR_KEYWORD for one in known.values())


def _separated(values: list[str] | None) -> list[str] | None:
    """Return the names in texts that are separated by commas; None if there are none."""
    return [name.strip() for text in values or () for name in text.split(",") if name.strip()] or None
