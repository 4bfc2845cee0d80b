"""Settings of a model on the command line: `--set key=value`, and JSON files of `stopwise tune`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from stopwise.atomic import atomic_write
from stopwise.validation import check_choice

ModelName = Annotated[
    str | None, typer.Option("--model", help="Model: accumulator (default), b2bsqrt, tandemformer or tanh.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Option of the model; nested options have a dot. Can be repeated: --set order=2 "
        "--set training.max_epochs=20.",
    ),
]


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Return settings from strings key=value; values are read as JSON, otherwise as strings.

    Examples
    --------
    >>> parse_settings(["hidden=32", "loss=lllr", "polish=false", "order=none"])
    {'hidden': 32, 'loss': 'lllr', 'polish': False, 'order': None}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise ValueError(f"`--set` must be key=value, such as --set order=2; got {pair!r}.")
        settings[name] = _value(text)
    return settings


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings from a JSON file: one object with the keys of `--set` and "model"."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} must hold settings as JSON, as written by `stopwise tune`: {error}."
        ) from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold a JSON object of settings; got {type(settings).__name__}.")
    return settings


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write settings to a JSON file."""
    with atomic_write(path) as [part]:
        part.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def merge(file: Path | None, model: str | None, pairs: list[str] | None, **given: Any) -> dict[str, Any]:
    """Return the settings of a file, overridden by those of the command line.

    Parameters
    ----------
    file
        JSON file of settings, or None.
    model
        Name of the model. None: the model of the file, or "auto".
    pairs
        Strings key=value.
    given
        Parameters of the classifier from other options; None if an option is not given.
    """
    from stopwise.models import MODELS

    settings = {} if file is None else read_settings(file)
    settings |= {name: value for name, value in given.items() if value is not None}
    settings |= parse_settings(pairs or [])
    if model is not None:
        settings["model"] = model
    check_choice("--model", settings.setdefault("model", "auto"), MODELS)
    return settings


def option_table(model: str) -> Table:
    """Return the options of a model as a table."""
    from stopwise.models import options

    table = Table("option", "default", "meaning", title=f"Options of {model}, for --set OPTION=VALUE")
    for option in options(model):
        table.add_row(option.name, json.dumps(option.default), option.meaning)
    return table


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None if text == "none" else text
