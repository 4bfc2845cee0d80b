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
    json_file: Annotated[
        Path | None, typer.Option("--json", "--out", help="Write the results to this file.")
    ] = None,
) -> None:
    """Benchmark speed and memory against simple baselines.

    If the file of results exists, the values of an earlier version in it (`before`) are kept and shown.

    The exit code is 1 if a result misses its requirement.
    """
    from stopwise.bench.figures import FIGURES
    from stopwise.bench.report import machine, to_json, values_before
    from stopwise.progress import Reporter
    from stopwise.validation import check_choice

    names = [check_choice("--only", name, FIGURES) for name in only or FIGURES]
    before = {} if json_file is None else values_before(json_file)
    figures = {}
    with Reporter("benchmark", len(names), show=True) as reporter:
        for name in names:
            figures[name] = FIGURES[name]()
            reporter.advance(name)
    console.print(_bench_table(figures, before))
    console.print("  ".join(f"{name} {value}" for name, value in machine().items()))
    if json_file is not None:
        to_json(json_file, figures)
    if not all(figure.passed for figure in figures.values()):
        raise typer.Exit(1)


def _bench_table(figures: dict[str, Figure], before: dict[str, tuple[str, float]]) -> Table:
    table = Table(title="Medians and quartiles")
    table.add_column("benchmark")
    for column in ("value", "before", "required", "goal"):
        if column != "before" or before:
            table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for name, figure in figures.items():
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
            *([_change(figure, before.get(name))] if before else []),
            f"{sign} {figure.bar:g}",
            f"{sign} {figure.aim:g}",
            verdict,
        )
    return table


def _change(figure: Figure, before: tuple[str, float] | None) -> str:
    """Return the value in an earlier version, and the change since then."""
    if before is None:
        return "–"
    version, value = before
    change = f"{figure.value / value - 1:+.0%}" if value else ""
    return f"{value:.3g} {figure.unit}\n[dim]{version} {change}[/]"
