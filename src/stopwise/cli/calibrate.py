"""`stopwise calibrate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwise.cli.common import AsJson, Data, app, class_indices, console, plain, read_labelled
from stopwise.rules import Calibrated, FiniteHorizon, Rule

if TYPE_CHECKING:
    from stopwise.estimator import EarlyClassifier


@app.command()
def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    error_rate: Annotated[
        list[str] | None,
        typer.Option(
            help="Share of new series that may be decided wrongly: 0.05, or CLASS=0.05, repeatable."
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that the promise holds.")] = 0.95,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="The share holds for every class among its own series.")
    ] = False,
    accuracy_gap: Annotated[
        float | None,
        typer.Option(help="Instead: share that may be decided wrongly and would be right at the end."),
    ] = None,
    conditional: Annotated[
        bool, typer.Option("--conditional", help="The gap holds among series decided by step t, whatever t.")
    ] = False,
    mean_time: Annotated[
        float | None, typer.Option(help="Instead: mean samples that may be taken; promises nothing.")
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(help="Instead: cost of a sample where a mistake costs 1; cheapest for a deadline."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the calibrated model; default: in place.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set a model's stopping rule by labelled series it has not seen, so that it keeps a promise."""
    series = read_labelled(data)
    from stopwise.estimator import load

    clf = load(model)
    clf.calibrate(
        series.X,
        clf.classes_[class_indices(clf, series)],
        error_rate=_rates(clf, error_rate),
        confidence=confidence,
        per_class=per_class,
        accuracy_gap=accuracy_gap,
        conditional=conditional,
        mean_time=mean_time,
        cost=cost,
    )
    clf.save(out or model)
    words = _words(clf.rule_)
    if as_json:
        told = {"model": str(out or model), "rule": clf.rule_.to_dict(), "words": words}
        print(json.dumps(plain(told), indent=2, allow_nan=False))
        return
    console.print(words, highlight=False)
    console.print(f"Model: {out or model}\nNext: stopwise evaluate {out or model} TEST_DATA", soft_wrap=True)


def _words(rule: Rule) -> str:
    """Return what the rule promises."""
    if isinstance(rule, FiniteHorizon):
        return (
            f"The cheapest rule found for a deadline of {rule.horizon} samples, a sample costing "
            f"{rule.cost:g} and a mistake 1. It promises no error rate."
        )
    assert isinstance(rule, Calibrated)
    return str(rule.guarantee)


def _rates(clf: EarlyClassifier, given: list[str] | None) -> Any:
    """Return one rate, or {label: rate} from texts CLASS=RATE."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return _number(given[0])
    names = {str(label): label for label in clf.classes_}
    rates = {}
    for text in given:
        name, sign, rate = text.rpartition("=")
        if not sign or name not in names or names[name] in rates:
            raise ValueError(
                f"--error-rate must be one number, or CLASS=NUMBER once a class; got {text!r}. "
                f"The model knows {', '.join(list(names)[:10])}."
            )
        rates[names[name]] = _number(rate)
    return rates


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--error-rate must be a number such as 0.05; got {text!r}.") from None
