"""Constructor parameters of rules: `repr`, comparison, `get_params`, `set_params`, saving and loading."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

# `repr` shows arrays with more values as their shape.
SHOWN_NUMBERS = 100

SAVEABLE = (
    "The arguments of a rule must be plain values (numbers, strings, True, False, None, or lists and arrays "
    "of these). The constructor must store each argument in an attribute of the same name, and must accept "
    "the stored values."
)


class Parameters:
    """Base class of objects that are fully described by their constructor arguments.

    The constructor must store each argument in an attribute of the same name. All methods of this class use
    these attributes.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters by name.

        Parameters
        ----------
        deep
            Has no effect; accepted for compatibility with scikit-learn.

        Returns
        -------
        params
            A dict of parameter names and values.
        """
        names = inspect.signature(type(self)).parameters
        for name in names:
            if not hasattr(self, name):
                raise AttributeError(
                    f"{type(self).__name__} must store its argument `{name}` as self.{name}, because "
                    "printing, comparing, cloning and saving a rule use this attribute."
                )
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters in place.

        Parameters
        ----------
        **params
            New values by name, validated by the constructor. If a value is invalid, nothing changes.

        Returns
        -------
        self
            The object itself.
        """
        arguments = self.get_params()
        for name in params:
            if name not in arguments:
                raise ValueError(
                    f"`{name}` is not a parameter of {type(self).__name__}; its parameters are: "
                    f"{', '.join(arguments) or 'none'}."
                )
        if params:
            self.__dict__ = type(self)(**arguments | params).__dict__
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as a dict of plain JSON values; infinity is written as "inf".

        `from_dict` creates an equal rule from this dict.
        """
        return {"rule": type(self).__name__} | {k: _to_json(v) for k, v in self.get_params().items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Create a rule from the dict that `to_dict` returned.

        Parameters
        ----------
        values
            The class name under the key "rule", and the constructor arguments by name.
        """
        if not isinstance(values, Mapping) or values.get("rule") != cls.__name__:
            raise ValueError(
                f"`values` must be a dict with rule={cls.__name__!r}, as returned by "
                f"{cls.__name__}.to_dict(); got {values!r}."
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
        """Raise ValueError if the rule would change when it is saved as JSON and loaded again.

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
                    f"{name} cannot be saved: its argument `{argument}` is {value!r:.80}, which is not a "
                    f"plain JSON value. {SAVEABLE}"
                ) from None
        try:
            restored = type(self).from_dict(json.loads(json.dumps(values)))
        except Exception as error:
            raise ValueError(
                f"{name} cannot be saved: its constructor rejects the stored values ({error}). {SAVEABLE}"
            ) from error
        if restored != self:
            found = restored.to_dict()
            changed = [f"`{k}` is loaded as {v!r:.60}" for k, v in found.items() if v != values.get(k)]
            problem = "; ".join(changed) or "the loaded rule is not equal"
            raise ValueError(f"{name} cannot be saved: {problem}. {SAVEABLE}")

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
        # Values that JSON cannot represent are hashed by type only, so that equal rules have equal hashes.
        return hash(json.dumps(self.to_dict(), default=lambda value: type(value).__name__))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copied and unpickled arrays are writeable again.
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
