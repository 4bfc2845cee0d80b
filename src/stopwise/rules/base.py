"""What every stopping rule is: a function from scores and time to acceptance margins."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from stopwise.decision import Decision, Decisions
from stopwise.validation import check_integer, check_scores

# Numbers worked on at once: bounds the memory of a decision on millions of series.
CHUNK_NUMBERS = 1_000_000

# Larger tables are shown by their shape: half a million thresholds help nobody on a screen.
SHOWN_NUMBERS = 100


class Rule(ABC):
    """A stopping rule.

    A rule says by how much each class is past its threshold. Class k is accepted at the first step
    where its margin is >= 0; if several are, the largest margin wins. A series that ends before that
    is decided by force: the class of the highest score.

    A rule holds no state, so it decides whole arrays (`decide`), many streams at one moment (`accept`)
    and one stream sample by sample (`step`) with the same answer.

    A rule of your own implements `margins`. Its constructor stores each argument under its own name:
    printing, comparing and saving a rule read them there.

    Examples
    --------
    >>> class Strict(Rule):
    ...     def __init__(self, lead=1.0):
    ...         self.lead = lead
    ...     def margins(self, scores, times):
    ...         return scores - self.lead
    >>> Strict(2.0).decide([[[1.0, 0.0], [2.5, 0.0]]])[0].time
    2
    >>> Strict(2.0)
    Strict(lead=2.0)
    """

    @abstractmethod
    def margins(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return by how much each class is past its threshold.

        Parameters
        ----------
        scores
            (..., K) scores.
        times
            Steps counted from 1, broadcastable against the leading dimensions of `scores`.

        Returns
        -------
        margins
            (..., K); class k is accepted where its margin is >= 0.
        """

    def best_guess(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return the class to decide for when series end at `times`: that of the highest score, (...)."""
        return scores.argmax(-1)

    def decide(self, scores: Any, lengths: Any = None) -> Decisions:
        """Decide on n series at once.

        Parameters
        ----------
        scores
            (n, T, K) scores of every prefix.
        lengths
            (n,) lengths of the series; None means all have T steps.
        """
        scores, lengths = check_scores(scores, lengths)
        n, _, classes = scores.shape
        # Padding past the longest series is no step, and a rule with a table per step need not cover it.
        steps = int(lengths.max(initial=1))
        labels = np.empty(n, dtype=np.int64)
        times = np.empty(n, dtype=np.int64)
        forced = np.empty(n, dtype=bool)
        rows = max(1, CHUNK_NUMBERS // (steps * classes))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            labels[part], times[part], forced[part] = self._decide_rows(scores[part, :steps], lengths[part])
        return Decisions(labels, times, forced, scores[np.arange(n), times - 1], lengths)

    def accept(self, scores: Any, times: Any) -> np.ndarray:
        """Return the class each stream accepts at this moment, or -1.

        Parameters
        ----------
        scores
            (n, K) scores of n streams.
        times
            (n,) or one number: how many samples each stream has seen.
        """
        scores = np.asarray(scores)
        if scores.ndim != 2:
            raise ValueError(
                f"`scores` must have shape (n, K): streams, classes; got shape {scores.shape}. "
                "For one stream use step()."
            )
        scores = check_scores(scores[:, None])[0][:, 0]
        return self.accept_checked(scores, _check_times(times, len(scores)))

    def accept_checked(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Do as `accept` does, for scores known to be finite (n, K) and times known to be counts (n,)."""
        margins = self.margins(scores, times)  # (n, K)
        return np.where(margins.max(-1) >= 0, margins.argmax(-1), -1)

    def step(self, scores: Any, time: int, *, last: bool = False) -> Decision | None:
        """Decide on one stream at one moment: a `Decision`, or None to wait for the next sample.

        Parameters
        ----------
        scores
            (K,) scores after `time` samples.
        time
            How many samples the stream has seen.
        last
            True when no further sample will come: a decision is forced.
        """
        time = check_integer("time", time, 1)
        # A copy: the decision outlives whatever buffer the caller reuses.
        scores = np.array(scores)
        if scores.ndim != 1:
            raise ValueError(
                f"`scores` must have shape (K,), one per class; got shape {scores.shape}. "
                "For many streams use accept(), for whole series decide()."
            )
        scores = check_scores(scores[None, None])[0][0]  # (1, K)
        label = int(self.accept_checked(scores, np.array(time))[0])
        if label >= 0:
            return Decision(label, time, False, scores[0])
        if not last:
            return None
        return Decision(int(self.best_guess(scores, np.array([time]))[0]), time, True, scores[0])

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain JSON values; `from_dict` reads them back. Infinity becomes "inf"."""
        return {"rule": type(self).__name__} | {k: _to_json(v) for k, v in self._arguments().items()}

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

    def _decide_rows(self, scores: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
        n, steps, _ = scores.shape
        inside = np.arange(steps) < lengths[:, None]  # (n, T)
        padded = np.where(inside[..., None], scores, 0)
        margins = self.margins(padded, np.arange(1, steps + 1))  # (n, T, K)
        accepted = (margins.max(-1) >= 0) & inside
        forced = ~accepted.any(1)
        first = np.where(forced, lengths - 1, accepted.argmax(1))
        rows = np.arange(n)
        guesses = self.best_guess(scores[rows, first], first + 1)
        labels = np.where(forced, guesses, margins[rows, first].argmax(-1))
        return labels, first + 1, forced

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
        shown = [
            f"{name}={_show(value)}"
            for name, value in self._arguments().items()
            if isinstance(value, np.ndarray) or value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict()))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled arrays come back writeable.
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)


def _check_times(times: Any, n: int) -> np.ndarray:
    array = np.asarray(times)
    if array.shape not in ((), (n,)):
        raise ValueError(
            f"`times` must be one number or have shape ({n},), one per stream; got shape {array.shape}."
        )
    if not np.issubdtype(array.dtype, np.integer) and array.size:
        raise TypeError(f"`times` must be whole numbers; got dtype {array.dtype}.")
    if array.size and array.min() < 1:
        raise ValueError(f"`times` count samples from 1; got {array.min()}.")
    return array.astype(np.int64)


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return "inf" if value == np.inf else value


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
    return "float('inf')" if value == np.inf else repr(value)
