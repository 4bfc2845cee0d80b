"""What a line of samples says: the sample, its stream and its sequence number; and how JSON says it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from stopwise.streaming.lines import Malformed

RESERVED = ("key", "x", "end", "seq")
MAX_KEY = 1000  # characters of a key
MAX_DEPTH = 20  # levels of lists and objects in a field that is only copied

Number = int | float


@dataclass(frozen=True)
class Key:
    """Key of a stream, compared with its type: 1, 1.0 and "1" are three keys; None is the absence of a key.

    Examples
    --------
    >>> Key.of(1) == Key.of(1.0), Key.of("") == Key.of(None)
    (False, False)
    """

    kind: str
    value: str | int | float | None

    @classmethod
    def of(cls, value: Any) -> Key:
        """Return the key; raise a ValueError if the value cannot be one."""
        fits = value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"the key must be a string or a finite number; got {value!r:.60}")
        if value is not None and len(str(value)) > MAX_KEY:
            raise ValueError(f"the key must have at most {MAX_KEY} characters; got {len(str(value))}")
        return cls(type(value).__name__, value)

    def __repr__(self) -> str:
        return "without a key" if self.value is None else repr(self.value)


@dataclass(frozen=True)
class Sample:
    """A line with a sample of a stream, the end of a stream, or both.

    Parameters
    ----------
    line
        Number of the line.
    key
        Key of the stream.
    x
        The numbers of the sample, or a dict by channel; None if the line only ends the stream.
    end
        Whether the stream ends with this line.
    seq
        Sequence number, or None.
    extra
        Other fields of the line, which are copied to the decision.
    """

    line: int
    key: Key
    x: list[float] | dict[str, float] | None
    end: bool = False
    seq: Number | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def parse_json(line: int, text: str) -> Sample | Malformed:
    """Return the sample of a line of JSON.

    Examples
    --------
    >>> parse_json(1, '{"key": "a", "x": [1, null], "ts": "12:00"}')
    Sample(line=1, key='a', x=[1.0, nan], end=False, seq=None, extra={'ts': '12:00'})
    """
    try:
        return _sample(line, json.loads(text, object_pairs_hook=_distinct), text)
    except json.JSONDecodeError as error:
        return Malformed(line, f"not JSON ({error.msg} at column {error.colno})")
    except RecursionError:
        return Malformed(line, "not usable JSON (too many levels)")
    except OverflowError:
        return Malformed(line, "a number is too large")
    except ValueError as error:  # also an integer with more digits than Python converts
        return Malformed(line, str(error))


def _sample(line: int, value: Any, text: str) -> Sample:
    if isinstance(value, list):
        value = {"x": value}
    if not isinstance(value, dict):
        raise ValueError(f'expected {{"key": …, "x": [numbers]}} or [numbers]; got {text:.60}')
    end, x = value.get("end"), value.get("x")
    if not (end is None or isinstance(end, bool)):
        raise ValueError(f'"end" must be true or false; got {end!r:.60}')
    if x is None and not end:
        raise ValueError('"x" must be a list of numbers (null: missing); it is missing')
    extra = {name: item for name, item in value.items() if name not in RESERVED}
    if any(_deeper(item, MAX_DEPTH) for item in extra.values()):
        raise ValueError(f"a field that is copied to the decision has more than {MAX_DEPTH} levels")
    return Sample(
        line, Key.of(value.get("key")), _numbers(x), bool(end), sequence_number(value.get("seq")), extra
    )


def _numbers(x: Any) -> list[float] | dict[str, float] | None:
    if x is None:
        return None
    if isinstance(x, dict) and all(_is_number(one) for one in x.values()):
        return {name: _float(one) for name, one in x.items()}
    if not isinstance(x, list):
        x = [x]
    if not all(_is_number(one) for one in x):
        raise ValueError(f'"x" must be a list of numbers (null: missing); got {x!r:.60}')
    return [_float(one) for one in x]


def sequence_number(value: Any) -> Number | None:
    """Return a sequence number; raise a ValueError if it is not a finite number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f'"seq" must be a finite number; got {value!r:.60}')
    return value


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _float(value: Number | None) -> float:
    return math.nan if value is None else float(value)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; raise a ValueError if a name occurs twice."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return result


def _deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested more than `levels` deep."""
    if not isinstance(value, list | dict):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in items)
