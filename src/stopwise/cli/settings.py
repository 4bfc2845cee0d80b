"""Settings on the command line: `--set key=value`, and files of settings as `stopwise tune` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from stopwise.atomic import atomic_write
from stopwise.validation import check_choice

ModelName = Annotated[
    str | None, typer.Option("--model", help="accumulator (default), b2bsqrt, tandemformer or tanh.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An option of the model, nested ones with a dot: --set order=2 --set training.max_epochs=20. "
        "May be repeated.",
    ),
]


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Return settings from texts key=value; a value that is not JSON is a string.

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
    """Return the settings in a JSON file: a flat object with the keys of `--set`, and `model`."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must hold settings as JSON, as `stopwise tune` writes; {error}.") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold a JSON object of settings; got {type(settings).__name__}.")
    return settings


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write settings as JSON."""
    with atomic_write(path) as [part]:
        part.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def merge(file: Path | None, model: str | None, pairs: list[str] | None, **given: Any) -> dict[str, Any]:
    """Return the settings in force: those of a file, overridden by what the command line gives.

    Parameters
    ----------
    file
        A file of settings, or None.
    model
        The name of the model, or None for that of the file, else the accumulator.
    pairs
        Texts key=value.
    given
        Settings of the classifier; None where the command line does not give one.
    """
    from stopwise.models import MODELS

    settings = {} if file is None else read_settings(file)
    settings |= {name: value for name, value in given.items() if value is not None}
    settings |= parse_settings(pairs or [])
    if model is not None:
        settings["model"] = model
    check_choice("--model", settings.setdefault("model", "accumulator"), MODELS)
    return settings


def option_table(model: str) -> Table:
    """Return the options of a model as a table."""
    from stopwise.models import options

    table = Table("option", "default", "meaning", title=f"options of {model}, for --set OPTION=VALUE")
    for option in options(model):
        table.add_row(option.name, json.dumps(option.default), option.meaning)
    return table


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None if text == "none" else text
