"""Models from a file: any model can take part in the figures, next to those of the paper.

The file defines `MODELS`: by name, a function that takes a `stopwise.models.Training` and returns a model.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from stopwise.estimator import EarlyClassifier
from stopwise.models import Training

PREFIX = "file:"


def settings_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return flat settings of the models in a file, by name."""
    return {name: {"model": f"{PREFIX}{path}:{name}"} for name in _models(str(path))}


@contextmanager
def added(path: Path | None, *tables: MutableMapping[str, dict[str, Any]]) -> Iterator[None]:
    """Add the models of a file to tables of settings inside the context; None adds nothing."""
    own = {} if path is None else settings_of(path)
    for name in own:
        if any(name in table for table in tables):
            raise ValueError(
                f"`--add`: {path} has a model named {name!r}, which exists. Choose another name."
            )
    for table in tables:
        table.update(own)
    try:
        yield
    finally:
        for table in tables:
            for name in own:
                del table[name]


def classifier(settings: Mapping[str, Any], **params: Any) -> EarlyClassifier:
    """Create a classifier from flat settings; the model may be one of `settings_of`."""
    if not is_own(settings):
        return EarlyClassifier.from_settings(settings, **params)
    path, _, name = settings["model"].removeprefix(PREFIX).rpartition(":")
    options = {key: value for key, value in settings.items() if key.startswith("training.")}
    training = Training(**{key.removeprefix("training."): value for key, value in options.items()})
    known = EarlyClassifier().get_params(deep=False)
    kept = {key: value for key, value in settings.items() if key in known and key != "model"}
    return EarlyClassifier(_models(path)[name](training), **kept | params)


def is_own(settings: Mapping[str, Any]) -> bool:
    """Whether settings are those of a model from a file."""
    return str(settings.get("model", "")).startswith(PREFIX)


@lru_cache
def _models(path: str) -> Mapping[str, Any]:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ValueError(f"`--add` must be a Python file that defines MODELS; got {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    models = getattr(module, "MODELS", None)
    if not isinstance(models, Mapping) or not models or not all(map(callable, models.values())):
        raise ValueError(
            f"`--add`: {path} must define MODELS, a dict of functions that take a stopwise.models.Training "
            f"and return a model; got {models!r}."
        )
    return models
