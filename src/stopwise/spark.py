"""Keyed streams on Spark Structured Streaming: partitioned by key, the state carried by Spark.

Spark keeps each key's state, restarts it from its checkpoint, and spreads keys over machines; each worker
loads the model once. The scores are those of a local `Stream`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stopwise.decision import Decision
from stopwise.estimator import EarlyClassifier, load
from stopwise.streaming.stream import Stream

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

OUTPUT = "label string, time long, forced boolean, scores array<double>"


def decide(
    frame: DataFrame,
    model: str,
    *,
    key: str,
    channels: Sequence[str],
    order_by: str | None = None,
    end: str | None = None,
) -> DataFrame:
    """Decide on the keyed streams of a streaming data frame.

    Parameters
    ----------
    frame
        A streaming frame with a row a sample.
    model
        Folder of a saved classifier, at the same path on every worker.
    key
        Column of the stream's key.
    channels
        Columns of the sample, in the order of training. Null is a missing number.
    order_by
        Column that orders the samples of a key inside a micro-batch, where Spark promises no order. Without
        it rows are taken as they come.
    end
        Boolean column, true with the last sample of a stream: a decision is forced then.

    Returns
    -------
    decisions
        A streaming frame with the key and label, time, forced and scores: a row a decision, in append mode.
        Samples after a decision are ignored.
    """
    from pyspark.sql.streaming.state import GroupStateTimeout

    about = _Columns(str(model), key, tuple(channels), order_by, end)
    # Here, so that a model that cannot be read is an error before the query starts.
    _classifier(about.model)
    kind = frame.schema[key].dataType.simpleString()
    return frame.groupBy(key).applyInPandasWithState(
        about.advance, f"`{key}` {kind}, {OUTPUT}", "stream binary", "append", GroupStateTimeout.NoTimeout
    )


class _Columns:
    """What a worker does with the rows of one key; picklable, and small."""

    def __init__(
        self, model: str, key: str, channels: tuple[str, ...], order_by: str | None, end: str | None
    ) -> None:
        self.model, self.key, self.channels, self.order_by, self.end = model, key, channels, order_by, end

    def advance(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        stored = unpack(state.get[0]) if state.exists else None
        stream = _classifier(self.model).stream(state=stored)
        rows = pd.concat(list(frames))
        if self.order_by is not None:
            rows = rows.sort_values(self.order_by, kind="stable")
        decision = self._take(stream, rows)
        state.update((pack(stream.state()),))
        if decision is not None:
            row = {
                self.key: [key[0]],
                "label": [str(decision.label)],
                "time": [decision.time],
                "forced": [decision.forced],
                "scores": [decision.scores.tolist()],
            }
            yield pd.DataFrame(row)

    def _take(self, stream: Stream, rows: pd.DataFrame) -> Decision | None:
        """Feed rows to a stream; return the decision if it falls here."""
        if stream.decided is not None:
            return None
        samples = rows[list(self.channels)].to_numpy(dtype=np.float64, na_value=np.nan)
        ends = rows[self.end].to_numpy(dtype=bool) if self.end else np.zeros(len(rows), dtype=bool)
        for sample, last in zip(samples, ends):
            decision = stream.update(sample)
            if decision is None and last:
                decision = stream.finish()
            if decision is not None:
                return decision
        return None


@lru_cache(maxsize=4)
def _classifier(path: str) -> EarlyClassifier:
    """Return a classifier, read once in a worker."""
    return load(path)


def pack(state: dict[str, np.ndarray]) -> bytes:
    """Return a stream's state as bytes; `unpack` reads them, and runs no code of theirs."""
    buffer = io.BytesIO()
    np.savez(buffer, **state)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """Return the state that `pack` packed.

    Examples
    --------
    >>> unpack(pack({"time": np.array(3)}))["time"].item()
    3
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        return dict(stored)
