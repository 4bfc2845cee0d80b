"""Classification of a single series while its samples arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stopwise.decision import Decision
from stopwise.streaming.engine import Engine


class Stream:
    """Classify one series while its samples arrive; created by `EarlyClassifier.stream`.

    Parameters
    ----------
    engine
        Engine of the classifier, shared by all its streams.
    state
        Result of `state()` of an earlier stream, to continue from there. None: a new stream.
    rearm
        What happens to samples after the decision. False: they are ignored. True: the next sample starts a
        new series.

    Attributes
    ----------
    decided
        The decision, or None if there is no decision yet.

    Examples
    --------
    >>> import stopwise as sw
    >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
    >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0)).fit(X, y)
    >>> stream = clf.stream()
    >>> for x in X[0]:
    ...     decision = stream.update(x)
    ...     if decision is not None:
    ...         break
    >>> bool(decision.label == y[0]), decision.time == stream.time
    (True, True)
    """

    def __init__(
        self, engine: Engine, state: Mapping[str, Any] | None = None, *, rearm: bool = False
    ) -> None:
        self._engine, self._rearm = engine, rearm
        self.decided: Decision | None = None
        self._state = engine.start(1)
        if state is not None:
            self._state, codes = engine.checker().one(state)
            self.decided = engine.decoded(int(codes[0]), self.time, self._state["scores"][0])

    @property
    def scores(self) -> np.ndarray:
        """(K,) current scores; their differences are log-likelihood ratios."""
        return self._state["scores"][0].copy()

    @property
    def time(self) -> int:
        """Number of samples taken so far."""
        return int(self._state["time"][0])

    def update(self, x: Any) -> Decision | None:
        """Take one sample, and return the decision if it is made at this sample.

        Parameters
        ----------
        x
            (D,) the sample; one number if D is 1; or a dict {channel: number} if the model was trained with
            channel names.

        Returns
        -------
        decision
            The decision, or None if more samples are needed or the decision was made earlier. Samples after
            the decision are ignored, unless the stream was created with ``rearm=True``; call `reset` to
            start a new series.
        """
        if self.decided is not None and not self._rearm:
            return None
        engine = self._engine
        before = self._state if self.decided is None else engine.start(1)
        state = engine.advance(before, engine.one_sample(x))
        label = int(engine.rule.accept_checked(state["scores"], state["time"])[0])
        self._state, self.decided = state, None  # from here on, nothing can fail
        if label >= 0:
            self.decided = engine.decision(label, self.time, False, state["scores"][0])
        return self.decided

    def finish(self) -> Decision:
        """End the series and return the decision; it is forced if the rule has not stopped before."""
        if self.decided is None:
            self.decided = self._engine.forced(self._state)
        return self.decided

    def reset(self) -> None:
        """Return to the state before the first sample, for a new series."""
        self._state, self.decided = self._engine.start(1), None

    def state(self) -> dict[str, np.ndarray]:
        """Return the state of the stream as a dict of arrays, which `numpy.savez` can write.

        Besides the arrays of the model, the state contains:

        - ``version``: version of the format;
        - ``model``: hash that identifies the model;
        - ``decided``: index of the decided class, -1 if there is no decision yet, or -2 - index if the
          decision was forced;
        - ``checksum``: hash of all other arrays, which detects damage.
        """
        state = {name: np.array(value[0]) for name, value in self._state.items()}
        return self._engine.pack(state, np.array(self._engine.decided_code(self.decided)))
