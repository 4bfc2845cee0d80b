"""The command `stopwise tune`: search for the best settings."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from stopwise.cli.common import (
    AsJson,
    Channels,
    Data,
    Drop,
    Groups,
    Layout,
    Seed,
    app,
    console,
    fail,
    plain,
    read_labeled,
)
from stopwise.cli.settings import ModelName, Settings, parse_settings, write_settings

if TYPE_CHECKING:
    from stopwise.tuning import TuningResult

SHOWN = 5


@app.command()
def tune(
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file for the best settings.")],
    model: ModelName = None,
    settings: Settings = None,
    trials: Annotated[
        int, typer.Option(help="Number of trials, including finished ones in the storage.")
    ] = 30,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which no new trial starts.")] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Database URL, such as sqlite:///study.db, to resume a study or to share it among processes."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the study in the storage.")] = None,
    validation: Annotated[
        Path | None, typer.Option(help="File of validation series (default: hold out a part of DATA).")
    ] = None,
    validation_fraction: Annotated[
        float | None, typer.Option(help="Share of DATA to hold out (default 0.2).")
    ] = None,
    channels: Channels = None,
    drop: Drop = None,
    groups: Groups = None,
    layout: Layout = "steps-first",
    max_epochs: Annotated[int, typer.Option(help="Maximum number of epochs per trial.")] = 50,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Search for the settings with the best speed-accuracy tradeoff.

    Settings passed by --set are fixed; all others are searched. Train with the result by
    `stopwise train --params`.
    """
    # Before the slow import of torch, so that a wrong path is reported at once.
    series = read_labeled(data, channels, drop, groups, layout)
    held = None if validation is None else read_labeled(validation, channels, drop, groups, layout)
    if not out.parent.is_dir():
        raise FileNotFoundError(f"cannot write {out}: there is no folder {out.parent}. Create it first.")
    fixed = parse_settings(settings or [])
    from stopwise import tuning

    done = 0

    def keep(found: TuningResult) -> None:
        nonlocal done
        done = len(found.trials)
        write_settings(out, found.best)

    try:
        found = tuning.tune(
            series.series,
            series.y,
            model=model or "accumulator",
            validation_data=None if held is None else (held.series, held.y),
            groups=series.groups,
            validation_fraction=validation_fraction,
            trials=trials,
            timeout=timeout,
            storage=storage,
            study_name=name,
            fixed=fixed,
            max_epochs=max_epochs,
            random_state=seed or 0,
            progress=not as_json,
            on_trial=keep,
        )
    except KeyboardInterrupt:
        fail(_interrupted(done, trials, out, storage), 130)
    keep(found)
    if as_json:
        print(json.dumps(plain(asdict(found)), indent=2))
        return
    _print(found, data, out)


def _interrupted(done: int, trials: int, out: Path, storage: str | None) -> str:
    if not done:
        return "interrupted before the first trial was complete."
    best = f"interrupted after {done} of {trials} trials; the best settings so far are in {out}."
    if storage is None:
        return best + " The trials are not saved: pass --storage to be able to resume."
    return best + " The same command resumes from here."


def _print(found: TuningResult, data: Path, out: Path) -> None:
    complete = sorted(
        (one for one in found.trials if one.ausat is not None), key=lambda one: one.ausat or 0.0
    )
    table = Table(
        "trial", "AUSAT", "epochs", "seconds", "settings", title=f"Best of {len(found.trials)} trials"
    )
    for one in complete[:SHOWN]:
        settings = ", ".join(f"{name} {_shown(value)}" for name, value in one.params.items())
        table.add_row(str(one.number), f"{one.ausat:.4f}", str(one.epochs), f"{one.seconds:.0f}", settings)
    console.print(table)
    cut = [sum(one.state == state for one in found.trials) for state in ("pruned", "diverged")]
    console.print(f"{len(complete)} trials complete, {cut[0]} pruned, {cut[1]} diverged.")
    if found.default_ausat is not None:
        console.print(
            f"Validation AUSAT {found.ausat:.4f}; {found.default_ausat:.4f} with the default settings."
        )
    console.print(f"Settings: {out}\nNext: stopwise train {data} --params {out} -o MODEL", soft_wrap=True)


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
