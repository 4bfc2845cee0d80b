"""The command `stopwise demo`: demonstrate saturated log-likelihood ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from stopwise.cli.common import AsJson, app, console

if TYPE_CHECKING:
    from stopwise.experiments.demo import Outcome


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("stopwise-demo"),
    seed: Annotated[int, typer.Option(help="Random seed of data and training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare models on data with known log-likelihood ratios (about a minute).

    The log-likelihood ratios of a tanh LSTM saturate: they stop growing. Those of the other models do not.
    """
    from stopwise.experiments import demo as experiment

    if not as_json:
        console.print(
            "Two Gaussian classes, 50 samples per series: the true log-likelihood ratio (LLR) grows to about "
            f"200 nats.\nTraining {len(experiment.MODELS)} networks on {experiment.TRAIN} series each …"
        )
    outcomes, oracle, y = experiment.run(seed=seed, progress=not as_json)
    pictures = experiment.draw(outcomes, oracle, y, out)
    if as_json:
        print(json.dumps([outcome.figures() for outcome in [*outcomes, oracle]], indent=2))
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
    console.print("Pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)


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
