"""Early classification of keyed streams on Spark Structured Streaming.

Spark partitions the streams by key, stores the state of each key and recovers it from its checkpoint. Each
worker loads the model once. The scores are the same as those of a local `Stream`.
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

__all__ = ["decide"]

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

    Samples that arrive after the decision on their stream are ignored.

    Parameters
    ----------
    frame
        A streaming data frame with one row per sample.
    model
        Folder of a saved classifier. It must have the same path on every worker.
    key
        Column with the key of the stream.
    channels
        Columns with the channels of the sample, in the same order as in training. Null is a missing value.
    order_by
        Column by which the samples of a key are sorted within a micro-batch, because Spark does not
        guarantee their order. None: samples are taken in the order in which they arrive.
    end
        Boolean column that is true for the last sample of a stream. If there is no decision by then, it is
        forced. None: streams have no end.

    Returns
    -------
    decisions
        A streaming data frame in append mode, with one row per decision and the columns of the key,
        ``label``, ``time``, ``forced`` and ``scores``.

    Examples
    --------
    >>> schema = "key string, t int, u double, v double"
    >>> samples = spark.readStream.schema(schema).json("samples")  # doctest: +SKIP
    >>> decide(samples, "model", key="key", channels=["u", "v"], order_by="t")  # doctest: +SKIP
    DataFrame[key: string, label: string, time: bigint, forced: boolean, scores: array<double>]
    """
    from pyspark.sql.streaming.state import GroupStateTimeout

    about = _Columns(str(model), key, tuple(channels), order_by, end)
    # Load the model here as well: if it cannot be read, the error is raised before the query starts.
    _classifier(about.model)
    kind = frame.schema[key].dataType.simpleString()
    return frame.groupBy(key).applyInPandasWithState(
        about.advance, f"`{key}` {kind}, {OUTPUT}", "stream binary", "append", GroupStateTimeout.NoTimeout
    )


class _Columns:
    """Process the rows of one key on a worker. Spark pickles it, so it only holds names and paths."""

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
        """Feed rows to a stream; return the decision if it is made on one of them."""
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
    """Load a classifier, once per worker."""
    return load(path)


def pack(state: dict[str, np.ndarray]) -> bytes:
    """Return the state of a stream as bytes; `unpack` reads them without running code from them."""
    buffer = io.BytesIO()
    np.savez(buffer, **state)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """Return the state from the bytes that `pack` returned.

    Examples
    --------
    >>> unpack(pack({"time": np.array(3)}))["time"].item()
    3
    """
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        return dict(stored)
