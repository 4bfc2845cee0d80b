"""The command `stopwise demo`: a real dataset, and what saturated log-likelihood ratios are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stopwise.cli.common import AsJson, app, console

if TYPE_CHECKING:
    from stopwise.experiments.demo import Outcome
    from stopwise.experiments.demo_speakers import Speakers


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and the pictures.")] = Path(
        "stopwise-demo"
    ),
    seed: Annotated[int, typer.Option(help="Random seed of data and training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show early decisions on real data, and why precise evidence matters (about a minute).

    First a real dataset, from training to a report. Then data with known log-likelihood ratios: those of a
    tanh LSTM saturate, which means that they stop growing. Those of the other models do not.
    """
    from stopwise.experiments import demo as saturation
    from stopwise.experiments import demo_speakers as real

    show = not as_json
    if show:
        console.rule("1. Who is speaking?")
        console.print(
            "Japanese Vowels: nine speakers, recordings of 7 to 29 samples in 12 channels.\nTraining …"
        )
    speakers = real.run(out, seed=seed, progress=show)
    if show:
        _print_speakers(speakers)
        console.rule("2. Why precise evidence matters")
        console.print(
            "Two Gaussian classes, 50 samples per series: the true log-likelihood ratio (LLR) grows to about "
            f"200 nats.\nTraining {len(saturation.MODELS)} networks on {saturation.TRAIN} series each …"
        )
    outcomes, oracle, y = saturation.run(seed=seed, progress=show)
    pictures = saturation.draw(outcomes, oracle, y, out)
    if as_json:
        found = {
            "speakers": [one.figures() for one in speakers.decided],
            "report": str(speakers.report),
            "saturation": [outcome.figures() for outcome in [*outcomes, oracle]],
        }
        print(json.dumps(found, indent=2))
        return
    console.print(_precision_table([*outcomes, oracle]))
    console.print(
        "[bold]Slope[/] of the estimated LLR against the true LLR: 1 is correct, near 0 is saturated.\n"
    )
    console.print(_decision_table([*outcomes, oracle]))
    console.print(
        "A saturated model never reaches a high threshold: it takes all 50 samples, while the other models "
        "stop after a few.\n"
    )
    console.print(f"Report: {speakers.report} (open it in a browser)", soft_wrap=True)
    console.print("Pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)


def _print_speakers(speakers: Speakers) -> None:
    for tried in speakers.tried:
        console.print(f"  {tried['model']} ({tried['seconds']:.0f} s): {tried['outcome']}", soft_wrap=True)
    table = Table(title=f"Decisions on new recordings (mean length {speakers.mean_length:.1f} samples)")
    table.add_column("rule")
    for name in ("wrong", "samples per decision"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in speakers.decided:
        table.add_row(one.rule, f"{100 * one.error:.1f} %", f"{one.mean_time:.1f}")
    console.print(table)
    console.print(f"{speakers.guarantee}\n", soft_wrap=True)


def _precision_table(outcomes: list[Outcome]) -> Table:
    table = Table(title="Precision of the log-likelihood ratios")
    table.add_column("model", no_wrap=True)
    for name in ("LLR error (nats)", "slope", "AUSAT", "training (s)"):
        table.add_column(name, justify="right")
    for outcome in outcomes:
        table.add_row(
            outcome.name,
            f"{outcome.llr.mean_abs:.1f}",
            f"{outcome.llr.slope:.2f}",
            f"{outcome.ausat:.5f}",
            f"{outcome.seconds:.0f}" if outcome.seconds else "–",
        )
    return table


def _decision_table(outcomes: list[Outcome]) -> Table:
    from stopwise.experiments.demo import THRESHOLDS

    table = Table(title="Decisions: error rate and mean number of samples, by SPRT threshold a")
    table.add_column("model", no_wrap=True)
    for a in THRESHOLDS:
        table.add_column(f"a = {a:g}", justify="right", no_wrap=True)
    for outcome in outcomes:
        points = [outcome.curve.at_threshold(a) for a in THRESHOLDS]
        table.add_row(outcome.name, *[f"{point.error:.2%} in {point.mean_time:4.1f}" for point in points])
    return table
