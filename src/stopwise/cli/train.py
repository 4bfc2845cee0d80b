"""`stopwise train`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from stopwise.cli.common import AsJson, Data, app, console, read_labelled
from stopwise.cli.params import read_params
from stopwise.validation import check_choice

SCALINGS: dict[str, bool | str] = {"each": True, "together": "together", "none": False}


@app.command()
def train(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the model.")],
    model: Annotated[str, typer.Option(help="accumulator, b2bsqrt, tandemformer or lstm.")] = "accumulator",
    order: Annotated[str, typer.Option(help="Markov order N: auto, longest or a number.")] = "auto",
    formula: Annotated[str, typer.Option(help="tandem or oblivion.")] = "tandem",
    loss: Annotated[str, typer.Option(help="lsel or lllr.")] = "lsel",
    llre_ratio: Annotated[
        float, typer.Option(help="Share of the loss; the rest is multiplet cross-entropy.")
    ] = 0.5,
    error_rate: Annotated[
        float | None, typer.Option(help="Target error of each class (default 0.05).")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="SPRT threshold in nats, instead of an error rate.")
    ] = None,
    max_epochs: Annotated[int, typer.Option(help="Epochs at most.")] = 50,
    batch_size: Annotated[int, typer.Option(help="Series per step.")] = 100,
    learning_rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-2,
    optimizer: Annotated[str, typer.Option(help="adam or rmsprop.")] = "adam",
    schedule: Annotated[str, typer.Option(help="cosine or constant.")] = "cosine",
    weight_decay: Annotated[float, typer.Option(help="L2 penalty on weights.")] = 0.0,
    polish: Annotated[
        bool, typer.Option(help="Take the last layer to the optimum of its convex loss after training.")
    ] = True,
    dropout: Annotated[float, typer.Option(help="Dropout in the network.")] = 0.0,
    validation_fraction: Annotated[float, typer.Option(help="Share held out to choose the epoch.")] = 0.1,
    standardize: Annotated[
        str, typer.Option(help="Scale the channels: each by itself, all together, or none.")
    ] = "each",
    missing: Annotated[str, typer.Option(help="error, or mask: NaN means not observed.")] = "error",
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
    devices: Annotated[int, typer.Option(help="How many devices train together.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File for the training state; an interrupted run goes on from it.")
    ] = None,
    params: Annotated[
        Path | None,
        typer.Option(help="JSON file of settings, as `tune` writes it; options given here go before it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train an early classifier on labelled series and save it."""
    series = read_labelled(data)  # a wrong path is told before torch is imported
    from stopwise.estimator import EarlyClassifier
    from stopwise.rules import SPRT

    if error_rate is None and threshold is None:
        error_rate = 0.05
    settings: dict[str, Any] = {
        "model": model,
        "order": _order(order),
        "formula": formula,
        "loss": loss,
        "llre_ratio": llre_ratio,
        "max_epochs": max_epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "optimizer": optimizer,
        "schedule": schedule,
        "weight_decay": weight_decay,
        "polish": polish,
        "dropout": dropout,
        "validation_fraction": validation_fraction,
        "standardize": SCALINGS[check_choice("--standardize", standardize, SCALINGS)],
        "missing": missing,
        "device": device,
        "devices": devices,
        "seed": seed,
    }
    if params is not None:
        settings |= {
            name: value for name, value in read_params(params).items() if not _is_given(context, name)
        }
    clf = EarlyClassifier(**settings, rule=SPRT(threshold, error_rate=error_rate), progress=not as_json)
    clf.fit(series.X, series.y, checkpoint=checkpoint)
    clf.save(out)
    best = min(clf.history_, key=lambda record: record.get("validation_loss", np.inf))
    if as_json:
        print(
            json.dumps(
                {"model": str(out), "classes": clf.classes_.tolist(), "order": clf.order_, "best": best},
                indent=2,
            )
        )
        return
    loss_told = f", validation loss {best['validation_loss']:.4g}" if "validation_loss" in best else ""
    console.print(
        f"Trained on {len(series.X)} series of {len(clf.classes_)} classes: order {clf.order_}, "
        f"{len(clf.history_)} epochs{loss_told}."
    )
    console.print(f"Model: {out}\nNext: stopwise evaluate {out} TEST_DATA", soft_wrap=True)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line, and not for its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _order(text: str) -> int | str | None:
    if text == "longest":
        return None
    if text == "auto" or not text.isdigit():
        return text  # the estimator tells what it takes
    return int(text)
