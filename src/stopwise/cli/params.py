"""Files of settings: what `stopwise tune` writes and `stopwise train --params` reads."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

from stopwise.atomic import written_aside
from stopwise.validation import check_choice


def read_params(path: Path) -> dict[str, Any]:
    """Return the settings of `EarlyClassifier` in a JSON file."""
    from stopwise.estimator import EarlyClassifier

    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must hold settings as JSON, as `stopwise tune` writes; {error}.") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} must hold a JSON object of settings; got {type(settings).__name__}.")
    known = [
        name for name in inspect.signature(EarlyClassifier).parameters if name not in ("rule", "progress")
    ]
    for name in settings:
        check_choice(str(path), name, known)
    return settings


def write_params(path: Path, settings: dict[str, Any]) -> None:
    """Write settings as JSON."""
    with written_aside(path) as [aside]:
        aside.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def parse_fixed(pairs: list[str]) -> dict[str, Any]:
    """Return settings from texts key=value; a value that is not JSON is a text.

    Examples
    --------
    >>> parse_fixed(["hidden=32", "loss=lllr", "polish=false", "order=longest"])
    {'hidden': 32, 'loss': 'lllr', 'polish': False, 'order': None}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise ValueError(f"`--fix` must be key=value, such as --fix hidden=32; got {pair!r}.")
        settings[name] = None if (name, text) == ("order", "longest") else _value(text)
    return settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
