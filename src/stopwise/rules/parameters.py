"""The arguments of a rule's constructor: shown, compared, changed, saved and read back."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

# Larger tables are shown by their shape.
SHOWN_NUMBERS = 100

SAVEABLE = (
    "The arguments of a rule must be plain values (numbers, strings, True, False, None, or lists and arrays "
    "of these), and the constructor must store each under its own name, so that it can be called again with "
    "what it stored."
)


class Parameters:
    """Base class of objects that are fully described by the arguments of their constructor.

    The constructor stores each argument under its own name; everything here reads it there.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name.

        Parameters
        ----------
        deep
            Accepted for scikit-learn. A rule holds no other objects with parameters, so it makes no
            difference.
        """
        names = inspect.signature(type(self)).parameters
        for name in names:
            if not hasattr(self, name):
                raise AttributeError(
                    f"{type(self).__name__} must store its argument `{name}` as self.{name}: printing, "
                    "comparing, cloning and saving read it there."
                )
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments in place; they are checked as by the constructor.

        Parameters
        ----------
        **params
            New values by name. If one of them is not valid, nothing changes.
        """
        arguments = self.get_params()
        for name in params:
            if name not in arguments:
                raise ValueError(
                    f"`{name}` is not a parameter of {type(self).__name__}; it has "
                    f"{', '.join(arguments) or 'none'}."
                )
        if params:
            self.__dict__ = type(self)(**arguments | params).__dict__
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain JSON values; `from_dict` reads them back. Infinity becomes "inf"."""
        return {"rule": type(self).__name__} | {k: _to_json(v) for k, v in self.get_params().items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the rule that `to_dict` described."""
        if not isinstance(values, Mapping) or values.get("rule") != cls.__name__:
            raise ValueError(
                f"`values` must be a dict with rule={cls.__name__!r}, as {cls.__name__}.to_dict() "
                f"returns; got {values!r}."
            )
        arguments = {name: _from_json(value) for name, value in values.items() if name != "rule"}
        known = inspect.signature(cls).parameters
        needed = {name for name, parameter in known.items() if parameter.default is parameter.empty}
        unknown, missing = sorted(arguments.keys() - known), sorted(needed - arguments.keys())
        if unknown or missing:
            raise ValueError(
                f"`values` must hold the arguments of {cls.__name__}: {', '.join(known)}; "
                f"unknown: {', '.join(unknown) or 'none'}, missing: {', '.join(missing) or 'none'}."
            )
        return cls(**arguments)

    def check_saveable(self) -> None:
        """Raise ValueError if the rule, saved as JSON and read back, would not be equal to itself.

        Examples
        --------
        >>> from stopwise.rules import SPRT
        >>> SPRT([1.0, 2.0]).check_saveable()
        """
        name = type(self).__name__
        try:
            values = self.to_dict()
        except AttributeError as error:
            raise ValueError(f"{name} cannot be saved: {error}") from error
        for argument, value in values.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                raise ValueError(
                    f"{name} cannot be saved: its argument `{argument}` is {value!r:.80}, which is not plain "
                    f"JSON. {SAVEABLE}"
                ) from None
        try:
            restored = type(self).from_dict(json.loads(json.dumps(values)))
        except Exception as error:
            raise ValueError(
                f"{name} cannot be saved: its constructor rejects what it stored ({error}). {SAVEABLE}"
            ) from error
        if restored != self:
            found = restored.to_dict()
            changed = [f"`{k}` is read back as {v!r:.60}" for k, v in found.items() if v != values.get(k)]
            raise ValueError(f"{name} cannot be saved: {'; '.join(changed) or 'it is not equal'}. {SAVEABLE}")

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        shown = [
            f"{name}={_show(value)}"
            for name, value in self.get_params().items()
            if isinstance(value, np.ndarray) or value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        # What JSON cannot hold counts by its type alone: equal rules must have equal hashes.
        return hash(json.dumps(self.to_dict(), default=lambda value: type(value).__name__))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled arrays come back writeable.
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __sklearn_clone__(self) -> Self:
        return copy.deepcopy(self)


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return "inf" if isinstance(value, float) and value == np.inf else value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    return np.inf if value == "inf" else value


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size > SHOWN_NUMBERS:
            return f"<array of shape {value.shape}>"
        return _show(value.tolist())
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    return "float('inf')" if isinstance(value, float) and value == np.inf else repr(value)
