"""The command `stopwise evaluate`: evaluate a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from stopwise.cli.common import (
    AsJson,
    Channels,
    Data,
    Drop,
    Layout,
    app,
    class_indices,
    console,
    plain,
    read_labeled,
)

if TYPE_CHECKING:
    from stopwise.decision import Decisions
    from stopwise.rules import Guarantee, Rule

FEW = 100  # minimum number of series for an observed share


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    data: Data,
    threshold: Annotated[
        list[float] | None,
        typer.Option(
            help="SPRT threshold to compare with the rule of the model; can be repeated (default: 2, 5, 10)."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Save the speed-accuracy curve under this name, as PNG and SVG.")
    ] = None,
    channels: Channels = None,
    drop: Drop = None,
    layout: Layout = "steps-first",
    as_json: AsJson = False,
) -> None:
    """Evaluate a trained model on labeled series: error rate, stopping time, speed-accuracy tradeoff."""
    from stopwise import plots
    from stopwise.loading import load
    from stopwise.metrics import ausat, sat_curve, summarize
    from stopwise.rules import SPRT, Calibrated, observed_rate

    clf, series = load(model), read_labeled(data, channels, drop, layout=layout)
    y = class_indices(clf, series)
    X = series.series
    scores, lengths = clf.scores(X), X.lengths
    rules: list[Rule] = [clf.rule_, *(SPRT(a) for a in threshold or [2.0, 5.0, 10.0])]
    rules = [rule.with_prior(clf.prior_) for rule in rules]
    decided = [rule.decide(scores, lengths) for rule in rules]
    rows = [
        {"rule": _name(rule)} | summarize(decisions, y, len(clf.classes_))
        for rule, decisions in zip(rules, decided)
    ]
    by_class = _by_class(decided[0], y, clf.classes_)
    guaranteed: dict[str, Any] = {}
    if isinstance(clf.rule_, Calibrated):
        seen = observed_rate(clf.rule_.with_prior(clf.prior_), scores, y, lengths, min_series=FEW)
        guaranteed = {
            "guarantee": clf.rule_.guarantee.to_dict() | {"words": str(clf.rule_.guarantee)},
            "observed": seen,
        }
    curve = sat_curve(scores, y, lengths)
    drawn = None
    if picture is not None:
        name = clf.model_.name or "model"
        drawn, _ = plots.save(plots.sat_curves({name: curve}, points={name: rows[0]}), picture)
    if as_json:
        print(
            json.dumps(
                plain({"n": len(y), "ausat": ausat(curve), "rules": rows, "classes": by_class} | guaranteed),
                indent=2,
                allow_nan=False,
            )
        )
        return
    console.print(_evaluation_table(rows, len(y)))
    console.print(_class_table(by_class))
    console.print(f"Area under the speed-accuracy curve (AUSAT): {ausat(curve):.4f}")
    if isinstance(clf.rule_, Calibrated):
        console.print(f"[bold]Guarantee:[/] {clf.rule_.guarantee}", highlight=False)
        console.print(f"[bold]Observed:[/] {_observed(clf.rule_.guarantee, seen)}", highlight=False)
    if drawn is not None:
        console.print(f"Picture: {drawn}", soft_wrap=True)


def _name(rule: Rule) -> str:
    """Return the name of a rule for the table, without its guarantee, which is printed separately."""
    from stopwise.rules import Calibrated

    if not isinstance(rule, Calibrated):
        return repr(rule)
    if isinstance(rule.threshold, float):
        return f"SPRT(threshold={rule.threshold:.4g}), calibrated"
    return f"{rule.without_guarantee()!r}, calibrated"


def _observed(guarantee: Guarantee, seen: Any) -> str:
    """Describe the observed rates that correspond to a guarantee."""
    wrong = "decided wrongly" + (", correctly at the end" if guarantee.target == "accuracy_gap" else "")
    if guarantee.conditional:
        return f"{seen:.2%} {wrong}, at the worst step by which at least {FEW} series were decided."
    if not isinstance(guarantee.level, tuple):
        return f"{seen:.2%} of all series {wrong}."
    asked = zip(guarantee.classes or (), guarantee.level, seen)
    shares = [f"{rate:.2%} of class {name!r}" for name, level, rate in asked if level is not None]
    return f"{', '.join(shares)} {wrong}."


def _evaluation_table(rows: list[dict[str, Any]], n: int) -> Table:
    table = Table(
        title=f"{n} series; the first row is the rule of the model",
        caption="error: of all series; macro error: mean of the classes",
    )
    table.add_column("rule", overflow="fold")
    for name in ("error", "macro\nerror", "mean\ntime", "forced", "earli-\nness", "harmonic\nmean"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["rule"],
            f"{1 - row['accuracy']:.2%}",
            f"{row['macro_error']:.2%}",
            f"{row['mean_time']:.2f}",
            f"{row['forced']:.1%}",
            f"{row['earliness']:.3f}",
            f"{row['harmonic_mean']:.3f}",
        )
    return table


def _by_class(decisions: Decisions, y: np.ndarray, classes: np.ndarray) -> list[dict[str, Any]]:
    """Return number of series, error rate and mean time of each class, for decisions by class index."""
    found = []
    for k, label in enumerate(classes.tolist()):
        own = y == k
        count = int(own.sum())
        error = float((decisions.labels[own] != k).mean()) if count else np.nan
        time = float(decisions.times[own].mean()) if count else np.nan
        found.append({"class": label, "series": count, "error": error, "mean_time": time})
    return found


def _class_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="The rule of the model, by true class")
    table.add_column("class", overflow="fold")
    for name in ("series", "error", "mean\ntime"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shown = (f"{row['error']:.2%}", f"{row['mean_time']:.2f}") if row["series"] else ("–", "–")
        table.add_row(str(row["class"]), str(row["series"]), *shown)
    return table
