"""The commands: `stopwise demo | train | evaluate | bench`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:  # torch takes seconds to import: each command fetches what it needs
    from stopwise.bench.measure import Figure
    from stopwise.datasets import LabelledSeries
    from stopwise.estimator import EarlyClassifier
    from stopwise.experiments.demo import Outcome

app = typer.Typer(
    help="Decide early, decide right: early classification of time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()

Data = Annotated[
    Path,
    typer.Argument(
        help="Series: .npz with X, y; _X.npy beside _y.npy; or .csv with series, time, label, features…"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def main() -> None:
    """Run the command line; what a user did wrong is one line, not a traceback."""
    try:
        app()
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
        if os.environ.get("STOPWISE_DEBUG"):
            raise
        _fail(str(error), 2)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("stopwise-demo"),
    seed: Annotated[int, typer.Option(help="Seed of data and training.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what saturation of log-likelihood ratios is, and that it is cured (about two minutes)."""
    from stopwise.experiments import demo as experiment

    if not as_json:
        console.print(
            "Two Gaussian classes, 50 samples a series: the true log-likelihood ratio (LLR) grows to about "
            f"200 nats.\nTraining {len(experiment.MODELS)} networks on {experiment.TRAIN} series each …"
        )
    outcomes, oracle, y = experiment.run(seed=seed, progress=not as_json)
    pictures = experiment.draw(outcomes, oracle, y, out)
    if as_json:
        print(json.dumps([outcome.figures() for outcome in [*outcomes, oracle]], indent=2))
        return
    console.print(_precision_table([*outcomes, oracle]))
    console.print(
        "[bold]Slope[/] is that of the estimated on the true LLR: 1 is right, near 0 is saturated.\n"
    )
    console.print(_decision_table([*outcomes, oracle]))
    console.print(
        "A saturated model never reaches a high threshold: it waits to the end, sample 50, where the others "
        "stop after a few.\n"
    )
    console.print("Pictures: " + ", ".join(str(path) for path in pictures), soft_wrap=True)


@app.command()
def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    model: Annotated[str, typer.Option(help="accumulator, b2bsqrt, tandemformer or lstm.")] = "accumulator",
    order: Annotated[int | None, typer.Option(help="Markov order N; the longest if not given.")] = None,
    formula: Annotated[str, typer.Option(help="tandem or oblivion.")] = "tandem",
    loss: Annotated[str, typer.Option(help="lsel or lllr.")] = "lsel",
    llre_ratio: Annotated[
        float, typer.Option(help="Share of the loss; the rest is multiplet cross-entropy.")
    ] = 1.0,
    error_rate: Annotated[
        float | None, typer.Option(help="Target error of each class (default 0.05).")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="SPRT threshold in nats, instead of an error rate.")
    ] = None,
    max_epochs: Annotated[int, typer.Option(help="Epochs at most.")] = 50,
    batch_size: Annotated[int, typer.Option(help="Series per step.")] = 100,
    learning_rate: Annotated[float, typer.Option(help="Learning rate.")] = 3e-3,
    optimizer: Annotated[str, typer.Option(help="adam or rmsprop.")] = "adam",
    schedule: Annotated[str, typer.Option(help="constant or cosine.")] = "constant",
    weight_decay: Annotated[float, typer.Option(help="L2 penalty on weights.")] = 0.0,
    dropout: Annotated[float, typer.Option(help="Dropout in the network.")] = 0.0,
    validation_fraction: Annotated[float, typer.Option(help="Share held out to choose the epoch.")] = 0.1,
    missing: Annotated[str, typer.Option(help="error, or mask: NaN means not observed.")] = "error",
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
    devices: Annotated[int, typer.Option(help="How many devices train together.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File for the training state; an interrupted run goes on from it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train an early classifier on labelled series and save it."""
    series = _read(data)  # a wrong path is told before torch is imported
    from stopwise.estimator import EarlyClassifier
    from stopwise.rules import SPRT

    if error_rate is None and threshold is None:
        error_rate = 0.05
    clf = EarlyClassifier(
        model,
        order=order,
        formula=formula,
        loss=loss,
        llre_ratio=llre_ratio,
        rule=SPRT(threshold, error_rate=error_rate),
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        schedule=schedule,
        weight_decay=weight_decay,
        dropout=dropout,
        validation_fraction=validation_fraction,
        missing=missing,
        device=device,
        devices=devices,
        progress=not as_json,
        seed=seed,
    )
    clf.fit(series.X, series.y, checkpoint=checkpoint)
    clf.save(out)
    best = min(clf.history_, key=lambda record: record.get("validation_loss", np.inf))
    if as_json:
        print(json.dumps({"model": str(out), "classes": clf.classes_.tolist(), "best": best}, indent=2))
        return
    loss_told = f", validation loss {best['validation_loss']:.4g}" if "validation_loss" in best else ""
    console.print(
        f"Trained on {len(series.X)} series of {len(clf.classes_)} classes: "
        f"{len(clf.history_)} epochs{loss_told}."
    )
    console.print(f"Model: {out}\nNext: stopwise evaluate {out} TEST_DATA", soft_wrap=True)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="SPRT thresholds to show beside the model's own rule; repeatable."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the speed-accuracy curve here (PNG and SVG).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge a trained model on labelled series: error, hitting time, speed-accuracy tradeoff."""
    from stopwise import plots
    from stopwise.estimator import load
    from stopwise.metrics import ausat, sat_curve, summarize
    from stopwise.rules import SPRT, Rule
    from stopwise.series import Series

    clf, series = load(model), _read(data)
    y = _class_indices(clf, series)
    scores, lengths = clf.scores(series.X), Series(series.X).lengths
    rules: list[Rule] = [clf.rule_, *(SPRT(a) for a in threshold or [2.0, 5.0, 10.0])]
    rows = [
        {"rule": repr(rule)} | summarize(rule.decide(scores, lengths), y, len(clf.classes_)) for rule in rules
    ]
    curve = sat_curve(scores, y, lengths)
    if picture is not None:
        plots.save(plots.sat_curves({clf.model if isinstance(clf.model, str) else "model": curve}), picture)
    if as_json:
        print(
            json.dumps(_plain({"n": len(y), "ausat": ausat(curve), "rules": rows}), indent=2, allow_nan=False)
        )
        return
    console.print(_evaluation_table(rows, len(y)))
    console.print(f"Area under the speed-accuracy curve (AUSAT): {ausat(curve):.4f}")
    if picture is not None:
        console.print(f"Picture: {picture}.png", soft_wrap=True)


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="Measure this figure only; repeatable.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure speed and memory as ratios to plain yardsticks; exit code 1 when a bar is missed."""
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


def _read(path: Path) -> LabelledSeries:
    from stopwise.datasets import read

    series = read(path)
    if series.y is None:
        raise ValueError(f"{path} has no labels: add `y` (or a label column).")
    return series


def _class_indices(clf: EarlyClassifier, series: LabelledSeries) -> np.ndarray:
    y = np.asarray(series.y)
    unknown = np.setdiff1d(y.astype(str), clf.classes_.astype(str))
    if len(unknown):
        raise ValueError(
            f"the data has labels the model does not know: {', '.join(unknown[:5])}. It knows "
            f"{', '.join(clf.classes_.astype(str)[:10])}."
        )
    names = {str(name): k for k, name in enumerate(clf.classes_)}
    return np.array([names[str(label)] for label in y], dtype=np.int64)


def _precision_table(outcomes: list[Outcome]) -> Table:
    table = Table(title="How precise the log-likelihood ratios are")
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

    table = Table(title="What it means for decisions: error, and samples taken, by SPRT threshold a")
    table.add_column("model", no_wrap=True)
    for a in THRESHOLDS:
        table.add_column(f"a = {a:g}", justify="right", no_wrap=True)
    for outcome in outcomes:
        points = [outcome.curve.at_threshold(a) for a in THRESHOLDS]
        table.add_row(outcome.name, *[f"{point.error:.2%} in {point.mean_time:4.1f}" for point in points])
    return table


def _evaluation_table(rows: list[dict[str, Any]], n: int) -> Table:
    table = Table(title=f"{n} series; the first row is the model's own rule")
    table.add_column("rule", overflow="fold")
    for name in ("error", "mean\ntime", "forced", "earli-\nness", "harmonic\nmean"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["rule"],
            f"{row['error']:.2%}",
            f"{row['mean_time']:.2f}",
            f"{row['forced']:.1%}",
            f"{row['earliness']:.3f}",
            f"{row['harmonic_mean']:.3f}",
        )
    return table


def _bench_table(figures: list[Figure]) -> Table:
    table = Table(title="Medians, with quartiles")
    table.add_column("figure")
    for name in ("value", "bar", "aim"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for figure in figures:
        sign = "≤" if figure.better == "lower" else "≥"
        verdict = (
            "[green]aim[/]" if figure.reaches(figure.aim) else "bar" if figure.passed else "[red]missed[/]"
        )
        table.add_row(
            figure.name + (f"\n[dim]{figure.note}[/]" if figure.note else ""),
            f"{figure.value:.3g} {figure.unit}\n[dim]{figure.low:.3g}–{figure.high:.3g}[/]",
            f"{sign} {figure.bar:g}",
            f"{sign} {figure.aim:g}",
            verdict,
        )
    return table


def _plain(value: Any) -> Any:
    """Return plain JSON values; a class that is not there has no error: null."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def _fail(message: str, code: int) -> NoReturn:
    print(f"stopwise: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
