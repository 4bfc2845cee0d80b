"""One series that is still arriving: one sample in, a decision as soon as the rule is sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stopwise.decision import Decision
from stopwise.streaming.engine import STATE_VERSION, Engine


class Stream:
    """One series that is still arriving; made by `EarlyClassifier.stream`.

    Parameters
    ----------
    engine
        What all streams of a classifier share.
    state
        What `state()` of another stream returned, to continue from there.

    Attributes
    ----------
    decided
        The decision, or None while the stream is open. Later samples change nothing.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=300, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
    >>> stream = clf.stream()
    >>> for x in X[0]:
    ...     decision = stream.update(x)
    ...     if decision is not None:
    ...         break
    >>> bool(decision.label == y[0]), decision.time == stream.time
    (True, True)
    """

    def __init__(self, engine: Engine, state: Mapping[str, Any] | None = None) -> None:
        self._engine = engine
        self.decided: Decision | None = None
        self._state = engine.start(1)
        if state is not None:
            self._restore(state)

    @property
    def scores(self) -> np.ndarray:
        """(K,) scores so far; their differences are log-likelihood ratios."""
        return self._state["scores"][0].copy()

    @property
    def time(self) -> int:
        """How many samples were taken."""
        return int(self._state["time"][0])

    def update(self, x: Any) -> Decision | None:
        """Take a sample (D,); return the decision if it is made now, else None.

        Samples after the decision are ignored; `reset` starts over.
        """
        if self.decided is not None:
            return None
        engine = self._engine
        self._state = state = engine.advance(self._state, engine.check(x, 1))
        label = int(engine.rule.accept_checked(state["scores"], state["time"])[0])
        if label >= 0:
            self.decided = engine.decision(label, self.time, False, state["scores"][0])
        return self.decided

    def finish(self) -> Decision:
        """Return the decision when no further sample comes: forced if there was none yet."""
        if self.decided is None:
            self.decided = self._engine.forced(self._state)
        return self.decided

    def reset(self) -> None:
        """Start over."""
        self._state, self.decided = self._engine.start(1), None

    def state(self) -> dict[str, np.ndarray]:
        """Return the state of the stream as plain arrays, which `numpy.savez` can write.

        `version` is that of the layout, `model` identifies the model that the state belongs to. `decided` is
        the class decided for, -1 while the stream is open, -2 - class if it was forced.
        """
        about = {
            "version": np.array(STATE_VERSION),
            "model": np.frombuffer(self._engine.digest, dtype=np.uint8),
            "decided": np.array(self._engine.decided_code(self.decided)),
        }
        return about | {name: np.array(value[0]) for name, value in self._state.items()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._state = self._engine.restore(state)
        code = int(np.asarray(state["decided"]))
        if code != -1:
            label = code if code >= 0 else -2 - code
            if label >= len(self._engine.classes):
                raise ValueError(
                    f"`state` is damaged: it decided for class {label} of {len(self._engine.classes)}."
                )
            self.decided = self._engine.decision(label, self.time, code < 0, self._state["scores"][0])
