"""The methods of `EarlyClassifier` that create streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from stopwise.data.inputs import Inputs, InputStep
from stopwise.models import Model
from stopwise.models.step import Step
from stopwise.persistence.description import scoring_digest
from stopwise.rules import Rule
from stopwise.streaming.engine import Engine
from stopwise.streaming.stream import Stream
from stopwise.streaming.streams import Streams


class StreamingMixin:
    """Creating streams that classify sample by sample, of a fitted classifier."""

    classes_: np.ndarray
    prior_: np.ndarray
    model_: Model
    rule_: Rule
    inputs_: Inputs
    channel_names_: tuple[str, ...] | None
    _shared: tuple[InputStep, Step] | None = None  # shared by all streams, created on first use
    _scoring: str | None = None  # scoring digest, from the model folder or computed on first use

    def stream(self, state: Mapping[str, Any] | None = None, *, rearm: bool = False) -> Stream:
        """Return a stream that classifies one series sample by sample.

        Parameters
        ----------
        state
            The result of `Stream.state` of an earlier stream, to continue from there. None: a new stream.
        rearm
            What happens to samples after the decision. False: they are ignored. True: the next sample starts
            a new series.

        Returns
        -------
        stream
            A `stopwise.streaming.stream.Stream`.

        Examples
        --------
        >>> import stopwise as sw
        >>> X, y, _ = sw.datasets.gaussian(n=100, channels=3, length=10, seed=0)
        >>> clf = sw.EarlyClassifier(sw.models.Accumulator(order=0), rule=sw.FixedTime(2)).fit(X, y)
        >>> stream = clf.stream()
        >>> stream.update(X[0, 0]) is None
        True
        >>> stream.update(X[0, 1]).time
        2
        """
        return Stream(self._engine(), state, rearm=rearm)

    def streams(
        self,
        *,
        max_streams: int = 100_000,
        on_drop: Callable[[Hashable, Stream], None] | None = None,
        idle: float | None = None,
        on_idle: Callable[[Hashable, Stream], None] | None = None,
        rearm: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> Streams:
        """Return a container of many streams, identified by keys and updated in batches.

        Parameters
        ----------
        max_streams
            Maximum number of streams held at a time. Beyond it, the least recently updated stream is
            dropped.
        on_drop
            Function that is called with the key and the `Stream` of each dropped stream. None: log a
            warning.
        idle
            Seconds without a sample after which a stream is removed. None: streams are kept.
        on_idle
            Function that is called with the key and the `Stream` of each idle stream without a decision;
            ``stream.finish()`` gives the forced decision. None: log a warning.
        rearm
            What happens to samples after the decision on their stream. False: they are ignored. True: the
            next sample starts a new series of the same key.
        clock
            Function that returns the time in seconds, for `idle`.

        Returns
        -------
        streams
            A `stopwise.streaming.streams.Streams`.
        """
        return Streams(
            self._engine(),
            max_streams=max_streams,
            on_drop=on_drop,
            idle=idle,
            on_idle=on_idle,
            rearm=rearm,
            clock=clock,
        )

    def _engine(self) -> Engine:
        """Return the engine of new streams: weights are hashed once, the rule is the current one."""
        check_is_fitted(self)
        if self._shared is None:
            self._shared = (self.inputs_.step(), self.model_.step())
        if self._scoring is None:
            self._scoring = scoring_digest(self)
        digest = bytes.fromhex(self._scoring)[:16]
        rule = self.rule_.with_prior(self.prior_)
        return Engine(*self._shared, rule, self.classes_, digest, self.channel_names_)
