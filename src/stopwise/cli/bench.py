"""The command `stopwise bench`: measure speed and memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stopwise.cli.common import app, console

if TYPE_CHECKING:
    from stopwise.bench.measure import Figure


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="Run only this benchmark; can be repeated.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.")] = None,
) -> None:
    """Benchmark speed and memory against simple baselines.

    The exit code is 1 if a result misses its requirement.
    """
    from stopwise.bench.figures import FIGURES
    from stopwise.bench.report import machine, to_json
    from stopwise.progress import Reporter
    from stopwise.validation import check_choice

    names = [check_choice("--only", name, FIGURES) for name in only or FIGURES]
    figures = {}
    with Reporter("benchmark", len(names), show=True) as reporter:
        for name in names:
            figures[name] = FIGURES[name]()
            reporter.advance(name)
    console.print(_bench_table(list(figures.values())))
    console.print("  ".join(f"{name} {value}" for name, value in machine().items()))
    if json_file is not None:
        to_json(json_file, figures)
    if not all(figure.passed for figure in figures.values()):
        raise typer.Exit(1)


def _bench_table(figures: list[Figure]) -> Table:
    table = Table(title="Medians and quartiles")
    table.add_column("benchmark")
    for name in ("value", "required", "goal"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        sign = "≤" if figure.better == "lower" else "≥"
        verdict = (
            "[green]goal[/]"
            if figure.reaches(figure.aim)
            else "passed"
            if figure.passed
            else "[red]missed[/]"
        )
        table.add_row(
            figure.name + (f"\n[dim]{figure.note}[/]" if figure.note else ""),
            f"{figure.value:.3g} {figure.unit}\n[dim]{figure.low:.3g}–{figure.high:.3g}[/]",
            f"{sign} {figure.bar:g}",
            f"{sign} {figure.aim:g}",
            verdict,
        )
    return table
