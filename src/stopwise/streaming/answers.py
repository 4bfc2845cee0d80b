"""Decisions as `stopwise decide` writes them."""

from __future__ import annotations

from typing import Any

from stopwise.decision import Decision

SCHEMA = 1  # version of the form of a decision
FIELDS = ("label", "time", "forced", "scores", "model", "schema")


def describe(
    key: dict[str, Any] | None, decision: Decision, digest: str, extra: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a decision as a dict of plain values.

    Fields of the line are copied. If a decision has a field of the same name, that of the line becomes
    ``input_NAME``.

    Examples
    --------
    >>> import numpy as np
    >>> decision = Decision("yes", 3, False, np.array([0.5, 2.5]))
    >>> describe({"key": "a"}, decision, "00", {"label": "no", "ts": 7})
    {'key': 'a', 'label': 'yes', 'time': 3, 'forced': False, 'scores': [0.5, 2.5], 'model': '00', 'schema': 1,
     'input_label': 'no', 'ts': 7}
    """
    answer = dict(key or {}) | {
        "label": decision.label,
        "time": decision.time,
        "forced": decision.forced,
        "scores": decision.scores.astype(float).round(6).tolist(),
        "model": digest,
        "schema": SCHEMA,
    }
    for name, value in (extra or {}).items():
        while name in answer:
            name = f"input_{name}"
        answer[name] = value
    return answer


def is_answer(value: Any) -> bool:
    """Return whether a value has the form that `describe` returns."""
    return (
        isinstance(value, dict)
        and value.keys() >= set(FIELDS)
        and value["schema"] == SCHEMA
        and isinstance(value["scores"], list)
    )
